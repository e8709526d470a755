//! Children of fork. A child has a copy of this process's memory and its descriptors, but the connections, the rings and the
//! segments belong to its parent. So each object that others can see notes in which process it was made, and only that
//! process uses and ends it.
//!
//! The handler that `core::fork` registers counts forks here. A process that begins by the bare system call, or by `vfork`, is
//! not seen.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::error::Error;

/// Number of forks between the first process that opened a transport and this process.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The value of [`FORKS`] when a refusal was last logged.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// The process in which an object was made, as a number of forks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    forks: u32,
    pid: u32,
}

impl Birth {
    /// The birth of an object that is made now.
    pub(crate) fn now() -> Birth {
        Birth {
            forks: FORKS.load(Ordering::Relaxed),
            pid: std::process::id(),
        }
    }

    /// Whether the object was made in this process.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        // Relaxed: the handler writes while the child has one thread.
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// Refuses an operation on the object in a process that did not make it.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that made the object.
    pub(crate) fn check(self) -> Result<(), Error> {
        match self.is_here() {
            true => Ok(()),
            false => Err(self.refusal()),
        }
    }

    #[cold]
    fn refusal(self) -> Error {
        Error::Forked { owner: self.pid }
    }

    /// Logs the refusal once per process, for calls that only return a status.
    #[cold]
    pub(crate) fn tell(self) {
        let forks = FORKS.load(Ordering::Relaxed);
        if TOLD.swap(forks, Ordering::Relaxed) != forks {
            tracing::error!("{}", self.refusal());
        }
    }
}

/// Counts a fork. The child calls this.
pub(crate) fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
