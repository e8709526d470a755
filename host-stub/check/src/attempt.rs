//! Calls that the host must refuse.

use plugin_api::Datatype;

use host_stub::win::{Layout, Op, Target, WinResult, Window};

/// Calls that the host must refuse, with buffers that live as long as the process: if the host
/// accepts such a call, its effect is still defined.
pub(super) struct Attempt<'a> {
    window: &'a Window,
    buffer: *mut u8,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(window: &'a Window) -> Attempt<'a> {
        static BUFFER: [std::sync::atomic::AtomicU64; 64] =
            [const { std::sync::atomic::AtomicU64::new(0) }; 64];
        Attempt {
            window,
            buffer: BUFFER[0].as_ptr().cast(),
        }
    }

    pub(super) fn put(&self, layout: &Layout, target: Target<'_>) -> WinResult<()> {
        // SAFETY: the buffer is static and holds 512 bytes, more than any layout here.
        unsafe { self.window.put(self.buffer, layout, target) }
    }

    pub(super) fn get(&self, layout: &Layout, target: Target<'_>) -> WinResult<()> {
        // SAFETY: as in `put`.
        unsafe { self.window.get(self.buffer, layout, target) }
    }

    pub(super) fn accumulate(&self, layout: &Layout, target: Target<'_>, op: Op) -> WinResult<()> {
        // SAFETY: as in `put`.
        unsafe { self.window.accumulate(self.buffer, layout, target, op) }
    }

    pub(super) fn get_accumulate(
        &self,
        layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<()> {
        let result = self.buffer.wrapping_add(256);
        // SAFETY: as in `put`; layouts here reach no further than 256 bytes.
        unsafe {
            self.window
                .get_accumulate(self.buffer, layout, result, layout, target, op)
        }
    }

    pub(super) fn fetch_and_op(
        &self,
        datatype: Datatype,
        rank: usize,
        at: u64,
        op: Op,
    ) -> WinResult<()> {
        let result = self.buffer.wrapping_add(256);
        // SAFETY: as in `put`.
        unsafe {
            self.window
                .fetch_and_op(self.buffer, result, datatype, rank, at, op)
        }
    }

    pub(super) fn compare_and_swap(
        &self,
        datatype: Datatype,
        rank: usize,
        at: u64,
    ) -> WinResult<()> {
        let result = self.buffer.wrapping_add(256);
        let compare = self.buffer.wrapping_add(128);
        // SAFETY: as in `put`.
        unsafe {
            self.window
                .compare_and_swap(self.buffer, compare, result, datatype, rank, at)
        }
    }

    pub(super) fn rput(&self, layout: &Layout, target: Target<'_>) -> WinResult<()> {
        // SAFETY: as in `put`.
        unsafe { self.window.rput(self.buffer, layout, target) }?.wait()
    }

    pub(super) fn rget(&self, layout: &Layout, target: Target<'_>) -> WinResult<()> {
        // SAFETY: as in `put`.
        unsafe { self.window.rget(self.buffer, layout, target) }?.wait()
    }
}
