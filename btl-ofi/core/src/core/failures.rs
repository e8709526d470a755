//! Failures of operations and peers that were found, until they are reported.

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

/// Failures of operations and peers that were not reported yet, or that change what follows.
#[derive(Default)]
pub(crate) struct Failures {
    /// Operations without callback that failed since the last flush of all peers.
    pub(crate) lost: AtomicU32,
    /// Set once a peer failed: a flush of all then waits for each living peer by itself.
    pub(crate) degraded: AtomicBool,
    /// Threads that wait for endpoints after a failure, without a lock: a release meanwhile keeps the endpoint. Raised and read
    /// under the lock of the peers.
    pub(crate) flushing: AtomicU32,
    /// Failures that were found and are to be acted on.
    pub(crate) found: Mutex<VecDeque<Found>>,
    /// Threads that currently report the operations of failed peers, and failures that were found.
    pub(crate) reporting: AtomicU32,
    /// Set once no operation through the provider can complete any more.
    pub(crate) broken: AtomicBool,
    /// Set once the provider refused to close the endpoints, so that it may still touch buffers.
    pub(crate) refused_to_close: AtomicBool,
    /// Status of the last peer failure, for the next flush of all peers.
    pub(crate) last_failure: AtomicI32,
    pub(crate) report: RwLock<Option<ErrorReport>>,
    /// Callbacks of parts of operations, which are reported as a whole.
    pub(crate) parts: &'static [CompletionFn],
    /// Whether the failures of operations with a callback are reported, too.
    pub(crate) every: bool,
    /// What texts begin with: the interface, if this transport is a rail of another one.
    pub(crate) of: String,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The peers are to be checked: because some time has passed (`true`), or because an operation failed or was refused, to this peer
    /// if that is known, which may be gone.
    Check(Option<NonNull<Endpoint>>, bool),
    /// The kernel refused CMA to this peer.
    CmaRefused(NonNull<Endpoint>, Refused),
    /// A peer has failed.
    Failed(NonNull<Endpoint>, Cause, Status, String),
    /// The provider's completions cannot be read any more.
    ProviderFailed(String),
}

// SAFETY: endpoints are shared by all threads; a failure that is found keeps the endpoint (`Failures::reporting`).
unsafe impl Send for Found {}

thread_local! {
    /// Failure reports in progress on this thread.
    static REPORTING: Cell<u32> = const { Cell::new(0) };
}

/// Marks that a thread reports the operations of a failed peer.
pub(crate) struct Reporting<'a>(&'a Failures);

impl<'a> Reporting<'a> {
    pub(crate) fn begin(failures: &'a Failures) -> Reporting<'a> {
        REPORTING.set(REPORTING.get() + 1);
        failures.reporting.fetch_add(1, Ordering::Relaxed);
        Reporting(failures)
    }

    /// Whether this thread reports failures, so that it runs inside a callback perhaps.
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
