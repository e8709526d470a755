//! Targets that are stopped or killed.

use super::*;

/// A target process is stopped and continued at any time, also during a transfer: each transfer is executed
/// once, and no earlier transfer overwrites the bytes of a later one.
#[test]
fn a_target_that_is_stopped_again_and_again() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut target = Target::start_as(0, &t, near(), false);
    let (peer, h, pid) = (target.peer, target.handle, target.child.id());
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
            model::matches_the_model(&t, peer, &h, (8, 100_000), 9, 400)
        }));
        over.store(true, Ordering::Relaxed);
        result
    });
    let added = result.unwrap_or_else(|e| std::panic::resume_unwind(e));
    assert_eq!(target.sees(0, 0).0, added);
    target.end();
    t.close().unwrap();
}

/// Puts to and gets from a stopped target still complete. When a target is killed, only the operations
/// that were posted to its ring fail, each once.
#[test]
fn stopped_and_killed_targets() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut targets: Vec<Target<'_>> = (0..2)
        .map(|proc| Target::start_as(proc, &t, near(), false))
        .collect();
    let signal = |target: &Target<'_>, signal| {
        let pid = target.child.id() as libc::pid_t;
        // SAFETY: the process is this test's child and has not been waited for.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0);
    };
    let words: Vec<u64> = (0..64).collect();
    for target in &targets {
        assert_eq!(
            put_word(&t, target.peer, &target.handle, &words[1]),
            Status::SUCCESS
        );
        assert_eq!(t.flush(None), Status::SUCCESS);
    }
    signal(&targets[0], libc::SIGSTOP);
    let (peer, h) = (targets[0].peer, targets[0].handle);
    let mut got = 0u64;
    for word in &words[2..40] {
        assert_eq!(put_word(&t, peer, &h, word), Status::SUCCESS);
        assert_eq!(t.flush(None), Status::SUCCESS);
        let out = (&raw mut got).cast();
        assert_eq!(get(&t, peer, &h, 0, out, 8, None), Status::SUCCESS);
        assert_eq!(t.flush(None), Status::SUCCESS);
        assert_eq!(got, *word);
    }
    signal(&targets[0], libc::SIGCONT);
    assert_eq!(targets[0].sees(0, 0).0, 39);
    // The operations go to the target's ring again if the target makes progress in time; the target
    // is killed with as many as possible.
    let told = Seen::default();
    let mut posted = 0;
    signal(&targets[0], libc::SIGSTOP);
    for round in 0..100 {
        let from = ptr::from_ref(&words[round % 64]).cast();
        let status = put(&t, peer, &h, 0, from, 8, told.completion());
        assert_eq!(status, Status::SUCCESS);
        posted += 1;
    }
    targets[0].kill();
    // SAFETY: endpoints live as long as the transport.
    let flushed = t.flush(Some(unsafe { peer.as_ref() }));
    assert_eq!(told.all(), posted, "each once");
    assert!(
        flushed == Status::UNREACH || (flushed, told.failed()) == (Status::SUCCESS, 0),
        "{flushed}, {:?}",
        told.both()
    );
    let after = put_word(&t, peer, &h, &words[1]);
    // SAFETY: endpoints live as long as the transport.
    let flushed = t.flush(Some(unsafe { peer.as_ref() }));
    assert_eq!(after.ok().map_or(after, |_| flushed), Status::UNREACH);
    let _ = t.flush(None);
    let other = &targets[1];
    assert_eq!(
        put_word(&t, other.peer, &other.handle, &words[9]),
        Status::SUCCESS
    );
    assert_eq!(t.flush(None), Status::SUCCESS);
    assert_eq!(targets[1].sees(0, 0).0, 9);
    targets.remove(1).end();
    drop(targets);
    t.close().unwrap();
}
