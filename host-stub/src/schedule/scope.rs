//! The ranks of a collective, and the tags that distinguish its messages from others.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::mailbox::Header;

/// The planes of a context, whose messages never mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plane {
    /// Collectives of the communicator's users.
    User,
    /// Internal agreements of communicators.
    Control,
}

/// The number of contexts.
pub(crate) const CONTEXTS: usize = 1 << 12;

/// The ranks of a communicator and its context. All collectives of the communicator share the
/// scope.
#[derive(Debug)]
pub(crate) struct Scope {
    /// The job ranks, indexed by rank.
    members: Box<[u32]>,
    me: usize,
    context: u16,
    sequences: [AtomicU32; 2],
    /// The number of running collectives.
    in_flight: AtomicUsize,
    /// The reason why the scope can no longer be used.
    broken: OnceLock<String>,
}

impl Scope {
    /// `me` is this process's index in `members`; `context` is below [`CONTEXTS`].
    pub(crate) fn new(members: Vec<u32>, me: usize, context: u16) -> Scope {
        Scope {
            members: members.into(),
            me,
            context,
            sequences: Default::default(),
            in_flight: AtomicUsize::new(0),
            broken: OnceLock::new(),
        }
    }

    /// The job ranks that a wait in this scope depends on, without this rank.
    pub(super) fn watched(&self) -> impl Iterator<Item = usize> + '_ {
        let others = self.members.iter().enumerate();
        let others = others.filter(|(rank, _)| *rank != self.me);
        others.map(|(_, job_rank)| *job_rank as usize)
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn rank(&self) -> usize {
        self.me
    }

    pub(crate) fn context(&self) -> u16 {
        self.context
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    /// The job rank of a rank; the last job rank if `rank` is too large.
    #[inline]
    pub(crate) fn job_rank(&self, rank: usize) -> usize {
        self.members[rank.min(self.members.len() - 1)] as usize
    }

    /// The rank of a job rank.
    pub(crate) fn rank_of(&self, job_rank: usize) -> Option<usize> {
        self.members
            .iter()
            .position(|member| *member as usize == job_rank)
    }

    /// Returns the context number of the communicator that sends messages with `tag`.
    pub(super) fn context_of(tag: u16) -> u16 {
        tag >> 2
    }

    /// The tag of messages of a plane of this context.
    pub(crate) fn tag(&self, plane: Plane) -> u16 {
        let plane = match plane {
            Plane::User => 0,
            Plane::Control => 1,
        };
        self.context << 2 | plane
    }

    /// The number of the next collective on a plane; every rank counts the same.
    pub(crate) fn next(&self, plane: Plane) -> u32 {
        let index = usize::from(plane == Plane::Control);
        self.sequences[index].fetch_add(1, Ordering::Relaxed) % Header::SEQUENCES
    }

    /// Counts a collective that begins.
    pub(crate) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a collective that has ended.
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// The number of running collectives.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Marks the scope as unusable; returns whether this was the first reason, which stays.
    pub(super) fn break_off(&self, reason: &str) -> bool {
        self.broken.set(reason.to_owned()).is_ok()
    }

    /// The reason why the scope can no longer be used.
    #[inline]
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_breaks_off_once_and_watches_all_others() {
        let scope = Scope::new(vec![4, 5, 6, 7], 2, 9);
        assert_eq!(scope.watched().collect::<Vec<_>>(), [4, 5, 7]);
        assert_eq!((scope.context(), scope.broken()), (9, None));
        assert!(scope.break_off("a reason"));
        assert!(!scope.break_off("another"));
        assert_eq!(scope.broken(), Some("a reason"));
    }
}
