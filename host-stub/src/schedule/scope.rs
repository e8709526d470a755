//! Who takes part in a collective, and how its messages are told from others.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::mailbox::Header;

/// Uses of a context that never meet each other's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plane {
    /// Collectives of the communicator's users.
    User,
    /// What communicators agree on among themselves.
    Control,
    /// Agreements of a part of the communicator's ranks.
    Group,
    /// Starts of persistent collectives.
    Persistent,
}

/// Contexts that can be told apart.
pub(crate) const CONTEXTS: usize = 1 << 12;

/// Persistent collectives of a communicator that can be told apart.
const PERSISTENT: u32 = 1 << 12;

/// Starts of one of them that can be told apart.
const STARTS: u32 = Header::SEQUENCES / PERSISTENT;

/// The numbers of a communicator's persistent collectives.
#[derive(Debug, Default)]
struct Numbers {
    /// How many were made.
    made: u32,
    live: Vec<u32>,
}

/// The ranks of a communicator and its context. Shared by everything that runs on it.
#[derive(Debug)]
pub(crate) struct Scope {
    /// Job ranks, by rank.
    members: Box<[u32]>,
    me: usize,
    context: u16,
    sequences: [AtomicU32; 2],
    persistent: Mutex<Numbers>,
    /// Collectives under way.
    in_flight: AtomicUsize,
    /// Why nothing more can be done here.
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
            persistent: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            broken: OnceLock::new(),
        }
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

    /// The job rank of a rank; the last for one that is too large.
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

    /// What tells messages of a plane of this context apart.
    pub(crate) fn tag(&self, plane: Plane) -> u16 {
        let plane = match plane {
            Plane::User => 0,
            Plane::Control => 1,
            Plane::Group => 2,
            Plane::Persistent => 3,
        };
        self.context << 2 | plane
    }

    /// The number of the next collective on a plane; every rank counts the same.
    pub(crate) fn next(&self, plane: Plane) -> u32 {
        let index = usize::from(plane == Plane::Control);
        self.sequences[index].fetch_add(1, Ordering::Relaxed) % Header::SEQUENCES
    }

    /// The number of a new persistent collective; every rank counts the same. What is wrong, if the last that had the number
    /// is still there.
    pub(crate) fn new_persistent(&self) -> Result<u32, String> {
        let mut numbers = self.numbers();
        let number = numbers.made % PERSISTENT;
        numbers.made = numbers.made.wrapping_add(1);
        if numbers.live.contains(&number) {
            return Err(format!(
                "the persistent collective made {PERSISTENT} before this one is still there; free it"
            ));
        }
        numbers.live.push(number);
        Ok(number)
    }

    /// Gives the number of a persistent collective back.
    pub(crate) fn end_persistent(&self, number: u32) {
        self.numbers().live.retain(|live| *live != number);
    }

    /// What tells one start of a persistent collective from others.
    pub(crate) fn persistent_start(number: u32, starts: u32) -> u32 {
        number * STARTS + starts % STARTS
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.persistent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A collective begins.
    pub(crate) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    /// A collective has ended.
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// Collectives under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Says that nothing more can be done here; the first reason stays.
    pub(crate) fn break_off(&self, reason: &str) {
        let _ = self.broken.set(reason.to_owned());
    }

    /// Why nothing more can be done here.
    #[inline]
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }
}
