//! A window: its properties, and its end. Its parts are in `parts`.

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::epoch::Epochs;
use super::error::WinError;
use super::hints::Rules;
use super::hooks::Layers;
use super::info::Resolved;
use super::kind::WindowKind;
use super::link::Link;
use super::parts::Parts;
use super::table::{Direct, RmaTable};

/// Memory of every rank of a group, open to one-sided access by all of them.
///
/// Any thread may call, within the job's thread level. A buffer that
/// was given to a communication call must not be touched until the operation is complete: at the
/// end of the epoch, at a flush, or when its request completes.
///
/// Every rank ends a window by [`free`](Self::free). A window that is dropped without `free` leaks
/// its memory, because other ranks may still use it; its registrations end with the job.
pub struct Window {
    pub(super) kind: WindowKind,
    /// The requested properties, and the table that the window got.
    pub(super) info: Resolved,
    pub(super) rules: Rules,
    pub(super) link: Link,
    pub(super) epochs: Epochs,
    pub(super) table: RmaTable,
    pub(super) direct: Direct,
    pub(super) layers: Layers,
    // Boxed, because callbacks hold addresses of counts in this structure, and the window itself
    // may be moved.
    pub(super) parts: ManuallyDrop<Box<Parts>>,
    /// Whether the window still has its parts.
    pub(super) whole: bool,
}

impl Window {
    /// The origin of the window's memory.
    pub fn kind(&self) -> WindowKind {
        self.kind
    }

    /// The functions that the window got when it was made: `shm` (all ranks in one segment), `mixed`
    /// (some ranks by memory), `btl` (the transport alone). The name may differ between ranks. The name does not show
    /// functions that layers replaced later.
    pub fn table_name(&self) -> &'static str {
        self.info.table.name()
    }

    /// This process's rank in the window.
    pub fn rank(&self) -> usize {
        self.link.rank
    }

    /// Ranks of the window.
    pub fn size(&self) -> usize {
        self.link.size
    }

    /// The first byte of this rank's memory; null in a dynamic window. Reads and writes of this
    /// memory follow MPI's rules for local access in the open epoch.
    pub fn base(&self) -> *mut u8 {
        self.parts.exposed.base
    }

    /// Bytes of this rank's memory.
    pub fn len(&self) -> usize {
        self.parts.exposed.len
    }

    /// Whether this rank has no memory in the window.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the window. Collective. Waits until every rank is here and all operations under way have
    /// ended, then frees the memory. The error contains the window: unchanged after
    /// [`WinError::EpochMisuse`] (an epoch is open) and [`WinError::Level`], and only good for
    /// dropping after other errors.
    pub fn free(mut self) -> Result<(), FreeError> {
        let fail = |window, error| FreeError {
            window: Box::new(window),
            error,
        };
        let context = Arc::clone(&self.link.context);
        let _entered = match context.watch.as_ref().map(|watch| watch.enter("free")) {
            None => None,
            Some(Ok(entered)) => entered,
            Some(Err(error)) => return Err(fail(self, error)),
        };
        if let Err(error) = self.epochs.free_begin() {
            return Err(fail(self, error));
        }
        // This call precedes the meeting with the other ranks, because they may free their memory
        // after the meeting.
        self.parts.neighbours.close();
        let freed = (self.table.free)(&self);
        self.epochs.free_end();
        if let Err(error) = freed {
            return Err(fail(self, error));
        }
        Layers::end(&mut self);
        // Every rank is past its last access (the table's free met them all), so no rank uses the
        // memory, and no operation of this rank is under way, so no callback comes.
        if let Some(shared) = self.parts.shared.take() {
            let barriers = self.parts.sync.barriers.load(Ordering::Relaxed);
            context.spare.keep(shared, self.link.rank, barriers);
        }
        self.discard();
        Ok(())
    }

    /// Drops the window's parts: no rank uses the window, or it was never finished.
    pub(super) fn discard(mut self) {
        self.whole = false;
        // SAFETY: `self` is dropped right after this with `whole` false, so the parts are dropped
        // once.
        unsafe { ManuallyDrop::drop(&mut self.parts) };
    }

    pub(super) fn group(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.parts
            .sync
            .group
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if self.whole {
            tracing::warn!(
                rank = self.link.rank,
                "a window was dropped without being freed; its memory stays"
            );
            // SAFETY: `self` ends here, and with `whole` still set the parts were not taken.
            let mut parts = unsafe { ManuallyDrop::take(&mut self.parts) };
            parts.neighbours.close();
            self.link.context.dropped.keep(parts);
        }
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("kind", &self.kind)
            .field("rank", &self.link.rank)
            .field("size", &self.link.size)
            .finish_non_exhaustive()
    }
}

/// A window that could not be freed, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FreeError {
    /// The window.
    pub window: Box<Window>,
    /// The reason why the window lives on.
    pub error: Box<WinError>,
}

impl From<FreeError> for Box<WinError> {
    fn from(error: FreeError) -> Box<WinError> {
        error.error
    }
}
