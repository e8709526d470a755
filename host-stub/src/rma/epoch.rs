//! What can be done while an epoch is open.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::element::Element;
use super::transfer::Transfer;
use crate::win::{Datatype, Layout, Op, Target, WinResult, Window};

/// An open epoch, given to the body of [`fence`](super::Window::fence), [`lock`](super::Window::lock) and
/// [`lock_all`](super::Window::lock_all).
///
/// Operations are under way when their calls return, and complete when the epoch ends, or after a
/// [`flush`](Self::flush). Their buffers are borrowed until the epoch ends:
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
/// A buffer that does not live so long is refused:
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
#[derive(Debug)]
pub struct Epoch<'scope, 'env: 'scope, T> {
    raw: &'env Window,
    elements: PhantomData<fn() -> T>,
    // Invariant, so that a scope cannot be taken for a shorter one.
    scope: PhantomData<&'scope mut &'scope ()>,
}

/// A number of elements that lie together, as bytes.
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
    pub(super) fn new(raw: &'env Window) -> Self {
        Epoch {
            raw,
            elements: PhantomData,
            scope: PhantomData,
        }
    }

    /// Writes elements to a rank's memory, from index `at` on.
    pub fn put(&self, from: &'scope [T], rank: usize, at: usize) -> WinResult<()> {
        let row = row::<T>(from.len());
        // SAFETY: the slice is borrowed for the scope, which ends when nothing is under way.
        unsafe {
            self.raw
                .put(from.as_ptr().cast(), &row, target(rank, at, &row))
        }
    }

    /// Reads elements of a rank's memory, from index `at` on.
    pub fn get(&self, into: &'scope mut [T], rank: usize, at: usize) -> WinResult<()> {
        let row = row::<T>(into.len());
        // SAFETY: the slice is borrowed alone for the scope, which ends when nothing is under way; any bytes are a `T`.
        unsafe {
            self.raw
                .get(into.as_mut_ptr().cast(), &row, target(rank, at, &row))
        }
    }

    /// Reads elements of a rank's memory, from index `at` on, and waits for them.
    pub fn get_now(&self, into: &mut [T], rank: usize, at: usize) -> WinResult<()> {
        let row = row::<T>(into.len());
        let waiting = Waiting(self.raw);
        // SAFETY: the slice is borrowed alone until this returns, when nothing is under way; any bytes are a `T`.
        let got = unsafe {
            self.raw
                .get(into.as_mut_ptr().cast(), &row, target(rank, at, &row))
        };
        got.and_then(|()| waiting.flush(rank))
    }

    /// As [`put`](Self::put), of a buffer that belongs to the transfer until that is complete. In lock and lock_all
    /// epochs.
    pub fn put_owned(&self, from: Vec<T>, rank: usize, at: usize) -> WinResult<Transfer<'env, T>> {
        let row = row::<T>(from.len());
        Transfer::begin(self.raw, from, |buffer| {
            // SAFETY: the transfer keeps the buffer until its request is complete.
            unsafe { self.raw.rput(buffer.cast(), &row, target(rank, at, &row)) }
        })
    }

    /// As [`get`](Self::get), to a buffer that belongs to the transfer until that is complete. In lock and lock_all
    /// epochs.
    pub fn get_owned(&self, into: Vec<T>, rank: usize, at: usize) -> WinResult<Transfer<'env, T>> {
        let row = row::<T>(into.len());
        Transfer::begin(self.raw, into, |buffer| {
            // SAFETY: the transfer keeps the buffer until its request is complete; any bytes are a `T`.
            unsafe { self.raw.rget(buffer.cast(), &row, target(rank, at, &row)) }
        })
    }

    /// Completes the operations to a rank, at origin and target. In lock and lock_all epochs.
    pub fn flush(&self, rank: usize) -> WinResult<()> {
        self.raw.flush(rank)
    }

    /// Completes all operations, at origin and target. In lock and lock_all epochs.
    pub fn flush_all(&self) -> WinResult<()> {
        self.raw.flush_all()
    }
}

impl<'scope, T: Element> Epoch<'scope, '_, T> {
    /// `target = target op from` for each element, atomically with respect to other accumulates.
    /// [`WinError::InvalidOperation`](super::WinError::InvalidOperation): the type does not have the operation.
    pub fn accumulate(&self, from: &'scope [T], rank: usize, at: usize, op: Op) -> WinResult<()> {
        let row = Layout::contiguous(T::DATATYPE, from.len());
        // SAFETY: the slice is borrowed for the scope, which ends when nothing is under way.
        unsafe {
            self.raw
                .accumulate(from.as_ptr().cast(), &row, target(rank, at, &row), op)
        }
    }

    /// `target = target op value`, atomically with respect to other accumulates; waits, and returns what was there.
    /// In lock and lock_all epochs.
    pub fn fetch_and_op(&self, value: T, rank: usize, at: usize, op: Op) -> WinResult<T> {
        let mut old = T::zeroed();
        let waiting = Waiting(self.raw);
        // SAFETY: both elements live until this returns, when nothing is under way; any bytes are a `T`.
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
        .and_then(|()| waiting.flush(rank))?;
        drop(waiting);
        Ok(old)
    }

    /// Writes `new` if the element equals `expected`, atomically with respect to other accumulates; waits, and returns
    /// what was there. Integers only. In lock and lock_all epochs.
    pub fn compare_and_swap(&self, expected: T, new: T, rank: usize, at: usize) -> WinResult<T> {
        let mut old = T::zeroed();
        let waiting = Waiting(self.raw);
        // SAFETY: the elements live until this returns, when nothing is under way; any bytes are a `T`.
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
        .and_then(|()| waiting.flush(rank))?;
        drop(waiting);
        Ok(old)
    }
}

/// Waits, when it goes, until nothing is under way: an operation that failed to complete may still use its buffers.
struct Waiting<'w>(&'w Window);

impl Waiting<'_> {
    fn flush(&self, rank: usize) -> WinResult<()> {
        self.0.flush(rank)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.wait_idle();
    }
}
