//! The data path allocates nothing. The global allocator counts allocations, over each real provider.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;

use lab::prelude::*;

thread_local! {
    /// The number of allocations of this thread; allocations of other threads do not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Whether the next allocation prints its location.
    static LOOKED_FOR: Cell<bool> = const { Cell::new(false) };
}

/// Counts an allocation.
fn count() {
    let _ = ALLOCATIONS.try_with(|a| a.set(a.get() + 1));
    if LOOKED_FOR.try_with(|l| l.replace(false)).unwrap_or(false) {
        eprintln!("allocated {}", Backtrace::force_capture());
    }
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `pointer` came from this allocator, so from the system's, with `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees that `pointer` came from this allocator, so from the system's, with `layout`,
        // and that `size` is neither zero nor too large.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// One round of every operation, with and without callback.
fn round(there: There<'_>) {
    let (seen, source, mut word) = (Seen::default(), [0u64], [0u64]);
    let There { t, peer, h, base } = there;
    for done in [None, seen.completion()] {
        for _ in 0..50 {
            there.insist(|there| there.put(0, &source, done));
            there.insist(|there| there.get(0, &mut word, done));
            there.insist(|there| there.add(0, done));
            there.insist(|there| there.fetch_add(0, &mut word[0], done));
            let result = word.as_mut_ptr().cast();
            insist(t, || t.atomic_cswap(peer, result, base, &h, 0, 1, done));
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
    }
}

fn allocates_nothing(provider: &str) {
    let own = Own::new(open(provider, ThreadLevel::Single, &[]), 8);
    round(own.there());
    let before = ALLOCATIONS.get();
    LOOKED_FOR.set(true);
    for _ in 0..5 {
        round(own.there());
    }
    LOOKED_FOR.set(false);
    assert_eq!(
        ALLOCATIONS.get() - before,
        0,
        "{provider}: the data path allocates"
    );
    own.close();
}

#[test]
fn shm() {
    allocates_nothing("shm");
}

/// Time between two checks of the peers.
const CHECKED_EACH: Duration = Duration::from_millis(300);

/// Atomics between two transports go through a ring; neither side allocates.
#[test]
fn shm_between_two() {
    let often = (
        "btl_ofi_peer_check_interval",
        Value::Unsigned(CHECKED_EACH.as_millis() as u64),
    );
    let t = open("shm", ThreadLevel::Single, std::slice::from_ref(&often));
    let target = open("shm", ThreadLevel::Single, &[often]);
    let (mut window, buffer) = ([0u64; 512], [0u64; 512]);
    let region = register(&target, &mut window, Access::all());
    let there = There::of(&t, 0, &target, &region);
    let (measured, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|s| {
        let attending = s.spawn(|| {
            let mut before = None;
            while !stop.load(Ordering::Relaxed) {
                target.progress();
                std::thread::yield_now();
                if measured.load(Ordering::Relaxed) {
                    before = before.or(Some(ALLOCATIONS.get()));
                }
            }
            before.map(|b| ALLOCATIONS.get() - b)
        });
        let round = || {
            round(there);
            let There { t, peer, h, base } = there;
            let (double, sum, from) = (Datatype::Double, AtomicOp::Sum, buffer.as_ptr().cast());
            for _ in 0..20 {
                insist(t, || {
                    t.atomic_opv(peer, from, base, &h, double, sum, 512, None)
                });
            }
            assert_eq!(t.flush(None), Status::SUCCESS);
        };
        round();
        // The number of puts that the kernel makes depends on timing; the list of immediate completions is long
        // enough for all of them.
        let seen = Seen::default();
        for _ in 0..500 {
            there.insist(|there| there.put(0, &buffer[..0], seen.completion()));
        }
        round();
        // The peers are checked during the measurement, mostly for the first time.
        std::thread::sleep(CHECKED_EACH);
        measured.store(true, Ordering::Relaxed);
        let before = ALLOCATIONS.get();
        for _ in 0..5 {
            round();
        }
        let here = ALLOCATIONS.get() - before;
        stop.store(true, Ordering::Relaxed);
        let there = attending.join().unwrap();
        assert_eq!((here, there), (0, Some(0)), "the data path allocates");
    });
    region.close().unwrap();
}

#[test]
fn tcp_rxm() {
    allocates_nothing("tcp;ofi_rxm");
}

#[test]
fn sockets() {
    allocates_nothing("sockets");
}

/// Reads confirm the puts. The provider is a library with an allocator of its own.
#[test]
fn lab_by_order() {
    alone(|| {
        shape(&[("CONFIRMS", "0"), ("READ_ORDER", "1")]);
        allocates_nothing("lab");
    });
}
