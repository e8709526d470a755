//! Atomics over shm when one of the two processes is killed. A target that dies with operations
//! outstanding does not block other operations; an initiator that dies during its operations leaves
//! a target that serves all others.

use std::io::Read;

use crate::common::prelude::*;

const FLOOD: &str = "BTL_OFI_TEST_FLOOD";

/// A flush of one peer returns the peer's failure even if callbacks reported every operation.
#[test]
fn a_flush_tells_what_callbacks_told() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut target = Target::start_as(0, &t, near(), false);
    let there = target.there();
    let mut old = [0u64; 8];
    there.insist(|there| there.fetch_add(0, &mut old[0], None));
    assert_eq!(t.flush(None), Status::SUCCESS);
    signal(target.child.id(), libc::SIGSTOP);
    let seen = Seen::default();
    for out in &mut old {
        assert!(there.fetch_add(0, out, seen.completion()).is_ok());
    }
    target.kill();
    assert_eq!((there.flush(), seen.both()), (Status::UNREACH, (0, 8)));
    assert_eq!(t.flush(None), Status::UNREACH, "one flush of all tells it");
    drop(target);
    t.close().unwrap();
}

/// The test has three targets. One target is stopped, gets operations of every kind, and is killed.
/// The other two get operations before, meanwhile and afterwards, which complete.
#[test]
fn a_dead_target_blocks_nobody() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut targets: Vec<Target<'_>> = (0..3)
        .map(|proc| Target::start_as(proc, &t, near(), false))
        .collect();
    let mut old = vec![0u64; 4096];
    for (target, out) in targets.iter().zip(&mut old) {
        target.there().insist(|there| there.fetch_add(0, out, None));
    }
    assert_eq!(t.flush(None), Status::SUCCESS);
    signal(targets[0].child.id(), libc::SIGSTOP);
    let (seen, lively) = (Seen::default(), Seen::default());
    // The loop posts until the target's ring is full; every second operation has no callback.
    let (mut told, mut untold) = (0, 0);
    let dead = targets[0].there();
    for (i, out) in old.iter_mut().enumerate() {
        let completion = if i % 2 == 0 { seen.completion() } else { None };
        let status = if i % 3 == 0 {
            let (sum, u) = (AtomicOp::Sum, Datatype::Uint64);
            let ones = [1u64; 8];
            let (There { peer, h, .. }, from) = (dead, ones.as_ptr().cast());
            t.atomic_opv(peer, from, h.base(), &h, u, sum, 8, completion)
        } else {
            dead.fetch_add(0, out, completion)
        };
        if status.is_again() {
            break;
        }
        assert_eq!(status, Status::SUCCESS);
        match completion {
            Some(_) => told += 1,
            None => untold += 1,
        }
    }
    assert_eq!((told, untold), (64, 64), "as many as a ring holds");
    // The silence of the stopped target does not delay the others.
    let mut results = vec![0u64; 200];
    for (i, out) in results.iter_mut().enumerate() {
        let other = targets[1 + i % 2].there();
        other.insist(|there| there.fetch_add(0, out, lively.completion()));
    }
    for other in &targets[1..] {
        assert_eq!(other.there().flush(), Status::SUCCESS);
    }
    assert_eq!(lively.succeeded(), 200);
    assert_eq!(seen.failed(), 0);

    targets[0].kill();
    let before = worked();
    assert_eq!(dead.flush(), Status::UNREACH);
    // The flush checks the peers after an interval of 250 ms without completions.
    let spent = worked() - before;
    assert!(spent < Duration::from_secs(2), "{spent:?} of work");
    assert_eq!(seen.failed(), told, "each once");
    assert_eq!(seen.succeeded(), 0);
    assert_eq!(t.flush(None), Status::UNREACH, "one flush of all tells it");
    assert_eq!(dead.fetch_add(0, &mut old[0], None), Status::UNREACH);

    for out in results.chunks_mut(2) {
        for (target, out) in targets[1..].iter().zip(out) {
            let there = target.there();
            there.insist(|there| there.fetch_add(0, out, lively.completion()));
        }
        assert_eq!(t.flush(None), Status::SUCCESS, "nothing else is affected");
    }
    assert_eq!(lively.succeeded(), 400);
    assert_eq!(lively.failed(), 0);
    for target in &mut targets[1..] {
        assert_eq!(target.sees(0, 0).0, 201);
    }
    for target in targets.drain(1..) {
        target.end();
    }
    drop(targets);
    t.close().unwrap();
}

/// The program of the initiator in the test below: it issues operations without end.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn flooding_process() {
    let work = std::env::var(FLOOD).expect("started by the test below");
    // The signal ends this process even if the test fails. SAFETY: the arguments are numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut words = work.split(' ');
    let mut next = || words.next().unwrap();
    let (seed, blob, h) = (next(), unhex(next()), handle_of(next()));
    let mut numbers = Numbers(seed.parse().unwrap());
    let t = open(near(), ThreadLevel::Single, &[]);
    let there = There::new(&t, t.connect(&blob, 0).unwrap(), h);
    let mut old = 0;
    let ones = [1u64; 511];
    println!("@");
    loop {
        let status = match numbers.below(3) {
            0 => {
                let (sum, u) = (AtomicOp::Sum, Datatype::Uint64);
                let (from, at) = (ones.as_ptr().cast(), there.at(8));
                let n = 1 + numbers.below(511);
                t.atomic_opv(there.peer, from, at, &h, u, sum, n, None)
            }
            _ => there.fetch_add(0, &mut old, None),
        };
        assert!(status.is_ok() || status.is_again(), "{status}");
        t.progress();
    }
}

/// Initiators are killed at arbitrary times. The target executes the published part of their
/// operations, each whole operation once, and serves others meanwhile.
#[test]
fn killed_initiators_leave_a_target_that_serves() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut window = vec![0u64; 512];
    let base = window.as_mut_ptr();
    // SAFETY: the window lives until the region is closed.
    let region = unsafe { t.register(base.cast(), 512 * 8, Access::all()) }.unwrap();
    let h = region.handle();
    let mut numbers = Numbers(7);
    for seed in 0..6 {
        // SAFETY: the word is inside the window, which only this process changes, in its calls.
        let before = unsafe { base.read_volatile() };
        let mut child = again(module_path!(), "flooding_process")
            .env(
                FLOOD,
                format!("{seed} {} {}", hex(t.address()), handle_text(h)),
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut byte = [0u8];
        while byte != *b"@" {
            out.read_exact(&mut byte).unwrap();
        }
        // SAFETY: the word is inside the window, which only this process changes, in its calls.
        let first = || unsafe { base.read_volatile() };
        until(&[&t], "nothing arrives", || first() != before);
        let until = Instant::now() + Duration::from_micros(numbers.below(20_000) as u64);
        while Instant::now() < until {
            t.progress();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for _ in 0..10 {
            t.progress();
        }
        // SAFETY: the word is inside the window, which only this process changes, in its calls.
        let settled = unsafe { base.read_volatile() };
        for _ in 0..100 {
            t.progress();
        }
        // SAFETY: the word is inside the window, which only this process changes, in its calls.
        assert_eq!(settled, unsafe { base.read_volatile() }, "executed once");
        // Vectors begin at the second word, so an earlier word has at least a later word's count.
        // SAFETY: no process changes the window now.
        let words = unsafe { std::slice::from_raw_parts(base.add(1), 511) };
        assert!(
            words.is_sorted_by(|a, b| a >= b),
            "a vector was executed in part"
        );
    }
    // Another initiator, which is not killed, uses a ring among the rings of dead initiators.
    let other = open(near(), ThreadLevel::Single, &[]);
    let there = There::of(&other, 0, &t, &region);
    // SAFETY: the word is inside the window, which only this process changes, in its calls.
    let before = unsafe { base.read_volatile() };
    let mut old = 0u64;
    for i in 0..100 {
        assert_eq!(there.fetch_add(0, &mut old, None), Status::SUCCESS);
        let deadline = Patience::new();
        let mut seen = other.stats().completed;
        while seen <= i {
            t.progress();
            other.progress();
            seen = other.stats().completed;
            assert!(deadline.lasts(), "it is not served");
        }
        assert_eq!(old, before + i);
    }
    assert_eq!(other.flush(None), Status::SUCCESS);
    other.close().unwrap();
    close([region], [t]);
}
