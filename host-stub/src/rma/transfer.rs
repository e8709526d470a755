//! Transfers that own their buffers.

use std::mem::ManuallyDrop;

use bytemuck::Pod;

use crate::win::{Request, WinResult, Window};

/// An outstanding put or get with its buffer. Waiting for the transfer returns the buffer. Dropping
/// the transfer waits until it completes; `mem::forget` leaks the buffer.
#[must_use = "a transfer that is dropped at once waits for its operation"]
pub struct Transfer<'w, T> {
    request: Request<'w>,
    // The buffer is dropped only when no operation uses it.
    buffer: ManuallyDrop<Vec<T>>,
}

impl<'w, T: Pod> Transfer<'w, T> {
    /// Begins an operation with the buffer's address, which does not change when the vector is
    /// moved.
    pub(super) fn begin(
        (window, rank): (&Window, usize),
        buffer: Vec<T>,
        begin: impl FnOnce(*mut T) -> WinResult<Request<'w>>,
    ) -> WinResult<Transfer<'w, T>> {
        let mut buffer = ManuallyDrop::new(buffer);
        match begin(buffer.as_mut_ptr()) {
            Ok(request) => Ok(Transfer { request, buffer }),
            Err(error) => {
                // A part of the operation may be outstanding.
                window.wait_idle(Some(rank));
                drop(ManuallyDrop::into_inner(buffer));
                Err(error)
            }
        }
    }

    /// Waits until the transfer is complete, and returns the buffer.
    pub fn wait(mut self) -> WinResult<Vec<T>> {
        self.request.settle()?;
        Ok(self.take())
    }

    /// Makes progress, and returns whether the transfer is complete; if so, [`wait`](Self::wait) does not
    /// block.
    pub fn test(&mut self) -> WinResult<bool> {
        self.request.test()
    }

    /// The buffer of a transfer that is complete.
    fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut *self.buffer)
    }
}

impl<T> std::fmt::Debug for Transfer<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfer")
            .field("elements", &self.buffer.len())
            .field("under_way", &self.request.is_under_way())
            .finish()
    }
}

impl<T> Drop for Transfer<'_, T> {
    fn drop(&mut self) {
        let settled = self.request.settle();
        if settled.is_err() && self.request.is_under_way() {
            // An operation may still access the buffer.
            tracing::warn!("a buffer of a transfer that could not be completed stays");
            return;
        }
        // SAFETY: the buffer is dropped once, here, and no operation uses it.
        unsafe { ManuallyDrop::drop(&mut self.buffer) };
    }
}
