//! Puts that go by order: over a provider whose bytes come after their completion, and whose reads come behind puts, an
//! operation that completes is visible, by its callback, by a flush, and by what follows it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use btl_ofi::{Completion, Endpoint, Handle, Transport};
use common::Calls as _;
use mca_params::Value;
use plugin_api::{Access, Module, Status, ThreadLevel};

use common::{insist, open, register};
use lab::dice::Dice;
use lab::judge::Judge;
use lab::model::{SLOT, serve_applies};
use lab::said::{Kept, Losses};
use lab::{Tally, child, child_role, descriptors, shape, stats, violations};

const LIMIT: Duration = Duration::from_secs(120);
const SEEDS: u64 = 120;
const BATCH: u64 = 40;
const SLOTS: usize = 64;
/// Puts with a callback in each run.
const PUTS: usize = 200;

struct Script {
    contexts: usize,
    threads: usize,
    /// One-sided, or messages of the host too.
    mode: i32,
    pairs: Vec<(&'static str, String)>,
}

fn script(seed: u64) -> Script {
    let mut dice = Dice(seed);
    let bits = ["VIRT_ADDR", "ALLOCATED", "PROV_KEY", "ENDPOINT"];
    let modes: Vec<_> = bits.into_iter().filter(|_| dice.below(2) == 0).collect();
    let contexts = dice.pick(&[1, 1, 2, 8]);
    let faults = format!(
        "seed={seed},again={},burst={},delay={},reorder={},stray={}",
        dice.pick(&[0, 10, 200]),
        dice.pick(&[0, 3, 40]),
        dice.pick(&[0, 3, 40]),
        dice.pick(&[0, 1]),
        dice.pick(&[0, 300]),
    );
    Script {
        contexts,
        threads: dice.pick(&[1, 1, 4]),
        mode: dice.pick(&[0, 0, 2]),
        pairs: vec![
            ("CONFIRMS", "0".to_owned()),
            ("READ_ORDER", "1".to_owned()),
            ("MR_MODE", modes.join(",")),
            ("TX_CTX", contexts.to_string()),
            ("TX_SIZE", dice.pick(&["2", "16", "256"]).to_owned()),
            ("KEYS", dice.pick(&["low", "high", "random"]).to_owned()),
            ("ORDER", dice.pick(&["0", "1"]).to_owned()),
            // Without atomics, messages carry them, and small transfers.
            ("ATOMICS", dice.pick(&["1", "1", "0"]).to_owned()),
            ("FAULTS", faults),
        ],
    }
}

/// A put whose callback looks at its target.
struct Put {
    at: *const u64,
    value: u64,
    calls: AtomicU32,
}

unsafe extern "C" fn look(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    // SAFETY: the test passes a put that outlives the transport.
    let put = unsafe { &*context.cast::<Put>() };
    // SAFETY: the word lies in the window, which outlives the put.
    let now = unsafe { put.at.read_volatile() };
    let visible = status == 0 && now == put.value;
    put.calls
        .fetch_add(if visible { 1 } else { 1000 }, Ordering::Relaxed);
}

/// Puts with callbacks, between others without, to places of their own. Returns how many were not visible once.
fn put_and_look(t: &Transport, peers: &[NonNull<Endpoint>], h: &Handle, dice: &mut Dice) -> usize {
    let source: Vec<u64> = (0..2 * PUTS).map(|_| dice.next() | 1).collect();
    let place = |i: usize| h.base() + 8 * i as u64;
    let put = |i: usize| Put {
        at: ptr::with_exposed_provenance(place(i) as usize),
        value: source[i],
        calls: AtomicU32::new(0),
    };
    let puts: Vec<Put> = (0..PUTS).map(put).collect();
    for (i, word) in source.iter().enumerate() {
        let completion = puts.get(i).map(|put| Completion {
            function: look,
            context: ptr::from_ref(put).cast_mut().cast(),
            data: ptr::null_mut(),
        });
        let from = ptr::from_ref(word).cast_mut().cast();
        let (peer, none) = (dice.pick(peers), ptr::null_mut());
        // SAFETY: source, puts and window outlive the flush.
        insist(t, || unsafe {
            t.put(peer, from, place(i), none, h, 8, completion)
        });
        if dice.below(10) == 0 {
            t.progress();
        }
    }
    // Callbacks need no flush.
    while puts.iter().any(|p| p.calls.load(Ordering::Relaxed) == 0) {
        t.progress();
    }
    assert_eq!(t.flush(None), Status::SUCCESS);
    let unseen = puts
        .iter()
        .filter(|p| p.calls.load(Ordering::Relaxed) != 1)
        .count();
    let others = PUTS..2 * PUTS;
    // SAFETY: the words lie in the window.
    let lost = others.filter(|i| unsafe { put(*i).at.read_volatile() } != source[*i]);
    unseen + lost.count()
}

/// Set when it is dropped, also by a panic.
struct Set<'a>(&'a AtomicBool);

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Random operations of one thread on its share of the window.
fn judge(
    t: &Transport,
    losses: &Losses,
    peers: Vec<NonNull<Endpoint>>,
    handle: Handle,
    slots: std::ops::Range<usize>,
    dice: Dice,
) -> (Tally, Kept) {
    let mut judge = Judge {
        t,
        peers,
        handle,
        slots,
        dice,
        faults: false,
        gone: false,
        untracked: true,
        losses,
        tally: Tally::default(),
        model: HashMap::new(),
        kept: Kept::default(),
        target_polls: None,
    };
    judge.epochs(4);
    (judge.tally, judge.kept)
}

fn run(script: &Script, seed: u64) -> Tally {
    let pairs: Vec<_> = script.pairs.iter().map(|(n, v)| (*n, v.as_str())).collect();
    shape(&pairs);
    let level = match script.threads {
        1 => ThreadLevel::Single,
        _ => ThreadLevel::Multiple,
    };
    let settings = [
        (
            "btl_ofi_num_contexts_per_module",
            Value::Int(script.contexts as i32),
        ),
        ("btl_ofi_mode", Value::Int(script.mode)),
    ];
    let target = open("lab", level, &settings);
    serve_applies(&target);
    let t = open("lab", level, &settings);
    let way = t.capabilities().completion.to_string_lossy().into_owned();
    assert!(way.contains("puts are confirmed by a read behind"), "{way}");
    let losses = Losses::default();
    t.on_error(Some(losses.report()));
    let peers = [0, 1, 2].map(|proc| t.connect(target.address(), proc).unwrap());
    let peers = peers.map(|p| p.as_ptr() as usize);
    let peers_of = || {
        peers
            .map(|p| NonNull::new(p as *mut Endpoint).unwrap())
            .to_vec()
    };
    let mut window = vec![0u64; SLOTS * SLOT];
    let region = register(&target, &mut window, Access::all());
    let handle = region.handle();
    let mut tally = Tally {
        run: 1,
        ..Tally::default()
    };
    let share = SLOTS / script.threads;
    let done = AtomicBool::new(false);
    let mut kept = Vec::new();
    std::thread::scope(|s| {
        let (t, losses) = (&t, &losses);
        // It executes what comes by message.
        let (attended, done) = (&target, &done);
        s.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                attended.progress();
                std::thread::yield_now();
            }
        });
        let end = Set(done);
        let workers = (0..script.threads).map(|i| {
            s.spawn(move || {
                let slots = i * share..(i + 1) * share;
                judge(t, losses, peers_of(), handle, slots, Dice(seed + i as u64))
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            let (told, outcomes) = worker.join().unwrap();
            tally += told;
            kept.push(outcomes);
        }
        let unseen = put_and_look(t, &peers_of(), &handle, &mut Dice(seed));
        tally.checked += 2 * PUTS as u64;
        if unseen > 0 {
            println!("@lost {unseen}: not visible when complete");
            tally.lost += unseen as u64;
        }
        drop(end);
    });
    region.close().unwrap();
    let stats = t.stats();
    assert_eq!(stats.posted, stats.completed, "{stats:?}");
    assert_eq!((stats.failed, stats.registrations), (0, 0));
    t.close().unwrap();
    target.close().unwrap();
    for outcomes in kept {
        outcomes.check(&mut tally);
    }
    tally
}

#[test]
#[ignore = "a child process of other tests, which start it"]
fn some_seeds() {
    let first: u64 = child_role().parse().unwrap();
    let mut open = None;
    for seed in first..first + BATCH {
        let script = script(seed);
        println!(
            "@at seed {seed}: {} threads, {:?}",
            script.threads, script.pairs
        );
        let tally = run(&script, seed);
        tally.tell();
        tally.insist("this seed");
        assert_eq!(violations(), "", "the provider's user broke its rules");
        assert_eq!(
            *open.get_or_insert_with(descriptors),
            descriptors(),
            "descriptors"
        );
    }
}

#[test]
fn complete_is_visible_where_bytes_come_late() {
    let mut total = Tally::default();
    for first in (1..=SEEDS).step_by(BATCH as usize) {
        total += child("some_seeds", &first.to_string(), LIMIT);
    }
    total.summary(&format!("puts by order, {SEEDS} seeds"));
    assert_eq!(total.run, SEEDS);
}

/// One read confirms many puts.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn a_burst() {
    child_role();
    shape(&[("CONFIRMS", "0"), ("READ_ORDER", "1")]);
    let t = open("lab", ThreadLevel::Single, &[]);
    let peer = t.connect(t.address(), 0).unwrap();
    let mut window = vec![0u64; 64];
    let region = register(&t, &mut window, Access::all());
    let (h, source, none) = (region.handle(), [7u64; 1], ptr::null_mut());
    let from = source.as_ptr().cast_mut().cast();
    for i in 0..50 {
        // SAFETY: source and window outlive the flush.
        insist(&t, || unsafe {
            t.put(peer, from, h.base() + 8 * i, none, &h, 8, None)
        });
    }
    assert_eq!(t.flush(None), Status::SUCCESS);
    region.close().unwrap();
    t.close().unwrap();
    let posted = stats()["posted"];
    assert_eq!(posted, 51, "50 puts and a read");
    let tally = Tally {
        run: 1,
        ..Tally::default()
    };
    tally.tell();
}

#[test]
fn one_read_confirms_many_puts() {
    child("a_burst", "burst", LIMIT).insist("a burst");
}
