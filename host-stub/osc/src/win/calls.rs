//! The public communication calls. Each describes itself as an [`RmaOp`] and goes through its entry of the
//! window's table.

use plugin_api::Datatype;

use super::checked::KeyRoom;
use super::dynamic::region_cache::KeyUse;
use super::error::WinResult;
use super::layout::Layout;
use super::op::{Kind, RmaOp, Target};
use super::request::handle::Request;
use super::request::request_state::LastStep;
use super::table::Communicate;
use super::transfer::Transfer;
use super::window::Window;
use crate::base::Op;
use crate::door::is_looked_for;

impl Window {
    /// Writes the origin's elements to the elements of the target.
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
        let op = || RmaOp::put("put", (origin, layout), target);
        // SAFETY: the caller guarantees the buffer.
        unsafe {
            match self.direct_transfer::<true>(&op) {
                Some(issued) => issued,
                None => self.communicate(op, self.table.put),
            }
        }
    }

    /// Reads the target's elements to the elements of the origin.
    ///
    /// # Safety
    /// `origin` is writable for `layout` and not accessed until the operation is complete.
    #[inline]
    pub unsafe fn get(
        &self,
        origin: *mut u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<()> {
        let op = || RmaOp::get("get", (origin, layout), target);
        // SAFETY: the caller guarantees the buffer.
        unsafe {
            match self.direct_transfer::<false>(&op) {
                Some(issued) => issued,
                None => self.communicate(op, self.table.get),
            }
        }
    }

    /// `target = target op origin`, each element atomically with respect to other accumulates of
    /// the same type, and in the order of this rank's accumulates to that target.
    /// [`WinError::InvalidOperation`](super::WinError::InvalidOperation): the operation is not defined on the
    /// type.
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
        let op = || RmaOp::update("accumulate", (origin, layout), target, op);
        // SAFETY: the caller guarantees the buffer.
        unsafe {
            match self.direct_update(self.direct.accumulate, op) {
                Some(issued) => issued,
                None => self.communicate(op, self.table.accumulate),
            }
        }
    }

    /// As [`accumulate`](Self::accumulate), and fetches the target's old elements to `result`. With
    /// [`Op::NoOp`] the origin's buffer and layout are ignored, and the buffer may be null.
    ///
    /// # Safety
    /// As for [`put`](Self::put); `result` is writable for its layout and not accessed until the
    /// operation is complete, and does not overlap `origin`.
    pub unsafe fn get_accumulate(
        &self,
        origin: *const u8,
        layout: &Layout,
        result: *mut u8,
        result_layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<()> {
        let call = "get_accumulate";
        let op = || RmaOp::fetch(call, (origin, layout), (result, result_layout), target, op);
        // SAFETY: the caller guarantees the buffers.
        unsafe { self.communicate(op, self.table.get_accumulate) }
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
        let one = Layout::contiguous(datatype, 1);
        let target = Target {
            rank,
            displacement,
            layout: &one,
        };
        let op = || RmaOp::fetch("fetch_and_op", (origin, &one), (result, &one), target, op);
        // SAFETY: the caller guarantees the buffers.
        unsafe {
            match self.direct_update(self.direct.fetch_and_op, op) {
                Some(issued) => issued,
                None => self.communicate(op, self.table.fetch_and_op),
            }
        }
    }

    /// Compare-and-swap: fetches the target's element to `result`, and replaces it by the element at `origin` if
    /// it equals the element at `compare`. Integer types only.
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
        let one = Layout::contiguous(datatype, 1);
        let target = Target {
            rank,
            displacement,
            layout: &one,
        };
        let op = || RmaOp::swap("compare_and_swap", origin, compare, result, target);
        // SAFETY: the caller guarantees the buffers.
        unsafe { self.communicate(op, self.table.compare_and_swap) }
    }

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
        let op = || RmaOp::put("rput", (origin, layout), target);
        // SAFETY: the caller guarantees the buffer.
        unsafe { self.request(op, self.table.rput) }
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
        let op = || RmaOp::get("rget", (origin, layout), target);
        // SAFETY: the caller guarantees the buffer.
        unsafe { self.request(op, self.table.rget) }
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
        let op = || RmaOp::update("raccumulate", (origin, layout), target, op);
        // SAFETY: the caller guarantees the buffer.
        unsafe { self.request(op, self.table.raccumulate) }
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
        let call = "rget_accumulate";
        let op = || RmaOp::fetch(call, (origin, layout), (result, result_layout), target, op);
        // SAFETY: the caller guarantees the buffers.
        unsafe { self.request(op, self.table.rget_accumulate) }
    }
}

impl Window {
    /// Makes a call through an entry of the window's table. `op` is a closure, so that each branch builds
    /// its own description. The cold branch takes the description by reference, which would force a shared
    /// description into memory.
    ///
    /// # Safety
    /// The buffers of the call are valid for their layouts and belong to the operation until it is complete.
    #[inline(always)]
    unsafe fn communicate<'o>(
        &self,
        op: impl Fn() -> RmaOp<'o>,
        entry: Communicate,
    ) -> WinResult<()> {
        if is_looked_for() {
            // SAFETY: the caller guarantees the buffers.
            return unsafe { self.communicate_located(op(), entry) };
        }
        if !self.link.enters_freely() {
            // SAFETY: the caller guarantees the buffers.
            return unsafe { self.communicate_here(op(), entry) };
        }
        // SAFETY: the caller guarantees the buffers.
        unsafe { self.communicate_entered(op(), entry) }
    }

    /// [`communicate`](Self::communicate) with buffers at their pointers.
    ///
    /// # Safety
    /// As for [`communicate`](Self::communicate).
    #[inline(never)]
    pub(super) unsafe fn communicate_here(
        &self,
        op: RmaOp<'_>,
        entry: Communicate,
    ) -> WinResult<()> {
        let _entered = self.link.enter(op.call)?;
        // SAFETY: the caller guarantees the buffers.
        unsafe { self.communicate_entered(op, entry) }
    }

    /// [`communicate_here`](Self::communicate_here) after the call was entered. Nothing remains after the table's function, so
    /// the compiler makes a tail call.
    ///
    /// # Safety
    /// As for [`communicate`](Self::communicate).
    #[inline(always)]
    unsafe fn communicate_entered(&self, op: RmaOp<'_>, entry: Communicate) -> WinResult<()> {
        let peer = self.allowed(op.call, op.target.rank, op.writes())?;
        let mut room = KeyRoom::uninit();
        let key_use = match op.kind {
            Kind::Put | Kind::Get if op.record.is_none() => KeyUse::Later,
            _ => KeyUse::UntilComplete,
        };
        let transfer = self.resolve(&op, peer, (&mut room, key_use))?;
        if op.target.layout.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: `resolve` checked the call; the caller guarantees the buffers.
        unsafe { entry(self, &transfer) }
    }

    /// As [`communicate`](Self::communicate), with a request.
    ///
    /// # Safety
    /// As for [`communicate`](Self::communicate).
    #[inline(always)]
    unsafe fn request<'o>(
        &self,
        op: impl Fn() -> RmaOp<'o>,
        entry: Communicate,
    ) -> WinResult<Request<'_>> {
        if is_looked_for() {
            // SAFETY: the caller guarantees the buffers.
            return unsafe { self.request_located(op(), entry) };
        }
        // SAFETY: the caller guarantees the buffers.
        unsafe { self.request_here(op(), None, entry) }
    }

    /// [`request`](Self::request) with buffers at their pointers, and the operation's last step.
    ///
    /// # Safety
    /// As for [`communicate`](Self::communicate).
    pub(super) unsafe fn request_here(
        &self,
        op: RmaOp<'_>,
        last: Option<LastStep>,
        entry: Communicate,
    ) -> WinResult<Request<'_>> {
        let RmaOp { call, target, .. } = op;
        let _entered = self.link.enter(call)?;
        let peer = self.allowed_request(call, target.rank)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.resolve(&op, peer, (&mut room, KeyUse::Once))?;
        if target.layout.bytes() == 0 {
            return Ok(Request::done(self, call, target.rank));
        }
        Request::issue(self, (call, target.rank), last, |state| {
            let record = Some(state);
            // SAFETY: `resolve` checked the call; the caller guarantees the buffers.
            unsafe { entry(self, &Transfer { record, ..transfer }) }
        })
    }
}
