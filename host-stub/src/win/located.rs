//! Calls with buffers that may be on a device: where they are is found out, and what cannot go through
//! the window's table as it is goes through host memory.
//!
//! A put or get without gaps over the transport takes the device buffer itself. Everything else is
//! packed into host memory by the copy functions, many runs at a time, done from there, and complete
//! when the call returns.

use plugin_api::{Datatype, Handle, IoVec, hmem_iface};

use super::bounce::Bounce;
use super::checked::Target;
use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::peer::{Reach, WindowKind};
use super::pieces::Cursor;
use super::request::Request;
use super::window::Window;
use crate::base::Op;
use crate::device::{Found, HOST};

/// Runs handed to a copy function at once.
const RUNS: usize = 256;
/// No handle: host memory.
const NOT_DEVICE: *mut Handle = std::ptr::null_mut();

/// Where a buffer is.
enum Place {
    Host(*mut u8),
    Device(Found),
}

/// A buffer's elements in host memory, one after the other.
struct Packed {
    bounce: Bounce,
    layout: Layout,
}

impl Packed {
    fn pointer(&mut self) -> *mut u8 {
        self.bounce.as_mut_ptr()
    }
}

/// Which way bytes are copied: out of the buffer, or into it.
pub(super) enum Way<'a> {
    From(&'a mut [u8]),
    To(&'a [u8]),
}

impl Window {
    /// Whether a rank's memory is known to be of a device; what a rank attached to a dynamic window is
    /// its own affair.
    pub(crate) fn is_on_device(&self, rank: usize) -> bool {
        let device = self.parts.devices.get(rank);
        device.is_some_and(|device| *device != HOST) && self.kind() != WindowKind::Dynamic
    }

    fn where_is(
        &self,
        call: &'static str,
        pointer: *const u8,
        layout: &Layout,
    ) -> WinResult<Place> {
        let bad = |reason: String| WinError::BadArgument { call, reason };
        let devices = self.link.job.devices();
        if pointer.is_null() {
            return Ok(Place::Host(std::ptr::null_mut()));
        }
        let found = devices.find(pointer as u64, layout.extent());
        let place = match found.map_err(|e| bad(e.to_string()))? {
            Ok(found) => Place::Device(found),
            Err(host) => Place::Host(std::ptr::with_exposed_provenance_mut(host as usize)),
        };
        if layout.is_on_device() && matches!(place, Place::Host(_)) {
            return Err(bad(format!(
                "its layout says device memory, and {pointer:p} is host memory"
            )));
        }
        Ok(place)
    }

    /// Whether the transport takes a device buffer as it is.
    fn goes_as_is(
        &self,
        found: &Found,
        layout: &Layout,
        target: &Target<'_>,
        limit: usize,
    ) -> bool {
        let reach = self.parts.peers.get(target.rank).map(|peer| peer.reach);
        !found.handle.is_null()
            && layout.is_contiguous()
            && target.layout.is_contiguous()
            && layout.bytes() <= limit
            && reach == Some(Reach::Transport)
    }

    /// Host memory with room for a buffer's elements; with the elements, if they are wanted.
    fn pack(
        &self,
        call: &'static str,
        place: &Place,
        layout: &Layout,
        filled: bool,
    ) -> WinResult<Packed> {
        let mut bounce = Bounce::new(self, call, layout.bytes())?;
        if filled {
            let bytes = &mut bounce.bytes_mut()[..layout.bytes()];
            // SAFETY: the caller of the public call vouches for the buffer.
            unsafe { self.copy(call, place, layout, Way::From(bytes)) }?;
        }
        Ok(Packed {
            bounce,
            layout: Layout::contiguous(layout.datatype(), layout.count()),
        })
    }

    /// Puts the elements where they belong, once everything to the target is complete.
    fn unpack(
        &self,
        call: &'static str,
        mut packed: Packed,
        place: &Place,
        layout: &Layout,
    ) -> WinResult<()> {
        let bytes = &packed.bounce.bytes_mut()[..layout.bytes()];
        // SAFETY: as in `pack`.
        unsafe { self.copy(call, place, layout, Way::To(bytes)) }
    }

    /// Copies between packed bytes and the elements of a buffer, wherever it is.
    ///
    /// # Safety
    /// The buffer is good for its layout.
    unsafe fn copy(
        &self,
        call: &'static str,
        place: &Place,
        layout: &Layout,
        mut way: Way<'_>,
    ) -> WinResult<()> {
        let (base, kind) = match place {
            Place::Host(at) => (*at as u64, hmem_iface::SYSTEM),
            Place::Device(found) => (found.address, found.iface),
        };
        let devices = self.link.job.devices();
        let mut cursor = Cursor::new(layout);
        let mut done = 0;
        loop {
            let (mut runs, mut bytes) = (Vec::new(), 0);
            while runs.len() < RUNS {
                let Some(segment) = cursor.take(usize::MAX) else {
                    break;
                };
                let at = base.wrapping_add(segment.offset as u64);
                runs.push(IoVec {
                    base: std::ptr::with_exposed_provenance_mut(at as usize),
                    len: segment.len,
                });
                bytes += segment.len;
            }
            if runs.is_empty() {
                return Ok(());
            }
            let kinds = vec![kind; runs.len()];
            // SAFETY: the caller vouches for the buffer, in which the runs lie.
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

    /// Waits for everything to a target, after which the packed memory is free. A call that failed may have posted a part of
    /// its operations before, so the wait does not depend on `issued`, which is reported first.
    fn settle(
        &self,
        call: &'static str,
        rank: usize,
        issued: WinResult<()>,
        packed: &mut [&mut Packed],
    ) -> WinResult<()> {
        let peer = match self.peer(call, rank) {
            Ok(peer) => peer,
            Err(error) => return issued.and(Err(error)),
        };
        for packed in packed.iter_mut() {
            packed.bounce.set_in_use(true);
        }
        let transfers = self.flush_pending(call, rank, &peer.transfers);
        let accumulates = self.flush_pending(call, rank, &peer.accumulates);
        let idle = peer.transfers.is_idle() && peer.accumulates.is_idle();
        for packed in packed {
            packed.bounce.set_in_use(!idle);
        }
        issued.and(transfers).and(accumulates)
    }

    #[cold]
    pub(super) unsafe fn put_located(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<()> {
        let call = "put";
        let place = self.where_is(call, origin, layout)?;
        let limit = self.link.transport.attributes().put_limit;
        // SAFETY: the caller vouches for the buffer, wherever it is.
        unsafe {
            match &place {
                Place::Host(at) => self.put_here(*at, layout, target, NOT_DEVICE),
                Place::Device(found) if self.goes_as_is(found, layout, &target, limit) => {
                    self.put_here(pointer(found), layout, target, found.handle)
                }
                Place::Device(_) => {
                    let mut packed = self.pack(call, &place, layout, true)?;
                    let (pointer, rank) = (packed.pointer(), target.rank);
                    let issued = self.put_here(pointer, &packed.layout, target, NOT_DEVICE);
                    self.settle(call, rank, issued, &mut [&mut packed])
                }
            }
        }
    }

    #[cold]
    pub(super) unsafe fn get_located(
        &self,
        origin: *mut u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<()> {
        let call = "get";
        let place = self.where_is(call, origin, layout)?;
        let limit = self.link.transport.attributes().get_limit;
        // SAFETY: as above.
        unsafe {
            match &place {
                Place::Host(at) => self.get_here(*at, layout, target, NOT_DEVICE),
                Place::Device(found) if self.goes_as_is(found, layout, &target, limit) => {
                    self.get_here(pointer(found), layout, target, found.handle)
                }
                Place::Device(_) => {
                    let mut packed = self.pack(call, &place, layout, false)?;
                    let (pointer, rank) = (packed.pointer(), target.rank);
                    let issued = self.get_here(pointer, &packed.layout, target, NOT_DEVICE);
                    self.settle(call, rank, issued, &mut [&mut packed])?;
                    self.unpack(call, packed, &place, layout)
                }
            }
        }
    }

    #[cold]
    pub(super) unsafe fn accumulate_located(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<()> {
        let call = "accumulate";
        let place = self.where_is(call, origin, layout)?;
        // SAFETY: as above.
        unsafe {
            if let Place::Host(at) = place {
                return self.accumulate_here(at, layout, target, op);
            }
            let mut packed = self.pack(call, &place, layout, true)?;
            let (pointer, rank) = (packed.pointer(), target.rank);
            let issued = self.accumulate_here(pointer, &packed.layout, target, op);
            self.settle(call, rank, issued, &mut [&mut packed])
        }
    }

    #[cold]
    pub(super) unsafe fn get_accumulate_located(
        &self,
        origin: *const u8,
        layout: &Layout,
        result: *mut u8,
        result_layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<()> {
        let call = "get_accumulate";
        let reads = op != Op::NoOp;
        let from = match reads {
            true => self.where_is(call, origin, layout)?,
            false => Place::Host(std::ptr::null_mut()),
        };
        let to = self.where_is(call, result, result_layout)?;
        // SAFETY: as above.
        unsafe {
            if let (Place::Host(from), Place::Host(to)) = (&from, &to) {
                return self.get_accumulate_here(*from, layout, *to, result_layout, target, op);
            }
            let source = if reads { layout } else { result_layout };
            let mut operands = self.pack(call, &from, source, reads)?;
            let mut results = self.pack(call, &to, result_layout, false)?;
            let rank = target.rank;
            let issued = self.get_accumulate_here(
                operands.pointer(),
                &operands.layout,
                results.pointer(),
                &results.layout,
                target,
                op,
            );
            self.settle(call, rank, issued, &mut [&mut operands, &mut results])?;
            self.unpack(call, results, &to, result_layout)
        }
    }

    #[cold]
    pub(super) unsafe fn fetch_and_op_located(
        &self,
        origin: *const u8,
        result: *mut u8,
        datatype: Datatype,
        rank: usize,
        displacement: u64,
        op: Op,
    ) -> WinResult<()> {
        let call = "fetch_and_op";
        let one = Layout::contiguous(datatype, 1);
        let reads = op != Op::NoOp;
        let from = match reads {
            true => self.where_is(call, origin, &one)?,
            false => Place::Host(std::ptr::null_mut()),
        };
        let to = self.where_is(call, result, &one)?;
        // SAFETY: as above.
        unsafe {
            if let (Place::Host(from), Place::Host(to)) = (&from, &to) {
                return self.fetch_and_op_here(*from, *to, datatype, rank, displacement, op);
            }
            let mut operand = self.pack(call, &from, &one, reads)?;
            let mut old = self.pack(call, &to, &one, false)?;
            let (a, b) = (operand.pointer(), old.pointer());
            let issued = self.fetch_and_op_here(a, b, datatype, rank, displacement, op);
            self.settle(call, rank, issued, &mut [&mut operand, &mut old])?;
            self.unpack(call, old, &to, &one)
        }
    }

    #[cold]
    pub(super) unsafe fn compare_and_swap_located(
        &self,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        datatype: Datatype,
        rank: usize,
        displacement: u64,
    ) -> WinResult<()> {
        let call = "compare_and_swap";
        let one = Layout::contiguous(datatype, 1);
        let from = self.where_is(call, origin, &one)?;
        let with = self.where_is(call, compare, &one)?;
        let to = self.where_is(call, result, &one)?;
        // SAFETY: as above.
        unsafe {
            if let (Place::Host(from), Place::Host(with), Place::Host(to)) = (&from, &with, &to) {
                let (from, with, to) = (*from, *with, *to);
                return self.compare_and_swap_here(from, with, to, datatype, rank, displacement);
            }
            let mut value = self.pack(call, &from, &one, true)?;
            let mut expected = self.pack(call, &with, &one, true)?;
            let mut old = self.pack(call, &to, &one, false)?;
            let (a, b, c) = (value.pointer(), expected.pointer(), old.pointer());
            let issued = self.compare_and_swap_here(a, b, c, datatype, rank, displacement);
            self.settle(
                call,
                rank,
                issued,
                &mut [&mut value, &mut expected, &mut old],
            )?;
            self.unpack(call, old, &to, &one)
        }
    }

    /// A request for something that is complete, once what its call left under way is.
    fn requested_after(&self, call: &'static str, rank: usize) -> WinResult<Request<'_>> {
        let peer = self.peer(call, rank)?;
        self.flush_pending(call, rank, &peer.transfers)?;
        self.flush_pending(call, rank, &peer.accumulates)?;
        Ok(Request::done(self, call, rank))
    }

    #[cold]
    pub(super) unsafe fn rput_located(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<Request<'_>> {
        let call = "rput";
        self.allowed_request(call, target.rank)?;
        // SAFETY: as above.
        unsafe {
            if let Place::Host(at) = self.where_is(call, origin, layout)? {
                return self.rput_here(at, layout, target, NOT_DEVICE);
            }
            self.put_located(origin, layout, target)?;
        }
        self.requested_after(call, target.rank)
    }

    #[cold]
    pub(super) unsafe fn rget_located(
        &self,
        origin: *mut u8,
        layout: &Layout,
        target: Target<'_>,
    ) -> WinResult<Request<'_>> {
        let call = "rget";
        self.allowed_request(call, target.rank)?;
        // SAFETY: as above.
        unsafe {
            if let Place::Host(at) = self.where_is(call, origin, layout)? {
                return self.rget_here(at, layout, target, NOT_DEVICE);
            }
            self.get_located(origin, layout, target)?;
        }
        self.requested_after(call, target.rank)
    }

    #[cold]
    pub(super) unsafe fn raccumulate_located(
        &self,
        origin: *const u8,
        layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<Request<'_>> {
        let call = "raccumulate";
        self.allowed_request(call, target.rank)?;
        // SAFETY: as above.
        unsafe {
            if let Place::Host(at) = self.where_is(call, origin, layout)? {
                return self.raccumulate_here(at, layout, target, op);
            }
            self.accumulate_located(origin, layout, target, op)?;
        }
        self.requested_after(call, target.rank)
    }

    #[cold]
    pub(super) unsafe fn rget_accumulate_located(
        &self,
        origin: *const u8,
        layout: &Layout,
        result: *mut u8,
        result_layout: &Layout,
        target: Target<'_>,
        op: Op,
    ) -> WinResult<Request<'_>> {
        let call = "rget_accumulate";
        self.allowed_request(call, target.rank)?;
        let from = match op {
            Op::NoOp => Place::Host(std::ptr::null_mut()),
            _ => self.where_is(call, origin, layout)?,
        };
        let to = self.where_is(call, result, result_layout)?;
        // SAFETY: the caller vouches for the buffers, wherever they are.
        unsafe {
            if let (Place::Host(from), Place::Host(to)) = (from, to) {
                return self.rget_accumulate_here(from, layout, to, result_layout, target, op);
            }
            self.get_accumulate_located(origin, layout, result, result_layout, target, op)?;
        }
        self.requested_after(call, target.rank)
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
            handle: NOT_DEVICE,
        };
        let len = match &way {
            Way::From(into) => into.len(),
            Way::To(from) => from.len(),
        };
        let layout = Layout::contiguous(Datatype::Uint8, len);
        // SAFETY: the range was checked to lie in this rank's memory, which is of that kind.
        unsafe { self.copy(call, &Place::Device(found), &layout, way) }
    }
}

fn pointer(found: &Found) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(found.address as usize)
}
