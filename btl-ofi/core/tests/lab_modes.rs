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

use btl_ofi::Transport;
use mca_params::Value;
use plugin_api::{Access, BtlAtomicOp, OpFlags, Status, ThreadLevel};

use common::pair::{Target, serve_if_target};
use common::{insist, open, options};
use lab::judge::{Dice, Judge, Losses, SLOT};
use lab::{Tally, child, role, shape};

const LIMIT: Duration = Duration::from_secs(30);
const SLOTS: usize = 64;
const ALL: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// Every supported combination: the two words of old, and all sums of today's four.
fn supported() -> Vec<String> {
    let bits = ["VIRT_ADDR", "ALLOCATED", "PROV_KEY", "ENDPOINT"];
    let sums = (0..1 << bits.len()).map(|set: u32| {
        let chosen = bits.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0);
        chosen.map(|(_, b)| *b).collect::<Vec<_>>().join(",")
    });
    let old = ["BASIC", "SCALABLE"].map(String::from);
    sums.chain(old).collect()
}

#[test]
fn target_process() {
    serve_if_target();
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
                    bare: true,
                    losses,
                    tally: Tally::default(),
                    model: HashMap::new(),
                };
                judge.epochs(6);
                judge.tally
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            tally += worker.join().unwrap();
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
    tally
}

/// One registration mode, with everything else that goes with it.
#[test]
fn one_mode() {
    let Some(mode) = role() else { return };
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
    // Contexts, context modes and threads, with four kinds of keys where the provider chooses them
    // and three where it does not.
    assert_eq!(total.run, 3 * 4 * 2 * (9 * 4 + 9 * 3));
    assert_eq!(total.lost, 0);
    total.summary("modes");
}
