//! `host-stub check` over the lab provider (`tests/lab-provider`): windows, epochs and accumulates of
//! several processes, compared with their model, in every registration mode, and with faults by
//! script.
//!
//! Without failing operations, every test of the check must pass. With failing operations, each run
//! ends in time, with success or with a failure that a call reported. The test searches for wrong
//! data without a report, for waits without end, and for failures without a report.
//!
//! `LAB_SEED` is the first seed, `LAB_SEEDS` says how many (`./dev soak` does).

mod run;
mod script;

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use run::{Seen, run};
use script::{SHAPES, Script, modes};

/// The numbers of seeds of an ordinary run: with the whole check, and with a few of its tests each.
const SEEDS: u64 = 6;
const SHORT_SEEDS: u64 = 30;
/// The number of runs at a time; each run has several processes.
const AT_A_TIME: usize = 2;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs scripts, a few at a time, prints the results, and fails if a run did not end as it must.
fn all(scripts: &[Script], name: &str) -> Seen {
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Seen::default());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seen = run(script);
                    total.lock().unwrap().add(seen);
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    summary(name, &total);
    assert!(total.wrong.is_empty(), "{}", total.wrong.join("\n\n"));
    assert_eq!(total.lost, 0);
    total
}

/// Prints the results, bypassing the harness's capture, and writes them to the file `LAB_SUMMARY`,
/// which `./dev` reads.
fn summary(name: &str, seen: &Seen) {
    let line = format!("{name}: {seen}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("LAB_SUMMARY") {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

#[test]
fn every_mode_passes_the_check() {
    let scripts = modes().into_iter().enumerate();
    let scripts: Vec<_> = scripts.map(|(n, mode)| Script::plain(n, &mode)).collect();
    let whole = scripts.iter().filter(|script| script.only.is_empty());
    assert_eq!(whole.count(), SHAPES);
    let seen = all(&scripts, "check over every mode");
    assert_eq!((seen.runs, seen.reported), (18, 0));
}

#[test]
fn every_fault_is_reported() {
    let first = number("LAB_SEED").unwrap_or(1);
    let seeds = number("LAB_SEEDS").unwrap_or(SEEDS);
    let scripts: Vec<_> = (first..first + seeds).map(Script::of).collect();
    let name = format!("check with faults, {seeds} seeds from {first}");
    assert_eq!(all(&scripts, &name).runs, seeds);
}

#[test]
fn every_fault_is_reported_in_short_runs() {
    let first = number("LAB_SEED").unwrap_or(1);
    let seeds = number("LAB_SEEDS").unwrap_or(SHORT_SEEDS);
    let scripts: Vec<_> = (first..first + seeds).map(Script::short).collect();
    let name = format!("short checks with faults, {seeds} seeds from {first}");
    assert_eq!(all(&scripts, &name).runs, seeds);
}

/// A refused registration is a failure of the transport, both for the memory of a new window and for
/// memory that a window takes later.
#[test]
fn registrations_run_out() {
    let scripts: Vec<_> = (1..=12).map(Script::with_regions).collect();
    let seen = all(&scripts, "registrations that run out");
    assert_eq!(seen.runs, 12);
    assert!(seen.passed > 0, "none had room");
    for call in ["window creation", "attach"] {
        let by_it = seen.reports.iter().any(|report| report.contains(call));
        assert!(by_it, "none was refused in {call}: {:?}", seen.reports);
    }
}
