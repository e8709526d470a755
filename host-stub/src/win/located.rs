//! Calls with buffers that may be on a device: where each buffer is gets looked up, and what cannot go through
//! the window's table as it is goes through host memory.
//!
//! A put or get without gaps over the transport takes the device buffer itself. Everything else is
//! packed into host memory by the copy functions, many runs at a time, and done from there ([`super::packed`]).

use super::device_copy::Place;
use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::op::{Kind, RmaOp};
use super::packed::{PackedBuffers, Rows};
use super::peer::{Reach, WindowKind};
use super::request::{LastStep, Request, issue_unasked};
use super::table::{Communicate, Requested};
use super::window::Window;
use crate::device::{Found, HOST};

/// A call whose buffers have been looked up, and those of them that have to be replaced by host memory.
type Located<'a> = (RmaOp<'a>, Option<Box<PackedBuffers>>);

impl Window {
    /// Whether a rank's memory is known to be of a device; what a rank attached to a dynamic window is
    /// its own affair.
    pub(crate) fn is_on_device(&self, rank: usize) -> bool {
        let device = self.parts.devices.get(rank);
        device.is_some_and(|device| *device != HOST) && self.kind() != WindowKind::Dynamic
    }

    /// The device that a buffer is on. `None`: it is host memory, and `pointer` is now its host address.
    fn on_device(
        &self,
        call: &'static str,
        pointer: &mut *mut u8,
        layout: &Layout,
    ) -> WinResult<Option<Found>> {
        let bad = |reason: String| WinError::BadArgument { call, reason };
        if pointer.is_null() {
            return Ok(None);
        }
        let devices = self.link.job.devices();
        let found = devices.find(*pointer as u64, layout.extent());
        match found.map_err(|error| bad(error.to_string()))? {
            Ok(found) => Ok(Some(found)),
            Err(_) if layout.is_on_device() => Err(bad(format!(
                "its layout says device memory, and {pointer:p} is host memory"
            ))),
            Err(host) => {
                *pointer = std::ptr::with_exposed_provenance_mut(host as usize);
                Ok(None)
            }
        }
    }

    /// Whether the transport takes a device buffer as it is.
    fn takes(&self, op: &RmaOp<'_>, found: &Found) -> bool {
        let attributes = self.link.transport.attributes();
        let limit = match op.kind {
            Kind::Put => attributes.put_limit,
            Kind::Get => attributes.get_limit,
            Kind::Update | Kind::Fetch | Kind::Swap => return false,
        };
        let reach = self.parts.peers.get(op.target.rank).map(|peer| peer.reach);
        !found.handle.is_null()
            && op.layout.is_contiguous()
            && op.target.layout.is_contiguous()
            && op.layout.bytes() <= limit
            && reach == Some(Reach::Transport)
    }

    /// Looks up the buffers of a call, and packs those of a device that the transport does not take.
    ///
    /// # Safety
    /// The buffers are valid for their layouts.
    unsafe fn locate<'a>(&self, mut op: RmaOp<'a>) -> WinResult<Located<'a>> {
        let call = op.call;
        let origin = self.on_device(call, &mut op.origin, op.layout)?;
        let mut with = op.compare.cast_mut();
        let compare = self.on_device(call, &mut with, op.layout)?;
        op.compare = with;
        let results = op.result_layout.unwrap_or(op.layout);
        let result = self.on_device(call, &mut op.result, results)?;
        match &origin {
            None if compare.is_none() && result.is_none() => return Ok((op, None)),
            Some(found) if self.takes(&op, found) => {
                op.origin = std::ptr::with_exposed_provenance_mut(found.address as usize);
                op.local_handle = found.handle;
                return Ok((op, None));
            }
            _ => {}
        }
        let elements = |found: Option<Found>, layout| {
            let place = |found: Found| Place {
                iface: found.iface,
                address: found.address,
            };
            found.map(|found| (place(found), layout))
        };
        let buffers = [
            elements(origin, op.layout),
            elements(compare, op.layout),
            elements(result, results),
        ];
        // SAFETY: the caller guarantees the buffers.
        let packed = unsafe { PackedBuffers::new(self, &op, buffers) }?;
        Ok((op, Some(Box::new(packed))))
    }

    /// As [`communicate`](Self::communicate), where buffers may be on a device.
    ///
    /// # Safety
    /// As for [`communicate`](Self::communicate).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn communicate_located(
        &self,
        op: RmaOp<'_>,
        entry: Communicate,
    ) -> WinResult<()> {
        // SAFETY: the caller guarantees the buffers until the operation is complete; packed ones stay until its last step.
        unsafe {
            let (op, mut packed) = match self.locate(op)? {
                (op, None) => return self.communicate_here(op, entry),
                (op, Some(packed)) => (op, packed),
            };
            let peer = self.peer(op.call, op.target.rank)?;
            let rows = Rows::of(&op);
            let op = packed.stand_in(op, &rows);
            let last = Box::new(move |status| packed.end(status));
            issue_unasked(self, peer, last, |state| {
                let record = Some(state);
                self.communicate_here(RmaOp { record, ..op }, entry)
            })
        }
    }

    /// As [`request`](Self::request), where buffers may be on a device.
    ///
    /// # Safety
    /// As for [`communicate`](Self::communicate).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn request_located(
        &self,
        op: RmaOp<'_>,
        entry: Requested,
    ) -> WinResult<Request<'_>> {
        // SAFETY: the caller guarantees the buffers until the operation is complete; packed ones stay until its last step.
        unsafe {
            let (op, mut packed) = match self.locate(op)? {
                (op, None) => return self.request_here(op, None, entry),
                (op, Some(packed)) => (op, packed),
            };
            let rows = Rows::of(&op);
            let op = packed.stand_in(op, &rows);
            let last: LastStep = Box::new(move |status| packed.end(status));
            self.request_here(op, Some(last), entry)
        }
    }
}
