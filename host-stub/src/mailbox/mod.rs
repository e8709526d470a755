//! Small messages between the ranks of a job, made of puts alone.
//!
//! Every rank registers one region: for each other rank a ring of slots that this rank alone
//! writes, and beside it the bytes in which receivers say how much they have taken. A message is
//! one put of one slot. No order among puts is assumed, nor within one: every byte of a slot
//! carries its own mark of presence ([`packing`]), so a message is there when all its bytes are,
//! whatever the provider's way of delivering them. The receiver clears what it has read before it
//! gives the slot back, with a put of a single byte.
//!
//! A rank that waits looks at others by gets of single words, which need nothing of these: they tell whether the other has
//! given up, and which rank it has lost.
//!
//! What is too long for a slot is fetched by its receiver: see [`crate::schedule`].

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
