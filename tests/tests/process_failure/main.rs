//! Ranks are killed or stopped in every kind of epoch: the others get an error, a stopped rank that
//! continues gets one too, and nothing of the job is left.
//!
//! Each run is made from a seed: which rank, and when, to a step of its program or to a microsecond.
//! `CHAOS_SEED` repeats one (`CHAOS_ONLY` narrows it to runs whose kind, table and provider hold
//! the text), `CHAOS_SEEDS` makes more runs (`./dev soak` does).

mod outside;
mod rank;
mod run;

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use run::{Case, Seen};

/// The event that strikes a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Killed,
    Stopped,
}

/// The kinds of epochs that the ranks repeat until a rank is struck.
pub(crate) const KINDS: [&str; 9] = [
    "fence",
    "post-start-complete-wait",
    "lock shared",
    "lock exclusive",
    "lock_all and flush",
    "window creation",
    "barrier",
    "barrier, polled",
    ATTENDED,
];

/// The kind in which a progress thread makes progress.
pub(crate) const ATTENDED: &str = "barrier, progress thread";

pub(crate) const PROVIDERS: [&str; 3] = ["shm", "tcp;ofi_rxm", "sockets"];

/// The tables of windows, in the order in which further seeds use them. On one node, the default
/// would be `shm`, which uses the transport for nothing; `mixed` uses the transport for atomics,
/// locks and counters.
const TABLES: [&str; 4] = ["btl", "mixed", "btl", "shm"];

/// Whether a kind has a window whose table matters.
fn has_table(kind: &str) -> bool {
    !matches!(
        kind,
        "window creation" | "barrier" | "barrier, polled" | ATTENDED
    )
}

#[test]
#[ignore = "a rank of the other tests"]
fn rank_that_fails_or_survives() {
    rank::run();
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_beside_a_killed_one() {
    outside::rank();
}

#[test]
fn a_window_without_the_killed_rank() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        for epoch in outside::EPOCHS {
            outside::ranks(provider, epoch);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tests every kind of epoch over every provider, with one fate.
fn matrix(fate: Fate) {
    let only = number("CHAOS_SEED");
    let first = only.unwrap_or_else(|| number("CHAOS_FIRST_SEED").unwrap_or(1));
    let seeds = if only.is_some() {
        1
    } else {
        number("CHAOS_SEEDS").unwrap_or(1)
    };
    let mut cases = Vec::new();
    for seed in first..first + seeds {
        for (at, kind) in KINDS.into_iter().enumerate() {
            let turn = seed as usize + at;
            let mut add = |table, provider| {
                cases.push(Case {
                    fate,
                    kind,
                    table,
                    provider,
                    seed,
                });
            };
            // Further seeds alternate.
            if seeds > 1 {
                let table = TABLES[(seed as usize / PROVIDERS.len() + at) % TABLES.len()];
                add(table, PROVIDERS[turn % PROVIDERS.len()]);
                continue;
            }
            // One seed runs over every provider, or over one provider if each run waits for a
            // timeout ...
            for (number, provider) in PROVIDERS.into_iter().enumerate() {
                let all = fate == Fate::Killed || only.is_some();
                if all || (turn + 2) % PROVIDERS.len() != number {
                    add("btl", provider);
                }
            }
            // ... and over one provider with each other table.
            for (number, table) in ["mixed", "shm"].into_iter().enumerate() {
                if has_table(kind) {
                    add(table, PROVIDERS[(turn + number) % PROVIDERS.len()]);
                }
            }
        }
    }
    if let Ok(only) = std::env::var("CHAOS_ONLY") {
        cases.retain(|c| format!("{} {} {}", c.kind, c.table, c.provider).contains(&only));
    }
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Seen::default());
    // The runs wait for time, not for processors, so two run at the same time.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seen = run::run(case);
                    total.lock().unwrap().add(&seen);
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    let what = match fate {
        Fate::Killed => "ranks killed",
        Fate::Stopped => "ranks stopped",
    };
    let tables = ["btl", "mixed", "shm"].map(|table| {
        let runs = cases.iter().filter(|case| case.table == table).count();
        format!("{table} {runs}")
    });
    let tables = tables.join(", ");
    let line = format!(
        "{what}: {} runs ({} kinds of epoch, {} providers, tables {}, seeds from {first}), {} signals, \
         {} survivors' errors, {} errors of ranks that came back, slowest after {} ms, left behind (processes, zombies, files, \
         descriptors): {}, lost: {}\n",
        cases.len(),
        KINDS.len(),
        PROVIDERS.len(),
        tables,
        total.signals,
        total.errors,
        total.returned,
        total.slowest.as_millis(),
        total.behind,
        total.lost,
    );
    // The line bypasses the harness's capture.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    // The file is for `./dev`, which shows these lines together at its end.
    if let Some(path) = std::env::var_os("LAB_SUMMARY") {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    assert!(total.wrong.is_empty(), "{}", total.wrong.join("\n\n"));
    assert_eq!((total.lost, total.behind), (0, 0));
    assert_eq!(total.signals, cases.len());
}

#[test]
fn killed_ranks() {
    matrix(Fate::Killed);
}

#[test]
fn stopped_ranks() {
    matrix(Fate::Stopped);
}
