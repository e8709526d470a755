//! Copies between packed host memory and the elements of a buffer: all blocks of a regular layout in one call, other
//! layouts many runs at a time.

use plugin_api::IoVec;

use crate::transport::{Blocks, Transport};
use crate::win::device::regular;
use crate::win::error::{WinError, WinResult};
use crate::win::layout::Layout;
use crate::win::pieces::Cursor;

/// Runs handed to a copy function at once.
const RUNS: usize = 256;

/// The direction of a copy: out of a buffer, or into it.
pub(in crate::win) enum Way<'a> {
    From(&'a mut [u8]),
    To(&'a [u8]),
}

/// Contiguous memory: its kind, one of [`plugin_api::hmem_iface`], and the address of its first byte.
#[derive(Clone, Copy)]
pub(in crate::win) struct Place {
    pub(in crate::win) iface: u32,
    pub(in crate::win) address: u64,
}

/// The elements of a buffer, on the host or on devices.
#[derive(Clone)]
pub(in crate::win) enum Elements {
    /// In one memory, which begins at this place.
    Of(Place, Layout),
    /// For an absolute layout: the places, each with its number of bytes.
    Runs(Vec<(Place, usize)>, Layout),
}

impl Elements {
    pub(in crate::win) fn layout(&self) -> &Layout {
        let (Elements::Of(_, layout) | Elements::Runs(_, layout)) = self;
        layout
    }

    /// The kind of memory and the blocks of a regular layout, if the transport copies blocks.
    fn blocks(&self, transport: &Transport) -> Option<(u32, Blocks)> {
        match self {
            Elements::Of(place, layout) if transport.copies_blocks() => {
                regular::blocks(layout, place.address).map(|blocks| (place.iface, blocks))
            }
            _ => None,
        }
    }

    fn walk(&self) -> Walk<'_> {
        match self {
            Elements::Of(place, layout) => Walk::Of(*place, Cursor::new(layout)),
            Elements::Runs(runs, _) => Walk::Runs(runs.iter()),
        }
    }
}

/// The walk over the runs of a buffer.
enum Walk<'a> {
    Of(Place, Cursor<'a>),
    Runs(std::slice::Iter<'a, (Place, usize)>),
}

impl Iterator for Walk<'_> {
    type Item = (Place, usize);

    fn next(&mut self) -> Option<(Place, usize)> {
        match self {
            Walk::Of(place, cursor) => {
                let segment = cursor.take(usize::MAX)?;
                let address = place.address.wrapping_add(segment.offset as u64);
                Some((Place { address, ..*place }, segment.len))
            }
            Walk::Runs(runs) => runs.next().copied(),
        }
    }
}

/// Copies between packed bytes and the elements of a buffer. The runs of one call of a copy function may lie in memory of
/// several kinds.
///
/// # Safety
/// The buffer is valid for its layout.
pub(in crate::win) unsafe fn copy(
    transport: &Transport,
    call: &'static str,
    elements: &Elements,
    mut way: Way<'_>,
) -> WinResult<()> {
    if let Some((iface, blocks)) = elements.blocks(transport) {
        // SAFETY: the caller guarantees the buffer, in which the blocks lie.
        let (function, copied) = unsafe {
            match way {
                Way::From(into) => (
                    "copy_from_hmem_strided",
                    transport.copy_from_blocks(into, iface, &blocks),
                ),
                Way::To(from) => (
                    "copy_to_hmem_strided",
                    transport.copy_to_blocks(iface, &blocks, from),
                ),
            }
        };
        let size = elements.layout().bytes();
        return all_of(call, function, size, copied);
    }
    let mut walk = elements.walk();
    let mut done = 0;
    loop {
        let (mut runs, mut kinds, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (place, len) in walk.by_ref().take(RUNS) {
            runs.push(IoVec {
                base: std::ptr::with_exposed_provenance_mut(place.address as usize),
                len,
            });
            kinds.push(place.iface);
            bytes += len;
        }
        if runs.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller guarantees the buffer, in which the runs lie.
        let (function, copied) = unsafe {
            match &mut way {
                Way::From(into) => (
                    "copy_from_hmem_iov",
                    transport.copy_from_hmem(&mut into[done..done + bytes], &runs, &kinds, 0),
                ),
                Way::To(from) => (
                    "copy_to_hmem_iov",
                    transport.copy_to_hmem(&runs, &kinds, 0, &from[done..done + bytes]),
                ),
            }
        };
        all_of(call, function, bytes, copied)?;
        done += bytes;
    }
}

/// Checks the answer of a copy function that was to copy `size` bytes.
fn all_of(call: &'static str, function: &'static str, size: usize, answer: i64) -> WinResult<()> {
    if answer == size as i64 {
        return Ok(());
    }
    Err(Box::new(WinError::DeviceCopy {
        call,
        function,
        size,
        answer,
    }))
}
