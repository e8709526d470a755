//! The ranks that a window is made over, and how they meet to make it.

use std::sync::Arc;

use super::context::Context;
use crate::transport::EndpointRef;

/// An ordered set of processes that make windows together. Windows are made by exchanges of their members, which call in
/// the same order; a window that is made needs none.
pub trait Group: Send + Sync {
    /// What this process's windows share.
    fn context(&self) -> &Arc<Context>;

    /// This process among the members.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// The process of a member, as the transport names it in its reports; `rank` is below [`size`](Self::size).
    fn process(&self, rank: usize) -> u64;

    /// The endpoint of a member, or why there is none.
    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String>;

    /// The node of a member: members with equal numbers run on one machine.
    fn node(&self, rank: usize) -> u32;

    /// As [`node`](Self::node), of members that may share memory: machines may be taken for several nodes.
    fn memory_node(&self, rank: usize) -> u32 {
        self.node(rank)
    }

    /// Gives every member what each gave, in order; collective. Makes progress meanwhile.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String>;
}

/// What window creation takes: a [`Group`], shared.
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
