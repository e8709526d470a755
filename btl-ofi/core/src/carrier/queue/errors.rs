//! Error completions: each one is reported once.

use std::ffi::c_int;
use std::ptr::NonNull;

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::base::error::{describe, peer_is_gone, status_of};
use crate::core::context::Context;
use crate::core::failures::Reporting;
use crate::core::state::Core;
use crate::detector::Cause;
use crate::op::completion::Finished;
use crate::op::marked::Marked;
use crate::op::tag::Tag;

impl Core {
    /// Reads an error completion. Each failure is reported once: by the operation's callback, or by the error
    /// function and the next flush.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_error(&self, context: &Context, n: isize) -> usize {
        if n != -(ffi::FI_EAVAIL as isize) {
            let code = i32::try_from(-n).unwrap_or(ffi::FI_EOTHER as i32);
            if code != libc::EINTR && !status_of(code).is_again() {
                self.fail_provider(&format!(
                    "fi_cq_read returned {n} ({}), so nothing completes; the module can no longer be used",
                    describe(code)
                ));
            }
            return 0;
        }
        let Some(mut state) = context.state.try_lock() else {
            return 0;
        };
        let mut entry = ffi::fi_cq_err_entry::default();
        // SAFETY: the queue is live and read under the lock; the entry is initialized and names no buffer for
        // error data.
        let rc = unsafe { ffi::fi_cq_readerr(context.cq, &mut entry) };
        if rc < 0 {
            return 0;
        }
        let code = match entry.err {
            0 => ffi::FI_EIO as c_int,
            err => err.abs(),
        };
        let status = match status_of(code) {
            // The operation is over: its status must not mean that the caller should retry.
            s if s.is_ok() || s.is_again() => Status::ERROR,
            s => s,
        };
        let tag = Tag::from_untracked(entry.op_context);
        let what = format!(
            "{} (error {code}, provider's {})",
            describe(code),
            entry.prov_errno
        );
        let marked = match tag {
            // SAFETY: the provider returns the contexts that this transport gave to it.
            None => unsafe { Marked::of(entry.op_context) },
            Some(_) => None,
        };
        let mut pointer = entry.op_context;
        match (marked, state.messages.as_mut()) {
            (Some(Marked::Message(message)), Some(messages)) => {
                messages.failed(message, code);
                return self.tell_failures(context, state);
            }
            (Some(Marked::Confirmation(read)), _) => {
                return self.not_confirmed(context, state, read, (code, status), &what);
            }
            (Some(Marked::Put(put)), _) => pointer = put.as_ptr().cast(),
            _ => {}
        }
        let finished = match (tag, state.pool.owns(pointer)) {
            // SAFETY: `owns` found the record in use, and the lock is held.
            (None, Some(record)) => Some(unsafe { state.pool.give_back(record) }),
            _ => None,
        };
        let for_others = self.policy.reports_for_others || self.policy.has_messages();
        if tag.is_none() && finished.is_none() && for_others {
            // The entry may be a message's, so it does not mean that an outstanding operation failed.
            drop(state);
            tracing::warn!(
                "an operation failed, perhaps one that a peer started here: {}",
                describe(code)
            );
            self.check_peers(None);
            return 0;
        }
        state.counts.failed += 1;
        if tag.is_none() && finished.is_none() {
            state.unattributed += 1;
            drop(state);
            tracing::warn!(
                "the provider reported an error without naming the operation: {}",
                describe(code)
            );
            return self.settle_unattributed();
        }
        drop(state);
        self.report_error(context, (tag, finished), (code, status), &what);
        1
    }

    /// Reports the operation of an error completion. Also reports its peer if the error means that
    /// the peer is gone.
    #[cold]
    fn report_error(
        &self,
        context: &Context,
        (tag, finished): (Option<Tag>, Option<Finished>),
        (code, status): (c_int, Status),
        what: &str,
    ) {
        // The report begins before the counts are lowered, because a release that waits for the counts
        // keeps the endpoint until this report is over.
        let _reporting = peer_is_gone(code).then(|| Reporting::begin(&self.failures));
        match (tag, finished) {
            (Some(tag), _) => {
                self.fail_operations(tag, 1, status, what);
                self.lower(context, tag, 1);
            }
            (None, Some(f)) => {
                self.tell_failed(&[f], status, what);
                self.deliver(context, &[f], status);
            }
            (None, None) => {}
        }
        let tag = tag.or(finished.map(|f| f.tag));
        match tag.and_then(|tag| NonNull::new(tag.endpoint())) {
            Some(endpoint) if peer_is_gone(code) => {
                self.fail_peer(endpoint, Cause::Gone, status, what)
            }
            // Some providers report a lost peer as an unspecific error.
            suspect => self.check_peers(suspect),
        }
    }
}
