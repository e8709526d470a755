//! Failures that were found, and are to be acted on. The code that finds a failure holds a lock, or is in the middle of
//! a post or a poll, or lies below the code that ends with a peer. So the code that finds a failure leaves the failure
//! here. The transport acts with no lock held (`engine::failure`): in its next progress, after a post that was refused,
//! and while it waits for reports.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use plugin_api::Status;

use crate::base::cma::Refused;
use crate::core::failures::{Found, Reporting};
use crate::core::state::Core;
use crate::detector::Cause;
use crate::peer::endpoint::Endpoint;

impl Core {
    /// Requests a check of the peers after an error.
    ///
    /// If nothing is outstanding, only the `suspect` may fail: another dead peer may have left in good order.
    #[cold]
    pub(crate) fn check_peers(&self, suspect: Option<NonNull<Endpoint>>) {
        self.defer(Found::Check(suspect, false));
    }

    /// Requests an examination of a peer after the kernel refused CMA to it.
    #[cold]
    pub(crate) fn examine_later(&self, endpoint: NonNull<Endpoint>, refused: Refused) {
        self.defer(Found::CmaRefused(endpoint, refused));
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
    /// end, because only this process writes their buffers.
    #[cold]
    pub(crate) fn fail_peer(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        self.fail(endpoint, Cause::Gone, status, why);
    }

    /// Fails a silent peer, which may come back. The provider first stops accessing the buffers of outstanding
    /// operations, because the report returns these buffers to the caller.
    #[cold]
    pub(crate) fn fail_silent(&self, endpoint: NonNull<Endpoint>, why: &str) {
        self.fail(endpoint, Cause::Silent, Status::UNREACH, why);
    }

    fn fail(&self, endpoint: NonNull<Endpoint>, cause: Cause, status: Status, why: &str) {
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
    fn defer(&self, found: Found) {
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
