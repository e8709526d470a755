//! Threads put, get, fetch, flush and make progress, on shared contexts and on their own contexts,
//! while other threads register and deregister memory: every value arrives, every callback runs once,
//! and every sum is correct.
//!
//! `STRESS_SEED` repeats a run, `STRESS_ROUNDS` makes it longer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use common::pair::WORDS;

use common::prelude::*;

const WORKERS: usize = 4;
const REGISTRARS: usize = 2;
/// The number of the target's words that one worker writes.
const SHARE: usize = 512;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// A peer that several threads share.
#[derive(Clone, Copy)]
struct Peer {
    endpoint: NonNull<Endpoint>,
    handle: Handle,
}

// SAFETY: any thread may use an endpoint of a transport that was opened for several threads.
unsafe impl Send for Peer {}
// SAFETY: a transport opened for several threads lets them share an endpoint.
unsafe impl Sync for Peer {}

impl Peer {
    fn word(&self, index: usize) -> u64 {
        self.handle.base() + 8 * index as u64
    }

    fn flush(&self, t: &Transport) {
        // SAFETY: endpoints live as long as the transport.
        let flushed = t.flush(Some(unsafe { self.endpoint.as_ref() }));
        assert_eq!(flushed, Status::SUCCESS);
    }
}

/// The counts of all threads together.
#[derive(Default)]
struct Sums {
    operations: AtomicU64,
    added: AtomicU64,
    registered: AtomicU64,
}

fn worker(t: &Transport, peer: Peer, number: usize, rounds: u64, seed: u64, sums: &Sums) {
    let mut random = Random(seed);
    let first = 1 + number * SHARE;
    let mut model = vec![0u64; SHARE];
    for round in 0..rounds {
        let length = 1 + random.below(if round % 8 == 0 { SHARE as u64 } else { 4 }) as usize;
        let at = random.below((SHARE - length + 1) as u64) as usize;
        let mut out: Vec<u64> = (0..length).map(|_| random.below(u64::MAX)).collect();
        let mut back = vec![0u64; length];
        let (local, result) = (out.as_mut_ptr().cast(), back.as_mut_ptr().cast());
        let (remote, size, h) = (peer.word(first + at), 8 * length, peer.handle);
        let count = AtomicU32::new(0);
        let with = if random.below(2) == 0 {
            count.completion()
        } else {
            None
        };
        insist(t, || t.put(peer.endpoint, local, remote, &h, size, with));
        peer.flush(t);
        model[at..at + length].copy_from_slice(&out);
        assert_eq!(count.load(Ordering::Acquire), u32::from(with.is_some()));
        insist(t, || t.get(peer.endpoint, result, remote, &h, size, with));
        let add = random.below(9);
        let mut old = 0u64;
        let old_at = ptr::from_mut(&mut old).cast();
        insist(t, || {
            t.atomic_fop(
                peer.endpoint,
                old_at,
                peer.word(0),
                &h,
                BtlAtomicOp::Add,
                add,
                with,
            )
        });
        if random.below(4) == 0 {
            assert_eq!(t.flush(None), Status::SUCCESS);
        } else {
            peer.flush(t);
        }
        assert_eq!(
            back,
            model[at..at + length],
            "worker {number}, round {round}"
        );
        assert_eq!(count.load(Ordering::Acquire), 3 * u32::from(with.is_some()));
        sums.added.fetch_add(add, Ordering::Relaxed);
        sums.operations.fetch_add(3, Ordering::Relaxed);
    }
    // One get reads all words that were put.
    let mut all = vec![0u64; SHARE];
    let (result, h) = (all.as_mut_ptr().cast(), peer.handle);
    insist(t, || {
        t.get(peer.endpoint, result, peer.word(first), &h, 8 * SHARE, None)
    });
    peer.flush(t);
    assert_eq!(all, model, "worker {number}");
}

fn registrar(t: &Transport, own: Peer, stop: &AtomicBool, seed: u64, sums: &Sums) {
    let mut random = Random(seed);
    while !stop.load(Ordering::Relaxed) {
        let words = 1 + random.below(4096) as usize;
        let mut memory = vec![0u64; words];
        // SAFETY: the memory outlives its region, which is closed below.
        let region =
            unsafe { t.register(memory.as_mut_ptr().cast(), 8 * words, Access::all()) }.unwrap();
        let h = region.handle();
        let mut value = random.below(u64::MAX);
        let at = h.base() + 8 * random.below(words as u64);
        let mut back = 0u64;
        let (local, result) = (
            ptr::from_mut(&mut value).cast(),
            ptr::from_mut(&mut back).cast(),
        );
        insist(t, || t.put(own.endpoint, local, at, &h, 8, None));
        own.flush(t);
        insist(t, || t.get(own.endpoint, result, at, &h, 8, None));
        own.flush(t);
        assert_eq!(back, value);
        region.close().unwrap();
        sums.registered.fetch_add(1, Ordering::Relaxed);
        sums.operations.fetch_add(2, Ordering::Relaxed);
    }
}

/// Returns the number of checked operations.
fn stress(provider: &str, contexts: i32) -> u64 {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seed = number("STRESS_SEED").unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(1, |t| t.as_nanos() as u64)
    });
    println!("repeat with STRESS_SEED={seed}");
    let rounds = number("STRESS_ROUNDS").unwrap_or(100);
    let wanted = [("btl_ofi_num_contexts_per_module", Value::Int(contexts))];
    let t = open(provider, ThreadLevel::Multiple, &wanted);
    let target = Target::start(&t, provider, false);
    const { assert!(WORKERS * SHARE < WORDS) };
    let peer = Peer {
        endpoint: target.peer,
        handle: target.handle,
    };
    let own = Peer {
        endpoint: t.connect(t.address(), 1).unwrap(),
        handle: Handle::vacant(),
    };
    // With some providers, first contact needs progress of both sides.
    let mut zero = 0u64;
    let zero_at = ptr::from_mut(&mut zero).cast();
    insist(&t, || {
        t.put(peer.endpoint, zero_at, peer.word(0), &peer.handle, 8, None)
    });
    peer.flush(&t);
    let registered = t.stats().registrations;
    let (sums, stop) = (Sums::default(), AtomicBool::new(false));
    std::thread::scope(|s| {
        let (t, sums, stop) = (&t, &sums, &stop);
        for number in 0..REGISTRARS {
            s.spawn(move || registrar(t, own, stop, seed ^ (100 + number as u64), sums));
        }
        s.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                t.progress();
                std::thread::yield_now();
            }
        });
        let workers: Vec<_> = (0..WORKERS)
            .map(|n| s.spawn(move || worker(t, peer, n, rounds, seed ^ n as u64, sums)))
            .collect();
        let failed = workers.into_iter().map(|w| w.join().is_err());
        let failed = failed.fold(false, |a, b| a | b);
        stop.store(true, Ordering::Relaxed);
        assert!(!failed, "repeat with STRESS_SEED={seed}");
    });
    let mut sum = 0u64;
    let at = ptr::from_mut(&mut sum).cast();
    insist(&t, || {
        t.get(peer.endpoint, at, peer.word(0), &peer.handle, 8, None)
    });
    assert_eq!(t.flush(None), Status::SUCCESS);
    assert_eq!(sum, sums.added.load(Ordering::Relaxed), "{provider}");
    let stats = t.stats();
    let lost = stats.posted.abs_diff(stats.completed + stats.failed);
    let line = format!(
        "stress, {provider}, {} context(s): {WORKERS} workers, {REGISTRARS} registering, {} operations, {} \
         registrations, lost: {lost}\n",
        t.capabilities().contexts,
        sums.operations.load(Ordering::Relaxed),
        sums.registered.load(Ordering::Relaxed),
    );
    // In a child, the parent adds up the counts.
    if lab::role().is_none() {
        lab::announce(&line);
    }
    assert_eq!((lost, stats.failed), (0, 0), "{line}");
    assert_eq!(stats.registrations, registered);
    target.end();
    t.close().unwrap();
    sums.operations.load(Ordering::Relaxed)
}

/// The lab provider delays, reorders and refuses operations.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn stress_over_lab() {
    lab::child_role();
    let mut tally = lab::Tally::default();
    for contexts in ["1", "4", "8"] {
        let faults = format!("seed={contexts},delay=20,reorder=1,again=50,burst=3");
        lab::shape(&[("TX_CTX", contexts), ("FAULTS", &faults)]);
        tally.run += 1;
        tally.checked += stress("lab", contexts.parse().unwrap());
    }
    tally.tell();
}

#[test]
fn lab_provider() {
    let tally = lab::child("stress_over_lab", "stress", Duration::from_secs(120));
    tally.summary("stress over the lab provider, 1, 4 and 8 contexts");
    assert_eq!(tally.run, 3);
}

#[test]
fn shm() {
    stress("shm", 1);
}

#[test]
fn sockets_with_one_context() {
    stress("sockets", 1);
}

#[test]
fn sockets_with_several_contexts() {
    stress("sockets", 4);
}

#[test]
fn sockets_with_a_context_for_each_thread() {
    stress("sockets", 8);
}

#[test]
fn tcp_rxm() {
    stress("tcp;ofi_rxm", 1);
}
