//! Data that upper layers attach to a job, found by its type.

use std::any::Any;
use std::error::Error;
use std::sync::OnceLock;

/// The reason why a layer could not leave the job.
pub(crate) type LeaveError = Box<dyn Error + Send + Sync>;

/// An object that a layer keeps with a job until the job ends. A job has one object of each type.
pub(crate) trait Kept: Any + Send + Sync {
    /// Called when the process leaves the job; collective, while all ranks still answer.
    fn leave(&self) -> Result<(), LeaveError> {
        Ok(())
    }

    /// Called once every rank has left, if none was lost before.
    fn every_rank_left(&self) {}
}

/// Objects of different types: a chain that only grows, so that a found object stays.
#[derive(Default)]
pub(super) struct Slots(OnceLock<Box<Slot>>);

struct Slot {
    thing: Box<dyn Kept>,
    next: Slots,
}

impl Slots {
    /// The object of type `T`, which the first call makes. Any thread may call. The search takes one step
    /// for each type of object in the chain.
    pub(super) fn get<T: Kept + Default>(&self) -> &T {
        let mut slots = self;
        loop {
            let slot = slots.0.get_or_init(|| {
                Box::new(Slot {
                    thing: Box::new(T::default()),
                    next: Slots::default(),
                })
            });
            let thing: &dyn Any = slot.thing.as_ref();
            if let Some(thing) = thing.downcast_ref() {
                return thing;
            }
            slots = &slot.next;
        }
    }

    /// Calls `leave` of all objects; returns the first failure after all calls.
    pub(super) fn leave(&self) -> Result<(), LeaveError> {
        let mut outcome = Ok(());
        let mut slots = self;
        while let Some(slot) = slots.0.get() {
            outcome = outcome.and(slot.thing.leave());
            slots = &slot.next;
        }
        outcome
    }

    /// Calls `every_rank_left` of all objects.
    pub(super) fn every_rank_left(&self) {
        let mut slots = self;
        while let Some(slot) = slots.0.get() {
            slot.thing.every_rank_left();
            slots = &slot.next;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Counter(AtomicU32);
    impl Kept for Counter {}

    #[derive(Default)]
    struct Stays;
    impl Kept for Stays {
        fn leave(&self) -> Result<(), LeaveError> {
            Err("it stays".into())
        }
    }

    #[test]
    fn each_type_has_one_slot() {
        let slots = Slots::default();
        slots.leave().unwrap();
        slots.get::<Counter>().0.store(7, Ordering::Relaxed);
        let _: &Stays = slots.get();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| slots.get::<Counter>().0.fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(slots.get::<Counter>().0.load(Ordering::Relaxed), 11);
        assert_eq!(slots.leave().unwrap_err().to_string(), "it stays");
    }
}
