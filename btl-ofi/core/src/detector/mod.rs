//! The failure detector: a state machine without I/O. A check (`engine::failure`) passes the time and its observations of
//! the peers to the detector, and performs the resulting [actions](Action) with no lock held.
//!
//! | state of a peer | holds while | leads to |
//! | --- | --- | --- |
//! | alive | the peer owes nothing, or an operation to it completed since the last look | |
//! | stalled | the peer owes an answer, and nothing completed | time that this process polls counts |
//! | suspect | the peer has been stalled for 10 s | a [warning](Action::Warn), again after three times as long, and [another one](Action::Welcome) once it answers |
//! | exited | the peer's process is dead, and nothing is outstanding | [doubt](Action::Doubt): the next operation to it looks first |
//! | failed | the peer's process is dead and was needed, or the peer was stalled or stopped for `btl_ofi_peer_timeout` | [failure](Action::Fail) |
//!
//! A peer owes an answer while operations to it are outstanding, while it has not answered a heartbeat, or while the
//! provider refuses posts to it and accepts no others. Time in which an operation waits for a copy of this process does not
//! count: such an operation also hides the completions of later ones from the counts. A long transfer extends the time
//! ([`long`]). The cost of a look is proportional to the peers that owe an answer, plus a bounded number of others.

mod heartbeats;
mod long;
mod peer;
mod watches;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) use self::long::LONG;
pub(crate) use self::peer::Action;
pub(crate) use self::watches::Watches;

/// The reason why a peer fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The peer's process is dead, or the provider reports the peer as unreachable.
    Gone,
    /// The peer does not respond, but may come back.
    Silent,
    /// The peer was released while operations named it.
    Released,
}

/// The failure detector of a transport, and its clock.
pub(crate) struct Detector {
    opened: Instant,
    /// Milliseconds from `opened` to the last periodic check.
    pub(crate) last_check: AtomicU64,
    /// Set once closing or releasing a peer timed out. Later releases then do not wait for operations that
    /// never complete. A new peer clears the flag.
    pub(crate) impatient: AtomicBool,
    /// Whether peers without outstanding operations also fail when their process is dead.
    pub(crate) watch_idle: AtomicBool,
    /// Locked after the contexts and the peers.
    watches: Mutex<Watches>,
}

impl Detector {
    /// See [`Watches::new`].
    pub(crate) fn new(limit: u64, interval: u64) -> Detector {
        Detector {
            opened: Instant::now(),
            last_check: AtomicU64::new(0),
            impatient: AtomicBool::new(false),
            watch_idle: AtomicBool::new(false),
            watches: Mutex::new(Watches::new(limit, interval)),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Watches> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the detector was opened.
    pub(crate) fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64
    }
}
