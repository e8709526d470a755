//! Targets that are stopped or killed.

use super::*;

/// A target process is stopped and continued at any time, also during a transfer: each transfer is executed
/// once, and no earlier transfer overwrites the bytes of a later one.
#[test]
fn a_target_that_is_stopped_again_and_again() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut target = Target::start_as(0, &t, near(), false);
    let (there, pid) = (target.there(), target.child.id());
    let over = AtomicBool::new(false);
    let result = thread::scope(|s| {
        s.spawn(|| {
            let mut numbers = Numbers(5);
            while !over.load(Ordering::Relaxed) {
                for signal in [libc::SIGSTOP, libc::SIGCONT] {
                    // SAFETY: the process is this test's child and has not been waited for.
                    unsafe { libc::kill(pid as libc::pid_t, signal) };
                    thread::sleep(Duration::from_micros(numbers.below(300) as u64));
                }
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            model::matches_the_model(there, (8, 100_000), 9, 400)
        }));
        over.store(true, Ordering::Relaxed);
        result
    });
    let added = result.unwrap_or_else(|e| std::panic::resume_unwind(e));
    assert_eq!(target.sees(0, 0).0, added);
    target.end();
    t.close().unwrap();
}
