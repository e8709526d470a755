//! Data that upper layers attach to a job, found by its type.

use std::any::Any;
use std::error::Error;
use std::sync::OnceLock;

/// Why a layer did not leave the job in good order.
pub(crate) type LeaveError = Box<dyn Error + Send + Sync>;

/// A thing that a layer keeps with a job for as long as that lasts. One of each type.
pub(crate) trait Kept: Any + Send + Sync {
    /// The job is being left; collective, while all ranks still answer.
    fn leave(&self) -> Result<(), LeaveError> {
        Ok(())
    }
}

/// Things of different types: a chain that only grows, so that what was found stays.
#[derive(Default)]
pub(super) struct Slots(OnceLock<Box<Slot>>);

struct Slot {
    thing: Box<dyn Kept>,
    next: Slots,
}

impl Slots {
    /// The thing of a type, which the first call makes. Any thread calls; takes one step for each type that
    /// was asked for before.
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

    /// Lets all layers leave; the first failure is returned after all have.
    pub(super) fn leave(&self) -> Result<(), LeaveError> {
        let mut outcome = Ok(());
        let mut slots = self;
        while let Some(slot) = slots.0.get() {
            outcome = outcome.and(slot.thing.leave());
            slots = &slot.next;
        }
        outcome
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
