//! Operations of an open epoch.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::element::Element;
use super::transfer::Transfer;
use crate::win::{Datatype, Layout, Op, Target, WinError, WinResult, Window};

/// An open epoch, given to the body of [`fence`](super::Window::fence), [`lock`](super::Window::lock) and
/// [`lock_all`](super::Window::lock_all).
///
/// Operations may be outstanding when their calls return, and complete when the epoch ends, or after a
/// [`flush`](Self::flush). The buffers of operations are borrowed until the epoch ends:
///
/// ```compile_fail,E0506
/// fn changed(window: &host_stub::rma::Window<u64>) {
///     let mut word = [1];
///     let _ = window.lock_all(|epoch| {
///         epoch.put(&word, 0, 0)?;
///         word[0] = 2;
///         Ok(())
///     });
/// }
/// ```
///
/// The compiler refuses a buffer that does not live that long:
///
/// ```compile_fail,E0373
/// fn gone(window: &host_stub::rma::Window<u64>) {
///     let _ = window.lock_all(|epoch| {
///         let word = [1];
///         epoch.put(&word, 0, 0)
///     });
/// }
/// ```
///
/// Errors of all calls: [`WinError::NoSuchRank`](super::WinError::NoSuchRank);
/// [`WinError::OutOfBounds`](super::WinError::OutOfBounds) for elements beyond the target's memory;
/// [`WinError::Transport`](super::WinError::Transport) and [`WinError::Job`](super::WinError::Job) if an operation or
/// a rank failed.
///
/// [`WinError::WrongTarget`](super::WinError::WrongTarget): a rank that the epoch does not include.
#[derive(Debug)]
pub struct Epoch<'scope, 'env: 'scope, T> {
    raw: &'env Window,
    reach: Reach,
    elements: PhantomData<fn() -> T>,
    // The lifetime is invariant, so that a scope cannot be shortened.
    scope: PhantomData<&'scope mut &'scope ()>,
    // An epoch stays on its thread, because two threads must not access one element at the same
    // time.
    thread: PhantomData<*const ()>,
}

/// The operations that the end of an epoch completes, and so the operations that the epoch allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Operations to all ranks. No call can wait before the end.
    Fence,
    /// Operations to all ranks.
    All,
    /// Operations to one rank.
    One(usize),
}

/// The bytes of a number of contiguous elements.
fn row<T>(elements: usize) -> Layout {
    Layout::contiguous(Datatype::Uint8, elements * size_of::<T>())
}

fn target(rank: usize, at: usize, layout: &Layout) -> Target<'_> {
    Target {
        rank,
        displacement: at as u64,
        layout,
    }
}

impl<'scope, 'env, T: Pod> Epoch<'scope, 'env, T> {
    pub(super) fn new(raw: &'env Window, reach: Reach) -> Self {
        Epoch {
            raw,
            reach,
            elements: PhantomData,
            scope: PhantomData,
            thread: PhantomData,
        }
    }

    /// Refuses a rank if the end of this epoch does not complete operations to it, even if another epoch of
    /// this process includes the rank.
    fn reaches(&self, call: &'static str, rank: usize) -> WinResult<()> {
        match self.reach {
            Reach::One(only) if only != rank => Err(Box::new(WinError::WrongTarget {
                call,
                rank,
                epoch: "lock",
            })),
            _ => Ok(()),
        }
    }

    /// The same check for a call that waits. Such a call must be refused before anything is sent.
    fn reaches_and_waits(&self, call: &'static str, rank: usize) -> WinResult<Waiting<'env>> {
        self.reaches(call, rank)?;
        match self.reach {
            Reach::Fence => Err(Box::new(WinError::EpochMisuse {
                call,
                state: "a fence epoch, in which no call can wait; use lock or lock_all",
            })),
            _ => Ok(Waiting(self.raw, rank)),
        }
    }

    /// Writes elements to a rank's memory, from index `at` on.
    pub fn put(&self, from: &'scope [T], rank: usize, at: usize) -> WinResult<()> {
        self.reaches("put", rank)?;
        let row = row::<T>(from.len());
        // SAFETY: the slice is borrowed for the scope, which ends when no operation is outstanding.
        unsafe {
            self.raw
                .put(from.as_ptr().cast(), &row, target(rank, at, &row))
        }
    }

    /// Reads elements of a rank's memory, from index `at` on.
    pub fn get(&self, into: &'scope mut [T], rank: usize, at: usize) -> WinResult<()> {
        self.reaches("get", rank)?;
        let row = row::<T>(into.len());
        // SAFETY: the slice is borrowed exclusively for the scope, which ends when no operation is outstanding; any
        // bytes are a valid `T`.
        unsafe {
            self.raw
                .get(into.as_mut_ptr().cast(), &row, target(rank, at, &row))
        }
    }

    /// Reads elements of a rank's memory, from index `at` on, and waits for them. For lock and lock_all
    /// epochs.
    pub fn get_now(&self, into: &mut [T], rank: usize, at: usize) -> WinResult<()> {
        let waiting = self.reaches_and_waits("get", rank)?;
        let row = row::<T>(into.len());
        // SAFETY: the slice is borrowed exclusively until this call returns; then no operation is outstanding.
        // Any bytes are a valid `T`.
        let got = unsafe {
            self.raw
                .get(into.as_mut_ptr().cast(), &row, target(rank, at, &row))
        };
        got.and_then(|()| waiting.flush())
    }

    /// The same as [`put`](Self::put), with a buffer that belongs to the transfer until the transfer is complete.
    /// For lock and lock_all epochs.
    pub fn put_owned(&self, from: Vec<T>, rank: usize, at: usize) -> WinResult<Transfer<'env, T>> {
        self.reaches("rput", rank)?;
        let row = row::<T>(from.len());
        Transfer::begin((self.raw, rank), from, |buffer| {
            // SAFETY: the transfer keeps the buffer until its request is complete.
            unsafe { self.raw.rput(buffer.cast(), &row, target(rank, at, &row)) }
        })
    }

    /// The same as [`get`](Self::get), with a buffer that belongs to the transfer until the transfer is complete.
    /// For lock and lock_all epochs.
    pub fn get_owned(&self, into: Vec<T>, rank: usize, at: usize) -> WinResult<Transfer<'env, T>> {
        self.reaches("rget", rank)?;
        let row = row::<T>(into.len());
        Transfer::begin((self.raw, rank), into, |buffer| {
            // SAFETY: the transfer keeps the buffer until its request is complete; any bytes are a valid `T`.
            unsafe { self.raw.rget(buffer.cast(), &row, target(rank, at, &row)) }
        })
    }

    /// Completes the operations to a rank, at origin and target. For lock and lock_all epochs.
    pub fn flush(&self, rank: usize) -> WinResult<()> {
        self.reaches("flush", rank)?;
        self.raw.flush(rank)
    }

    /// Completes all operations, at origin and target. For lock and lock_all epochs.
    pub fn flush_all(&self) -> WinResult<()> {
        self.raw.flush_all()
    }
}

impl<'scope, T: Element> Epoch<'scope, '_, T> {
    /// `target = target op from` for each element, atomically with respect to other accumulates.
    /// [`WinError::InvalidOperation`](super::WinError::InvalidOperation): the type does not have the operation.
    pub fn accumulate(&self, from: &'scope [T], rank: usize, at: usize, op: Op) -> WinResult<()> {
        self.reaches("accumulate", rank)?;
        let row = Layout::contiguous(T::DATATYPE, from.len());
        // SAFETY: the slice is borrowed for the scope, which ends when no operation is outstanding.
        unsafe {
            self.raw
                .accumulate(from.as_ptr().cast(), &row, target(rank, at, &row), op)
        }
    }

    /// `target = target op value`, atomically with respect to other accumulates; waits, and returns the old value.
    /// For lock and lock_all epochs.
    pub fn fetch_and_op(&self, value: T, rank: usize, at: usize, op: Op) -> WinResult<T> {
        let mut old = T::zeroed();
        let waiting = self.reaches_and_waits("fetch_and_op", rank)?;
        // SAFETY: both elements live until this call returns; then no operation is outstanding. Any bytes are a
        // valid `T`.
        unsafe {
            self.raw.fetch_and_op(
                (&raw const value).cast(),
                (&raw mut old).cast(),
                T::DATATYPE,
                rank,
                at as u64,
                op,
            )
        }
        .and_then(|()| waiting.flush())?;
        Ok(old)
    }

    /// Writes `new` if the element equals `expected`, atomically with respect to other accumulates; waits, and returns
    /// the old value. Integers only. For lock and lock_all epochs.
    pub fn compare_and_swap(&self, expected: T, new: T, rank: usize, at: usize) -> WinResult<T> {
        let mut old = T::zeroed();
        let waiting = self.reaches_and_waits("compare_and_swap", rank)?;
        // SAFETY: the elements live until this call returns; then no operation is outstanding. Any bytes are a valid
        // `T`.
        unsafe {
            self.raw.compare_and_swap(
                (&raw const new).cast(),
                (&raw const expected).cast(),
                (&raw mut old).cast(),
                T::DATATYPE,
                rank,
                at as u64,
            )
        }
        .and_then(|()| waiting.flush())?;
        Ok(old)
    }
}

/// The drop waits until no operation to a rank is outstanding, because an operation that failed to complete may
/// still use its buffers.
struct Waiting<'w>(&'w Window, usize);

impl Waiting<'_> {
    /// Flushes the target. After a success no operation is outstanding, so the wait of the drop is left out.
    fn flush(self) -> WinResult<()> {
        self.0.flush(self.1)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.wait_idle(Some(self.1));
    }
}
