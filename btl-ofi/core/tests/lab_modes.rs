//! The transport over every registration mode that it supports, with every kind of operation checked
//! against a model; and the modes that it does not support, refused by name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::collections::HashMap;
use std::ptr;
use std::time::Duration;

use common::Calls as _;
use mca_params::Value;
use plugin_api::{Access, BtlAtomicOp, ModuleFlags, OpFlags, Status, ThreadLevel};

use common::pair::{Target, serve_as_target};
use common::{insist, open, options, try_open};
use lab::dice::Dice;
use lab::judge::Judge;
use lab::model::{SLOT, serve_applies};
use lab::said::{Kept, Losses};
use lab::{Tally, child, child_role, registration_modes as supported, shape};

const LIMIT: Duration = Duration::from_secs(180);
const SLOTS: usize = 64;
const ALL: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

#[test]
#[ignore = "a child process of other tests, which start it"]
fn target_process() {
    serve_as_target();
}

/// Opens the provider in its present shape and runs epochs with so many threads.
fn run(contexts: usize, threads: usize, seed: u64) -> Tally {
    let level = if threads > 1 {
        ThreadLevel::Multiple
    } else {
        ThreadLevel::Single
    };
    let n = Value::Int(contexts as i32);
    let t = open("lab", level, &[("btl_ofi_num_contexts_per_module", n)]);
    serve_applies(&t);
    assert_eq!(t.capabilities().contexts, contexts);
    let losses = Losses::default();
    t.on_error(Some(losses.report()));
    let peers = [0, 1].map(|proc| t.connect(t.address(), proc).unwrap());
    let mut window = vec![0u64; SLOTS * SLOT];
    let size = window.len() * 8;
    // SAFETY: the window lives until the region is closed.
    let region = unsafe { t.register(window.as_mut_ptr().cast(), size, ALL) }.unwrap();
    let handle = region.handle();
    let mut tally = Tally {
        run: 1,
        ..Tally::default()
    };
    let peers = peers.map(|p| p.as_ptr() as usize);
    let mut kept = Vec::new();
    let share = SLOTS / threads;
    std::thread::scope(|s| {
        let (t, losses) = (&t, &losses);
        let workers = (0..threads).map(|i| {
            s.spawn(move || {
                let mut judge = Judge {
                    t,
                    peers: peers
                        .map(|p| ptr::NonNull::new(p as *mut _).unwrap())
                        .to_vec(),
                    handle,
                    slots: i * share..(i + 1) * share,
                    dice: Dice(seed + i as u64),
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
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            let (told, outcomes) = worker.join().unwrap();
            tally += told;
            kept.push(outcomes);
        }
    });
    region.close().unwrap();
    for peer in peers {
        // SAFETY: connected once each.
        let status = unsafe { t.disconnect(ptr::NonNull::new(peer as *mut _).unwrap()) };
        assert_eq!(status, Status::SUCCESS);
    }
    let stats = t.stats();
    assert_eq!((stats.posted, stats.failed), (stats.completed, 0));
    t.close().unwrap();
    for outcomes in kept {
        outcomes.check(&mut tally);
    }
    tally
}

/// One registration mode, with everything else that goes with it.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn one_mode() {
    let mode = child_role();
    let mut tally = Tally::default();
    let chosen = mode.contains("PROV_KEY") || mode == "BASIC";
    let keys: &[(&str, &str)] = if chosen {
        &[("low", "8"), ("high", "8"), ("random", "8"), ("high", "2")]
    } else {
        &[("low", "8"), ("low", "4"), ("low", "1")]
    };
    let mut seed = 1;
    for contexts in [1, 2, 8] {
        for context_mode in ["", "CONTEXT", "CONTEXT2", "CONTEXT,CONTEXT2"] {
            for (keys, key_size) in keys {
                for threads in [1, 4] {
                    seed += 100;
                    println!("@at {mode} {contexts} {context_mode} {keys} {key_size} {threads}");
                    // Odd seeds deliver in any order, and late.
                    let faults = if seed % 200 == 1 {
                        format!("seed={seed},delay=5,reorder=1")
                    } else {
                        String::new()
                    };
                    let most = contexts.to_string();
                    shape(&[
                        ("MR_MODE", &mode),
                        ("MODE", context_mode),
                        ("TX_CTX", &most),
                        ("KEYS", keys),
                        ("MR_KEY_SIZE", key_size),
                        ("FAULTS", &faults),
                    ]);
                    tally += run(contexts, threads, seed);
                }
            }
        }
    }
    tally.tell();
}

#[test]
fn every_supported_mode() {
    let modes = supported();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut total = Tally::default();
    std::thread::scope(|s| {
        let workers = [(); 2].map(|()| {
            s.spawn(|| {
                let mut tally = Tally::default();
                while let Some(mode) =
                    modes.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    tally += child("one_mode", mode, LIMIT);
                }
                tally
            })
        });
        for worker in workers {
            total += worker.join().unwrap();
        }
    });
    total.summary("modes");
    // Contexts, context modes and threads, with four kinds of keys where the provider chooses them
    // and three where it does not.
    assert_eq!(total.run, 3 * 4 * 2 * (10 * 4 + 10 * 3));
}

/// The refusal of the present shape.
fn refusal() -> String {
    let include = Value::str("lab");
    let o = options(&[("btl_ofi_provider_include", include)]);
    match try_open(&o, ThreadLevel::Single) {
        Ok(_) => panic!("it was opened"),
        Err(e) => e.to_string(),
    }
}

/// Shapes that the transport does not serve, each refused with its name.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn refused_shapes() {
    child_role();
    let mut tally = Tally::default();
    let bits = ["LOCAL", "RAW", "MMU_NOTIFY", "RMA_EVENT", "HMEM"];
    for bit in bits {
        for also in supported() {
            // The words of old are joined with no others.
            if ["BASIC", "SCALABLE"].contains(&also.as_str()) {
                continue;
            }
            let mode = format!("{bit},{also}");
            println!("@at {mode}");
            shape(&[("MR_MODE", &mode)]);
            let text = refusal();
            assert!(
                text.contains(&format!("lab: it requires FI_MR_{bit}")),
                "{mode}: {text}"
            );
            tally.refused += 1;
        }
    }
    // An old mode that stands in the place of the others hides none.
    for old in ["BASIC", "SCALABLE"] {
        for bit in ["RAW", "MMU_NOTIFY", "RMA_EVENT", "HMEM"] {
            let mode = format!("{bit},VIRT_ADDR,ALLOCATED,PROV_KEY");
            shape(&[("MR_MODE", &mode), ("OLD_MODE", old)]);
            let text = refusal();
            assert!(
                text.contains(&format!("lab: it requires FI_MR_{bit}")),
                "{mode}: {text}"
            );
            tally.refused += 1;
        }
    }
    let fetch = "fi_query_atomic refuses a fetching 64-bit sum";
    let compare = "fi_query_atomic refuses a 64-bit compare-and-swap";
    for (without, why) in [("1:*:*", fetch), ("*:7:2", fetch), ("2:7:*", compare)] {
        shape(&[("WITHOUT", without)]);
        let text = refusal();
        assert!(text.contains(why), "{without}: {text}");
        tally.refused += 1;
    }
    tally.tell();
}

#[test]
fn every_unsupported_mode() {
    let tally = child("refused_shapes", "refused", LIMIT);
    tally.summary("refusals");
    assert_eq!(tally.refused, 5 * 18 + 2 * 4 + 3);
}

/// Keys of one byte run out after 256, and one that is given back serves again.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn few_keys() {
    child_role();
    shape(&[("MR_KEY_SIZE", "1")]);
    let t = open("lab", ThreadLevel::Single, &[]);
    let mut memory = vec![0u64; 257];
    let base = memory.as_mut_ptr();
    // SAFETY: the memory lives until the regions are closed.
    let register = |i: usize| unsafe { t.register(base.add(i).cast(), 8, ALL) };
    let mut regions: Vec<_> = (0..256).map(|i| register(i).unwrap()).collect();
    let refused = register(256).err().unwrap();
    assert_eq!(refused.status(), Status::OUT_OF_RESOURCE);
    regions.swap_remove(100).close().unwrap();
    regions.push(register(256).unwrap());
    assert_eq!(register(0).err().unwrap().status(), Status::OUT_OF_RESOURCE);
    drop(regions);
    t.close().unwrap();
    let tally = Tally {
        run: 1,
        ..Tally::default()
    };
    tally.tell();
}

#[test]
fn keys_run_out() {
    child("few_keys", "keys", LIMIT).insist("keys of one byte");
}

/// Two processes: what is complete is there, though the target makes no progress.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn one_pair() {
    let mode = child_role();
    let contexts = Value::Int(4);
    let mut tally = Tally::default();
    for order in ["0", "1"] {
        shape(&[
            ("MR_MODE", &mode),
            ("TX_CTX", "4"),
            ("MODE", "CONTEXT2"),
            ("ORDER", order),
            ("FAULTS", "seed=3,delay=9,reorder=1,again=100,burst=5"),
        ]);
        let n = [("btl_ofi_num_contexts_per_module", contexts.clone())];
        let t = open("lab", ThreadLevel::Single, &n);
        let mut target = Target::start(&t, "lab", true);
        let (peer, h, none) = (target.peer, target.handle, ptr::null_mut());
        let (base, f) = (h.base(), OpFlags::empty());
        let mut data = [0u64; 512];
        for round in 1..=30 {
            let words = if round % 5 == 0 { data.len() } else { 1 };
            (data[0], data[words - 1]) = (round, round);
            let source = data.as_mut_ptr().cast();
            // SAFETY: the buffer outlives the flush.
            insist(&t, || unsafe {
                t.put(peer, source, base, none, &h, words * 8, None)
            });
            assert_eq!(t.flush(None), Status::SUCCESS);
            assert_eq!(target.sees(0, words - 1), (round, round), "{mode}: a put");
            let mut old = [0u64; 32];
            for result in &mut old {
                let out = (&raw mut *result).cast();
                let (at, add) = (base + 8 * 10_000, BtlAtomicOp::Add);
                // SAFETY: the endpoint is connected, and the results outlive the flush below.
                unsafe {
                    insist(&t, || {
                        t.atomic_fop(peer, out, at, none, &h, add, 1, f, None)
                    });
                    insist(&t, || t.atomic_op(peer, at, &h, add, 1 << 32, f, None));
                }
            }
            assert_eq!(t.flush(None), Status::SUCCESS);
            let mut seen = old.map(|v| v & 0xffff_ffff);
            seen.sort_unstable();
            let before = (round - 1) * 32;
            assert_eq!(
                seen,
                std::array::from_fn(|i| before + i as u64),
                "{mode}: fetches"
            );
            let sum = round * 32;
            assert_eq!(
                target.sees(10_000, 10_000).0,
                sum << 32 | sum,
                "{mode}: updates"
            );
            tally.checked += 65;
        }
        target.end();
        // SAFETY: connected once.
        assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
        t.close().unwrap();
        tally.run += 1;
    }
    tally.tell();
}

#[test]
fn two_processes_in_every_mode() {
    let mut total = Tally::default();
    for mode in supported() {
        total += child("one_pair", &mode, LIMIT);
    }
    total.summary("modes between two processes");
    assert_eq!(total.run, 40);
}

/// Atomics from one origin take effect in the order of their posts where that was granted, though
/// they complete in any order.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn one_order() {
    child_role();
    let mut tally = Tally::default();
    for mode in supported() {
        for granted in [true, false] {
            println!("@at {mode} {granted}");
            shape(&[
                ("MR_MODE", &mode),
                ("ORDER", if granted { "1" } else { "0" }),
                ("FAULTS", "seed=5,delay=9,reorder=1"),
            ]);
            let t = open("lab", ThreadLevel::Single, &[]);
            let flags = t.capabilities().flags;
            let ordered = flags.contains(ModuleFlags::ATOMICS_ORDERED);
            assert_eq!(ordered, granted, "{mode}");
            let peer = t.connect(t.address(), 0).unwrap();
            let mut word = Box::new(0u64);
            // SAFETY: the word lives until the region is closed.
            let region = unsafe { t.register((&raw mut *word).cast(), 8, ALL) }.unwrap();
            let (h, none, f) = (region.handle(), ptr::null_mut(), OpFlags::empty());
            let mut old = [0u64; 100];
            for (i, result) in old.iter_mut().enumerate() {
                let out = (&raw mut *result).cast();
                let (next, swap) = (i as u64 + 1, BtlAtomicOp::Swap);
                // SAFETY: the results outlive the flush.
                insist(&t, || unsafe {
                    t.atomic_fop(peer, out, h.base(), none, &h, swap, next, f, None)
                });
            }
            assert_eq!(t.flush(None), Status::SUCCESS);
            let in_order = old.iter().enumerate().all(|(i, &v)| v == i as u64);
            assert_eq!(in_order, granted, "{mode}: {old:?}");
            region.close().unwrap();
            t.close().unwrap();
            tally.run += 1;
            tally.checked += 100;
        }
    }
    tally.tell();
}

#[test]
fn order_in_every_mode() {
    let tally = child("one_order", "order", LIMIT);
    tally.summary("order of atomics");
    assert_eq!(tally.run, 40);
}
