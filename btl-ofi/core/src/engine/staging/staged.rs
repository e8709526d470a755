//! Operations on device memory that need copies: the request, its local buffers, and its progress.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use plugin_api::{AtomicOp, Status};

use crate::hmem::bounce::{Bounce, Pool};
use crate::mem::copy::Copier;
use crate::mem::copy_error::CopyError;
use crate::mem::device_regions::DeviceRegion;
use crate::mem::handle::Handle;
use crate::mem::later::Event;
use crate::op::record::Record;
use crate::op::request::Action;
use crate::op::responder::{self, Command, GET, PUT};
use crate::peer::endpoint::Endpoint;

/// Location of a local buffer. A device location includes the copy functions that were set when the
/// operation began.
#[derive(Clone)]
pub(super) enum Side {
    Nowhere,
    Value(u64),
    Host(*mut u8),
    Device(Arc<DeviceRegion>, u64, Copier),
}

impl Side {
    pub(super) fn is_device(&self) -> bool {
        matches!(self, Side::Device(..))
    }

    /// The address of the bytes from `offset` on, if a transfer can use the buffer without a copy.
    pub(super) fn host(&self, offset: usize) -> Option<*mut u8> {
        match self {
            Side::Host(base) => Some(base.wrapping_add(offset)),
            _ => None,
        }
    }

    /// Copies out of the buffer.
    ///
    /// # Safety
    /// The buffer is valid for `offset + size` bytes, and `dest` is writable for `size` bytes.
    pub(super) unsafe fn read(
        &self,
        offset: usize,
        dest: *mut u8,
        size: usize,
    ) -> Result<(), CopyError> {
        match self {
            Side::Nowhere => {}
            // SAFETY: `bytes` has 8 bytes, and at most 8 are copied; the caller guarantees that `dest` is
            // writable.
            Side::Value(value) => unsafe {
                let bytes = value.to_ne_bytes();
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), dest, size.min(8));
            },
            // SAFETY: the caller guarantees that the buffer and `dest` are valid for `size` bytes.
            Side::Host(base) => unsafe { std::ptr::copy(base.wrapping_add(offset), dest, size) },
            Side::Device(region, at, copier) => {
                let at = at.wrapping_add(offset as u64);
                // SAFETY: the range was checked to lie in the region; the caller guarantees that `dest` is
                // writable.
                unsafe { copier.read(region.iface, at, dest, size)? }
            }
        }
        Ok(())
    }

    /// Copies into the buffer.
    ///
    /// # Safety
    /// The buffer is valid for `offset + size` bytes, and `src` is readable for `size` bytes.
    pub(super) unsafe fn write(
        &self,
        offset: usize,
        src: *const u8,
        size: usize,
    ) -> Result<(), CopyError> {
        match self {
            Side::Nowhere | Side::Value(_) => {}
            // SAFETY: the caller guarantees that the buffer and `src` are valid for `size` bytes.
            Side::Host(base) => unsafe { std::ptr::copy(src, base.wrapping_add(offset), size) },
            Side::Device(region, at, copier) => {
                let at = at.wrapping_add(offset as u64);
                // SAFETY: the range was checked to lie in the region; the caller guarantees that `src` is
                // readable.
                unsafe { copier.write(region.iface, at, src, size)? }
            }
        }
        Ok(())
    }
}

impl Side {
    /// Whether a copy by [`start_read`](Self::start_read) of `size` bytes may complete after the
    /// call.
    pub(super) fn reads_later(&self, size: usize) -> bool {
        matches!(self, Side::Device(region, _, copier) if copier.reads_later(region.iface, size))
    }

    /// Starts the copy of [`read`](Self::read). Returns an event if the copy is not complete yet.
    ///
    /// # Safety
    /// The conditions of [`read`](Self::read); both memories stay until the event is over.
    pub(super) unsafe fn start_read(
        &self,
        offset: usize,
        dest: *mut u8,
        size: usize,
    ) -> Result<Option<Event>, CopyError> {
        match self {
            Side::Device(region, at, copier) => {
                let at = at.wrapping_add(offset as u64);
                // SAFETY: the range was checked to lie in the region; the caller guarantees both memories.
                unsafe { copier.start_read(region.iface, at, dest, size) }
            }
            // SAFETY: the caller guarantees the buffer and `dest`.
            host => unsafe { host.read(offset, dest, size) }.map(|()| None),
        }
    }

    /// Starts the copy of [`write`](Self::write). Returns an event if the copy is not complete yet.
    ///
    /// # Safety
    /// The conditions of [`write`](Self::write); both memories stay until the event is over.
    pub(super) unsafe fn start_write(
        &self,
        offset: usize,
        src: *const u8,
        size: usize,
    ) -> Result<Option<Event>, CopyError> {
        match self {
            Side::Device(region, at, copier) => {
                let at = at.wrapping_add(offset as u64);
                // SAFETY: the range was checked to lie in the region; the caller guarantees both memories.
                unsafe { copier.start_write(region.iface, at, src, size) }
            }
            // SAFETY: the caller guarantees the buffer and `src`.
            host => unsafe { host.write(offset, src, size) }.map(|()| None),
        }
    }
}

/// An operation in progress.
pub(super) struct Staged {
    /// The operation record, with the caller's completion, in the pool of `context`.
    pub(super) record: NonNull<Record>,
    /// Index of the context that counts the operation.
    pub(super) context: usize,
    pub(super) endpoint: NonNull<Endpoint>,
    pub(super) action: Action,
    pub(super) local: Side,
    pub(super) result: Side,
    pub(super) remote: Handle,
    pub(super) address: u64,
    pub(super) size: usize,
    /// Bytes of the fragments that have begun.
    pub(super) next: usize,
    /// Fragments in progress.
    pub(super) live: u32,
    pub(super) status: Status,
    /// The reason of a failure.
    pub(super) what: String,
}

// SAFETY: the caller leaves its buffers to the operation until completion; only the thread that holds the
// driver's lock uses the pointers.
unsafe impl Send for Staged {}

impl Staged {
    /// Records the first failure. After a failure, no further fragment begins.
    pub(super) fn fail(&mut self, status: Status, what: impl FnOnce() -> String) {
        if self.status.is_ok() {
            self.status = status;
            self.what = what();
        }
        self.next = self.size;
    }

    pub(super) fn failed_copy(&mut self, error: CopyError) {
        self.fail(error.status(), || error.to_string());
    }

    pub(super) fn is_over(&self) -> bool {
        self.live == 0 && self.next >= self.size
    }

    /// Size of the next fragment in bytes.
    pub(super) fn fragment(&self, most: usize) -> usize {
        (self.size - self.next).min(most)
    }
}

/// The state that the operations in progress share.
#[derive(Default)]
pub(super) struct Work {
    pub(super) ops: StagedOps,
    pub(super) pool: Pool,
    /// Indices of completed operations.
    pub(super) over: VecDeque<usize>,
}

impl Work {
    /// Ends a fragment of an operation, and returns its buffer to the pool.
    pub(super) fn end_fragment(&mut self, index: usize, bounce: Option<Bounce>) {
        if let Some(bounce) = bounce {
            self.pool.give_back(bounce);
        }
        if let Some(op) = self.ops.at(index) {
            op.live -= 1;
            if op.is_over() {
                self.over.push_back(index);
            }
        }
    }
}

/// The operations in progress, by index.
#[derive(Default)]
pub(super) struct StagedOps {
    all: Vec<Option<Box<Staged>>>,
    free: Vec<usize>,
}

impl StagedOps {
    pub(super) fn insert(&mut self, op: Box<Staged>) -> usize {
        match self.free.pop() {
            Some(index) => {
                self.all[index] = Some(op);
                index
            }
            None => {
                self.all.push(Some(op));
                self.all.len() - 1
            }
        }
    }

    pub(super) fn at(&mut self, index: usize) -> Option<&mut Staged> {
        self.all.get_mut(index)?.as_deref_mut()
    }

    /// Removes an operation if it is complete.
    pub(super) fn take_over(&mut self, index: usize) -> Option<Box<Staged>> {
        let slot = self.all.get_mut(index)?;
        if !slot.as_ref()?.is_over() {
            return None;
        }
        self.free.push(index);
        slot.take()
    }
}

impl Staged {
    /// The command on `len` bytes of the operation's target, at `offset`.
    pub(super) fn command(&self, offset: usize, len: usize) -> Command {
        let (what, count, compare) = match self.action {
            Action::Put => (PUT, len, 0),
            Action::Get => (GET, len, 0),
            Action::Atomic {
                kind,
                datatype,
                op,
                compare,
            } => {
                let what = responder::what(kind, datatype as u32, op as u32);
                (what, len / datatype.size(), compare)
            }
        };
        Command {
            what,
            count: count as u32,
            address: self.address.wrapping_add(offset as u64),
            key: self.remote.key(),
            cookie: self.remote.cookie(),
            compare,
        }
    }

    /// The operation's name in log messages.
    pub(super) fn name(&self) -> &'static str {
        match self.action {
            Action::Put => "a put",
            Action::Get => "a get",
            Action::Atomic {
                op: AtomicOp::Cswap,
                ..
            } => "a compare-and-swap",
            action if action.fetches() => "a fetching atomic",
            Action::Atomic { .. } => "an atomic",
        }
    }
}
