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
        // SAFETY: the caller's contract is the system allocator's.
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

struct Loop<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    h: Handle,
    source: *mut c_void,
    /// The address of the results.
    buffer: *mut c_void,
}

impl Loop<'_> {
    /// One round of every operation, with and without callback.
    fn round(&self) {
        let (t, peer, h, base) = (self.t, self.peer, &self.h, self.h.base());
        let seen = Seen::default();
        for completion in [None, seen.completion()] {
            for _ in 0..50 {
                insist(t, || t.put(peer, self.source, base, h, 8, completion));
                insist(t, || t.get(peer, self.buffer, base, h, 8, completion));
                insist(t, || {
                    t.atomic_op(peer, base, h, BtlAtomicOp::Add, 1, completion)
                });
                insist(t, || {
                    let op = BtlAtomicOp::Add;
                    t.atomic_fop(peer, self.buffer, base, h, op, 1, completion)
                });
                insist(t, || {
                    t.atomic_cswap(peer, self.buffer, base, h, 0, 1, completion)
                });
            }
            assert_eq!(t.flush(None), Status::SUCCESS);
        }
    }
}

fn allocates_nothing(provider: &str) {
    let t = open(provider, ThreadLevel::Single, &[]);
    let peer = t.connect(t.address(), 0).unwrap();
    let mut window = [0u64; 8];
    let (mut source, mut buffer) = (0u64, 0u64);
    let region = register(&t, &mut window, Access::all());
    let rounds = Loop {
        t: &t,
        peer,
        h: region.handle(),
        source: (&raw mut source).cast(),
        buffer: (&raw mut buffer).cast(),
    };
    rounds.round();
    let before = ALLOCATIONS.get();
    LOOKED_FOR.set(true);
    for _ in 0..5 {
        rounds.round();
    }
    LOOKED_FOR.set(false);
    assert_eq!(
        ALLOCATIONS.get() - before,
        0,
        "{provider}: the data path allocates"
    );
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
    let mut window = [0u64; 512];
    let (mut source, mut buffer) = (0u64, [0u64; 512]);
    let region = register(&target, &mut window, Access::all());
    let rounds = Loop {
        t: &t,
        peer: t.connect(target.address(), 0).unwrap(),
        h: region.handle(),
        source: (&raw mut source).cast(),
        buffer: buffer.as_mut_ptr().cast(),
    };
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
            rounds.round();
            let (peer, h) = (rounds.peer, &rounds.h);
            let (double, sum, from) = (Datatype::Double, AtomicOp::Sum, rounds.buffer);
            for _ in 0..20 {
                insist(&t, || {
                    t.atomic_opv(peer, from, h.base(), h, double, sum, 512, None)
                });
            }
            assert_eq!(t.flush(None), Status::SUCCESS);
        };
        round();
        // The number of puts that the kernel makes depends on timing; the list of immediate completions is long
        // enough for all of them.
        let seen = Seen::default();
        let (peer, h) = (rounds.peer, &rounds.h);
        for _ in 0..500 {
            insist(&t, || {
                t.put(peer, rounds.buffer, h.base(), h, 0, seen.completion())
            });
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
