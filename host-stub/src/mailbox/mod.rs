//! Small messages between the ranks of a job, made of puts alone.
//!
//! Every rank registers one region. The region contains, for each other rank, a ring of slots that this other rank alone
//! writes, and bytes in which receivers report how many messages they have taken. A message is one put of one slot. The
//! mailbox assumes no order among puts or within a put: every byte of a slot carries its own mark of presence
//! ([`packing`]), so a message has arrived when all its bytes have arrived, with every provider. The receiver clears the
//! slot before it frees the slot with a put of a single byte.
//!
//! A waiting rank looks at other ranks by gets of single words, which need no action of these ranks. A word says whether
//! the other rank has given up, and which rank it has lost.
//!
//! A payload that is too long for a slot is fetched by its receiver: see [`crate::schedule`].

mod header;
mod layout;
mod line;
#[cfg(test)]
pub(crate) mod line_tests;
mod look;
mod packing;
mod track;

pub(crate) use header::{Header, Kind};
#[cfg(test)]
use layout::Layout;
pub(crate) use line::{Mailbox, posted};
pub(crate) use look::Found;
pub(crate) use track::{Tracks, track_done};
