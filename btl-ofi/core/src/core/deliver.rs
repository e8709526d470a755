//! Callbacks of operations that are complete. The callbacks run without a lock.

use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::core::context::Context;
use crate::core::state::Core;
use crate::op::completion::Finished;

impl Core {
    /// Runs callbacks; counts each operation as done after its callback. The caller holds no lock.
    pub(crate) fn deliver(&self, context: &Context, finished: &[Finished], status: Status) {
        if finished.is_empty() {
            return;
        }
        let nested = context.delivering.begin();
        for f in finished {
            self.call_back(context, f, status, self.setup.threaded);
        }
        context.delivering.end(nested);
    }

    /// Runs an operation's callback, and counts the operation as done.
    #[inline(always)]
    pub(crate) fn call_back(
        &self,
        context: &Context,
        f: &Finished,
        status: Status,
        threaded: bool,
    ) {
        self.call_only(f, status);
        context.lower(f.tag, 1, threaded);
    }

    /// Runs a callback without counting the operation as done, for example because the provider still holds the
    /// operation.
    #[inline(always)]
    pub(crate) fn call_only(&self, f: &Finished, status: Status) {
        if let Some(function) = f.function {
            // SAFETY: the caller of the operation passed this function with its arguments, and allows it to run
            // on any thread that makes progress.
            unsafe {
                function(
                    self.setup.owner.load(Ordering::Relaxed),
                    f.tag.endpoint().cast(),
                    f.local_address,
                    f.local_handle,
                    f.context,
                    f.data,
                    status.0,
                );
            }
        }
    }

    /// Runs the callbacks of operations that needed no provider, then returns the list for reuse.
    #[inline]
    pub(crate) fn deliver_ready(&self, context: &Context, mut ready: Vec<Finished>) -> usize {
        let n = ready.len();
        if n > 0 {
            self.deliver(context, &ready, Status::SUCCESS);
            ready.clear();
            let mut state = context.state.lock();
            if state.ready.is_empty() {
                // The list with the larger allocation is used first again.
                std::mem::swap(&mut state.ready, &mut ready);
            }
            state.spare = ready;
        }
        n
    }
}
