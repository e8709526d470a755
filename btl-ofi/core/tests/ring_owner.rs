//! A ring that changes its owner while the target is stopped, possibly in the middle of a fragment of a large
//! get.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::pair::WORDS;

use common::prelude::*;

/// The words of a vector, the maximum for its operands; and the number of vectors, which fill a
/// ring's payload.
const VECTOR: usize = 504;
const VECTORS: u64 = 16;
const ROUNDS: u64 = 100;

/// Gets the beginning of the window.
fn get(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, to: &mut [u64]) {
    let size = size_of_val(to);
    let to = to.as_mut_ptr().cast();
    insist(t, || t.get(peer, to, h.base(), h, size, None));
    assert_eq!(t.flush(None), Status::SUCCESS);
}

/// Adds `words` from word `at` on.
fn add(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, at: usize, words: &[u64]) {
    let (sum, u) = (AtomicOp::Sum, Datatype::Uint64);
    let (from, to) = (words.as_ptr().cast(), h.base() + 8 * at as u64);
    let n = words.len();
    insist(t, || t.atomic_opv(peer, from, to, h, u, sum, n, None));
}

/// The target is stopped during large gets from it; the peer is released and connected again, and vectors are
/// posted. When the target continues, a transfer that it had begun must not change the vectors. A stop in the
/// middle of a fragment is rare; the unit test in `channel/tests.rs` stops there in every run.
#[test]
fn a_new_owner_of_a_ring_has_its_payload_for_itself() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut target = Target::start_as(0, &t, near(), false);
    let (mut peer, h, pid) = (target.peer, target.handle, target.child.id());
    let signal = |signal| {
        // SAFETY: the process is this test's child and has not been waited for.
        let sent = unsafe { libc::kill(pid as libc::pid_t, signal) };
        assert_eq!(sent, 0);
    };
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let is_stopped = || stat().rsplit(')').next().unwrap().trim().starts_with('T');
    let mut expected = vec![0u64; WORDS];
    let mut got = vec![0u64; WORDS];
    let mut numbers = Numbers(11);
    for round in 1..=ROUNDS {
        // This get finds the ring; both sides make the next gets.
        get(&t, peer, &h, &mut got[..1]);
        let stopped = AtomicBool::new(false);
        let pause = Duration::from_micros(numbers.below(200) as u64);
        thread::scope(|s| {
            s.spawn(|| {
                // The thread sleeps, because the two sides of a get may need all processors.
                thread::sleep(pause);
                signal(libc::SIGSTOP);
                while !is_stopped() {
                    thread::yield_now();
                }
                stopped.store(true, Ordering::Relaxed);
            });
            while !stopped.load(Ordering::Relaxed) {
                get(&t, peer, &h, &mut got);
            }
        });
        // SAFETY: connected once.
        assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
        peer = t.connect(&target.address, 0).unwrap();
        for vector in 0..VECTORS {
            let words = [round << 8 | vector; VECTOR];
            let at = vector as usize * VECTOR;
            add(&t, peer, &h, at, &words);
            expected[at..at + VECTOR]
                .iter_mut()
                .for_each(|w| *w += words[0]);
        }
        signal(libc::SIGCONT);
        assert_eq!(t.flush(None), Status::SUCCESS);
        get(&t, peer, &h, &mut got);
        let wrong = got.iter().zip(&expected).filter(|(a, b)| a != b).count();
        assert_eq!(wrong, 0, "wrong words in round {round}");
    }
    target.peer = peer;
    assert_eq!(target.sees(0, VECTOR).0, expected[0]);
    target.end();
    t.close().unwrap();
}

/// The carriers on one node behave the same beside a provider between nodes.
#[test]
fn the_same_over_rxm() {
    again_over(module_path!(), "tcp;ofi_rxm");
    again_over(module_path!(), "memory");
}
