//! The completions that one poll of a ring found. Completions are collected under the lock and delivered after its
//! release.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use plugin_api::Status;

use crate::base::cma::Refused;
use crate::base::params::MAX_CQ_READ;
use crate::op::completion::Finished;
use crate::peer::endpoint::Endpoint;

/// Completed operations: collected under the lock, delivered after its release.
pub(crate) struct Done {
    finished: [MaybeUninit<Finished>; MAX_CQ_READ],
    count: usize,
    /// An operation that failed. The failed operation comes after the operations in `finished`, and nothing is
    /// collected after it.
    pub(crate) refused: Option<(Finished, Status)>,
    /// A peer that CMA no longer reaches, or whose process no longer has the peer's memory: another process has the
    /// id, or the process executed another program.
    pub(crate) doubted: Option<(NonNull<Endpoint>, Refused)>,
}

impl Done {
    #[inline]
    pub(crate) fn new() -> Done {
        Done {
            finished: [const { MaybeUninit::uninit() }; MAX_CQ_READ],
            count: 0,
            refused: None,
            doubted: None,
        }
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.count < MAX_CQ_READ && self.refused.is_none()
    }

    pub(super) fn push(&mut self, finished: Finished) {
        self.finished[self.count].write(finished);
        self.count += 1;
    }

    pub(crate) fn finished(&self) -> &[Finished] {
        // SAFETY: `push` initialises an element before it increments `count`, so the first `count` are initialised.
        unsafe { std::slice::from_raw_parts(self.finished.as_ptr().cast(), self.count) }
    }
}
