//! The public communication calls: they check, then go through the window's table.

use plugin_api::{Datatype, Handle};

use super::checked::{Fetch, KeyRoom, Target, defined};
use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::table::{CompareSwap, Transfer};
use super::window::Window;
use crate::base::Op;
use crate::device::is_looked_for;

impl Window {
    /// Writes the origin's elements to the target's.
    ///
    /// # Safety
    /// `origin` is readable for `layout` and unchanged until the operation is complete.
    #[inline]
    pub unsafe fn put(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<()> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe { self.put_located(origin, layout, target) };
        }
        // SAFETY: likewise.
        unsafe { self.put_here(origin, layout, target, std::ptr::null_mut()) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn put_here(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        local_handle: *mut Handle,
    ) -> WinResult<()> {
        let call = "put";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed(call, target.rank, true)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, &target, &mut room)?;
        let transfer = Transfer {
            local_handle,
            ..transfer
        };
        if layout.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: checked above; the caller vouches for the buffer.
        unsafe { (self.table.put)(self, &transfer) }
    }

    /// Reads the target's elements to the origin's.
    ///
    /// # Safety
    /// `origin` is writable for `layout` and touched by nobody until the operation is complete.
    #[inline]
    pub unsafe fn get(
        &self,
        origin: *mut u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<()> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe { self.get_located(origin, layout, target) };
        }
        // SAFETY: likewise.
        unsafe { self.get_here(origin, layout, target, std::ptr::null_mut()) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn get_here(
        &self,
        origin: *mut u8,
        layout: &Layout,
        target: Target<'_>,
        local_handle: *mut Handle,
    ) -> WinResult<()> {
        let call = "get";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed(call, target.rank, false)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin, layout, &target, &mut room)?;
        let transfer = Transfer {
            local_handle,
            ..transfer
        };
        if layout.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: checked above; the caller vouches for the buffer.
        unsafe { (self.table.get)(self, &transfer) }
    }

    /// `target = target op origin`, each element atomically with respect to other accumulates of
    /// the same type, and in the order of this rank's accumulates to that target.
    /// [`WinError::InvalidOperation`]: the operation is not defined on the type.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline]
    pub unsafe fn accumulate(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<()> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe { self.accumulate_located(origin, layout, target, op) };
        }
        // SAFETY: likewise.
        unsafe { self.accumulate_here(origin, layout, target, op) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn accumulate_here(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<()> {
        let call = "accumulate";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed(call, target.rank, true)?;
        defined(call, op, target.layout.datatype(), false)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, &target, &mut room)?;
        if layout.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: checked above; the caller vouches for the buffer.
        unsafe { (self.table.accumulate)(self, &transfer, op) }
    }

    /// As [`accumulate`](Self::accumulate), and fetches what was at the target to `result`. With
    /// [`Op::NoOp`] the origin's buffer and layout are ignored, and the buffer may be null.
    ///
    /// # Safety
    /// As for [`put`](Self::put); `result` is writable for its layout and touched by nobody until
    /// the operation is complete, and does not overlap `origin`.
    pub unsafe fn get_accumulate(
        &self,
        origin: *const u8,
        layout: &Layout,
        result: *mut u8,
        result_layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<()> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe {
                self.get_accumulate_located(origin, layout, result, result_layout, target, op)
            };
        }
        // SAFETY: likewise.
        unsafe { self.get_accumulate_here(origin, layout, result, result_layout, target, op) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn get_accumulate_here(
        &self,
        origin: *const u8,
        layout: &Layout,
        result: *mut u8,
        result_layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<()> {
        let call = "get_accumulate";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed(call, target.rank, op != Op::NoOp)?;
        let fetch = Fetch {
            origin,
            layout,
            result,
            result_layout,
        };
        let mut room = KeyRoom::uninit();
        let transfer = self.fetching(call, peer, &fetch, &target, op, &mut room)?;
        if result_layout.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: checked above; the caller vouches for the buffers.
        unsafe { (self.table.get_accumulate)(self, &transfer, op) }
    }

    /// As [`get_accumulate`](Self::get_accumulate), for one element.
    ///
    /// # Safety
    /// As for [`get_accumulate`](Self::get_accumulate).
    #[inline]
    pub unsafe fn fetch_and_op(
        &self,
        origin: *const u8,
        result: *mut u8,
        datatype: Datatype,
        rank: usize,
        displacement: u64,
        op: Op,
    ) -> WinResult<()> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe {
                self.fetch_and_op_located(origin, result, datatype, rank, displacement, op)
            };
        }
        // SAFETY: likewise.
        unsafe { self.fetch_and_op_here(origin, result, datatype, rank, displacement, op) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn fetch_and_op_here(
        &self,
        origin: *const u8,
        result: *mut u8,
        datatype: Datatype,
        rank: usize,
        displacement: u64,
        op: Op,
    ) -> WinResult<()> {
        let call = "fetch_and_op";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed(call, rank, op != Op::NoOp)?;
        let one = Layout::contiguous(datatype, 1);
        let fetch = Fetch {
            origin,
            layout: &one,
            result,
            result_layout: &one,
        };
        let target = Target {
            rank,
            displacement,
            layout: &one,
        };
        let mut room = KeyRoom::uninit();
        let transfer = self.fetching(call, peer, &fetch, &target, op, &mut room)?;
        // SAFETY: checked above; the caller vouches for the buffers.
        unsafe { (self.table.fetch_and_op)(self, &transfer, op) }
    }

    /// Writes the element at `origin` to the target if the element there equals the one at
    /// `compare`, and fetches what was there to `result`. Integer types only.
    ///
    /// # Safety
    /// As for [`get_accumulate`](Self::get_accumulate); `compare` is readable like `origin`.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        datatype: Datatype,
        rank: usize,
        displacement: u64,
    ) -> WinResult<()> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe {
                self.compare_and_swap_located(origin, compare, result, datatype, rank, displacement)
            };
        }
        // SAFETY: likewise.
        unsafe { self.compare_and_swap_here(origin, compare, result, datatype, rank, displacement) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn compare_and_swap_here(
        &self,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        datatype: Datatype,
        rank: usize,
        displacement: u64,
    ) -> WinResult<()> {
        let call = "compare_and_swap";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed(call, rank, true)?;
        if datatype.is_float() {
            return Err(WinError::InvalidOperation {
                call,
                op: Op::Replace,
                datatype,
                why: "as compare-and-swap on floating-point types",
            });
        }
        let mut room = KeyRoom::uninit();
        let place = self.place(call, peer, displacement, datatype.size(), &mut room)?;
        let swap = CompareSwap {
            target: rank,
            address: place.address,
            handle: place.handle,
            datatype,
            origin,
            compare,
            result,
        };
        // SAFETY: checked above; the caller vouches for the buffers.
        unsafe { (self.table.compare_and_swap)(self, &swap) }
    }
}
