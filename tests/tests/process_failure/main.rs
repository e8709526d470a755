//! Ranks that are killed or stopped in every kind of epoch: the others get an error, a stopped rank
//! that comes back gets one too, and nothing of the job is left.
//!
//! Each run is made from a seed: which rank, and when, to a step of its program or to a microsecond.
//! `CHAOS_SEED` repeats one (`CHAOS_ONLY` narrows it to kinds and providers whose names hold the
//! text), `CHAOS_SEEDS` makes more runs (`./dev soak` does).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test reports by panicking, in its helpers too"
)]

mod rank;
mod run;

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use run::{Case, Seen};

/// What is done to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Killed,
    Stopped,
}

/// What the ranks do meanwhile.
pub(crate) const KINDS: [&str; 7] = [
    "fence",
    "post-start-complete-wait",
    "lock shared",
    "lock exclusive",
    "lock_all and flush",
    "window creation",
    "barrier",
];

pub(crate) const PROVIDERS: [&str; 3] = ["shm", "tcp;ofi_rxm", "sockets"];

#[test]
#[ignore = "a rank of the other tests"]
fn rank_that_fails_or_survives() {
    rank::run();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Every kind of epoch over every provider, for one fate.
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
            // One seed goes over every provider, or all but one where each run waits for a time to
            // pass; further seeds take turns.
            for (turn, provider) in PROVIDERS.into_iter().enumerate() {
                let its_turn = (seed as usize + at) % PROVIDERS.len() == turn;
                if its_turn
                    || (seeds == 1 && (fate == Fate::Killed || only.is_some()))
                    || (seeds == 1 && (seed as usize + at + 1) % PROVIDERS.len() == turn)
                {
                    cases.push(Case {
                        fate,
                        kind,
                        provider,
                        seed,
                    });
                }
            }
        }
    }
    if let Ok(only) = std::env::var("CHAOS_ONLY") {
        cases.retain(|case| format!("{} {}", case.kind, case.provider).contains(&only));
    }
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Seen::default());
    // What is waited for is time, not processors.
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
    let line = format!(
        "{what}: {} runs ({} kinds of epoch, {} providers, seeds from {first}), {} signals, {} survivors' \
         errors, {} errors of ranks that came back, slowest after {} ms, left behind (processes, zombies, files, \
         descriptors): {}, lost: {}\n",
        cases.len(),
        KINDS.len(),
        PROVIDERS.len(),
        total.signals,
        total.errors,
        total.returned,
        total.slowest.as_millis(),
        total.behind,
        total.lost,
    );
    // Past the harness's capture.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    // For `./dev`, which shows these lines together at its end.
    if let Some(path) = std::env::var_os("LAB_SUMMARY") {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    assert!(total.wrong.is_empty(), "{}", total.wrong.join("\n\n"));
    assert_eq!((total.lost, total.behind), (0, 0));
    assert_eq!(total.signals, cases.len());
    assert!(total.slowest < Duration::from_secs(60));
}

#[test]
fn killed_ranks() {
    matrix(Fate::Killed);
}

#[test]
fn stopped_ranks() {
    matrix(Fate::Stopped);
}
