//! The parts that stay of a window that was dropped without `free`, as happens after a rank failed.

use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use super::parts::Parts;

/// The parts of one such window. Its registrations end when this is dropped, so that the transport
/// can close; the memory stays for good, since other ranks may be copying to it at this moment, and
/// operations of this rank that nobody completed still name its counts.
struct Remains(ManuallyDrop<Box<Parts>>);

impl Drop for Remains {
    fn drop(&mut self) {
        let parts = &mut **self.0;
        parts.exposed.registration = None;
        parts.control.withdraw();
        parts.attached.withdraw();
    }
}

/// The remains of all windows of a context, which it keeps until it leaves the transport.
#[derive(Default)]
pub(crate) struct Dropped(Mutex<Vec<Remains>>);

impl Dropped {
    pub(super) fn keep(&self, parts: Box<Parts>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Remains(ManuallyDrop::new(parts)));
    }
}
