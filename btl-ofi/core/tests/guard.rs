//! Windows whose memory cannot be used as it was registered: read-only, behind the end of a truncated
//! file, unmapped. The origin gets an error; the target lives and serves. Signals that are not about
//! windows do what they did before.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
#[path = "guard/foreign.rs"]
mod foreign;
#[path = "guard/target.rs"]
mod target;

use std::ptr::{self, NonNull};

use btl_ofi::{Completion, Endpoint, Handle, Transport};
use common::Calls as _;
use common::seen::Seen;
use mca_params::Value;
use plugin_api::{AtomicOp, BtlAtomicOp, Datatype, OpFlags, Status, ThreadLevel};

use common::{insist, near, open};
use target::{BYTES, Kind, Target};

/// Sizes of puts and gets that the target is asked for: a word, half of one, what is not aligned, a page.
const SIZES: [(u64, usize); 5] = [(0, 8), (4, 4), (3, 13), (0, 4096), (5, 8000)];

#[test]
#[ignore = "a child process of other tests, which start it"]
fn target_process() {
    target::serve_as_target();
}

/// What an operation came to.
/// An origin and its target process.
struct Pair<'a> {
    t: &'a Transport,
    target: Target<'a>,
}

impl Pair<'_> {
    fn peer(&self) -> NonNull<Endpoint> {
        self.target.peer
    }

    /// Posts an operation, has the target make progress, and gives what it came to.
    fn outcome(
        &mut self,
        mut post: impl FnMut(&Transport, Option<Completion>) -> Status,
    ) -> Status {
        let told = Seen::default();
        let mut status = post(self.t, told.completion());
        while status.is_again() {
            self.t.progress();
            status = post(self.t, told.completion());
        }
        if status != Status::SUCCESS {
            return status;
        }
        // The origin makes no progress before the target did, so it takes nothing back.
        self.target.progresses();
        assert_eq!(self.t.flush(None), Status::SUCCESS);
        assert_eq!(told.all(), 1);
        told.status()
    }

    fn put(&mut self, h: &Handle, at: u64, size: usize) -> Status {
        let (peer, none) = (self.peer(), ptr::null_mut());
        let mut from = vec![7u8; size];
        let local = from.as_mut_ptr().cast();
        // SAFETY: the buffer outlives the operation.
        self.outcome(|t, told| unsafe { t.put(peer, local, h.base() + at, none, h, size, told) })
    }

    fn get(&mut self, h: &Handle, at: u64, size: usize) -> (Status, Vec<u8>) {
        let (peer, none) = (self.peer(), ptr::null_mut());
        let mut to = vec![0xeeu8; size];
        let local = to.as_mut_ptr().cast();
        // SAFETY: the buffer outlives the operation.
        let status = self
            .outcome(|t, told| unsafe { t.get(peer, local, h.base() + at, none, h, size, told) });
        (status, to)
    }

    fn add(&mut self, h: &Handle, at: u64) -> Status {
        let (peer, none, f) = (self.peer(), ptr::null_mut(), OpFlags::empty());
        let mut old = 0u64;
        let (out, op) = ((&raw mut old).cast(), BtlAtomicOp::Add);
        // SAFETY: the result outlives the operation.
        self.outcome(|t, told| unsafe {
            t.atomic_fop(peer, out, h.base() + at, none, h, op, 1, f, told)
        })
    }

    fn update(&mut self, h: &Handle, at: u64, op: BtlAtomicOp) -> Status {
        let (peer, f) = (self.peer(), OpFlags::empty());
        // SAFETY: no buffers.
        self.outcome(|t, told| unsafe { t.atomic_op(peer, h.base() + at, h, op, 1, f, told) })
    }

    /// Compares with what is not there.
    fn cswap(&mut self, h: &Handle, at: u64) -> Status {
        let (peer, none, f) = (self.peer(), ptr::null_mut(), OpFlags::empty());
        let mut old = 0u64;
        let out = (&raw mut old).cast();
        // SAFETY: the result outlives the operation.
        self.outcome(|t, told| unsafe {
            t.atomic_cswap(peer, out, h.base() + at, none, h, 99, 1, f, told)
        })
    }

    /// Adds to `count` elements of a type, or reads them.
    fn vector(&mut self, h: &Handle, at: u64, of: Datatype, op: AtomicOp, count: usize) -> Status {
        let (peer, none) = (self.peer(), ptr::null_mut());
        let ones = vec![1u8; 8 * count];
        let mut old = vec![0u8; 8 * count];
        let (from, out) = (ones.as_ptr().cast(), old.as_mut_ptr().cast());
        // SAFETY: the buffers outlive the operation.
        self.outcome(|t, told| unsafe {
            let base = h.base() + at;
            if op == AtomicOp::Read {
                t.atomic_fopv(
                    peer,
                    ptr::null(),
                    out,
                    base,
                    none,
                    none,
                    h,
                    of,
                    op,
                    count,
                    told,
                )
            } else {
                t.atomic_opv(peer, from, base, none, h, of, op, count, told)
            }
        })
    }
}

/// The whole of it, against a target with the guard or without.
fn mistakes_are_the_origins(guarded: bool) {
    let t = open(near(), ThreadLevel::Single, &[]);
    make_mistakes(&t, guarded);
    t.close().unwrap();
}

fn make_mistakes(t: &Transport, guarded: bool) {
    let target = Target::start(t, guarded);
    let mut pair = Pair { t, target };
    let good = pair.target.handle(Kind::Good);
    // Finds the ring, and makes the kernel's way known.
    assert_eq!(pair.put(&good, 0, 8), Status::SUCCESS);
    assert_eq!(pair.add(&good, 64), Status::SUCCESS);
    let mut sums = 1;
    for kind in [Kind::ReadOnly, Kind::Truncated, Kind::Unmapped] {
        let h = pair.target.handle(kind);
        let readable = kind == Kind::ReadOnly;
        for (at, size) in SIZES {
            assert_eq!(
                pair.put(&h, at, size),
                Status::PERM,
                "put of {size}, {kind:?}"
            );
            let (status, got) = pair.get(&h, at, size);
            if readable {
                assert_eq!(status, Status::SUCCESS, "get of {size}, {kind:?}");
                assert!(got.iter().all(|b| *b == 0));
            } else {
                assert_eq!(status, Status::PERM, "get of {size}, {kind:?}");
            }
        }
        assert_eq!(pair.add(&h, 8), Status::PERM, "fetch-add, {kind:?}");
        for op in [BtlAtomicOp::Add, BtlAtomicOp::Or, BtlAtomicOp::Swap] {
            assert_eq!(pair.update(&h, 8, op), Status::PERM, "{op:?}, {kind:?}");
        }
        assert_eq!(pair.cswap(&h, 8), Status::PERM, "compare-swap, {kind:?}");
        for of in [
            Datatype::Int8,
            Datatype::Uint16,
            Datatype::Float,
            Datatype::Double,
        ] {
            for op in [AtomicOp::Sum, AtomicOp::Max, AtomicOp::Write] {
                let status = pair.vector(&h, 4096 - 64, of, op, 512);
                assert_eq!(status, Status::PERM, "{op:?} of {of:?}, {kind:?}");
            }
            let status = pair.vector(&h, 4096 - 64, of, AtomicOp::Read, 512);
            let expected = if readable {
                Status::SUCCESS
            } else {
                Status::PERM
            };
            assert_eq!(status, expected, "reading {of:?}, {kind:?}");
        }
        // What is good is served as before.
        sums += 1;
        assert_eq!(pair.add(&good, 64), Status::SUCCESS);
        assert_eq!(pair.target.sees(8), sums);
        assert_eq!(pair.put(&good, 4096, 8000), Status::SUCCESS);
        let (status, got) = pair.get(&good, 4096, 8000);
        assert_eq!(status, Status::SUCCESS);
        assert!(got.iter().all(|b| *b == 7));
        for of in Datatype::ALL {
            assert_eq!(
                pair.vector(&good, 16384, *of, AtomicOp::Sum, 500),
                Status::SUCCESS
            );
        }
    }
    pair.target.end();
}

#[test]
fn mistakes_of_origins_are_theirs() {
    mistakes_are_the_origins(true);
}

/// Without signal handlers the kernel makes or checks what the target would have.
#[test]
fn mistakes_of_origins_are_theirs_without_the_guard() {
    mistakes_are_the_origins(false);
}

/// Large gets, which the target makes in part while it makes progress all the time, and the kernel.
#[test]
fn large_gets_of_bad_windows() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut target = Target::start(&t, true);
    target.runs();
    let (peer, none) = (target.peer, ptr::null_mut());
    let mut to = vec![0u8; BYTES];
    let local = to.as_mut_ptr().cast();
    for round in 0..40 {
        for kind in [
            Kind::Good,
            Kind::ReadOnly,
            Kind::Truncated,
            Kind::Unmapped,
            Kind::Half,
        ] {
            let h = target.handle(kind);
            let expected = match kind {
                Kind::Good | Kind::ReadOnly => Status::SUCCESS,
                _ => Status::PERM,
            };
            let told = Seen::default();
            // SAFETY: the buffer outlives the operation.
            let status =
                unsafe { t.get(peer, local, h.base(), none, &h, BYTES, told.completion()) };
            if status.is_ok() {
                assert_eq!(t.flush(None), Status::SUCCESS);
                assert_eq!(told.status(), expected, "{kind:?}");
            } else {
                assert_eq!(status, expected, "{kind:?}");
            }
            let mut old = 0u64;
            let (good, out) = (target.handle(Kind::Good), (&raw mut old).cast());
            let (add, f) = (BtlAtomicOp::Add, OpFlags::empty());
            // SAFETY: the result outlives the flush.
            insist(&t, || unsafe {
                t.atomic_fop(peer, out, good.base() + 64, none, &good, add, 1, f, None)
            });
            assert_eq!(t.flush(None), Status::SUCCESS);
            assert!(old < 5 * (round + 1));
        }
    }
    target.end();
    t.close().unwrap();
}

/// Reaches into windows of all kinds, as origin and target.
fn reach_bad_windows_of_this_process(t: &Transport, atomics: bool) -> target::Windows {
    let windows = target::Windows::new(t);
    windows.spoil();
    let peer = t.connect(t.address(), 0).unwrap();
    let none = ptr::null_mut();
    let mut word = 5u64;
    let local = (&raw mut word).cast();
    let (add, f) = (BtlAtomicOp::Add, OpFlags::empty());
    for kind in Kind::ALL {
        let h = windows.handle(kind);
        let expected = match kind {
            Kind::Good | Kind::Half => Status::SUCCESS,
            _ => Status::PERM,
        };
        // SAFETY: the word outlives the operations.
        unsafe {
            let put = t.put(peer, local, h.base(), none, &h, 8, None);
            assert_eq!(put, expected, "put, {kind:?}");
            if atomics {
                let added = t.atomic_fop(peer, local, h.base(), none, &h, add, 1, f, None);
                assert_eq!(added, expected, "fetch-add, {kind:?}");
            }
            let got = t.get(peer, local, h.base(), none, &h, 8, None);
            let readable = expected.is_ok() || kind == Kind::ReadOnly;
            assert_eq!(got.is_ok(), readable, "get, {kind:?}");
        }
        word = 5;
    }
    assert_eq!(word, 5);
    let (h, bad) = (windows.handle(Kind::Good), target::unusable());
    // SAFETY: a buffer that cannot be used, which is told.
    unsafe {
        let put = t.put(peer, bad, h.base(), none, &h, 8, None);
        assert_eq!(put, Status::BAD_PARAM, "the caller's own buffer");
        let got = t.get(peer, bad, h.base(), none, &h, 8, None);
        assert_eq!(got, Status::BAD_PARAM, "the caller's own buffer");
    }
    // SAFETY: connected once.
    assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
    windows
}

/// A process that reaches into itself, and is both: over shm, and over a provider for which the transport
/// copies itself.
#[test]
fn a_process_and_itself() {
    for guarded in [true, false] {
        let values = [("btl_ofi_fault_guard", Value::Bool(guarded))];
        let t = open(near(), ThreadLevel::Single, &values);
        drop(reach_bad_windows_of_this_process(&t, true));
        t.close().unwrap();
    }
    let t = open("udp;ofi_rxd", ThreadLevel::Single, &[]);
    drop(reach_bad_windows_of_this_process(&t, false));
    t.close().unwrap();
}

/// A buffer of the origin that cannot be used is the origin's mistake, and told as one.
#[test]
fn bad_buffers_are_the_callers() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let target = Target::start(&t, true);
    let good = target.handle(Kind::Good);
    let (peer, none, bad) = (target.peer, ptr::null_mut(), target::unusable());
    // Larger than what goes through the ring.
    let size = 64 * 1024;
    // SAFETY: not readable, which the kernel tells of.
    let put = unsafe { t.put(peer, bad, good.base(), none, &good, size, None) };
    assert_eq!(put, Status::BAD_PARAM);
    let mut word = [3u8; 65536];
    let h = target.handle(Kind::Unmapped);
    // SAFETY: readable; the other side is not writable.
    let put = unsafe {
        t.put(
            peer,
            word.as_mut_ptr().cast(),
            h.base(),
            none,
            &h,
            size,
            None,
        )
    };
    assert_eq!(put, Status::PERM);
    target.end();
    t.close().unwrap();
}

/// The ways of one node are the same under a provider between nodes.
#[test]
fn the_same_over_rxm() {
    common::again_over("tcp;ofi_rxm");
}
