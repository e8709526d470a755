//! A window of elements of one type.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, Ordering};

use bytemuck::Pod;

use super::epoch::{Epoch, Reach};
use crate::win::Members;
use crate::win::{self, Assertion, Info, LockKind, WinError, WinResult};

/// A number of elements at every rank of a group, open to one-sided access by all of them.
///
/// Any thread may call, within the job's thread level. Every rank ends a window by [`free`](Self::free); a window
/// that is dropped without `free` leaks its memory.
#[derive(Debug)]
pub struct Window<T> {
    raw: win::Window,
    /// The epochs of this process's threads: [`ALL`] for an epoch that reaches all ranks, else the number of
    /// epochs that reach one rank.
    open: AtomicIsize,
    elements: PhantomData<fn() -> T>,
}

/// An epoch that reaches all ranks is open.
const ALL: isize = -1;

/// An epoch that counts as open, so that no two threads can access one element at the same time.
struct Open<'w>(&'w AtomicIsize);

impl<'w> Open<'w> {
    fn begin(call: &'static str, open: &'w AtomicIsize, reach: Reach) -> WinResult<Open<'w>> {
        let next = |now: isize| match (reach, now) {
            (Reach::Fence | Reach::All, 0) => Some(ALL),
            (Reach::One(_), 0..) => Some(now + 1),
            _ => None,
        };
        // Acquire pairs with the Release in `drop`: accesses of earlier epochs come first.
        match open.fetch_update(Ordering::Acquire, Ordering::Relaxed, next) {
            Ok(_) => Ok(Open(open)),
            Err(_) => Err(Box::new(WinError::EpochMisuse {
                call,
                state: "an epoch of this process that reaches the same ranks",
            })),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let next = |now: isize| Some(if now == ALL { 0 } else { now - 1 });
        let _ = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, next);
    }
}

impl<T: Pod> Window<T> {
    /// Makes a window of `elements` zeroed elements at this rank. Collective; each rank may give another number.
    ///
    /// [`WinError::Creation`] on every rank if some rank cannot take part, for instance because it asks for
    /// more memory than there is, or because elements have no size.
    pub fn allocate(over: impl Into<Members>, elements: usize) -> WinResult<Window<T>> {
        Self::allocate_with(over, elements, &Info::new())
    }

    /// The same as [`allocate`](Self::allocate), with hints.
    pub fn allocate_with(
        over: impl Into<Members>,
        elements: usize,
        info: &Info,
    ) -> WinResult<Window<T>> {
        // All ranks together refuse a size that overflows, like a size for which there is no memory.
        let bytes = elements.saturating_mul(size_of::<T>());
        let unit = u32::try_from(size_of::<T>()).unwrap_or(0);
        Ok(Window {
            raw: win::Window::allocate_with(over, bytes, unit, info)?,
            open: AtomicIsize::new(0),
            elements: PhantomData,
        })
    }

    /// This process's rank in the window.
    pub fn rank(&self) -> usize {
        self.raw.rank()
    }

    /// Ranks of the window.
    pub fn size(&self) -> usize {
        self.raw.size()
    }

    /// Elements at this rank.
    pub fn len(&self) -> usize {
        self.raw.len() / size_of::<T>().max(1)
    }

    /// Whether this rank has no elements.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The window without types.
    ///
    /// # Safety
    /// The caller keeps the promises of [`crate::rma`]: two threads of this process never access one element of
    /// this rank's memory at the same time, and the caller closes every epoch that it opens.
    pub unsafe fn raw(&self) -> &win::Window {
        &self.raw
    }

    /// Copies elements out of this rank's memory, from index `at` on. Writes of other ranks in an earlier epoch are
    /// visible after the synchronisation that completes them at this rank, such as a [`fence`](Self::fence) or a
    /// barrier. [`WinError::OutOfBounds`] beyond the end.
    pub fn read(&mut self, at: usize, into: &mut [T]) -> WinResult<()> {
        self.raw.sync()?;
        let offset = self.offset(at);
        self.raw.read_local(offset, bytemuck::cast_slice_mut(into))
    }

    /// Copies elements to this rank's memory, from index `at` on. [`WinError::OutOfBounds`] beyond the end.
    pub fn write(&mut self, at: usize, from: &[T]) -> WinResult<()> {
        let offset = self.offset(at);
        // SAFETY: the window is borrowed exclusively, so no other thread accesses this memory. No epoch is open,
        // because epochs borrow the window and end when their operations are complete.
        unsafe { self.raw.write_local(offset, bytemuck::cast_slice(from)) }?;
        self.raw.sync()
    }

    fn offset(&self, at: usize) -> usize {
        // An offset that overflows is beyond the end.
        at.saturating_mul(size_of::<T>())
    }

    /// Runs `body` between two fences. Collective. When the call returns, the operations of all ranks are complete, at
    /// origin and target. [`WinError::EpochMisuse`], before anything is done: a thread of this process has an epoch of
    /// this window open; with [`lock`](Self::lock), one that reaches all ranks.
    pub fn fence<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Epoch<'scope, 'env, T>) -> WinResult<R>,
    ) -> WinResult<R> {
        let _open = Open::begin("fence", &self.open, Reach::Fence)?;
        self.raw.fence(Assertion::NOPRECEDE)?;
        self.scope(Reach::Fence, body, |raw| raw.fence(Assertion::NOSUCCEED))
    }

    /// Runs `body` with the lock of one rank, whose memory `body` may access. When the call returns, the
    /// operations are complete, at origin and target.
    pub fn lock<'env, R>(
        &'env self,
        kind: LockKind,
        rank: usize,
        body: impl for<'scope> FnOnce(&'scope Epoch<'scope, 'env, T>) -> WinResult<R>,
    ) -> WinResult<R> {
        let _open = Open::begin("lock", &self.open, Reach::One(rank))?;
        self.raw.lock(kind, rank, Assertion::empty())?;
        self.scope(Reach::One(rank), body, |raw| raw.unlock(rank))
    }

    /// Runs `body` with the shared locks of all ranks. When the call returns, the operations are complete, at
    /// origin and target.
    pub fn lock_all<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Epoch<'scope, 'env, T>) -> WinResult<R>,
    ) -> WinResult<R> {
        let _open = Open::begin("lock_all", &self.open, Reach::All)?;
        self.raw.lock_all(Assertion::empty())?;
        self.scope(Reach::All, body, win::Window::unlock_all)
    }

    /// Runs the body of an epoch, then ends the epoch, even if the body failed.
    fn scope<'env, R>(
        &'env self,
        reach: Reach,
        body: impl for<'scope> FnOnce(&'scope Epoch<'scope, 'env, T>) -> WinResult<R>,
        end: impl FnOnce(&win::Window) -> WinResult<()>,
    ) -> WinResult<R> {
        let epoch = Epoch::new(&self.raw, reach);
        let done = catch_unwind(AssertUnwindSafe(|| body(&epoch)));
        let ended = end(&self.raw);
        if ended.is_err() {
            // Even then this call may not return while operations use the buffers.
            let target = match reach {
                Reach::One(rank) => Some(rank),
                Reach::Fence | Reach::All => None,
            };
            self.raw.wait_idle(target);
        }
        match done {
            Ok(done) => done.and_then(|done| ended.map(|()| done)),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Frees the window. Collective. After an error, the window's memory stays until the process
    /// ends.
    pub fn free(self) -> WinResult<()> {
        self.raw.free().map_err(|failed| failed.error)
    }
}
