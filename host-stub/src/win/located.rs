//! Calls with buffers that may be on a device: where each buffer is gets looked up, and what cannot go through
//! the window's table as it is goes through host memory.
//!
//! A put or get without gaps over the transport takes the device buffer itself. Everything else is
//! packed into host memory by the copy functions, many runs at a time, done from there, and complete
//! when the call returns.

use plugin_api::{Datatype, IoVec};

use super::bounce::Bounce;
use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::op::{Kind, RmaOp};
use super::peer::{Reach, WindowKind};
use super::pieces::Cursor;
use super::request::Request;
use super::table::{Communicate, Requested};
use super::window::Window;
use crate::device::{Found, HOST};

/// Runs handed to a copy function at once.
const RUNS: usize = 256;

/// Which way bytes are copied: out of a buffer, or into it.
pub(super) enum Way<'a> {
    From(&'a mut [u8]),
    To(&'a [u8]),
}

/// A call whose buffers have been looked up.
enum Located<'a> {
    /// The table can use the buffers.
    AsIs(RmaOp<'a>),
    /// At least one buffer has to be replaced by host memory.
    Packed(Box<PackedOp<'a>>),
}

/// A call of which some buffers are packed in host memory.
struct PackedOp<'a> {
    op: RmaOp<'a>,
    origin: Option<Packed<'a>>,
    compare: Option<Packed<'a>>,
    result: Option<Packed<'a>>,
}

/// The elements of a device buffer in host memory, one after the other.
struct Packed<'a> {
    bounce: Bounce,
    packed: Layout,
    found: Found,
    layout: &'a Layout,
}

impl<'a> Packed<'a> {
    /// Host memory with room for a buffer's elements; with the elements, if the call reads them.
    ///
    /// # Safety
    /// The buffer is valid for its layout.
    unsafe fn new(
        window: &Window,
        call: &'static str,
        (found, layout): (Found, &'a Layout),
        filled: bool,
    ) -> WinResult<Packed<'a>> {
        let mut bounce = Bounce::new(window, call, layout.bytes())?;
        if filled {
            let bytes = &mut bounce.bytes_mut()[..layout.bytes()];
            // SAFETY: the caller guarantees the buffer.
            unsafe { window.copy(call, &found, layout, Way::From(bytes)) }?;
        }
        Ok(Packed {
            bounce,
            packed: Layout::contiguous(layout.datatype(), layout.count()),
            found,
            layout,
        })
    }

    /// Puts the elements where they belong, once the operation is complete.
    ///
    /// # Safety
    /// The buffer is valid for its layout.
    unsafe fn unpack(mut self, window: &Window, call: &'static str) -> WinResult<()> {
        let bytes = &self.bounce.bytes_mut()[..self.layout.bytes()];
        // SAFETY: the caller guarantees the buffer.
        unsafe { window.copy(call, &self.found, self.layout, Way::To(bytes)) }
    }
}

impl PackedOp<'_> {
    /// The call with host memory in place of device memory.
    fn op(&mut self) -> RmaOp<'_> {
        let mut op = self.op;
        if let Some(origin) = &mut self.origin {
            (op.origin, op.layout) = (origin.bounce.as_mut_ptr(), &origin.packed);
        }
        if let Some(compare) = &mut self.compare {
            op.compare = compare.bounce.as_mut_ptr();
        }
        if let Some(result) = &mut self.result {
            (op.result, op.result_layout) = (result.bounce.as_mut_ptr(), Some(&result.packed));
        }
        op
    }

    /// Waits for everything to the target, after which the packed memory is free, and unpacks what the call
    /// fetched. A call that failed may have posted a part of its operations before, so the wait does not
    /// depend on `issued`, which is reported first.
    ///
    /// # Safety
    /// The buffers are valid for their layouts.
    unsafe fn settle(mut self, window: &Window, issued: WinResult<()>) -> WinResult<()> {
        let (call, rank) = (self.op.call, self.op.target.rank);
        let peer = match window.peer(call, rank) {
            Ok(peer) => peer,
            Err(error) => return issued.and(Err(error)),
        };
        self.set_in_use(true);
        let transfers = window.flush_pending(call, rank, &peer.transfers);
        let accumulates = window.flush_pending(call, rank, &peer.accumulates);
        let idle = peer.transfers.is_idle() && peer.accumulates.is_idle();
        self.set_in_use(!idle);
        issued.and(transfers).and(accumulates)?;
        let fetched = match self.op.kind {
            Kind::Get => self.origin,
            _ => self.result,
        };
        match fetched {
            // SAFETY: the caller guarantees the buffers.
            Some(packed) => unsafe { packed.unpack(window, call) },
            None => Ok(()),
        }
    }

    fn set_in_use(&mut self, used: bool) {
        let buffers = [&mut self.origin, &mut self.compare, &mut self.result];
        for packed in buffers.into_iter().flatten() {
            packed.bounce.set_in_use(used);
        }
    }
}

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
            None if compare.is_none() && result.is_none() => return Ok(Located::AsIs(op)),
            Some(found) if self.takes(&op, found) => {
                op.origin = std::ptr::with_exposed_provenance_mut(found.address as usize);
                op.local_handle = found.handle;
                return Ok(Located::AsIs(op));
            }
            _ => {}
        }
        let pack = |found: Option<Found>, layout, filled| {
            // SAFETY: the caller guarantees the buffers.
            let pack = |found| unsafe { Packed::new(self, call, (found, layout), filled) };
            found.map(pack).transpose()
        };
        Ok(Located::Packed(Box::new(PackedOp {
            op,
            origin: pack(origin, op.layout, op.kind != Kind::Get)?,
            compare: pack(compare, op.layout, true)?,
            result: pack(result, results, false)?,
        })))
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
        // SAFETY: the caller guarantees the buffers; packed ones stay until the operation is complete.
        unsafe {
            match self.locate(op)? {
                Located::AsIs(op) => self.communicate_here(op, entry),
                Located::Packed(mut packed) => {
                    let issued = self.communicate_here(packed.op(), entry);
                    packed.settle(self, issued)
                }
            }
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
        // SAFETY: the caller guarantees the buffers; packed ones stay until the operation is complete.
        unsafe {
            match self.locate(op)? {
                Located::AsIs(op) => self.request_here(op, entry),
                Located::Packed(mut packed) => {
                    let issued = self.request_here(packed.op(), entry);
                    packed.settle(self, issued.and_then(Request::wait))?;
                    Ok(Request::done(self, op.call, op.target.rank))
                }
            }
        }
    }

    /// Copies between host memory and this rank's own, on whatever device that is.
    pub(super) fn copy_own(
        &self,
        call: &'static str,
        offset: usize,
        way: Way<'_>,
    ) -> WinResult<()> {
        let exposed = &self.parts.exposed;
        let found = Found {
            iface: exposed.iface,
            address: (exposed.base as u64).wrapping_add(offset as u64),
            handle: std::ptr::null_mut(),
        };
        let len = match &way {
            Way::From(into) => into.len(),
            Way::To(from) => from.len(),
        };
        let layout = Layout::contiguous(Datatype::Uint8, len);
        // SAFETY: the range was checked to lie in this rank's memory, which is of that kind.
        unsafe { self.copy(call, &found, &layout, way) }
    }

    /// Copies between packed bytes and the elements of a buffer on a device.
    ///
    /// # Safety
    /// The buffer is valid for its layout.
    unsafe fn copy(
        &self,
        call: &'static str,
        found: &Found,
        layout: &Layout,
        mut way: Way<'_>,
    ) -> WinResult<()> {
        let devices = self.link.job.devices();
        let mut cursor = Cursor::new(layout);
        let mut done = 0;
        loop {
            let (mut runs, mut bytes) = (Vec::new(), 0);
            while runs.len() < RUNS {
                let Some(segment) = cursor.take(usize::MAX) else {
                    break;
                };
                let at = found.address.wrapping_add(segment.offset as u64);
                runs.push(IoVec {
                    base: std::ptr::with_exposed_provenance_mut(at as usize),
                    len: segment.len,
                });
                bytes += segment.len;
            }
            if runs.is_empty() {
                return Ok(());
            }
            let kinds = vec![found.iface; runs.len()];
            // SAFETY: the caller guarantees the buffer, in which the runs lie.
            let (function, copied) = unsafe {
                match &mut way {
                    Way::From(into) => (
                        "copy_from_hmem_iov",
                        devices.read(&runs, &kinds, &mut into[done..done + bytes]),
                    ),
                    Way::To(from) => (
                        "copy_to_hmem_iov",
                        devices.write(&runs, &kinds, &from[done..done + bytes]),
                    ),
                }
            };
            copied.map_err(|answer| WinError::DeviceCopy {
                call,
                function,
                size: bytes,
                answer,
            })?;
            done += bytes;
        }
    }
}
