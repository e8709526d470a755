//! A window: how it is made, and how it ends. Its parts are in `parts`.

use std::mem::ManuallyDrop;
use std::sync::{Arc, PoisonError};

use plugin_api::hmem_iface;

use super::create::{Source, Wanted, create};
use super::device_copy::Way;
use super::epoch::Epochs;
use super::error::{WinError, WinResult};
use super::hints::Rules;
use super::hooks::Layers;
use super::info::{Info, Resolved};
use super::link::Link;
use super::parts::Parts;
use super::peer::WindowKind;
use super::remains::Dropped;
use super::table::RmaTable;
use super::types::TypeTable;
use crate::job::Members;

/// Memory of every rank of a group, open to one-sided access by all of them.
///
/// Any thread may call, within the job's thread level. Buffers given to communication calls
/// belong to them until the operation is complete: at the end of the epoch, at a flush, or when
/// its request is.
///
/// A window is ended by [`free`](Self::free), which every rank calls. One that is dropped without
/// it leaks its memory, because other ranks may still use it; its registrations end with the job.
pub struct Window {
    pub(super) kind: WindowKind,
    /// What it was asked to be.
    pub(super) info: Resolved,
    pub(super) rules: Rules,
    pub(super) link: Link,
    pub(super) types: TypeTable,
    pub(super) epochs: Epochs,
    pub(super) table: RmaTable,
    pub(super) table_name: &'static str,
    pub(super) layers: Layers,
    // Boxed: callbacks hold addresses of counts in it, and the window itself may be moved.
    pub(super) parts: ManuallyDrop<Box<Parts>>,
    /// Whether the parts are still there.
    pub(super) whole: bool,
}

impl Window {
    /// Makes a window of the caller's memory over a job, or another group of ranks. Collective; every rank may give another length and
    /// displacement unit. [`WinError::Creation`] on every rank when some rank cannot take part.
    ///
    /// # Safety
    /// The memory is readable and writable, and stays so until the window was freed. While it is
    /// exposed it is touched only as MPI's rules for the epoch allow, and not through references.
    pub unsafe fn create(
        over: impl Into<Members>,
        base: *mut u8,
        len: usize,
        unit: u32,
    ) -> WinResult<Window> {
        // SAFETY: passed on to the caller.
        unsafe { Self::create_with(over, base, len, unit, &Info::new()) }
    }

    /// As [`create`](Self::create), with hints.
    ///
    /// # Safety
    /// As for [`create`](Self::create).
    pub unsafe fn create_with(
        over: impl Into<Members>,
        base: *mut u8,
        len: usize,
        unit: u32,
        info: &Info,
    ) -> WinResult<Window> {
        let wanted = Wanted {
            kind: WindowKind::Create,
            unit,
            source: Source::Caller(base, len),
            info,
        };
        create(over.into(), &wanted)
    }

    /// Makes a window of `len` zeroed bytes that it owns. Collective.
    pub fn allocate(over: impl Into<Members>, len: usize, unit: u32) -> WinResult<Window> {
        Self::allocate_with(over, len, unit, &Info::new())
    }

    /// As [`allocate`](Self::allocate), with hints.
    pub fn allocate_with(
        over: impl Into<Members>,
        len: usize,
        unit: u32,
        info: &Info,
    ) -> WinResult<Window> {
        let wanted = Wanted {
            kind: WindowKind::Allocate,
            unit,
            source: Source::Own(len),
            info,
        };
        create(over.into(), &wanted)
    }

    /// Makes a window of `len` zeroed bytes of memory that every rank may address, see
    /// [`shared_query`](Self::shared_query). The ranks' parts follow each other without a gap
    /// unless the info says otherwise. Collective; [`WinError::Creation`] on every rank when some
    /// rank does not share memory with the others.
    pub fn allocate_shared(
        over: impl Into<Members>,
        len: usize,
        unit: u32,
        info: &Info,
    ) -> WinResult<Window> {
        let wanted = Wanted {
            kind: WindowKind::AllocateShared,
            unit,
            source: Source::Own(len),
            info,
        };
        create(over.into(), &wanted)
    }

    /// Makes a window without memory, to which each rank attaches some. Displacements are
    /// addresses in the target's process. Collective.
    pub fn dynamic(over: impl Into<Members>) -> WinResult<Window> {
        Self::dynamic_with(over, &Info::new())
    }

    /// As [`dynamic`](Self::dynamic), with hints.
    pub fn dynamic_with(over: impl Into<Members>, info: &Info) -> WinResult<Window> {
        let wanted = Wanted {
            kind: WindowKind::Dynamic,
            unit: 1,
            source: Source::None,
            info,
        };
        create(over.into(), &wanted)
    }

    /// How the window's memory came to be.
    pub fn kind(&self) -> WindowKind {
        self.kind
    }

    /// Which functions the window got when it was made: `shm` (all ranks in one segment), `mixed`
    /// (some ranks by memory), `btl` (the transport alone). It may differ between ranks. What layers replaced since does not show.
    pub fn table_name(&self) -> &'static str {
        self.table_name
    }

    /// This process's rank in the window.
    pub fn rank(&self) -> usize {
        self.link.rank
    }

    /// Ranks of the window.
    pub fn size(&self) -> usize {
        self.link.size
    }

    /// The first byte of this rank's memory; null in a dynamic window. Reading and writing it
    /// follows MPI's rules for local access in the open epoch.
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

    /// Copies out of this rank's memory, as a local load. [`WinError::OutOfBounds`] beyond it.
    pub fn read_local(&self, offset: usize, into: &mut [u8]) -> WinResult<()> {
        let from = self.local("local read", offset, into.len())?;
        if self.parts.exposed.iface != hmem_iface::SYSTEM {
            return self.copy_own("local read", offset, Way::From(into));
        }
        // SAFETY: the range was checked to lie in this rank's memory, which stays while the window
        // is not freed. No thread of this process writes it meanwhile: writing here takes unsafe
        // functions, which forbid that. Other processes may; as with any shared memory the bytes then
        // are either, and bytes have no invalid values.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies to this rank's memory, as a local store. [`WinError::OutOfBounds`] beyond it.
    ///
    /// ```compile_fail,E0133
    /// fn two_threads_at_once(window: &host_stub::win::Window) {
    ///     std::thread::scope(|scope| {
    ///         scope.spawn(|| window.write_local(0, &[1]));
    ///         scope.spawn(|| window.write_local(0, &[2]));
    ///     });
    /// }
    /// ```
    ///
    /// # Safety
    /// Nobody in this process accesses the same bytes meanwhile: no other local read or write, nothing
    /// through [`base`](Self::base) or a reference made of it, and no operation of this process that
    /// has this range as its origin buffer or its target. For other processes MPI's rules for local
    /// stores in the open epoch hold.
    pub unsafe fn write_local(&self, offset: usize, from: &[u8]) -> WinResult<()> {
        let to = self.local("local write", offset, from.len())?;
        if self.parts.exposed.iface != hmem_iface::SYSTEM {
            return self.copy_own("local write", offset, Way::To(from));
        }
        // SAFETY: the range was checked to lie in this rank's memory; the caller keeps everybody else off it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    fn local(&self, call: &'static str, offset: usize, len: usize) -> WinResult<*mut u8> {
        let fits = offset
            .checked_add(len)
            .is_some_and(|end| end <= self.parts.exposed.len);
        if !fits {
            return Err(WinError::OutOfBounds {
                call,
                rank: self.link.rank,
                displacement: offset as u64,
                unit: 1,
                size: len,
                limit: self.parts.exposed.len as u64,
            });
        }
        Ok(self.parts.exposed.base.wrapping_add(offset))
    }

    /// Ends the window. Collective. Waits until every rank is here and everything under way has
    /// ended, then gives the memory back. On an error the window comes back: as it was after
    /// [`WinError::EpochMisuse`] (an epoch is open) and [`WinError::Level`], to be dropped after any
    /// other.
    pub fn free(mut self) -> Result<(), FreeError> {
        let fail = |window, error| FreeError {
            window: Box::new(window),
            error,
        };
        let job = Arc::clone(&self.link.job);
        let _entered = match job.runtime().enter("free") {
            Ok(entered) => entered,
            Err(error) => return Err(fail(self, error.into())),
        };
        if let Err(error) = self.epochs.free_begin() {
            return Err(fail(self, error));
        }
        let freed = (self.table.free)(&self);
        self.epochs.free_end();
        if let Err(error) = freed {
            return Err(fail(self, error));
        }
        Layers::end(&mut self);
        // Every rank is past its last access (the table's free met them all), so nobody uses the
        // memory, and nothing of this rank is under way, so no callback comes.
        self.discard();
        Ok(())
    }

    /// Lets the window go: no rank uses it, or ever could.
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
            // SAFETY: `self` ends here, and with `whole` still set nobody has taken the parts.
            let parts = unsafe { ManuallyDrop::take(&mut self.parts) };
            self.link.job.slot::<Dropped>().keep(parts);
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

/// A window that could not be freed, and why.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FreeError {
    /// The window.
    pub window: Box<Window>,
    /// Why it lives on.
    pub error: WinError,
}

impl From<FreeError> for WinError {
    fn from(error: FreeError) -> WinError {
        error.error
    }
}
