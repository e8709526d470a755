//! Tests of counts with real threads; `tests/pending_model.rs` runs the model checker.

use plugin_api::Status;

use super::pending::*;

#[test]
fn a_flush_waits_for_what_came_before_it_only() {
    for alone in [false, true] {
        waits_for_what_came_before(&Pending::new(alone));
    }
}

fn waits_for_what_came_before(pending: &Pending) {
    let before = pending.begin();
    let flush = pending.flush();
    assert!(!flush.is_done() && flush.has_parted());
    let after = pending.begin();
    before.finish(0);
    assert!(flush.is_done());
    assert!(!pending.is_idle());
    let next = pending.flush();
    assert!(!next.is_done());
    after.finish(0);
    assert!(next.is_done());
    assert!(pending.is_idle());
}

#[test]
fn flushes_beside_one_another_end_together() {
    for alone in [false, true] {
        let pending = Pending::new(alone);
        let before = pending.begin();
        let flushes = [pending.flush(), pending.flush()];
        assert!(flushes.iter().all(|flush| !flush.is_done()));
        before.finish(0);
        assert!(flushes.iter().rev().all(Flush::is_done));
    }
}

#[test]
fn a_flush_waits_for_what_another_left_that_was_given_up() {
    for alone in [false, true] {
        let pending = Pending::new(alone);
        let before = pending.begin();
        assert!(pending.flush().has_parted());
        let after = pending.begin();
        let flush = pending.flush();
        after.finish(0);
        assert!(!flush.has_parted());
        before.finish(0);
        assert!(flush.is_done());
    }
}

#[test]
fn the_first_failure_is_kept_and_taken_once() {
    let pending = Pending::default();
    let (a, b) = (pending.begin(), pending.begin());
    a.finish(Status::UNREACH.0);
    b.finish(Status::ERROR.0);
    assert_eq!(pending.take_failure(), Some(Status::UNREACH));
    assert_eq!(pending.take_failure(), None);
    pending.fail(Status::PERM);
    assert!(pending.is_idle() && pending.unsettled() != 0);
    assert_eq!(pending.take_failure(), Some(Status::PERM));
    assert!(pending.unsettled() == 0);
}

#[test]
fn threads_never_lose_a_count() {
    let pending = Pending::default();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    pending.begin().finish(0);
                }
            });
        }
        for _ in 0..200 {
            let flush = pending.flush();
            while !flush.is_done() {
                std::thread::yield_now();
            }
        }
    });
    assert!(pending.is_idle());
}
