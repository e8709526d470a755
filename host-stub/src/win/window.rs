//! A window: its parts, how it is made, and how it ends.

use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use plugin_api::{Access, AtomicFlags, ModuleFlags};

use super::btl;
use super::control::{Control, ControlPlan};
use super::dynamic::{Attached, region_words};
use super::epoch::Epochs;
use super::error::{WinError, WinResult};
use super::link::{Link, is_crowded};
use super::members::Members;
use super::memory::Pages;
use super::peer::{Offer, Peer, WindowKind, decode, encode};
use super::pending::Pending;
use super::request::RequestPool;
use super::slots::{SLOTS, Slots};
use super::table::RmaTable;
use super::types::TypeTable;
use crate::loader::Registration;

/// This rank's memory in a window.
pub(super) struct Exposed {
    base: *mut u8,
    len: usize,
    // Before `_pages`: fields drop in this order, and a registration must not outlive its memory.
    registration: Option<Registration>,
    /// The memory itself, where the window owns it.
    _pages: Option<Pages>,
}

// SAFETY: the pointer is only handed out, or used for bounded copies that the methods document.
unsafe impl Send for Exposed {}
// SAFETY: as for Send.
unsafe impl Sync for Exposed {}

/// Synchronisation state that only this rank uses.
#[derive(Default)]
pub(super) struct SyncState {
    /// Barriers entered.
    pub(super) barriers: AtomicU64,
    /// Completions that all exposure epochs so far wait for.
    pub(super) completions_due: AtomicU64,
    /// The group of the open start epoch.
    pub(super) group: Mutex<Vec<usize>>,
    /// Notices to peers under way.
    pub(super) notices: Pending,
}

/// What goes when the window was freed. Without `free` none of it may go: peers may still write it.
pub(super) struct Parts {
    pub(super) exposed: Exposed,
    pub(super) control: Control,
    pub(super) attached: Attached,
    pub(super) peers: Box<[Peer]>,
    pub(super) slots: Slots,
    pub(super) requests: RequestPool,
    pub(super) sync: SyncState,
}

/// Memory of every rank of a group, open to one-sided access by all of them.
///
/// Any thread may call, within the job's thread level. Buffers given to communication calls
/// belong to them until the operation is complete: at the end of the epoch, at a flush, or when
/// its request is.
///
/// A window is ended by [`free`](Self::free), which every rank calls. One that is dropped without
/// it leaks its memory and registrations, because other ranks may still use them.
pub struct Window {
    kind: WindowKind,
    pub(super) link: Link,
    pub(super) types: TypeTable,
    pub(super) epochs: Epochs,
    pub(super) table: RmaTable,
    // Boxed: callbacks hold addresses of counts in it, and the window itself may be moved.
    pub(super) parts: ManuallyDrop<Box<Parts>>,
    /// Whether the parts are still there.
    whole: bool,
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
        Self::make(over.into(), WindowKind::Create, unit, move || {
            if base.is_null() && len > 0 {
                return Err(format!("its memory of {len} B is at the null address"));
            }
            Ok((base, len, None))
        })
    }

    /// Makes a window of `len` zeroed bytes that it owns. Collective.
    pub fn allocate(over: impl Into<Members>, len: usize, unit: u32) -> WinResult<Window> {
        Self::make(over.into(), WindowKind::Allocate, unit, move || {
            let pages = Pages::new(len).ok_or_else(|| format!("there is no memory of {len} B"))?;
            Ok((pages.base(), len, Some(pages)))
        })
    }

    /// Makes a window without memory, to which each rank attaches some. Displacements are
    /// addresses in the target's process. Collective.
    pub fn dynamic(over: impl Into<Members>) -> WinResult<Window> {
        Self::make(over.into(), WindowKind::Dynamic, 1, || {
            Ok((std::ptr::null_mut(), 0, None))
        })
    }

    fn make(
        members: Members,
        kind: WindowKind,
        unit: u32,
        memory: impl FnOnce() -> Result<(*mut u8, usize, Option<Pages>), String>,
    ) -> WinResult<Window> {
        let transport = members.job().transport().clone();
        let attributes = members.job().transport().attributes();
        let handle_size = attributes.handle_size;
        let link = Link {
            rank: members.rank(),
            size: members.size(),
            ordered: attributes.flags.contains(ModuleFlags::ATOMICS_ORDERED)
                && attributes.contexts <= 1,
            crowded: is_crowded(members.job()),
            job: Arc::clone(members.job()),
            members,
            transport,
        };
        let regions = match kind {
            WindowKind::Dynamic => region_words(handle_size),
            _ => 0,
        };
        let plan = ControlPlan::new(link.size, regions, SLOTS);
        let local = usable(&link, unit)
            .and_then(|()| memory())
            .and_then(|(base, len, pages)| expose(&link, base, len, pages))
            .and_then(|exposed| {
                let control =
                    Control::new(&link.transport, plan).map_err(|error| error.to_string())?;
                Ok((exposed, control))
            });
        let offer = match &local {
            Ok((exposed, control)) => Ok(Offer {
                base: exposed.base as u64,
                limit: exposed.len as u64,
                unit,
                control_base: control.registration().base() as u64,
                handle: exposed
                    .registration
                    .as_ref()
                    .map_or(Vec::new(), |registration| {
                        registration.handle_bytes().to_vec()
                    }),
                control_handle: control.registration().handle_bytes().to_vec(),
            }),
            Err(reason) => Err(reason.clone()),
        };
        let blobs = link
            .members
            .allgather(&encode(kind, &offer))
            .map_err(|error| WinError::Job {
                call: "window creation",
                reason: error.to_string(),
            })?;
        let mut peers = Vec::with_capacity(link.size);
        for (rank, blob) in blobs.iter().enumerate() {
            let offer = decode(rank, kind, handle_size, blob)?;
            let endpoint = link
                .job
                .endpoint(link.members.world_rank(rank))
                .map_err(|error| WinError::Creation {
                    rank,
                    reason: error.to_string(),
                })?;
            peers.push(Peer::new(rank, endpoint, &offer));
        }
        if peers.len() != link.size {
            return Err(WinError::Creation {
                rank: link.rank,
                reason: format!("{} of {} ranks answered", peers.len(), link.size),
            });
        }
        let (exposed, control) = local.map_err(|reason| WinError::Creation {
            rank: link.rank,
            reason,
        })?;
        Ok(Window {
            kind,
            types: TypeTable::of(&link.transport),
            epochs: Epochs::new(link.size),
            table: btl::TABLE,
            parts: ManuallyDrop::new(Box::new(Parts {
                exposed,
                control,
                attached: Attached::default(),
                peers: peers.into(),
                slots: Slots::new(),
                requests: RequestPool::default(),
                sync: SyncState::default(),
            })),
            whole: true,
            link,
        })
    }

    /// How the window's memory came to be.
    pub fn kind(&self) -> WindowKind {
        self.kind
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
        self.parts.exposed.len == 0
    }

    /// Copies out of this rank's memory, as a local load. [`WinError::OutOfBounds`] beyond it.
    pub fn read_local(&self, offset: usize, into: &mut [u8]) -> WinResult<()> {
        let from = self.local("local read", offset, into.len())?;
        // SAFETY: the range was checked to lie in this rank's memory, which stays while the window
        // is not freed. Peers may write it meanwhile; as with any shared memory the bytes then
        // are either, and bytes have no invalid values.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies to this rank's memory, as a local store. [`WinError::OutOfBounds`] beyond it.
    pub fn write_local(&self, offset: usize, from: &[u8]) -> WinResult<()> {
        let to = self.local("local write", offset, from.len())?;
        // SAFETY: as in `read_local`.
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
    /// [`WinError::EpochMisuse`] (an epoch is open), to be dropped after any other.
    pub fn free(mut self) -> Result<(), FreeError> {
        let fail = |window, error| FreeError {
            window: Box::new(window),
            error,
        };
        if let Err(error) = self.epochs.free_begin() {
            return Err(fail(self, error));
        }
        let freed = (self.table.free)(&self);
        self.epochs.free_end();
        if let Err(error) = freed {
            return Err(fail(self, error));
        }
        self.whole = false;
        // SAFETY: `self` is dropped right after this with `whole` false, so the parts are dropped
        // once. Every rank is past its last access (the table's free met them all), so nobody uses
        // the memory, and nothing of this rank is under way, so no callback comes.
        unsafe { ManuallyDrop::drop(&mut self.parts) };
        Ok(())
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

/// Whether windows can be made over this transport at all.
fn usable(link: &Link, unit: u32) -> Result<(), String> {
    let attributes = link.transport.attributes();
    if unit == 0 {
        return Err("its displacement unit is 0".to_owned());
    }
    let wanted = ModuleFlags::PUT | ModuleFlags::GET | ModuleFlags::RDMA_REMOTE_COMPLETION;
    if !attributes.flags.contains(wanted) {
        return Err(format!(
            "windows need put, get and remote completion of the transport; {} has {:?}",
            attributes.provider, attributes.flags
        ));
    }
    let atomics = AtomicFlags::ADD | AtomicFlags::CSWAP;
    if !attributes.atomic_flags.contains(atomics) {
        return Err(format!(
            "windows need 64-bit fetch-add and compare-swap of the transport; {} has {:?}",
            attributes.provider, attributes.atomic_flags
        ));
    }
    if attributes.put_alignment > 1 || attributes.get_alignment > 1 {
        return Err(format!(
            "windows move single bytes; {} wants puts aligned to {} and gets to {} B",
            attributes.provider, attributes.put_alignment, attributes.get_alignment
        ));
    }
    Ok(())
}

fn expose(link: &Link, base: *mut u8, len: usize, pages: Option<Pages>) -> Result<Exposed, String> {
    let access =
        Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let registration = if len == 0 {
        None
    } else {
        // SAFETY: `create`'s caller vouches for the memory until the window was freed, or `pages`
        // holds it; the registration ends before (field order of Exposed).
        let registered = unsafe { link.transport.register(base, len, access) };
        Some(registered.map_err(|error| error.to_string())?)
    };
    Ok(Exposed {
        base,
        len,
        registration,
        _pages: pages,
    })
}
