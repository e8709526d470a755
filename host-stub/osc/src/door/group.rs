//! The ranks of a window, and the exchanges by which they make it.

use std::sync::Arc;

use super::context::Context;
use crate::transport::EndpointRef;

/// An ordered set of processes that make windows together. The members make a window by exchanges, which all members
/// call in the same order. A finished window needs no exchange.
pub trait Group: Send + Sync {
    /// The state that this process's windows share.
    fn context(&self) -> &Arc<Context>;

    /// The rank of this process among the members.
    fn rank(&self) -> usize;

    /// The number of members.
    fn size(&self) -> usize;

    /// The number of a member's process in the transport's reports; `rank` is below [`size`](Self::size).
    fn process(&self, rank: usize) -> u64;

    /// The endpoint of a member, or the reason why there is none.
    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String>;

    /// Whether a member runs on this machine.
    fn is_beside(&self, rank: usize) -> bool;

    /// Whether windows may share memory with a member: the processes of one machine may count as
    /// several nodes.
    fn may_share(&self, rank: usize) -> bool {
        self.is_beside(rank)
    }

    /// The first exchange of a creation. As [`allgather`](Self::allgather), but the door may add its own data to the exchange,
    /// and the members may agree to make no window. [`endpoint`](Self::endpoint) may be called afterwards.
    fn meet(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, NotMet> {
        self.allgather(mine).map_err(NotMet::Failed)
    }

    /// Returns the bytes of all members, in the order of their ranks; collective. The call makes
    /// progress while it waits.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String>;
}

/// The reason why the members have not met.
pub enum NotMet {
    /// The exchange failed here. The exchange may have succeeded at other members, which then make
    /// the window.
    Failed(String),
    /// All members end the creation with this error.
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
    /// The argument for windows over this group.
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

/// A shared value that is a group, or has one for windows.
pub trait Grouped {
    /// The group.
    fn group(this: &Arc<Self>) -> Arc<dyn Group>;
}

impl<T: Grouped> From<&Arc<T>> for Members {
    fn from(shared: &Arc<T>) -> Members {
        Members(T::group(shared))
    }
}
