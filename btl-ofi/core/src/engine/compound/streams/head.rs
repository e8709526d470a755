//! The short first fragment of a large transfer over TCP. The short fragment is sent if the processor would copy the
//! whole transfer slowly.
//!
//! An x86 processor copies slowly (`rep movsb`) if the destination lies 1 to 31 bytes behind the source, with both
//! addresses taken modulo the page size. Then the lower 12 bits of the addresses overlap, and loads seem to depend on
//! recent stores. The kernel copies sent data into its own pages, and copies received data out of them. Over an idle
//! connection, such a page begins with the provider's header, and the data follows the header.
//!
//! So a get is slow to memory at the beginning of a page (the header has 16 bytes). A put is slow from a large block of
//! malloc, which lies 16 bytes behind the beginning of a page (the header has 40 bytes). A slow get of 512 KiB takes about
//! 200 us instead of 150. A first fragment of [`HEAD`] bytes, sent right before the rest, shifts the rest to a distance at
//! which copies are fast. Over a busy connection the position of the data is unknown, and changes.

use crate::fabric::quirks::Headers;
use crate::mem::handle::Target;
use crate::op::request::Op;

/// Bytes of the first fragment.
const HEAD: usize = 64;
/// Smallest transfer for which the gain exceeds the cost of one more fragment.
const SMALLEST: usize = 128 * 1024;

const PAGE: u64 = 4096;
/// Copies are fast at this distance and beyond.
const FAR: u64 = 32;

/// Whether a copy between two addresses is slow.
fn collides(from: u64, to: u64) -> bool {
    (1..FAR).contains(&(to.wrapping_sub(from) % PAGE))
}

/// Whether the sending or the receiving process copies a transfer slowly.
fn is_slow(Headers { put, get }: Headers, op: &Op<'_>, is_put: bool) -> bool {
    let (local, remote) = (op.local.addr() as u64, op.address);
    let (header, from, to) = match is_put {
        true => (put, local, remote),
        false => (get, remote, local),
    };
    collides(from, header) || collides(header, to)
}

/// Size of a short first fragment for a transfer over an idle connection; 0 for no short fragment.
pub(super) fn of(headers: Headers, (op, put, _): &(&Op<'_>, bool, Target)) -> usize {
    let is_large = cfg!(target_arch = "x86_64") && op.size >= SMALLEST;
    match is_large && is_slow(headers, op, *put) {
        true => HEAD,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_close_behind_its_source_collides() {
        let page = 7 * PAGE;
        for (from, to, slow) in [
            (page, 0, false),
            (page, 1, true),
            (page, 16, true),
            (page, 31, true),
            (page, 32, false),
            (page + 16, 16, false),
            (page + 16, 40, true),
            (page - 8, 16, true),
            (page - 16, 16, false),
            (16, page + 40, true),
            (16, page + 8, false),
        ] {
            assert_eq!(collides(from, to), slow, "{from} to {to}");
        }
    }
}
