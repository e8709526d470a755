//! Tests of the state machine, call by call.

use super::*;
use crate::win::error::unboxed;

fn fence(epochs: &Epochs, assertion: Assertion) -> WinResult<FencePlan> {
    let plan = epochs.fence_begin(assertion)?;
    epochs.fence_end(assertion);
    Ok(plan)
}

fn lock(epochs: &Epochs, rank: usize) -> WinResult<()> {
    epochs.lock_begin(rank, 0)?;
    epochs.lock_end(rank, Held::Shared);
    Ok(())
}

#[test]
fn nothing_is_allowed_outside_an_epoch() {
    let epochs = Epochs::new(2);
    assert!(matches!(
        unboxed(&epochs.check_access("put", 1)),
        Err(WinError::OutsideEpoch { rank: 1, .. })
    ));
    assert!(epochs.check_request("rput", 1).is_err());
    assert!(epochs.check_flush("flush", None).is_err());
    assert!(epochs.unlock_begin(0).is_err());
    assert!(epochs.unlock_all_begin().is_err());
    assert!(epochs.complete_begin().is_err());
    assert!(epochs.check_exposed("wait").is_err());
    assert!(epochs.free_begin().is_ok());
}

#[test]
fn a_fence_epoch_counts_only_once_something_is_called() {
    let epochs = Epochs::new(2);
    fence(&epochs, Assertion::empty()).unwrap();
    lock(&epochs, 1).unwrap();
    let held = epochs.unlock_begin(1).unwrap();
    assert_eq!(held, Held::Shared);
    epochs.unlock_end(1);
    assert!(epochs.check_access("put", 1).is_err());

    fence(&epochs, Assertion::empty()).unwrap();
    epochs.check_access("put", 1).unwrap();
    assert!(lock(&epochs, 1).is_err());
    assert!(epochs.lock_all_begin().is_err());
    assert!(epochs.start_begin().is_err());
    assert!(epochs.post_begin(0).is_err());
    assert!(epochs.check_request("rput", 1).is_err());
    assert!(epochs.free_begin().is_err());
    fence(&epochs, Assertion::NOSUCCEED).unwrap();
    assert!(epochs.check_access("put", 1).is_err());
}

#[test]
fn fence_assertions_are_held_against_what_happened() {
    let epochs = Epochs::new(2);
    let plan = fence(&epochs, Assertion::NOPRECEDE).unwrap();
    assert_eq!(
        plan,
        FencePlan {
            complete: false,
            meet: true
        }
    );
    epochs.check_access("put", 1).unwrap();
    assert!(fence(&epochs, Assertion::NOPRECEDE).is_err());
    let plan = fence(&epochs, Assertion::NOSUCCEED).unwrap();
    assert_eq!(
        plan,
        FencePlan {
            complete: true,
            meet: true
        }
    );
    let both = Assertion::NOPRECEDE | Assertion::NOSUCCEED;
    assert!(!fence(&epochs, both).unwrap().meet);
    fence(&epochs, Assertion::NOPUT).unwrap();
    assert!(epochs.refuses_puts());
    fence(&epochs, Assertion::empty()).unwrap();
    assert!(!epochs.refuses_puts());
}

#[test]
fn locks_cover_their_targets_only() {
    let epochs = Epochs::new(3);
    lock(&epochs, 1).unwrap();
    lock(&epochs, 2).unwrap();
    assert!(matches!(
        unboxed(&epochs.check_access("get", 0)),
        Err(WinError::WrongTarget { rank: 0, .. })
    ));
    assert!(epochs.check_flush("flush", Some(0)).is_err());
    epochs.check_flush("flush", Some(1)).unwrap();
    epochs.check_request("rget", 2).unwrap();
    assert!(matches!(
        unboxed(&lock(&epochs, 1)),
        Err(WinError::LockState { .. })
    ));
    epochs.check_access("put", 1).unwrap();
    assert!(epochs.fence_begin(Assertion::empty()).is_err());
    epochs.unlock_begin(1).unwrap();
    // Another thread's unlock, and calls, while the first is under way.
    assert!(epochs.unlock_begin(1).is_err());
    assert!(epochs.check_access("put", 1).is_err());
    epochs.unlock_end(1);
    assert!(epochs.unlock_begin(1).is_err());
    epochs.check_access("put", 2).unwrap();
    epochs.unlock_begin(2).unwrap();
    epochs.unlock_end(2);
    assert_eq!(epochs.access(), Access::None);
}

#[test]
fn a_lock_that_failed_leaves_no_trace() {
    let epochs = Epochs::new(2);
    epochs.lock_begin(1, 0).unwrap();
    assert!(epochs.check_access("put", 1).is_err());
    epochs.lock_end(1, Held::Nothing);
    assert_eq!(epochs.access(), Access::None);
    lock(&epochs, 1).unwrap();
}

#[test]
fn lock_all_excludes_every_other_access_epoch() {
    let epochs = Epochs::new(2);
    epochs.lock_all_begin().unwrap();
    assert!(epochs.check_access("put", 1).is_err());
    epochs.lock_all_end(Some(Held::Shared));
    epochs.check_access("put", 1).unwrap();
    epochs.check_flush("flush_all", None).unwrap();
    assert!(lock(&epochs, 1).is_err());
    assert!(epochs.lock_all_begin().is_err());
    assert!(epochs.start_begin().is_err());
    assert!(epochs.unlock_begin(1).is_err());
    assert_eq!(epochs.unlock_all_begin().unwrap(), Held::Shared);
    epochs.unlock_all_end();
    assert!(epochs.check_access("put", 1).is_err());
}

#[test]
fn start_covers_its_group_and_post_may_overlap_it() {
    let epochs = Epochs::new(3);
    epochs.post_begin(0).unwrap();
    assert!(epochs.post_begin(0).is_err());
    epochs.start_begin().unwrap();
    epochs.start_end(Some(&[1]));
    epochs.check_access("put", 1).unwrap();
    assert!(epochs.check_access("put", 2).is_err());
    assert!(epochs.check_request("rput", 1).is_err());
    assert!(epochs.check_flush("flush", Some(1)).is_err());
    epochs.check_exposed("wait").unwrap();
    assert!(epochs.fence_begin(Assertion::empty()).is_err());
    epochs.complete_begin().unwrap();
    epochs.complete_end(&[1]);
    assert!(epochs.fence_begin(Assertion::empty()).is_err());
    assert!(epochs.lock_begin(0, 0).is_err());
    epochs.exposure_end();
    fence(&epochs, Assertion::empty()).unwrap();
}

/// The fast path refuses every call that the check refuses.
#[test]
fn an_epoch_includes_its_targets() {
    let none = Assertion::empty();
    let epochs = Epochs::new(3);
    let included = || [0, 1, 2].map(|rank| epochs.includes(rank));
    assert_eq!(included(), [false; 3], "no epoch");
    fence(&epochs, none).unwrap();
    // The first call of the epoch changes the state, so the check has to see it.
    assert_eq!(included(), [false; 3], "a fence epoch without calls");
    epochs.check_access("put", 1).unwrap();
    assert_eq!(included(), [true; 3], "a fence epoch");
    fence(&epochs, Assertion::NOPUT).unwrap();
    epochs.check_access("get", 1).unwrap();
    assert_eq!(included(), [false; 3], "a fence epoch without puts");
    fence(&epochs, Assertion::NOSUCCEED).unwrap();
    epochs.start_begin().unwrap();
    assert_eq!(included(), [false; 3], "in a start");
    epochs.start_end(Some(&[2]));
    assert_eq!(included(), [false, false, true], "a start epoch");
    epochs.complete_begin().unwrap();
    epochs.complete_end(&[2]);
    epochs.lock_begin(1, 0).unwrap();
    assert_eq!(included(), [false; 3], "in a lock");
    epochs.lock_end(1, Held::Shared);
    assert_eq!(included(), [false, true, false], "a lock epoch");
    epochs.unlock_begin(1).unwrap();
    epochs.unlock_end(1);
    epochs.lock_all_begin().unwrap();
    epochs.lock_all_end(Some(Held::Shared));
    assert_eq!(included(), [true; 3], "a lock_all epoch");
}
