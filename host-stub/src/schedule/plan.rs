//! The part of one rank in one collective.

use std::sync::Arc;

use plugin_api::Datatype;

use super::scope::Scope;
use crate::base::Op;

/// One step of a plan. Ranks are ranks of the job.
pub(crate) enum Step {
    /// Sends bytes, which stay unchanged until the round is done.
    Send {
        to: usize,
        at: *const u8,
        len: usize,
    },
    /// Receives exactly the given number of bytes.
    Receive {
        from: usize,
        at: *mut u8,
        len: usize,
    },
    /// Copies bytes immediately.
    Copy {
        from: *const u8,
        to: *mut u8,
        len: usize,
    },
    /// Computes `into[i] = left[i] op right[i]` immediately.
    Combine {
        op: Op,
        datatype: Datatype,
        left: *const u8,
        right: *const u8,
        into: *mut u8,
        count: usize,
    },
    /// Waits until all earlier sends and receives are done.
    Round,
}

// SAFETY: the pointers refer to buffers that belong to the collective while it runs, on any thread
// that makes progress; starting a collective is unsafe and requires such buffers.
unsafe impl Send for Step {}

/// A list of steps, and the scratch memory that they use. Plans are reused, and keep their memory.
#[derive(Default)]
pub(crate) struct Plan {
    pub(super) steps: Vec<Step>,
    scratch: Vec<Vec<u64>>,
    scratch_used: usize,
    scope: Option<Arc<Scope>>,
}

impl Plan {
    /// Empties the plan for a collective of `scope`.
    pub(crate) fn begin(&mut self, scope: &Arc<Scope>) {
        self.steps.clear();
        self.scratch_used = 0;
        self.scope = Some(Arc::clone(scope));
    }

    /// Releases the data of the last collective.
    pub(super) fn end(&mut self) {
        self.steps.clear();
        self.scope = None;
        /// The maximum scratch memory that is kept for the next collective, bytes.
        const KEPT: usize = 4 << 20;
        self.scratch.retain(|chunk| chunk.capacity() * 8 <= KEPT);
    }

    /// Leaks the plan's memory, because transfers may still use it.
    pub(super) fn lose(&mut self) {
        std::mem::forget(std::mem::take(&mut self.scratch));
    }

    fn job_rank(&self, rank: usize) -> usize {
        self.scope
            .as_ref()
            .map_or(usize::MAX, |scope| scope.job_rank(rank))
    }

    /// This process's rank in the scope.
    pub(crate) fn rank(&self) -> usize {
        self.scope.as_ref().map_or(0, |scope| scope.rank())
    }

    /// Ranks of the scope.
    pub(crate) fn size(&self) -> usize {
        self.scope.as_ref().map_or(0, |scope| scope.size())
    }

    /// Returns memory that stays until the collective is done; its contents are undefined. The
    /// memory is aligned for every element type.
    pub(crate) fn scratch(&mut self, bytes: usize) -> *mut u8 {
        let words = bytes.div_ceil(8);
        if self.scratch_used == self.scratch.len() {
            self.scratch.push(Vec::new());
        }
        let chunk = &mut self.scratch[self.scratch_used];
        self.scratch_used += 1;
        if chunk.len() < words {
            *chunk = vec![0; words];
        }
        chunk.as_mut_ptr().cast()
    }

    /// Sends to a rank of the scope. Adds no step for 0 bytes, like [`receive`](Self::receive).
    pub(crate) fn send(&mut self, rank: usize, at: *const u8, len: usize) {
        if len > 0 {
            let to = self.job_rank(rank);
            self.steps.push(Step::Send { to, at, len });
        }
    }

    /// Sends a message without payload.
    pub(crate) fn signal(&mut self, rank: usize) {
        let to = self.job_rank(rank);
        let at = std::ptr::NonNull::dangling().as_ptr();
        self.steps.push(Step::Send { to, at, len: 0 });
    }

    /// Waits for a message without payload.
    pub(crate) fn await_signal(&mut self, rank: usize) {
        let from = self.job_rank(rank);
        let at = std::ptr::NonNull::dangling().as_ptr();
        self.steps.push(Step::Receive { from, at, len: 0 });
    }

    /// Receives from a rank of the scope.
    pub(crate) fn receive(&mut self, rank: usize, at: *mut u8, len: usize) {
        if len > 0 {
            let from = self.job_rank(rank);
            self.steps.push(Step::Receive { from, at, len });
        }
    }

    /// Copies, in order with the other steps.
    pub(crate) fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) {
        if len > 0 && !std::ptr::eq(from, to) {
            self.steps.push(Step::Copy { from, to, len });
        }
    }

    /// Combines, in order with the other steps.
    pub(crate) fn combine(
        &mut self,
        (op, datatype): (Op, Datatype),
        left: *const u8,
        right: *const u8,
        into: *mut u8,
        count: usize,
    ) {
        if count > 0 {
            self.steps.push(Step::Combine {
                op,
                datatype,
                left,
                right,
                into,
                count,
            });
        }
    }

    /// Ends a round.
    pub(crate) fn round(&mut self) {
        self.steps.push(Step::Round);
    }
}
