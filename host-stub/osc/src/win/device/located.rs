//! Calls with buffers that may be on a device. Each call looks up where its buffers are. A transfer that the window's table
//! cannot take with these buffers goes through host memory.
//!
//! A put or get without gaps over the transport takes the device buffer itself, and so does any put or get of memory that is
//! opened here ([`crate::win::device::opened`]). For all other calls the copy functions pack
//! many runs at a time into host memory, and the operation uses the packed data ([`crate::win::packed`]).

use plugin_api::hmem_iface;

use crate::base::Op;
use crate::door::{Found, HOST};
use crate::win::device::device_copy::{Elements, Place};
use crate::win::device::packed::{PackedBuffers, Rows};
use crate::win::error::{WinError, WinResult};
use crate::win::kind::WindowKind;
use crate::win::layout::{Layout, Segment};
use crate::win::op::{Kind, RmaOp};
use crate::win::peer::Reach;
use crate::win::pieces::Cursor;
use crate::win::request::handle::{Request, issue_unasked};
use crate::win::request::request_state::LastStep;
use crate::win::table::Communicate;
use crate::win::window::Window;

/// A call whose buffers have been looked up, and the packed copies of buffers that host memory has to
/// replace.
type Located<'a> = (RmaOp<'a>, Option<Box<PackedBuffers>>);

/// The place of a buffer of a call.
enum Buffer {
    /// In host memory, or absent.
    Host,
    /// On a device.
    Device(Found),
    /// Runs in several places.
    Scattered(Elements),
}

fn place(found: &Found) -> Place {
    Place {
        iface: found.iface,
        address: found.address,
    }
}

impl Buffer {
    /// The elements of the buffer that have to be packed.
    fn elements(self, layout: &Layout) -> Option<Elements> {
        match self {
            Buffer::Host => None,
            Buffer::Device(found) => Some(Elements::Of(place(&found), layout.clone())),
            Buffer::Scattered(elements) => Some(elements),
        }
    }
}

impl Window {
    /// Whether a rank's memory is known to be of a device; for memory attached to a dynamic window
    /// only its owner knows.
    pub fn is_on_device(&self, rank: usize) -> bool {
        let device = self.parts.peers.device(rank);
        device.is_some_and(|device| device != HOST) && self.kind() != WindowKind::Dynamic
    }

    /// The place of a buffer. [`Buffer::Host`]: in host memory, and `pointer` is now its host
    /// address.
    fn locate_buffer(
        &self,
        call: &'static str,
        pointer: &mut *mut u8,
        layout: &Layout,
    ) -> WinResult<Buffer> {
        let bad = |reason: String| Box::new(WinError::BadArgument { call, reason });
        if layout.is_absolute() {
            if !pointer.is_null() {
                let reason = "its layout is absolute, so its pointer has to be null";
                return Err(bad(reason.to_owned()));
            }
            return self.locate_runs(call, layout).map(Buffer::Scattered);
        }
        if pointer.is_null() {
            return Ok(Buffer::Host);
        }
        let found = self.link.find(*pointer as u64, layout.extent());
        match found.map_err(bad)? {
            Ok(found) => Ok(Buffer::Device(found)),
            Err(_) if layout.is_on_device() => Err(bad(format!(
                "its layout says device memory, and {pointer:p} is host memory"
            ))),
            Err(host) => {
                *pointer = std::ptr::with_exposed_provenance_mut(host as usize);
                Ok(Buffer::Host)
            }
        }
    }

    /// The places of the runs of an absolute layout.
    fn locate_runs(&self, call: &'static str, layout: &Layout) -> WinResult<Elements> {
        let bad = |reason: String| Box::new(WinError::BadArgument { call, reason });
        let (mut runs, mut cursor) = (Vec::new(), Cursor::new(layout));
        while let Some(Segment { offset, len }) = cursor.take(usize::MAX) {
            let found = self.link.find(offset as u64, len);
            let place = match found.map_err(bad)? {
                Ok(found) => place(&found),
                Err(_) if layout.is_on_device() => {
                    return Err(bad(format!(
                        "its layout says device memory, and its run at {offset:#x} is host memory"
                    )));
                }
                Err(address) => Place {
                    iface: hmem_iface::SYSTEM,
                    address,
                },
            };
            runs.push((place, len));
        }
        Ok(Elements::Runs(runs, layout.clone()))
    }

    /// Whether the transport takes a device buffer without a copy, or the driver that opened the target's
    /// memory does.
    fn takes(&self, op: &RmaOp<'_>, found: &Found) -> bool {
        let attributes = self.link.transport.attributes();
        let limit = match op.kind {
            Kind::Put => attributes.put_limit,
            Kind::Get => attributes.get_limit,
            Kind::Update | Kind::Fetch | Kind::Swap => return false,
        };
        if self.opened(op.target.rank).is_some() {
            return found.by_driver && !found.handle.is_null();
        }
        let peer = self.peer(op.call, op.target.rank);
        let reach = peer.ok().map(|peer| peer.reach);
        !found.handle.is_null()
            && op.layout.is_contiguous()
            && op.target.layout.is_contiguous()
            && op.layout.bytes() <= limit
            && reach == Some(Reach::Transport)
    }

    /// Looks up the buffers of a call, and packs device buffers that the transport does not take.
    ///
    /// # Safety
    /// The buffers are valid for their layouts.
    unsafe fn locate<'a>(&self, mut op: RmaOp<'a>) -> WinResult<Located<'a>> {
        let call = op.call;
        if op.target.layout.is_absolute() {
            return Err(Box::new(WinError::BadArgument {
                call,
                reason: "the target's layout is absolute; its elements lie in the window"
                    .to_owned(),
            }));
        }
        let origin = match op.kind {
            // The call reads no origin.
            Kind::Fetch if op.op == Op::NoOp => Buffer::Host,
            _ => self.locate_buffer(call, &mut op.origin, op.layout)?,
        };
        let compare = match op.kind {
            Kind::Swap => {
                let mut with = op.compare.cast_mut();
                let compare = self.locate_buffer(call, &mut with, op.layout)?;
                op.compare = with;
                compare
            }
            _ => Buffer::Host,
        };
        let results = op.result_layout.unwrap_or(op.layout);
        let result = match op.result_layout {
            Some(layout) => self.locate_buffer(call, &mut op.result, layout)?,
            None => Buffer::Host,
        };
        match (&origin, &compare, &result) {
            (Buffer::Host, Buffer::Host, Buffer::Host) => return Ok((op, None)),
            (Buffer::Device(found), ..) if self.takes(&op, found) => {
                op.origin = std::ptr::with_exposed_provenance_mut(found.address as usize);
                op.local_handle = found.handle;
                return Ok((op, None));
            }
            _ => {}
        }
        let buffers = [
            origin.elements(op.layout),
            compare.elements(op.layout),
            result.elements(results),
        ];
        // SAFETY: the caller guarantees the buffers.
        let packed = unsafe { PackedBuffers::new(self, &op, buffers) }?;
        Ok((op, Some(Box::new(packed))))
    }

    /// As [`communicate`](Self::communicate), with buffers that may be on a device.
    ///
    /// # Safety
    /// As for [`communicate`](Self::communicate).
    #[cold]
    #[inline(never)]
    pub(in crate::win) unsafe fn communicate_located(
        &self,
        op: RmaOp<'_>,
        entry: Communicate,
    ) -> WinResult<()> {
        // SAFETY: the caller guarantees the buffers, and `located` the buffers that replace them.
        unsafe { self.located(op, |op| self.communicate_here(op, entry)) }
    }

    /// Makes a call without a request by `here`, with its buffers in place or packed in host memory.
    ///
    /// # Safety
    /// The buffers are valid for their layouts until the operation is complete, and `here` may use the buffers that it gets
    /// until then.
    pub(in crate::win) unsafe fn located(
        &self,
        op: RmaOp<'_>,
        here: impl FnOnce(RmaOp<'_>) -> WinResult<()>,
    ) -> WinResult<()> {
        // SAFETY: the caller guarantees the buffers until the operation is complete; packed ones stay until its last step.
        unsafe {
            let (op, mut packed) = match self.locate(op)? {
                (op, None) => return here(op),
                (op, Some(packed)) => (op, packed),
            };
            let peer = self.peer(op.call, op.target.rank)?;
            let rows = Rows::of(&op);
            let op = packed.stand_in(op, &rows);
            let last = Box::new(move |status| packed.end(status));
            issue_unasked(self, peer, last, |state| {
                let record = Some(state);
                here(RmaOp { record, ..op })
            })
        }
    }

    /// As [`request`](Self::request), with buffers that may be on a device.
    ///
    /// # Safety
    /// As for [`communicate`](Self::communicate).
    #[cold]
    #[inline(never)]
    pub(in crate::win) unsafe fn request_located(
        &self,
        op: RmaOp<'_>,
        entry: Communicate,
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
