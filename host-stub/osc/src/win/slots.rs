//! Places for fetched words while a call waits for them.
//!
//! The slots belong to the window, not to the caller's stack. If the job failed and a call gives
//! up, its slot stays taken for ever, so a late completion writes into memory that still exists.

use super::control::Word;
use super::sync::{AtomicI32, AtomicU64, Ordering};

/// The number of slots of a window, and of the scratch words that it needs.
pub(super) const SLOTS: usize = 64;

const WAITING: i32 = 1;

/// The state of one slot. The state's address is the context of the completion callback.
pub(super) struct Slot {
    status: AtomicI32,
}

impl Slot {
    /// Makes the slot wait; called before the operation is issued.
    #[inline]
    pub(super) fn arm(&self) {
        self.status.store(WAITING, Ordering::Relaxed);
    }

    /// Ends the wait with 0 or a negative status.
    #[inline]
    pub(super) fn finish(&self, status: i32) {
        // Pairs with the Acquire load in `status`: a thread that sees 0 sees the fetched word.
        self.status.store(status.min(0), Ordering::Release);
    }

    /// The status once the operation ended.
    #[inline]
    pub(super) fn status(&self) -> Option<i32> {
        match self.status.load(Ordering::Acquire) {
            WAITING => None,
            status => Some(status),
        }
    }
}

/// The slots of a window.
pub(super) struct Slots {
    free: AtomicU64,
    slots: Box<[Slot; SLOTS]>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots {
            free: AtomicU64::new(u64::MAX),
            slots: Box::new(std::array::from_fn(|_| Slot {
                status: AtomicI32::new(0),
            })),
        }
    }

    /// Takes a slot; `None` if all are taken.
    #[inline]
    pub(super) fn take(&self) -> Option<usize> {
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            if free == 0 {
                return None;
            }
            let index = free.trailing_zeros() as usize;
            match self.free.compare_exchange_weak(
                free,
                free & !(1 << index),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(index),
                Err(found) => free = found,
            }
        }
    }

    /// Whether a slot is free now.
    #[inline]
    pub(super) fn any_free(&self) -> bool {
        self.free.load(Ordering::Relaxed) != 0
    }

    /// Frees a slot after its operation has ended.
    #[inline]
    pub(super) fn give_back(&self, index: usize) {
        self.free.fetch_or(1 << (index % SLOTS), Ordering::Release);
    }

    #[inline]
    pub(super) fn slot(&self, index: usize) -> &Slot {
        &self.slots[index % SLOTS]
    }

    /// The scratch word that belongs to a slot, given the control block's plan.
    #[inline]
    pub(super) fn word(plan: &super::control::ControlPlan, index: usize) -> Word {
        plan.scratch(index % SLOTS)
    }
}
