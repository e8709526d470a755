//! Progress: reads completion queues under their locks, and runs callbacks without a lock.

use crate::engine::transport::Transport;

impl Transport {
    /// Makes progress: polls this thread's context. If the poll finds nothing, and otherwise at intervals, also
    /// polls one other context, in turn. So the operations of a thread that stopped polling still complete. Runs
    /// callbacks; callbacks may call `progress`. Returns the number of completed operations, plus work done for
    /// peers; 0 if nothing happened.
    #[inline(always)]
    pub fn progress(&self) -> usize {
        // This check comes first, so that the poll can be a tail call.
        if self.slow.is_awake() {
            return self.progress_devices();
        }
        self.progress_contexts()
    }

    /// [`progress`](Self::progress) when staged or compound operations may need to advance.
    #[cold]
    #[inline(never)]
    fn progress_devices(&self) -> usize {
        if self.is_copy() {
            return 0;
        }
        let done = self.progress_contexts()
            + self.rails.progress(self.compounds.striped() > 0)
            + self.advance_compounds()
            + self.drive()
            + self.act_on_failures();
        // This process may make no further progress, but peers wait for the messages that it posted
        // here.
        self.send_gathered();
        done
    }
}
