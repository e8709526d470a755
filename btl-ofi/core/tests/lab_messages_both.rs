//! Messages between transports of one process: origin and target at once, with little room; callbacks that post; peers that
//! take nothing, or are released before they answered. The provider has no atomics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use btl_ofi::{Completion, Endpoint, Handle, Transport};
use mca_params::Value;
use plugin_api::{Access, BtlAtomicOp, Module, OpFlags, Status, ThreadLevel};

use common::attending::attended;
use common::{Calls as _, insist, register, tell};
use lab::group::{Shape, opened};
use lab::{Tally, child, child_role, violations};

const LIMIT: Duration = Duration::from_secs(120);

fn shape(rx_size: &str, faults: &str) -> Shape {
    vec![
        ("ATOMICS", "0".to_owned()),
        ("SEND_ORDER", "0".to_owned()),
        ("RX_SIZE", rx_size.to_owned()),
        ("TX_SIZE", "2".to_owned()),
        ("FAULTS", faults.to_owned()),
    ]
}

fn add(t: &Transport, peer: NonNull<Endpoint>, h: &Handle, done: Option<Completion>) -> Status {
    let (sum, f) = (BtlAtomicOp::Add, OpFlags::empty());
    // SAFETY: the endpoint is connected.
    unsafe { t.atomic_op(peer, h.base(), h, sum, 1, f, done) }
}

fn told(status: &AtomicI32, count: &AtomicU32) -> Option<Completion> {
    Some(Completion {
        function: tell,
        context: ptr::from_ref(status).cast_mut().cast(),
        data: ptr::from_ref(count).cast_mut().cast(),
    })
}

fn tally(runs: u64, checked: u64) {
    let tally = Tally {
        run: runs,
        checked,
        ..Tally::default()
    };
    tally.tell();
}

/// Two transports post to each other as fast as they can, with room for one message each.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn mutual() {
    child_role();
    const MANY: u64 = 4000;
    let scripts = [
        "",
        "seed=2,again=300,burst=9,sendagain=2,recvagain=2,delay=9,reorder=1",
    ];
    for (rx_size, script) in [("1", scripts[0]), ("1", scripts[1]), ("2", scripts[1])] {
        println!("@at {rx_size} {script}");
        let one = [("btl_ofi_rd_num", Value::Int(1))];
        let shape = shape(rx_size, script);
        let all = [(); 2].map(|()| opened(&shape, ThreadLevel::Single, &one));
        let mut windows = [[0u64; 1]; 2];
        let [first, second] = &mut windows;
        let regions = [
            register(&all[0], first, Access::all()),
            register(&all[1], second, Access::all()),
        ];
        let handles = [regions[0].handle(), regions[1].handle()];
        let done = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for own in 0..2 {
                let (t, other, h, done) = (&all[own], &all[1 - own], handles[1 - own], &done);
                s.spawn(move || {
                    let peer = t.connect(other.address(), 1).unwrap();
                    let (status, count) = (AtomicI32::new(0), AtomicU32::new(0));
                    for i in 0..MANY {
                        let callback = (i % 3 == 0).then(|| told(&status, &count)).flatten();
                        insist(t, || add(t, peer, &h, callback));
                    }
                    assert_eq!(t.flush(None), Status::SUCCESS);
                    assert_eq!(count.load(Ordering::Relaxed), MANY.div_ceil(3) as u32);
                    assert_eq!(status.load(Ordering::Relaxed), 0);
                    done.fetch_add(1, Ordering::Relaxed);
                    while done.load(Ordering::Relaxed) < 2 {
                        t.progress();
                        std::thread::yield_now();
                    }
                });
            }
        });
        drop(regions);
        let [a, b] = all;
        std::thread::scope(|s| {
            // Each may wait for the other to take its last answers.
            s.spawn(|| a.close().unwrap());
            b.close().unwrap();
        });
        assert_eq!(windows, [[MANY], [MANY]]);
    }
    tally(3, 6 * MANY);
}

#[test]
fn both_sides_with_little_room() {
    child("mutual", "mutual", LIMIT).insist("two that post to each other");
}

/// Data of a callback that posts.
struct Chain {
    t: *const Transport,
    peer: NonNull<Endpoint>,
    handle: Handle,
    left: Cell<u32>,
    good: Cell<u32>,
    bad: Cell<u32>,
}

unsafe extern "C" fn next(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    // SAFETY: the test's chain and transport outlive the operations, and one thread uses them.
    let (chain, t) = unsafe {
        let chain = &*context.cast::<Chain>();
        (chain, &*chain.t)
    };
    let count = if status == 0 { &chain.good } else { &chain.bad };
    count.set(count.get() + 1);
    if chain.left.get() == 0 {
        return;
    }
    chain.left.set(chain.left.get() - 1);
    let posted = add(t, chain.peer, &chain.handle, chain.done());
    if posted != Status::SUCCESS {
        assert!(posted.is_again() || status != 0, "{posted}");
        chain.left.set(chain.left.get() + 1);
    }
}

impl Chain {
    fn done(&self) -> Option<Completion> {
        Some(Completion {
            function: next,
            context: ptr::from_ref(self).cast_mut().cast(),
            data: ptr::null_mut(),
        })
    }
}

/// Callbacks post as many operations again as they complete, of living peers and of one that fails meanwhile.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn chained() {
    child_role();
    for script in ["seed=4,delay=3,reorder=1", "seed=4,nth=5,delay=3"] {
        println!("@at {script}");
        let a = opened(&shape("2", script), ThreadLevel::Single, &[]);
        let b = opened(&shape("2", ""), ThreadLevel::Single, &[]);
        let mut window = [0u64; 1];
        let region = register(&b, &mut window, Access::all());
        let handle = region.handle();
        let peer = a.connect(b.address(), 1).unwrap();
        let chain = Chain {
            t: &a,
            peer,
            handle,
            left: Cell::new(20_000),
            good: Cell::new(0),
            bad: Cell::new(0),
        };
        let fails = script.contains("nth");
        let mut begun = 0;
        let serving = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|s| {
            s.spawn(|| {
                while serving.load(Ordering::Relaxed) {
                    b.progress();
                    std::thread::yield_now();
                }
            });
            for _ in 0..3000 {
                let status = add(&a, peer, &handle, chain.done());
                begun += u32::from(status == Status::SUCCESS);
                assert!(
                    status == Status::SUCCESS || status.is_again() || fails,
                    "{status}"
                );
            }
            let mut status = a.flush(None);
            while status == Status::SUCCESS && a.stats().posted != a.stats().completed {
                status = a.flush(None);
            }
            assert_eq!(status == Status::UNREACH, fails, "{status}");
            serving.store(false, Ordering::Relaxed);
        });
        let posted = begun + 20_000 - chain.left.get();
        assert_eq!(chain.good.get() + chain.bad.get(), posted);
        assert_eq!(chain.bad.get() > 0, fails);
        a.close().unwrap();
        drop(region);
        b.close().unwrap();
        assert!(window[0] >= u64::from(chain.good.get()));
    }
    tally(2, 40_000);
}

#[test]
fn callbacks_post() {
    child("chained", "chained", LIMIT).insist("callbacks that post");
}

/// A peer that knows this process, or not, is released while it does not answer: what it owes is reported, and its late
/// answers do no harm, nor those that it still has to send. Then it is connected again.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn released() {
    let known = child_role() == "known";
    let a = opened(&shape("256", "seed=1"), ThreadLevel::Single, &[]);
    let late = shape("256", "seed=1,sendagain=2,burst=300,again=500");
    let b = opened(&late, ThreadLevel::Single, &[]);
    let mut window = [0u64; 1];
    let region = register(&b, &mut window, Access::all());
    let handle = region.handle();
    let peer = a.connect(b.address(), 1).unwrap();
    if known {
        insist(&a, || add(&a, peer, &handle, None));
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
    }
    let (status, count) = (AtomicI32::new(0), AtomicU32::new(0));
    let mut posted = 0;
    while add(&a, peer, &handle, told(&status, &count)) == Status::SUCCESS {
        posted += 1;
    }
    // SAFETY: connected once.
    assert_eq!(unsafe { a.disconnect(peer) }, Status::TIMEOUT);
    assert_eq!(count.load(Ordering::Relaxed), posted);
    assert_eq!(Status(status.load(Ordering::Relaxed)), Status::TIMEOUT);
    let stats = a.stats();
    assert_eq!(stats.posted, stats.completed + stats.failed, "{stats:?}");
    attended(&b, || {
        for _ in 0..3000 {
            a.progress();
        }
    });
    // The next line finds the target as it was.
    let peer = a.connect(b.address(), 1).unwrap();
    attended(&b, || {
        for _ in 0..100 {
            insist(&a, || add(&a, peer, &handle, None));
        }
        // A release waits some seconds only, in which a busy machine may not come round to the target.
        // SAFETY: connected.
        let flushed = a.flush(Some(unsafe { peer.as_ref() }));
        assert_eq!(flushed, Status::SUCCESS);
        // SAFETY: connected once.
        assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
    });
    assert_eq!(count.load(Ordering::Relaxed), posted, "nothing comes later");
    drop(region);
    b.close().unwrap();
    a.close().unwrap();
    assert_eq!(violations(), "");
    tally(1, 100 + u64::from(posted));
}

#[test]
fn peers_are_released_unanswered() {
    // Releasing waits for some seconds.
    std::thread::scope(|s| {
        let both = ["known", "unknown"].map(|role| s.spawn(|| child("released", role, LIMIT)));
        for one in both {
            one.join().unwrap().insist("released peers");
        }
    });
}

/// A target that takes nothing leaves the provider's queue to others, however often it is asked whether it lives.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn asked() {
    child_role();
    let mut room = shape("2", "");
    // A question of each line below fits, and a batch for somebody else.
    room.push(("TX_SIZE", "4".to_owned()));
    let a = opened(&room, ThreadLevel::Single, &[]);
    let [b, c] = [(); 2].map(|()| opened(&shape("2", ""), ThreadLevel::Single, &[]));
    let mut windows = [[0u64; 1]; 2];
    let [of_b, of_c] = &mut windows;
    let regions = [(&b, of_b), (&c, of_c)].map(|(t, w)| register(t, w, Access::all()));
    let [to_b, to_c] = [0, 1].map(|i: usize| regions[i].handle());
    let lines = [1, 2, 3].map(|proc| a.connect(b.address(), proc).unwrap());
    let other = a.connect(c.address(), 4).unwrap();
    attended(&b, || {
        for peer in lines {
            insist(&a, || add(&a, peer, &to_b, None));
        }
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    let mut posted = 3;
    // The batches of these lines fill most of the target's mailbox. Every 4096th refusal asks.
    for i in 0..80 * 4096 {
        posted += u64::from(add(&a, lines[i % 3], &to_b, None) == Status::SUCCESS);
    }
    attended(&c, || {
        for _ in 0..100 {
            insist(&a, || add(&a, other, &to_c, None));
        }
        // SAFETY: connected until the transport closes.
        let one = unsafe { other.as_ref() };
        assert_eq!(a.flush(Some(one)), Status::SUCCESS);
    });
    attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
    drop(regions);
    a.close().unwrap();
    b.close().unwrap();
    c.close().unwrap();
    assert_eq!(windows, [[posted], [100]]);
    tally(1, posted + 100);
}

#[test]
fn a_silent_peer_starves_nobody() {
    child("asked", "asked", LIMIT).insist("a peer that is asked often");
}

/// A target that takes nothing: a bounded number of operations is taken, before it knows this process and after.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn full() {
    child_role();
    let mut total = 0;
    for receives in ["1", "2", "256"] {
        println!("@at {receives}");
        let one = [("btl_ofi_rd_num", Value::Int(1))];
        let [a, b] = [(); 2].map(|()| opened(&shape(receives, ""), ThreadLevel::Single, &one));
        let mut window = [0u64; 1];
        let region = register(&b, &mut window, Access::all());
        let (peer, h) = (a.connect(b.address(), 1).unwrap(), region.handle());
        let before = total;
        for most in [5_000, 12_000] {
            let mut taken = 0;
            for _ in 0..3 * most {
                match add(&a, peer, &h, None) {
                    Status::SUCCESS => taken += 1,
                    status => assert_eq!(status, Status::TEMP_OUT_OF_RESOURCE),
                }
            }
            assert!((500..most).contains(&taken), "{taken}");
            attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
            total += taken;
        }
        a.close().unwrap();
        drop(region);
        b.close().unwrap();
        assert_eq!(window, [total - before]);
    }
    tally(3, total);
}

#[test]
fn memory_is_bounded() {
    child("full", "full", LIMIT).insist("a target that takes nothing");
}
