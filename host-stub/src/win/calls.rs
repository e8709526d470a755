//! The public communication calls: they check, then go through the window's table.

use std::mem::MaybeUninit;

use plugin_api::{Datatype, Handle};

use super::dynamic::KeyWords;
use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::ops::Op;
use super::peer::{Peer, WindowKind};
use super::request::Request;
use super::table::{CompareSwap, Transfer, requested};
use super::window::Window;

/// The target side of a call: rank, displacement in the target's units, and layout.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The rank.
    pub rank: usize,
    /// Displacement in units of the target's window; in a dynamic window an address there.
    pub displacement: u64,
    /// Where elements lie from the displacement on.
    pub layout: &'a Layout,
}

/// Where a call's target memory is.
struct Place {
    address: u64,
    handle: *const Handle,
}

/// Room for the key of a dynamic window's region during one call.
type KeyRoom = MaybeUninit<KeyWords>;

fn same_elements(
    call: &'static str,
    first: (&'static str, &Layout),
    second: (&'static str, &Layout),
) -> WinResult<()> {
    let ((first, a), (second, b)) = (first, second);
    if a.datatype() as u32 == b.datatype() as u32 && a.bytes() == b.bytes() {
        return Ok(());
    }
    Err(WinError::LayoutMismatch {
        call,
        first,
        first_count: a.count(),
        first_type: a.datatype(),
        second,
        second_count: b.count(),
        second_type: b.datatype(),
    })
}

fn defined(call: &'static str, op: Op, datatype: Datatype, fetches: bool) -> WinResult<()> {
    let why = if !op.is_defined_on(datatype) {
        "on floating-point types"
    } else if op == Op::NoOp && !fetches {
        "for calls that fetch nothing"
    } else {
        return Ok(());
    };
    Err(WinError::InvalidOperation {
        call,
        op,
        datatype,
        why,
    })
}

impl Window {
    #[inline]
    pub(super) fn peer(&self, call: &'static str, rank: usize) -> WinResult<&Peer> {
        self.parts.peers.get(rank).ok_or(WinError::NoSuchRank {
            call,
            rank,
            size: self.link.size,
        })
    }

    /// Resolves a target range, and refuses one outside the target's memory.
    #[inline]
    fn place(
        &self,
        call: &'static str,
        peer: &Peer,
        displacement: u64,
        extent: usize,
        room: &mut KeyRoom,
    ) -> WinResult<Place> {
        if self.kind() == WindowKind::Dynamic {
            return self.dynamic_place(call, peer, displacement, extent, room);
        }
        let offset = displacement.checked_mul(u64::from(peer.unit));
        let fits = offset
            .and_then(|offset| offset.checked_add(extent as u64))
            .is_some_and(|end| end <= peer.limit);
        match offset {
            Some(offset) if fits => Ok(Place {
                address: peer.base.wrapping_add(offset),
                handle: peer.handle.as_ptr(),
            }),
            _ => Err(WinError::OutOfBounds {
                call,
                rank: peer.rank,
                displacement,
                unit: peer.unit,
                size: extent,
                limit: peer.limit,
            }),
        }
    }

    #[cold]
    #[inline(never)]
    fn dynamic_place(
        &self,
        call: &'static str,
        peer: &Peer,
        address: u64,
        extent: usize,
        room: &mut KeyRoom,
    ) -> WinResult<Place> {
        if extent == 0 {
            // Nothing will be sent, so the address need not be attached.
            return Ok(Place {
                address,
                handle: std::ptr::null(),
            });
        }
        let words = self.region_key(call, peer, address, extent)?;
        Ok(Place {
            address,
            handle: room.write(words).as_ptr().cast(),
        })
    }

    #[inline]
    fn allowed(&self, call: &'static str, rank: usize, writes: bool) -> WinResult<&Peer> {
        let peer = self.peer(call, rank)?;
        self.epochs.check_access(call, rank)?;
        if writes && rank == self.link.rank && self.epochs.refuses_puts() {
            return Err(WinError::EpochMisuse {
                call,
                state: "a fence epoch asserted to have no puts to this rank (NOPUT)",
            });
        }
        Ok(peer)
    }

    #[inline]
    fn allowed_request(&self, call: &'static str, rank: usize) -> WinResult<&Peer> {
        let peer = self.peer(call, rank)?;
        self.epochs.check_request(call, rank)?;
        Ok(peer)
    }

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
        let call = "put";
        let peer = self.allowed(call, target.rank, true)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, &target, &mut room)?;
        if layout.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: checked above; the caller vouches for the buffer.
        unsafe { (self.table.put)(self, &transfer, None) }
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
        let call = "get";
        let peer = self.allowed(call, target.rank, false)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin, layout, &target, &mut room)?;
        if layout.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: checked above; the caller vouches for the buffer.
        unsafe { (self.table.get)(self, &transfer, None) }
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
        let call = "accumulate";
        let peer = self.allowed(call, target.rank, true)?;
        defined(call, op, target.layout.datatype(), false)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, &target, &mut room)?;
        if layout.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: checked above; the caller vouches for the buffer.
        unsafe { (self.table.accumulate)(self, &transfer, op, None) }
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
        let call = "get_accumulate";
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
        unsafe { (self.table.get_accumulate)(self, &transfer, op, None) }
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
        let call = "fetch_and_op";
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
        unsafe { (self.table.fetch_and_op)(self, &transfer, op, None) }
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
        let call = "compare_and_swap";
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
        let call = "rput";
        let peer = self.allowed_request(call, target.rank)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, &target, &mut room)?;
        if layout.bytes() == 0 {
            return Ok(Request::done(self, call, target.rank));
        }
        requested(self, &transfer, |request| {
            // SAFETY: checked above; the caller vouches for the buffer.
            unsafe { (self.table.put)(self, &transfer, Some(request)) }
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
        let call = "rget";
        let peer = self.allowed_request(call, target.rank)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin, layout, &target, &mut room)?;
        if layout.bytes() == 0 {
            return Ok(Request::done(self, call, target.rank));
        }
        requested(self, &transfer, |request| {
            // SAFETY: checked above; the caller vouches for the buffer.
            unsafe { (self.table.get)(self, &transfer, Some(request)) }
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
        let call = "raccumulate";
        let peer = self.allowed_request(call, target.rank)?;
        defined(call, op, target.layout.datatype(), false)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, &target, &mut room)?;
        if layout.bytes() == 0 {
            return Ok(Request::done(self, call, target.rank));
        }
        requested(self, &transfer, |request| {
            // SAFETY: checked above; the caller vouches for the buffer.
            unsafe { (self.table.accumulate)(self, &transfer, op, Some(request)) }
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
        let call = "rget_accumulate";
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
            unsafe { (self.table.get_accumulate)(self, &transfer, op, Some(request)) }
        })
    }

    #[inline]
    fn transfer<'a>(
        &self,
        call: &'static str,
        peer: &Peer,
        origin: *mut u8,
        layout: &'a Layout,
        target: &Target<'a>,
        room: &mut KeyRoom,
    ) -> WinResult<Transfer<'a>> {
        same_elements(call, ("origin", layout), ("target", target.layout))?;
        let place = self.place(
            call,
            peer,
            target.displacement,
            target.layout.extent(),
            room,
        )?;
        Ok(Transfer {
            call,
            target: target.rank,
            address: place.address,
            handle: place.handle,
            target_layout: target.layout,
            origin,
            origin_layout: layout,
            result: std::ptr::null_mut(),
            result_layout: None,
        })
    }

    #[inline]
    fn fetching<'a>(
        &self,
        call: &'static str,
        peer: &Peer,
        fetch: &Fetch<'a>,
        target: &Target<'a>,
        op: Op,
        room: &mut KeyRoom,
    ) -> WinResult<Transfer<'a>> {
        defined(call, op, target.layout.datatype(), true)?;
        // Nothing is read from the origin then, so it need not say anything sensible.
        let (origin, layout) = if op == Op::NoOp {
            (std::ptr::null(), fetch.result_layout)
        } else {
            (fetch.origin, fetch.layout)
        };
        same_elements(
            call,
            ("result", fetch.result_layout),
            ("target", target.layout),
        )?;
        let transfer = self.transfer(call, peer, origin.cast_mut(), layout, target, room)?;
        Ok(Transfer {
            result: fetch.result,
            result_layout: Some(fetch.result_layout),
            ..transfer
        })
    }
}

/// The origin's two buffers of a fetching call.
struct Fetch<'a> {
    origin: *const u8,
    layout: &'a Layout,
    result: *mut u8,
    result_layout: &'a Layout,
}
