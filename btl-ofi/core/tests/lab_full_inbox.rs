//! An update that is not reported, made by the host's function for messages while so much waits for that function that nothing
//! more is received: the call returns nevertheless. The provider has no atomics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use btl_ofi::{Endpoint, Handle, Leaves, Receive, Transport};
use mca_params::Value;
use plugin_api::{Access, Status, ThreadLevel};

use common::{Patience, register};
use lab::group::{Shape, opened};
use lab::{Tally, child, child_role};

/// How long the child may take: without the mend it does not end.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a message that is copied where it arrives.
const SIZE: usize = 3000;
/// Refusals in a row that say that the receiver takes nothing more.
const FULL: usize = 3000;
/// Updates that are tried.
const UPDATES: u64 = 100;

/// What the function for messages needs, and what it says.
struct Gate {
    t: Transport,
    peer: NonNull<Endpoint>,
    handle: Handle,
    entered: AtomicBool,
    full: AtomicBool,
    done: AtomicBool,
    /// Updates that were taken.
    taken: AtomicU64,
}

// SAFETY: the endpoint is used by the transport only, which may be called by any thread.
unsafe impl Sync for Gate {}

unsafe extern "C" fn update(
    _: *mut plugin_api::Module,
    _: *mut plugin_api::Endpoint,
    _: u8,
    _: *const c_void,
    _: usize,
    context: *mut c_void,
) {
    // SAFETY: the context is the test's gate.
    let gate = unsafe { &*context.cast::<Gate>() };
    if gate.entered.swap(true, Ordering::Relaxed) {
        return;
    }
    while !gate.full.load(Ordering::Acquire) {
        thread::yield_now();
    }
    for _ in 0..UPDATES {
        // SAFETY: the endpoint is connected.
        let peer = unsafe { gate.peer.as_ref() };
        let (h, at) = (&gate.handle, gate.handle.base());
        if gate.t.add_unreported(peer, h, at, 1).is_none() {
            break;
        }
        gate.taken.fetch_add(1, Ordering::Relaxed);
    }
    gate.done.store(true, Ordering::Release);
}

fn try_send(t: &Transport, peer: NonNull<Endpoint>) -> Status {
    // SAFETY: the endpoint is connected, and the copy has the size that is stated.
    let sent = unsafe {
        t.send(peer, (1, SIZE, Leaves::Later), |to| {
            ptr::write_bytes(to, 1, SIZE)
        })
    };
    sent.err().unwrap_or(Status::SUCCESS)
}

#[test]
#[ignore = "a child process of other tests, which start it"]
fn updating() {
    child_role();
    let shape: Shape = vec![("ATOMICS", "0".to_owned()), ("TX_CTX", "8".to_owned())];
    // The contexts are as many as threads are numbered here: the one that delivers has another context than the first.
    let settings = [
        ("btl_ofi_mode", Value::Int(2)),
        ("btl_ofi_num_contexts_per_module", Value::Int(8)),
    ];
    let b = opened(&shape, ThreadLevel::Single, &settings);
    let t = opened(&shape, ThreadLevel::Multiple, &settings);
    t.progress();
    let mut window = vec![0u64; 1];
    let region = register(&b, &mut window, Access::all());
    let peer = t.connect(b.address(), 1).unwrap();
    let gate = Box::new(Gate {
        t,
        peer,
        handle: region.handle(),
        entered: AtomicBool::new(false),
        full: AtomicBool::new(false),
        done: AtomicBool::new(false),
        taken: AtomicU64::new(0),
    });
    let a = &gate.t;
    a.on_receive(Some(Receive {
        function: update,
        context: (&raw const *gate).cast_mut().cast(),
    }));
    let to_a = b.connect(a.address(), 0).unwrap();
    thread::scope(|s| {
        s.spawn(|| {
            while !gate.done.load(Ordering::Acquire) {
                gate.t.progress();
                thread::yield_now();
            }
        });
        let deadline = Patience::new();
        let in_time = || assert!(deadline.lasts(), "the other thread is stuck");
        assert_eq!(try_send(&b, to_a), Status::SUCCESS);
        while !gate.entered.load(Ordering::Relaxed) {
            in_time();
            b.progress();
        }
        let mut refused = 0;
        while refused < FULL {
            in_time();
            refused = match try_send(&b, to_a) {
                Status::SUCCESS => 0,
                _ => refused + 1,
            };
            b.progress();
            a.progress();
        }
        // From here on the peer answers nothing.
        gate.full.store(true, Ordering::Release);
        while !gate.done.load(Ordering::Acquire) {
            in_time();
            thread::yield_now();
        }
    });
    let taken = gate.taken.load(Ordering::Relaxed);
    assert!((2..UPDATES).contains(&taken), "{taken}");
    // What was taken is made.
    let word = ptr::with_exposed_provenance::<u64>(gate.handle.base() as usize);
    let deadline = Patience::new();
    // SAFETY: the window is live, and the target writes it in this thread.
    while unsafe { word.read_volatile() } < taken {
        assert!(deadline.lasts(), "not all updates arrive");
        a.progress();
        b.progress();
    }
    drop(region);
    let Gate { t, .. } = *gate;
    t.close().unwrap();
    b.close().unwrap();
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

#[test]
fn updates_return_while_nothing_is_received() {
    child("updating", "updating", LIMIT).insist("updates from the function for messages");
}
