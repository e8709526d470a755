//! Known failures of operations and peers that are not reported yet.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, RwLock};

use plugin_api::{CompletionFn, Status};

use crate::base::capabilities::ErrorReport;
use crate::base::cma::Refused;
use crate::detector::Cause;
use crate::peer::endpoint::Endpoint;

/// Failures of operations and peers that were not reported yet, and failures that affect later calls.
#[derive(Default)]
pub(crate) struct Failures {
    /// Operations without callback that failed since the last flush of all peers.
    pub(crate) lost: AtomicU32,
    /// Set when a peer failed: a flush of all peers then waits for each living peer separately.
    pub(crate) degraded: AtomicBool,
    /// Number of threads that wait for endpoints after a failure, without a lock. A release in another thread then keeps
    /// the endpoint. Raised and read under the lock of the peers.
    pub(crate) flushing: AtomicU32,
    /// Failures that were found and not handled yet.
    pub(crate) found: Mutex<VecDeque<Found>>,
    /// Number of threads that report the operations of failed peers, plus the number of failures that were found and not
    /// handled yet.
    pub(crate) reporting: AtomicU32,
    /// Set when no operation through the provider can complete any more.
    pub(crate) broken: AtomicBool,
    /// Set when the provider refused to close the endpoints, so that it may still access buffers.
    pub(crate) refused_to_close: AtomicBool,
    /// Status of the last peer failure, for the next flush of all peers.
    pub(crate) last_failure: AtomicI32,
    pub(crate) report: RwLock<Option<ErrorReport>>,
    /// Callbacks of parts of operations. Such an operation is reported as a whole.
    pub(crate) parts: &'static [CompletionFn],
    /// Whether failed operations with a callback are reported, too.
    pub(crate) every: bool,
    /// The beginning of all log messages: the interface, if this transport is a rail of another transport.
    pub(crate) of: String,
}

/// A failure that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The peers must be checked. `true` means that some time has passed; otherwise an operation failed or was refused, and
    /// the peer is its target, if known.
    Check(Option<NonNull<Endpoint>>, bool),
    /// The kernel refused CMA to this peer.
    CmaRefused(NonNull<Endpoint>, Refused),
    /// A peer has failed.
    Failed(NonNull<Endpoint>, Cause, Status, String),
    /// The provider's completions can no longer be read.
    ProviderFailed(String),
}

// SAFETY: all threads share the endpoints; a failure that was found keeps its endpoint (`Failures::reporting`).
unsafe impl Send for Found {}

thread_local! {
    /// Failure reports in progress on this thread.
    static REPORTING: Cell<u32> = const { Cell::new(0) };
}

/// Records that a thread reports the operations of a failed peer, until it is dropped.
pub(crate) struct Reporting<'a>(&'a Failures);

impl<'a> Reporting<'a> {
    pub(crate) fn begin(failures: &'a Failures) -> Reporting<'a> {
        REPORTING.set(REPORTING.get() + 1);
        failures.reporting.fetch_add(1, Ordering::Relaxed);
        Reporting(failures)
    }

    /// Whether this thread is reporting failures, and so may be inside a callback.
    pub(crate) fn is_here() -> bool {
        REPORTING.get() > 0
    }
}

impl Drop for Reporting<'_> {
    fn drop(&mut self) {
        REPORTING.set(REPORTING.get() - 1);
        // Release pairs with the Acquire in `wait_for_reports`: a flush that returns sees the effects of the
        // callbacks.
        self.0.reporting.fetch_sub(1, Ordering::Release);
    }
}
