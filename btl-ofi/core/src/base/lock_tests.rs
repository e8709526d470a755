//! Tests of the lock with real threads. `tests/lane_model.rs` runs the lock under loom.

use crate::base::lock::*;

#[test]
fn excludes() {
    let lock = Lock::new(0u64, true);
    let guard = lock.try_lock();
    assert!(guard.is_some());
    assert!(
        lock.try_lock().is_none(),
        "a held lock must not be given twice"
    );
    drop(guard);
    assert!(lock.try_lock().is_some());
}

#[test]
fn counts_under_contention() {
    let lock = Lock::new(0u64, true);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..10_000 {
                    *lock.lock() += 1;
                }
            });
        }
    });
    assert_eq!(*lock.lock(), 40_000);
}

#[test]
fn gives_up_soon() {
    let lock = Lock::new(0u64, true);
    let guard = lock.try_lock();
    assert!(lock.lock_soon().is_none());
    assert!(!lock.is_waited_for());
    drop(guard);
    assert!(lock.lock_soon().is_some());
}

#[test]
fn knows_whether_a_thread_waits() {
    let lock = Lock::new(0u64, true);
    std::thread::scope(|s| {
        let guard = lock.lock();
        assert!(!lock.is_waited_for());
        let waiting = s.spawn(|| *lock.lock() += 1);
        while !lock.is_waited_for() {
            std::thread::yield_now();
        }
        drop(guard);
        waiting.join().unwrap();
    });
    assert!(!lock.is_waited_for());
    assert_eq!(*lock.lock(), 1);
}

#[cfg(debug_assertions)]
#[test]
fn a_thread_that_locks_twice_is_found() {
    for threaded in [false, true] {
        let lock = Lock::new(0, threaded);
        let twice = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _first = lock.lock();
            drop(lock.lock());
        }));
        assert!(twice.is_err());
        *lock.lock() += 1;
    }
}
