//! The provider's outputs: violations by its user, one line each, go to the file `LAB_REPORT`
//! (standard error without it); counts go to `LAB_STATS`, and each fault to `LAB_TRACE`.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Counts since the library was loaded.
#[derive(Default)]
pub(crate) struct Counts {
    /// Accepted operations.
    pub(crate) posted: AtomicU64,
    /// Returned completions of operations, and successful operations that leave no completion.
    pub(crate) completed: AtomicU64,
    /// Returned completions that belong to no operation.
    pub(crate) strays: AtomicU64,
    /// Returned error completions.
    pub(crate) failed: AtomicU64,
    /// Operations that were outstanding when their queue was closed.
    pub(crate) discarded: AtomicU64,
    /// Faults: refused posts, failed operations, refused registrations and openings.
    pub(crate) faults: AtomicU64,
    /// The number of violations by the user.
    pub(crate) violations: AtomicU64,
    /// The number of open objects.
    pub(crate) open: AtomicI64,
    /// The numbers of addresses that were inserted into vectors, removed and looked up, and of requests for an
    /// endpoint's name.
    pub(crate) inserted: AtomicU64,
    pub(crate) removed: AtomicU64,
    pub(crate) looked: AtomicU64,
    pub(crate) named: AtomicU64,
    /// Receives that got no message before their endpoint was closed.
    pub(crate) unmet: AtomicU64,
}

pub(crate) static COUNTS: Counts = Counts {
    posted: AtomicU64::new(0),
    completed: AtomicU64::new(0),
    strays: AtomicU64::new(0),
    failed: AtomicU64::new(0),
    discarded: AtomicU64::new(0),
    faults: AtomicU64::new(0),
    violations: AtomicU64::new(0),
    open: AtomicI64::new(0),
    inserted: AtomicU64::new(0),
    removed: AtomicU64::new(0),
    looked: AtomicU64::new(0),
    named: AtomicU64::new(0),
    unmet: AtomicU64::new(0),
};

/// Adds one to a count.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn append(variable: &str, line: &str) -> bool {
    let Some(path) = std::env::var_os(variable) else {
        return false;
    };
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        // Each line is one write, so that lines of several processes do not mix.
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        .is_ok()
}

/// Reports a violation by the user.
pub(crate) fn violation(what: &str) {
    count(&COUNTS.violations);
    let line = format!("lab: process {}: {what}", std::process::id());
    if !append("LAB_REPORT", &line) {
        eprintln!("{line}");
    }
}

/// Appends a line about a fault to the file `LAB_TRACE`, for the search for the cause of a failing
/// seed.
pub(crate) fn trace(what: impl FnOnce() -> String) {
    if std::env::var_os("LAB_TRACE").is_some() {
        append("LAB_TRACE", &format!("{} {}", std::process::id(), what()));
    }
}

/// Writes the counts as one line of `name=value`.
pub(crate) fn write_counts(event: &str) {
    let n = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let c = &COUNTS;
    append(
        "LAB_STATS",
        &format!(
            "{event} pid={} posted={} completed={} strays={} failed={} discarded={} faults={} violations={} open={} \
             inserted={} removed={} looked={} named={} unmet={}",
            std::process::id(),
            n(&c.posted),
            n(&c.completed),
            n(&c.strays),
            n(&c.failed),
            n(&c.discarded),
            n(&c.faults),
            n(&c.violations),
            c.open.load(Ordering::Relaxed),
            n(&c.inserted),
            n(&c.removed),
            n(&c.looked),
            n(&c.named),
            n(&c.unmet),
        ),
    );
}

/// libfabric's last call before it unloads the library: every object that is still open has leaked.
pub(crate) unsafe extern "C" fn cleanup() {
    let open = COUNTS.open.load(Ordering::Relaxed);
    if open != 0 {
        violation(&format!("{open} object(s) were never closed"));
    }
    write_counts("end");
}
