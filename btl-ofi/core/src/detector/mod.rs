//! The failure detector's state: what is known of peers between two checks. Nothing here polls, posts or reports: a check
//! (`engine::liveness`) tells what it found, and acts on the answers.

mod heartbeats;
pub(crate) mod long;
mod silence;
mod watches;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

pub(crate) use self::long::LONG;
pub(crate) use self::silence::{FIRST, LOOK, News};
pub(crate) use self::watches::Watches;

/// The failure detector.
pub(crate) struct Detector {
    pub(crate) opened: Instant,
    /// Milliseconds from `opened` to the last check.
    pub(crate) last_check: AtomicU64,
    /// Set once closing or releasing a peer timed out. Later releases then do not wait again for operations
    /// that never complete. A new peer clears it.
    pub(crate) impatient: AtomicBool,
    /// Whether peers with no outstanding operations are checked too.
    pub(crate) watch_idle: AtomicBool,
}

impl Detector {
    pub(crate) fn new() -> Detector {
        Detector {
            opened: Instant::now(),
            last_check: AtomicU64::new(0),
            impatient: AtomicBool::new(false),
            watch_idle: AtomicBool::new(false),
        }
    }
}
