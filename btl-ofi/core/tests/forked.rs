//! Children of fork: each call on a transport of the parent returns an error at once, whichever thread of the parent was inside
//! a call. The parent's connections still work, and a child may open its own transport.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use btl_ofi::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::PoisonError;

use common::prelude::*;

/// One test at a time holds this lock, because a child has copies of locks that other threads held inside libfabric, and would
/// wait for ever on them.
static ALONE: Mutex<()> = Mutex::new(());

const PROVIDERS: [&str; 4] = ["tcp;ofi_rxm", "net", "sockets", "shm"];
/// The time in seconds after which a hanging child is killed.
const PATIENCE: u32 = 60;
const LEVELS: [ThreadLevel; 2] = [ThreadLevel::Single, ThreadLevel::Multiple];

/// Forks. The child runs `child`; the parent runs `parent` until the child has ended, and fails if the child failed.
fn forked(child: impl FnOnce(), mut parent: impl FnMut()) {
    // SAFETY: the C library permits allocations in a child of a process with several threads, and the remaining code takes
    // no lock of another thread. The child ends here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: the argument is a number.
        unsafe { libc::alarm(PATIENCE) };
        let done = catch_unwind(AssertUnwindSafe(child));
        // SAFETY: `_exit` runs none of the parent's exit handlers.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let mut status = -1;
    loop {
        // SAFETY: the process is this test's child.
        match unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } {
            0 => parent(),
            ended => {
                assert_eq!((ended, status), (pid, 0), "the child failed or hung");
                return;
            }
        }
    }
}

/// An origin and a target in this process, with a window of two words.
struct Pair {
    origin: Transport,
    target: Transport,
    peer: NonNull<Endpoint>,
    region: Region,
    window: Box<[u64; 2]>,
}

impl Pair {
    fn open(provider: &str, level: ThreadLevel, same_node: &(&'static str, Value)) -> Pair {
        let wanted = [same_node.clone(), ("btl_ofi_mode", Value::Int(2))];
        let (origin, target) = (
            open(provider, level, &wanted),
            open(provider, level, &wanted),
        );
        let mut window = Box::new([0; 2]);
        let region = register(&target, &mut *window, Access::all());
        let peer = origin.connect(target.address(), 1).unwrap();
        Pair {
            origin,
            target,
            peer,
            region,
            window,
        }
    }

    fn handle(&self) -> Handle {
        self.region.handle()
    }

    /// Puts a word, fetches it by an atomic, and gets it.
    fn exchange(&mut self, value: u64) {
        let there = There::new(&self.origin, self.peer, self.handle());
        let (mut words, patience) = ([value, 0, 0], Patience::new());
        for (step, word) in words.iter_mut().enumerate() {
            let seen = Seen::default();
            let done = seen.completion();
            loop {
                let posted = match step {
                    0 => there.put(0, slice::from_ref(word), done),
                    1 => there.fetch_add(0, word, done),
                    _ => there.get(0, slice::from_mut(word), done),
                };
                if !posted.is_again() {
                    assert!(posted.is_ok(), "step {step}: {posted}");
                    break;
                }
                self.progress();
                assert!(patience.lasts(), "no room");
            }
            while seen.all() == 0 {
                self.progress();
                assert!(patience.lasts(), "step {step} does not end");
            }
            assert_eq!(seen.both(), (1, 0), "step {step}");
        }
        assert_eq!(words, [value, value, value + 1]);
        assert_eq!(self.window[0], value + 1);
    }

    fn progress(&self) {
        self.origin.progress();
        self.target.progress();
    }

    fn close(self) {
        self.region.close().unwrap();
        self.origin.close().unwrap();
        self.target.close().unwrap();
    }
}

/// Makes every call that a child may try on its copy of a transport.
fn try_all(pair: Pair) {
    let Pair {
        origin: t,
        target,
        peer,
        region,
        mut window,
    } = pair;
    let (h, pid) = (region.handle(), std::os::unix::process::parent_id());
    let forked = |e: &Error| {
        assert!(matches!(e, Error::Forked { owner } if *owner == pid), "{e}");
        assert!(e.to_string().contains("a child of fork"), "{e}");
    };
    for size in [0usize, 8, 16, 4096, 65536, 1 << 20] {
        let mut words = vec![0u64; size.div_ceil(8)];
        let local = words.as_mut_ptr().cast();
        let put = t.put(peer, local, h.base(), &h, size.min(16), None);
        let get = t.get(peer, local, h.base(), &h, size.min(16), None);
        assert_eq!((put, get), (Status::FATAL, Status::FATAL), "{size}");
        // SAFETY: no operation is posted.
        let sent = unsafe { t.send(peer, (1, size.min(64), Leaves::Later), |_| ()) };
        assert_eq!(sent.err(), Some(Status::FATAL), "{size}");
    }
    let mut word = 1u64;
    let local: *mut std::ffi::c_void = (&raw mut word).cast();
    let none = ptr::null_mut();
    // SAFETY: the word outlives the calls, which post no operation.
    unsafe {
        let add = BtlAtomicOp::Add;
        let statuses = [
            t.atomic_op(peer, h.base(), &h, add, 1, None),
            t.atomic_fop(peer, local, h.base(), &h, add, 1, None),
            t.atomic_cswap(peer, local, h.base(), &h, 0, 1, None),
            {
                let op = Op::put(&h, h.base(), (local, none), 8);
                let (counter, address, add) = (&h, h.base() + 8, 1);
                let notice = Notice {
                    counter,
                    address,
                    add,
                };
                t.put_notify(peer, &op, &notice)
            },
            t.flush(Some(peer.as_ref())),
            t.flush(None),
            target.flush(None),
            t.disconnect(peer),
        ];
        assert_eq!(statuses, [Status::FATAL; 8]);
    }
    for _ in 0..5000 {
        assert_eq!((t.progress(), target.progress()), (0, 0));
    }
    assert!(!t.send_gathered());
    t.send_now();
    t.stats();
    forked(&t.connect(target.address(), 1).unwrap_err());
    let base = window.as_mut_ptr().cast();
    // SAFETY: no memory is registered.
    forked(
        &unsafe { t.register(base, 16, Access::all()) }
            .err()
            .unwrap(),
    );
    assert!(target.own_handle(h.base(), 8).is_none());
    t.progress_until(|| false);
    t.flush_for_close();
    forked(&region.close().unwrap_err());
    forked(&t.close().unwrap_err());
    // The drop is the same as in a program that unwinds.
    drop(target);
}

#[test]
fn a_child_gets_errors_and_the_parent_goes_on() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for provider in PROVIDERS {
        for level in LEVELS {
            for same_node in [SAME_NODE, SAME_NODE_OFF] {
                println!("{provider}, {level:?}, {same_node:?}");
                let mut pair = Pair::open(provider, level, &same_node);
                pair.exchange(1);
                let polls = pair.origin.stats().polls;
                let at = &raw const pair;
                // SAFETY: the child has its own copy of the pair, and uses it once.
                let copy = || unsafe { at.read() };
                forked(|| try_all(copy()), || ());
                assert_eq!(pair.origin.stats().polls, polls, "the child counted for it");
                for value in 2..50 {
                    pair.exchange(value);
                }
                // Some children only exit, which runs libfabric's exit code; other children only drop their
                // copy. SAFETY: the exit of a child does no harm to the test harness.
                forked(|| unsafe { libc::exit(0) }, || ());
                forked(|| drop(copy()), || ());
                pair.exchange(100);
                pair.close();
            }
        }
    }
}

/// Threads of the parent may hold the locks of contexts and peers at any time.
#[test]
fn a_child_does_not_wait_for_threads_of_its_parent() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (provider, same_node) in [("tcp;ofi_rxm", SAME_NODE_OFF), ("shm", SAME_NODE)] {
        let mut pair = Pair::open(provider, ThreadLevel::Multiple, &same_node);
        pair.exchange(1);
        let over = AtomicBool::new(false);
        let (target, address) = (&pair.target, pair.target.address());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        target.progress();
                    }
                });
            }
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let peer = target.connect(address, 7).unwrap();
                    // SAFETY: the peer was connected just now.
                    unsafe { target.disconnect(peer) };
                    thread::yield_now();
                }
            });
            let known = target.connect(address, 8).unwrap();
            for _ in 0..200 {
                let child = || {
                    let word = AtomicU64::new(0);
                    let (h, local) = (pair.region.handle(), word.as_ptr().cast());
                    let got = target.get(known, local, h.base(), &h, 8, None);
                    assert_eq!(got, Status::FATAL);
                    assert_eq!(target.progress(), 0);
                    // SAFETY: the peer was connected above.
                    let flushed = target.flush(Some(unsafe { known.as_ref() }));
                    assert_eq!(
                        (flushed, target.flush(None)),
                        (Status::FATAL, Status::FATAL)
                    );
                    assert!(target.connect(address, 9).is_err());
                };
                forked(child, thread::yield_now);
            }
            over.store(true, Ordering::Relaxed);
        });
        pair.exchange(2);
        pair.close();
    }
}

#[test]
fn a_child_opens_a_transport_of_its_own() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for provider in PROVIDERS {
        for same_node in [SAME_NODE, SAME_NODE_OFF] {
            println!("{provider}, {same_node:?}");
            let mut pair = Pair::open(provider, ThreadLevel::Single, &same_node);
            pair.exchange(1);
            let (address, h) = (pair.target.address().to_vec(), pair.handle());
            let child = || {
                let wanted = [same_node.clone(), ("btl_ofi_mode", Value::Int(2))];
                let t = open(provider, ThreadLevel::Single, &wanted);
                let peer = t.connect(&address, 1).unwrap();
                let word = 77u64;
                let local = (&raw const word).cast_mut().cast();
                common::insist(&t, || t.put(peer, local, h.base() + 8, &h, 8, None));
                // SAFETY: the peer was connected above.
                assert_eq!(t.flush(Some(unsafe { peer.as_ref() })), Status::SUCCESS);
                assert_eq!(t.flush(None), Status::SUCCESS);
                t.close().unwrap();
            };
            forked(child, || pair.progress());
            assert_eq!(pair.window[1], 77);
            pair.exchange(2);
            pair.close();
        }
    }
}
