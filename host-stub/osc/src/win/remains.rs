//! The remaining parts of a window that was dropped without `free`, for example after a rank
//! failed.

use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use super::parts::Parts;

/// The remaining parts of one window. Dropping this ends its registrations, so that the transport
/// can close. The memory is never freed: other ranks may be copying to it, and incomplete
/// operations of this rank still point to its counts.
struct Remains(ManuallyDrop<Box<Parts>>);

impl Drop for Remains {
    fn drop(&mut self) {
        let parts = &mut **self.0;
        parts.exposed.registration = None;
        parts.control.withdraw();
        parts.attached.withdraw();
    }
}

/// The remaining parts of all windows of a context. The context keeps these parts until it leaves
/// the transport.
#[derive(Default)]
pub(crate) struct Dropped(Mutex<Vec<Remains>>);

impl Dropped {
    pub(super) fn keep(&self, parts: Box<Parts>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Remains(ManuallyDrop::new(parts)));
    }
}
