//! The calls that make a window.

use crate::door::Members;
use crate::win::create::make::create;
use crate::win::create::wanted::{Source, Wanted};
use crate::win::error::WinResult;
use crate::win::info::Info;
use crate::win::kind::WindowKind;
use crate::win::window::Window;

impl Window {
    /// Makes a window of the caller's memory over a job, or another group of ranks. Collective; every rank may give another length and
    /// displacement unit. Every rank gets [`WinError::Creation`](crate::win::WinError::Creation) if some rank cannot take part.
    ///
    /// # Safety
    /// The memory is readable and writable, and stays so until the window was freed. The program accesses exposed memory only
    /// as MPI's rules for the epoch allow, and not through references.
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

    /// Makes a window that owns `len` zeroed bytes. Collective.
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
    /// unless the info says otherwise. Collective. Every rank gets [`WinError::Creation`](crate::win::WinError::Creation) if
    /// some rank does not share memory with the other ranks.
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

    /// Makes a window without memory. Each rank attaches memory to it later. Displacements are
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
}
