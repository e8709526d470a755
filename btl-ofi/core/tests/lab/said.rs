//! The reports of callbacks and of the error function about operations.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use btl_ofi::ErrorReport;
use plugin_api::{Module, Status};

use super::Tally;
use crate::common::told::Ended;

/// The report of a callback.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) calls: AtomicU32,
    pub(super) status: AtomicI32,
}

impl Ended for Outcome {
    fn ended(&self, status: Status) {
        self.status.store(status.0, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// Outcomes of judged operations. The outcomes are kept until the transport is closed, because a second
/// callback may come at any time before.
#[derive(Default)]
pub(crate) struct Kept(Vec<Judged>);

struct Judged {
    what: String,
    outcome: Box<Outcome>,
    /// The number of callbacks that were counted when the operation was judged.
    calls: u32,
}

impl Kept {
    /// Keeps an outcome; `taken` is whether the post was accepted.
    pub(super) fn keep(&mut self, what: &str, outcome: Box<Outcome>, taken: bool) {
        let calls = outcome.calls.load(Ordering::Relaxed);
        self.0.push(Judged {
            what: what.to_owned(),
            outcome,
            // A refused operation must not call back; only this code checks this rule.
            calls: if taken { calls } else { 0 },
        });
    }

    /// Checks the outcomes after the transport was closed: a callback after the judgement counts as
    /// lost.
    pub(crate) fn check(self, tally: &mut Tally) {
        for o in self.0 {
            let calls = o.outcome.calls.load(Ordering::Relaxed);
            if calls != o.calls {
                let (what, judged) = (o.what, o.calls);
                println!("@lost 1: {what}: {calls} callbacks, {judged} when it was judged");
                tally.lost += 1;
            }
        }
    }
}

/// The reports of the error function.
#[derive(Default)]
pub(crate) struct Losses {
    /// The number of failed operations without callback.
    pub(super) untracked: AtomicU64,
    /// Whether the transport is cut off from the provider.
    cut_off: AtomicBool,
}

impl Losses {
    /// Whether the transport is cut off from the provider and can no longer be used.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// The error function of the transport.
    pub(crate) fn report(&self) -> ErrorReport {
        unsafe extern "C" fn hear(
            _: *mut Module,
            _: u32,
            _: *mut plugin_api::Endpoint,
            _: u64,
            _: i32,
            text: *const c_char,
            context: *mut c_void,
        ) {
            // SAFETY: the pointers are a string, and the counter that outlives the transport.
            let (text, losses) = unsafe { (CStr::from_ptr(text), &*context.cast::<Losses>()) };
            let text = text.to_string_lossy();
            if let Some((n, _)) = text.split_once(" operation(s) to process") {
                losses
                    .untracked
                    .fetch_add(n.parse().unwrap(), Ordering::Relaxed);
            }
            if text.contains("the module can no longer be used") {
                losses.cut_off.store(true, Ordering::Relaxed);
            }
        }
        ErrorReport {
            function: hear,
            context: ptr::from_ref(self).cast_mut().cast(),
        }
    }
}
