//! The ranks that a window is made over, and how they meet to make it.

use std::sync::Arc;

use super::context::Context;
use crate::transport::EndpointRef;

/// An ordered set of processes that make windows together. Windows are made by exchanges of their members, which call in
/// the same order; a window that is made needs none.
pub trait Group: Send + Sync {
    /// The state that this process's windows share.
    fn context(&self) -> &Arc<Context>;

    /// This process among the members.
    fn rank(&self) -> usize;

    /// The number of members.
    fn size(&self) -> usize;

    /// The process of a member, as the transport names it in its reports; `rank` is below [`size`](Self::size).
    fn process(&self, rank: usize) -> u64;

    /// The endpoint of a member, or why there is none.
    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String>;

    /// Whether a member runs on this machine.
    fn is_beside(&self, rank: usize) -> bool;

    /// Whether windows may share memory with a member: one machine may be taken for several nodes.
    fn may_share(&self, rank: usize) -> bool {
        self.is_beside(rank)
    }

    /// The first exchange of a creation. As [`allgather`](Self::allgather), but the members may tell each other more in the same
    /// exchange, and may agree to make no window. [`endpoint`](Self::endpoint) serves after it.
    fn meet(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, NotMet> {
        self.allgather(mine).map_err(NotMet::Failed)
    }

    /// Gives every member what each gave, in order; collective. Makes progress meanwhile.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String>;
}

/// The reason why the members have not met.
pub enum NotMet {
    /// The exchange failed here. Other members may make the window.
    Failed(String),
    /// All members end the creation alike.
    Refused {
        /// The member that caused the failure.
        rank: usize,
        /// Its reason.
        reason: String,
    },
}

/// The argument of window creation: a [`Group`], shared.
#[derive(Clone)]
pub struct Members(Arc<dyn Group>);

impl Members {
    /// Windows over this group.
    pub fn new(group: Arc<dyn Group>) -> Members {
        Members(group)
    }
}

impl std::ops::Deref for Members {
    type Target = dyn Group;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

/// Something shared that is a group, or has one that a window is made over.
pub trait Grouped {
    /// The group.
    fn group(this: &Arc<Self>) -> Arc<dyn Group>;
}

impl<T: Grouped> From<&Arc<T>> for Members {
    fn from(shared: &Arc<T>) -> Members {
        Members(T::group(shared))
    }
}
