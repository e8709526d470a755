//! The public communication calls that give a request.

use plugin_api::Handle;

use super::checked::{Fetch, KeyRoom, Target, defined};
use super::error::WinResult;
use super::layout::Layout;
use super::request::Request;
use super::table::{Transfer, requested};
use super::window::Window;
use crate::base::Op;
use crate::device::is_looked_for;

impl Window {
    /// As [`put`](Self::put), with a request. In lock and lock_all epochs only.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    pub unsafe fn rput(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<Request<'_>> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe { self.rput_located(origin, layout, target) };
        }
        // SAFETY: likewise.
        unsafe { self.rput_here(origin, layout, target, std::ptr::null_mut()) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn rput_here(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        local_handle: *mut Handle,
    ) -> WinResult<Request<'_>> {
        let call = "rput";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed_request(call, target.rank)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, &target, &mut room)?;
        let transfer = Transfer {
            local_handle,
            ..transfer
        };
        if layout.bytes() == 0 {
            return Ok(Request::done(self, call, target.rank));
        }
        requested(self, &transfer, |request| {
            // SAFETY: checked above; the caller vouches for the buffer.
            unsafe { (self.table.rput)(self, &transfer, request) }
        })
    }

    /// As [`get`](Self::get), with a request. In lock and lock_all epochs only.
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    pub unsafe fn rget(
        &self,
        origin: *mut u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<Request<'_>> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe { self.rget_located(origin, layout, target) };
        }
        // SAFETY: likewise.
        unsafe { self.rget_here(origin, layout, target, std::ptr::null_mut()) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn rget_here(
        &self,
        origin: *mut u8,
        layout: &Layout,
        target: Target<'_>,
        local_handle: *mut Handle,
    ) -> WinResult<Request<'_>> {
        let call = "rget";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed_request(call, target.rank)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin, layout, &target, &mut room)?;
        let transfer = Transfer {
            local_handle,
            ..transfer
        };
        if layout.bytes() == 0 {
            return Ok(Request::done(self, call, target.rank));
        }
        requested(self, &transfer, |request| {
            // SAFETY: checked above; the caller vouches for the buffer.
            unsafe { (self.table.rget)(self, &transfer, request) }
        })
    }

    /// As [`accumulate`](Self::accumulate), with a request. In lock and lock_all epochs only.
    ///
    /// # Safety
    /// As for [`accumulate`](Self::accumulate).
    pub unsafe fn raccumulate(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<Request<'_>> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe { self.raccumulate_located(origin, layout, target, op) };
        }
        // SAFETY: likewise.
        unsafe { self.raccumulate_here(origin, layout, target, op) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn raccumulate_here(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<Request<'_>> {
        let call = "raccumulate";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed_request(call, target.rank)?;
        defined(call, op, target.layout.datatype(), false)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, &target, &mut room)?;
        if layout.bytes() == 0 {
            return Ok(Request::done(self, call, target.rank));
        }
        requested(self, &transfer, |request| {
            // SAFETY: checked above; the caller vouches for the buffer.
            unsafe { (self.table.raccumulate)(self, &transfer, op, request) }
        })
    }

    /// As [`get_accumulate`](Self::get_accumulate), with a request. In lock and lock_all epochs
    /// only.
    ///
    /// # Safety
    /// As for [`get_accumulate`](Self::get_accumulate).
    pub unsafe fn rget_accumulate(
        &self,
        origin: *const u8,
        layout: &Layout,
        result: *mut u8,
        result_layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<Request<'_>> {
        if is_looked_for() {
            // SAFETY: as the caller vouches.
            return unsafe {
                self.rget_accumulate_located(origin, layout, result, result_layout, target, op)
            };
        }
        // SAFETY: likewise.
        unsafe { self.rget_accumulate_here(origin, layout, result, result_layout, target, op) }
    }

    /// The same for buffers that are where their pointers say.
    ///
    /// # Safety
    /// As for the call.
    #[inline]
    pub(super) unsafe fn rget_accumulate_here(
        &self,
        origin: *const u8,
        layout: &Layout,
        result: *mut u8,
        result_layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<Request<'_>> {
        let call = "rget_accumulate";
        let _entered = self.link.enter(call)?;
        let peer = self.allowed_request(call, target.rank)?;
        let fetch = Fetch {
            origin,
            layout,
            result,
            result_layout,
        };
        let mut room = KeyRoom::uninit();
        let transfer = self.fetching(call, peer, &fetch, &target, op, &mut room)?;
        if result_layout.bytes() == 0 {
            return Ok(Request::done(self, call, target.rank));
        }
        requested(self, &transfer, |request| {
            // SAFETY: checked above; the caller vouches for the buffers.
            unsafe { (self.table.rget_accumulate)(self, &transfer, op, request) }
        })
    }
}
