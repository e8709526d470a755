//! Reports of failures to the host, and the resulting statuses of later flushes.

use std::ffi::CString;
use std::ptr::fn_addr_eq;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use plugin_api::{CompletionFn, ErrorFlags, Status};

use crate::core::state::Core;
use crate::op::completion::Finished;
use crate::op::record::Pool;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;

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

    /// Reports a failure of the whole module.
    pub(crate) fn report_module(&self, status: Status, what: &str) {
        self.report(ErrorFlags::FATAL, None, status, what);
    }

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
