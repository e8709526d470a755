//! Counts outstanding operations, for which flushes wait.
//!
//! A count is raised before an operation is handed to the transport and lowered by the operation's callback, so the count is
//! never too low. Counts live in two cells. An operation counts in the cell of the phase in which it is issued (phase modulo
//! 2). Any thread may advance the phase from `f` to `f + 1` while the cell of `f + 1` is zero, that is, when all operations of phase
//! `f - 1` have ended. So a flush that begins in phase `f` is over once the phase is `f + 2`. Operations that other threads issue
//! meanwhile do not prolong the flush, and no flush needs the thread of another flush to run. (The transport's core
//! counts alike: `peer/outstanding.rs`.)

use crate::win::sync::{AtomicUsize, Ordering};

use plugin_api::Status;

/// One count. The count's address is the context of the completion callback.
#[derive(Default)]
pub(super) struct Cell {
    /// Whether calls and callbacks never overlap, so that counting needs no locked instruction.
    alone: bool,
    /// In the bits below [`FAILED`] the operations under way; above them the first negative status since the last read of it,
    /// or 0. One word, so that a flush reads both by one load.
    state: AtomicUsize,
}

/// The first bit of a cell's failure.
const FAILED: u32 = 32;
const COUNT: usize = u32::MAX as usize;
const _: () = assert!(usize::BITS == 64);

impl Cell {
    /// Notes that one operation ended.
    #[inline]
    pub(super) fn finish(&self, status: i32) {
        if status < 0 {
            self.fail(status);
        }
        // Pairs with the Acquire load in `is_zero`: a thread that sees zero sees the data.
        if self.alone {
            let state = self.state.load(Ordering::Relaxed);
            self.state.store(state.wrapping_sub(1), Ordering::Release);
        } else {
            self.state.fetch_sub(1, Ordering::Release);
        }
    }

    /// Counts one more operation while another counted operation has not ended.
    pub(super) fn add(&self) {
        if self.alone {
            let state = self.state.load(Ordering::Relaxed);
            self.state.store(state.wrapping_add(1), Ordering::Relaxed);
        } else {
            self.state.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Notes a failure, unless one is noted already.
    #[cold]
    fn fail(&self, status: i32) {
        let mut state = self.state.load(Ordering::Relaxed);
        while state >> FAILED == 0 {
            let failed = state | (status as u32 as usize) << FAILED;
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match self
                .state
                .compare_exchange_weak(state, failed, success, failure)
            {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    #[inline]
    fn is_zero(&self) -> bool {
        self.state.load(Ordering::Acquire) & COUNT == 0
    }
}

/// The operations under way to one target.
#[derive(Default)]
pub(super) struct Pending {
    /// The phase. The cell with its index modulo 2 counts new operations.
    phase: AtomicUsize,
    cells: [Cell; 2],
}

impl Pending {
    /// Makes a count. With `alone`, calls of the process never overlap.
    pub(super) fn new(alone: bool) -> Pending {
        let cell = || Cell {
            alone,
            ..Cell::default()
        };
        Pending {
            cells: [cell(), cell()],
            ..Pending::default()
        }
    }

    /// Counts an operation that is about to be issued; the returned cell is finished once, by its
    /// callback or by the issuer if no callback will run.
    #[inline(always)]
    pub(super) fn begin(&self) -> &Cell {
        if self.cells[0].alone {
            let cell = &self.cells[self.phase.load(Ordering::Relaxed) & 1];
            let state = cell.state.load(Ordering::Relaxed);
            cell.state.store(state.wrapping_add(1), Ordering::Relaxed);
            return cell;
        }
        loop {
            let phase = self.phase.load(Ordering::Relaxed) & 1;
            let cell = &self.cells[phase];
            // SeqCst here and in `has_passed`: either the flush sees this count, or this load sees the
            // flush's new phase and the operation moves to the other cell.
            cell.state.fetch_add(1, Ordering::SeqCst);
            if self.phase.load(Ordering::SeqCst) & 1 == phase {
                return cell;
            }
            cell.finish(0);
        }
    }

    /// Whether no operation is under way.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.cells.iter().all(Cell::is_zero)
    }

    /// Not zero if an operation is under way, or failed since the last check.
    #[inline]
    pub(super) fn unsettled(&self) -> usize {
        let [a, b] = &self.cells;
        // Acquire: as in `is_zero`.
        a.state.load(Ordering::Acquire) | b.state.load(Ordering::Acquire)
    }

    /// Whether calls never overlap, so that no operation is issued during a wait.
    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        self.cells[0].alone
    }

    /// Begins a flush of all operations that were counted before.
    pub(super) fn flush(&self) -> Flush<'_> {
        Flush {
            pending: self,
            phase: self.phase.load(Ordering::SeqCst),
        }
    }

    /// Has the next flush report a failure that no other call reports.
    #[cold]
    pub(super) fn fail(&self, status: Status) {
        self.cells[0].fail(status.0);
    }

    /// The first failure since the last call.
    pub(super) fn take_failure(&self) -> Option<Status> {
        self.cells.iter().find_map(|cell| {
            // The common path only reads: a change would make the cache line dirty at every flush.
            if cell.state.load(Ordering::Relaxed) >> FAILED == 0 {
                return None;
            }
            match cell.state.fetch_and(COUNT, Ordering::Relaxed) >> FAILED {
                0 => None,
                code => Some(Status(code as u32 as i32)),
            }
        })
    }
}

/// The target for which counted operations are kept back, if any.
#[derive(Default)]
pub(super) struct KeptBack(AtomicUsize);

impl KeptBack {
    /// Counts an operation to a rank that is kept back.
    pub(super) fn begin<'p>(&self, rank: usize, pending: &'p Pending) -> &'p Cell {
        // The rank is stored before the count is raised, and by SeqCst: a flush whose cell has the count sees after its
        // change of phase that operations wait to be sent.
        self.0.store(rank + 1, Ordering::SeqCst);
        pending.begin()
    }

    /// The rank, if there is one.
    #[inline]
    pub(super) fn rank(&self) -> Option<usize> {
        self.0.load(Ordering::SeqCst).checked_sub(1)
    }

    /// Ends keeping operations back.
    pub(super) fn end(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// A flush under way.
pub(super) struct Flush<'a> {
    pending: &'a Pending,
    /// The phase in which the operation began.
    phase: usize,
}

impl Flush<'_> {
    /// Whether new operations count in another cell than the operations that the flush waits for.
    #[inline]
    pub(super) fn has_parted(&self) -> bool {
        self.has_passed(1)
    }

    /// Whether every operation issued before the flush has ended.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.has_passed(2)
    }

    fn has_passed(&self, phases: usize) -> bool {
        let Pending { phase, cells } = self.pending;
        loop {
            // SeqCst in all accesses: with less, the count of an issuer that did not see the new phase might be missed.
            let now = phase.load(Ordering::SeqCst);
            if now.wrapping_sub(self.phase) >= phases {
                return true;
            }
            let next = now.wrapping_add(1);
            if cells[next & 1].state.load(Ordering::SeqCst) & COUNT != 0 {
                return false;
            }
            // Another thread may have advanced the phase.
            let _ = phase.compare_exchange_weak(now, next, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}
