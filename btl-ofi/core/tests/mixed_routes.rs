//! One window, reached by every route at once: its owner's own atomics, neighbours' rings, and the provider. Each
//! operation is atomic with respect to all others, which the results show by counting.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use btl_ofi::{Endpoint, Handle, Transport};
use common::Calls as _;
use mca_params::Value;
use plugin_api::{Access, AtomicOp, BtlAtomicOp, Datatype, OpFlags, Status, ThreadLevel};

use common::reference::Numbers;
use common::{PATIENCE, SAME_NODE, SAME_NODE_OFF, open, register};

/// Words of the window, by what is done to them.
const COUNTED: u64 = 0;
const SWAPPED: u64 = 1;
const XORED: u64 = 2;
const SUMMED: u64 = 3;
const HALVES: u64 = 4;
const WORDS: usize = 5;

/// Operations of an origin that goes through the provider; the others go on for as long.
const OPERATIONS: usize = 400;

/// What one origin has done.
#[derive(Default)]
struct Tally {
    fetched: Vec<u64>,
    swapped: u64,
    xored: u64,
    summed: f64,
    halves: [u32; 2],
}

struct Origin<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    h: Handle,
    numbers: Numbers,
    tally: Tally,
}

impl<'a> Origin<'a> {
    fn new(t: &'a Transport, address: &[u8], h: Handle, seed: u64) -> Origin<'a> {
        Origin {
            t,
            peer: t.connect(address, 0).unwrap(),
            h,
            numbers: Numbers(seed),
            tally: Tally::default(),
        }
    }

    /// Posts until it is taken, and waits until it is complete.
    fn complete(&self, mut post: impl FnMut(&Transport) -> Status) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = post(self.t);
            if status == Status::SUCCESS {
                break;
            }
            assert!(status.is_again(), "{status}");
            assert!(Instant::now() < deadline, "nothing is taken");
            self.t.progress();
            thread::yield_now();
        }
        assert_eq!(self.t.flush(None), Status::SUCCESS);
    }

    fn one(&mut self) {
        let (peer, h, none, f) = (self.peer, self.h, ptr::null_mut(), OpFlags::empty());
        let at = |word| h.base() + 8 * word;
        let mut old = 0u64;
        let out: *mut c_void = (&raw mut old).cast();
        match self.numbers.below(5) {
            0 => {
                let op = BtlAtomicOp::Add;
                // SAFETY: operands and results outlive the flush in `complete`.
                self.complete(|t| unsafe {
                    t.atomic_fop(peer, out, at(COUNTED), none, &h, op, 1, f, None)
                });
                self.tally.fetched.push(old);
            }
            1 => {
                let mut expected = 0;
                loop {
                    let wanted = expected + 1;
                    // SAFETY: operands and results outlive the flush in `complete`.
                    self.complete(|t| unsafe {
                        t.atomic_cswap(peer, out, at(SWAPPED), none, &h, expected, wanted, f, None)
                    });
                    if old == expected {
                        break;
                    }
                    expected = old;
                }
                self.tally.swapped += 1;
            }
            2 => {
                let value = (self.numbers.below(1 << 20) as u64) << 13;
                let op = BtlAtomicOp::Xor;
                // SAFETY: operands and results outlive the flush in `complete`.
                self.complete(|t| unsafe { t.atomic_op(peer, at(XORED), &h, op, value, f, None) });
                self.tally.xored ^= value;
            }
            3 => {
                // Small whole numbers add up exactly.
                let value = self.numbers.below(100) as f64;
                let (d, op, from) = (Datatype::Double, AtomicOp::Sum, (&raw const value).cast());
                // SAFETY: operands and results outlive the flush in `complete`.
                self.complete(|t| unsafe {
                    t.atomic_opv(peer, from, at(SUMMED), none, &h, d, op, 1, None)
                });
                self.tally.summed += value;
            }
            _ => {
                let value = [self.numbers.below(9) as u32, self.numbers.below(9) as u32];
                let (d, op, from) = (Datatype::Uint32, AtomicOp::Sum, value.as_ptr().cast());
                let mut into = [0u32; 2];
                let into: *mut c_void = into.as_mut_ptr().cast();
                // SAFETY: operands and results outlive the flush in `complete`.
                self.complete(|t| unsafe {
                    t.atomic_fopv(peer, from, into, at(HALVES), none, none, &h, d, op, 2, None)
                });
                for (sum, value) in self.tally.halves.iter_mut().zip(value) {
                    *sum += value;
                }
            }
        }
    }
}

fn count_all(provider: &'static str, seed: u64) {
    // SAFETY: before any thread of this test starts; all tests of the process set equal values.
    unsafe { std::env::set_var("FI_SOCKETS_PE_WAITTIME", "0") };
    let t = open(provider, ThreadLevel::Single, &[SAME_NODE]);
    let mut window = vec![0u64; WORDS];
    let region = register(&t, &mut window, Access::all());
    let (h, address) = (region.handle(), t.address().to_vec());
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
            t.close().unwrap();
            tally
        }
    };
    let tallies = thread::scope(|s| {
        let others: Vec<_> = (1..=4)
            .map(|number| s.spawn(run(number, number % 2 == 0)))
            .collect();
        // The owner itself, whose progress serves the others.
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
    // SAFETY: nobody else accesses the window any more.
    let word = |n: u64| unsafe { ptr::read_volatile(window.as_ptr().add(n as usize)) };
    let fetched: Vec<u64> = tallies.iter().flat_map(|t| t.fetched.clone()).collect();
    assert_eq!(word(COUNTED), fetched.len() as u64, "seed {seed}");
    let distinct: HashSet<u64> = fetched.iter().copied().collect();
    assert_eq!(distinct.len(), fetched.len(), "seed {seed}");
    let swapped = tallies.iter().map(|t| t.swapped).sum::<u64>();
    assert_eq!(word(SWAPPED), swapped, "seed {seed}");
    let xored = tallies.iter().fold(0, |all, t| all ^ t.xored);
    assert_eq!(word(XORED), xored, "seed {seed}");
    let summed = tallies.iter().map(|t| t.summed).sum::<f64>();
    assert_eq!(f64::from_bits(word(SUMMED)), summed, "seed {seed}");
    let halves = [0, 1].map(|n| tallies.iter().map(|t| t.halves[n]).sum::<u32>());
    let seen = word(HALVES).to_ne_bytes();
    let (low, high) = seen.split_at(4);
    let seen = [low, high].map(|half| u32::from_ne_bytes(half.try_into().unwrap()));
    assert_eq!(seen, halves, "seed {seed}");
    drop(region);
    t.close().unwrap();
}

/// Says that an origin has ended, also when it fails.
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
fn over_rxd() {
    (1..=3).for_each(|seed| count_all("udp;ofi_rxd", seed));
}

#[test]
fn over_sockets() {
    (1..=3).for_each(|seed| count_all("sockets", seed));
}
