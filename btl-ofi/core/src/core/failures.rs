//! Failures: those that were found and are to be acted on, and their reports to the host.
//!
//! The code that finds a failure holds a lock, or is in the middle of a post or a poll, or lies below the code that ends with a
//! peer. So the code that finds a failure leaves the failure here. The transport acts with no lock held (`engine::failure`): in
//! its next progress, after a post that was refused, and while it waits for reports. Operations without callback that failed
//! are reported by the next flush, too.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::CString;
use std::ptr::{NonNull, fn_addr_eq};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use plugin_api::{CompletionFn, ErrorFlags, Status};

use crate::base::capabilities::ErrorReport;
use crate::base::cma::Refused;
use crate::core::state::Core;
use crate::detector::Cause;
use crate::op::completion::Finished;
use crate::op::record::Pool;
use crate::op::tag::Tag;
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

impl Core {
    /// Requests a check of the peers after an error.
    ///
    /// If nothing is outstanding, only the `suspect` may fail: another dead peer may have left in good order.
    #[cold]
    pub(crate) fn check_peers(&self, suspect: Option<NonNull<Endpoint>>) {
        self.defer(Found::Check(suspect, false));
    }

    /// Requests a check of the peers, at most once per interval.
    #[cold]
    pub(crate) fn check_peers_now_and_then(&self) {
        let (now, last) = (self.detector.now(), &self.detector.last_check);
        let before = last.load(Ordering::Relaxed);
        if self.is_copy() || now.wrapping_sub(before) < self.setup.check_interval_ms {
            return;
        }
        // Only one of several threads checks.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if last.compare_exchange(before, now, set, fetch).is_ok() {
            self.defer(Found::Check(None, true));
        }
    }

    /// Fails a peer. Outstanding operations with a callback are reported as failed, later operations get
    /// `status` immediately, and flushes no longer wait for the peer. Operation records at the provider are not
    /// reused, because the provider may still write to them if the peer returns. Operations in the peer's ring
    /// end, because only this process writes their buffers. If a [silent](Cause::Silent) peer fails, which may come back, the
    /// provider first stops accessing the buffers of outstanding operations, because the report returns these buffers to the
    /// caller.
    #[cold]
    pub(crate) fn fail_peer(
        &self,
        endpoint: NonNull<Endpoint>,
        cause: Cause,
        status: Status,
        why: &str,
    ) {
        // SAFETY: endpoints live until the transport closes.
        if unsafe { endpoint.as_ref() }.failure().is_none() {
            self.defer(Found::Failed(endpoint, cause, status, why.to_owned()));
        }
    }

    /// Fails the provider, because its completions can no longer be read. The endpoints are closed, so that the provider
    /// no longer accesses buffers, and operations outstanding at the provider are reported.
    #[cold]
    pub(crate) fn fail_provider(&self, what: &str) {
        self.defer(Found::ProviderFailed(what.to_owned()));
    }

    /// Leaves a failure to the next progress, unless the same failure is already in the list.
    #[cold]
    pub(crate) fn defer(&self, found: Found) {
        let mut all = self.lock_found();
        if all.contains(&found) {
            return;
        }
        // The endpoint counts here until the failure is handled: a release in another thread keeps the endpoint, and a
        // flush that sees the failure waits for the callbacks.
        self.failures.reporting.fetch_add(1, Ordering::Relaxed);
        all.push_back(found);
        self.slow.wake();
    }

    /// Takes the oldest failure from the list. Only one is taken at a time: callbacks run after each failure, and may make
    /// progress, which handles the remaining failures.
    pub(crate) fn take_found(&self) -> Option<(Found, Reporting<'_>)> {
        let found = self.lock_found().pop_front()?;
        self.slow.rest();
        let reporting = Reporting::begin(&self.failures);
        self.failures.reporting.fetch_sub(1, Ordering::Relaxed);
        Some((found, reporting))
    }

    fn lock_found(&self) -> MutexGuard<'_, VecDeque<Found>> {
        let found = self.failures.found.lock();
        found.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Records `n` failed operations without callback for the next flush, and reports them. The caller lowers their counts
    /// afterwards, so that the flush also waits for this report.
    pub(crate) fn fail_operations(&self, tag: Tag, n: u32, status: Status, what: &str) {
        self.count_failed(tag, n);
        self.report_failures(tag, n, status, what);
    }

    /// Records failed operations without callback for the next flush. The caller lowers their counts afterwards.
    pub(crate) fn count_failed(&self, tag: Tag, n: u32) {
        // SAFETY: endpoints outlive the operations whose tags name them.
        let peer = unsafe { &*tag.endpoint() };
        peer.lost.fetch_add(n, Ordering::Relaxed);
        self.failures.lost.fetch_add(n, Ordering::Relaxed);
    }

    /// Reports failed operations that were recorded. The caller holds no lock.
    pub(crate) fn report_failures(&self, tag: Tag, n: u32, status: Status, what: &str) {
        // SAFETY: endpoints outlive the operations whose tags name them.
        let peer = unsafe { &*tag.endpoint() };
        self.report(
            ErrorFlags::NONFATAL,
            Some(peer),
            status,
            &format!("{n} operation(s) to process {} failed: {what}", peer.proc),
        );
    }

    /// Reports failed operations of one peer before their callbacks run. The next flush reports operations without
    /// callback. Operations with a callback are reported if the host asked for this ([`Options::report_every_failure`]).
    ///
    /// [`Options::report_every_failure`]: crate::Options::report_every_failure
    #[cold]
    pub(crate) fn tell_failed(&self, finished: &[Finished], status: Status, what: &str) {
        let Some(first) = finished.first() else {
            return;
        };
        let silent = finished.iter().filter(|f| f.function.is_none());
        let silent = silent.count() as u32;
        if silent > 0 {
            self.fail_operations(first.tag, silent, status, what);
        }
        if self.failures.every {
            let told = finished.iter().filter(|f| {
                f.function.is_some_and(|f| !self.is_of_part(f)) && !Pool::was_reported(f)
            });
            let told = told.count() as u32;
            if told > 0 {
                self.report_failures(first.tag, told, status, what);
            }
        }
    }

    /// Reports the failure of operations or of a peer, or of the whole module if `peer` is `None`.
    pub(crate) fn report(
        &self,
        flags: ErrorFlags,
        peer: Option<&Endpoint>,
        status: Status,
        what: &str,
    ) {
        tracing::warn!("{}{what} [{status}]", self.failures.of);
        let report = *self
            .failures
            .report
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(report) = report else { return };
        let text = CString::new(what.replace('\0', " ")).unwrap_or_default();
        let endpoint = peer.map_or(std::ptr::null_mut(), |p| std::ptr::from_ref(p).cast_mut());
        // SAFETY: the host passed this function with its context and allows it to run on any thread that makes
        // progress; no lock is held.
        unsafe {
            (report.function)(
                self.setup.owner.load(Ordering::Relaxed),
                flags.bits(),
                endpoint.cast(),
                peer.map_or(u64::MAX, |p| p.proc),
                status.0,
                text.as_ptr(),
                report.context,
            );
        }
    }

    /// Whether a callback belongs to a part of an operation. Such an operation is reported as a
    /// whole.
    fn is_of_part(&self, function: CompletionFn) -> bool {
        let mut parts = self.failures.parts.iter();
        parts.any(|part| fn_addr_eq(*part, function))
    }
}
