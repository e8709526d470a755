//! One window, accessed by every route at once: its owner's own atomics, local peers that map it, local peers' rings, and
//! the provider. Each operation is atomic with respect to all others; the test proves this by counts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use mca_params::Value;
use plugin_api::counters::Carrier;
use plugin_api::{Access, ThreadLevel};

use common::memory::{Memory, Window};
use common::tally::{Origin, WORDS, check};
use common::{SAME_NODE, SAME_NODE_OFF, open};

/// The number of operations of an origin that uses the provider; the other origins continue until
/// it has ended.
const OPERATIONS: usize = 400;
/// The number of the local peer whose atomics use its ring; the other local peer's atomics are
/// instructions.
const RINGS: u64 = 4;

fn count_all(provider: &'static str, seed: u64) {
    let t = open(provider, ThreadLevel::Single, &[SAME_NODE]);
    let window = Window::new(Memory::Memfd, WORDS);
    let region = window.register(&t, Access::all()).unwrap();
    // The same memory in a region that no peer maps. SAFETY: the window is never unmapped.
    let unmapped = unsafe { t.register(window.base().cast(), window.size(), Access::all()) };
    let unmapped = unmapped.unwrap();
    let (h, address) = (region.handle(), t.address().to_vec());
    let by_ring = unmapped.handle();
    let far_left = AtomicU32::new(2);
    let failed = AtomicBool::new(false);
    let origins_left = AtomicU32::new(4);
    let run = |number: u64, near: bool| {
        let (address, far_left, origins_left) = (&address, &far_left, &origins_left);
        let failed = &failed;
        move || {
            let _ended = Ended(origins_left, failed);
            let route: (&str, Value) = if near { SAME_NODE } else { SAME_NODE_OFF };
            let t = open(provider, ThreadLevel::Single, &[route]);
            let h = if number == RINGS { by_ring } else { h };
            let mut origin = Origin::new(&t, address, h, seed * 10 + number);
            let mut done = 0;
            while (near && far_left.load(Ordering::Relaxed) > 0) || done < OPERATIONS {
                origin.one();
                done += 1;
                assert!(!failed.load(Ordering::Relaxed), "another origin failed");
            }
            if !near {
                far_left.fetch_sub(1, Ordering::Relaxed);
            }
            let tally = std::mem::take(&mut origin.tally);
            let stats = t.stats();
            let of = |carrier| stats.operations[carrier as usize];
            let own = [Carrier::Copy, Carrier::Ring].map(|carrier| of(carrier) == stats.posted);
            let maps = number != RINGS;
            assert_eq!(own, [near && maps, near && !maps], "{number}");
            t.close().unwrap();
            tally
        }
    };
    let tallies = thread::scope(|s| {
        let others: Vec<_> = (1..=4)
            .map(|number| s.spawn(run(number, number % 2 == 0)))
            .collect();
        // The owner is also an origin, and its progress serves the others.
        let mut own = Origin::new(&t, &address, h, seed * 10);
        while origins_left.load(Ordering::Acquire) > 0 {
            if !failed.load(Ordering::Relaxed) {
                own.one();
            }
            for _ in 0..20 {
                t.progress();
            }
            thread::yield_now();
        }
        let mut tallies: Vec<_> = others.into_iter().map(|o| o.join().unwrap()).collect();
        tallies.push(own.tally);
        tallies
    });
    // SAFETY: no other thread accesses the window any longer.
    let words = unsafe { ptr::read_volatile(window.base().cast::<[u64; WORDS]>()) };
    check(words, &tallies, seed);
    drop((region, unmapped));
    t.close().unwrap();
}

/// Records that an origin has ended, even after a failure.
struct Ended<'a>(&'a AtomicU32, &'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.1.store(true, Ordering::Relaxed);
        }
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[test]
fn over_shm() {
    (1..=3).for_each(|seed| count_all("shm", seed));
}

#[test]
fn over_rxm() {
    (1..=3).for_each(|seed| count_all("tcp;ofi_rxm", seed));
}

#[test]
fn over_sockets() {
    (1..=3).for_each(|seed| count_all("sockets", seed));
}
