//! The checks that every communication call passes before it goes through the window's table, and
//! the [`Transfer`] they make of its arguments.
//!
//! They are inlined into each call, always: as functions they would pass their results, which are
//! large because errors are, through memory, and cost more than a store to shared memory does.

use std::mem::MaybeUninit;

use plugin_api::{Datatype, Handle};

use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::peer::{Peer, WindowKind};
use super::regions::KeyWords;
use super::table::Transfer;
use super::window::Window;
use crate::base::Op;

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
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) handle: *const Handle,
}

/// Room for the key of a dynamic window's region during one call.
pub(super) type KeyRoom = MaybeUninit<KeyWords>;

#[inline(always)]
fn same_elements(
    call: &'static str,
    first: (&'static str, &Layout),
    second: (&'static str, &Layout),
) -> WinResult<()> {
    let ((first, a), (second, b)) = (first, second);
    if a.datatype() as u32 == b.datatype() as u32 && a.bytes() == b.bytes() {
        return Ok(());
    }
    Err(mismatch(call, (first, a), (second, b)))
}

#[cold]
#[inline(never)]
fn mismatch(
    call: &'static str,
    (first, a): (&'static str, &Layout),
    (second, b): (&'static str, &Layout),
) -> WinError {
    WinError::LayoutMismatch {
        call,
        first,
        first_count: a.count(),
        first_type: a.datatype(),
        second,
        second_count: b.count(),
        second_type: b.datatype(),
    }
}

#[inline(always)]
pub(super) fn defined(
    call: &'static str,
    op: Op,
    datatype: Datatype,
    fetches: bool,
) -> WinResult<()> {
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

#[cold]
#[inline(never)]
fn out_of_bounds(call: &'static str, peer: &Peer, displacement: u64, extent: usize) -> WinError {
    WinError::OutOfBounds {
        call,
        rank: peer.rank,
        displacement,
        unit: peer.unit,
        size: extent,
        limit: peer.limit,
    }
}

impl Window {
    #[inline(always)]
    pub(super) fn peer(&self, call: &'static str, rank: usize) -> WinResult<&Peer> {
        match self.parts.peers.get(rank) {
            Some(peer) => Ok(peer),
            None => Err(self.no_such_rank(call, rank)),
        }
    }

    #[cold]
    #[inline(never)]
    fn no_such_rank(&self, call: &'static str, rank: usize) -> WinError {
        WinError::NoSuchRank {
            call,
            rank,
            size: self.link.size,
        }
    }

    /// Resolves a target range, and refuses one outside the target's memory.
    #[inline(always)]
    pub(super) fn place(
        &self,
        call: &'static str,
        peer: &Peer,
        displacement: u64,
        extent: usize,
        room: &mut KeyRoom,
    ) -> WinResult<Place> {
        match self.static_place(peer, displacement, extent) {
            Some(place) => Ok(place),
            None => self.other_place(call, peer, displacement, extent, room),
        }
    }

    #[inline(always)]
    fn static_place(&self, peer: &Peer, displacement: u64, extent: usize) -> Option<Place> {
        if self.kind() == WindowKind::Dynamic {
            return None;
        }
        let offset = displacement.checked_mul(u64::from(peer.unit))?;
        (offset.checked_add(extent as u64)? <= peer.limit).then(|| Place {
            address: peer.base.wrapping_add(offset),
            handle: peer.handle.as_ptr(),
        })
    }

    #[cold]
    #[inline(never)]
    fn other_place(
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
        Err(out_of_bounds(call, peer, displacement, extent))
    }

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

    #[inline(always)]
    pub(super) fn allowed(
        &self,
        call: &'static str,
        rank: usize,
        writes: bool,
    ) -> WinResult<&Peer> {
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

    #[inline(always)]
    pub(super) fn allowed_request(&self, call: &'static str, rank: usize) -> WinResult<&Peer> {
        let peer = self.peer(call, rank)?;
        self.epochs.check_request(call, rank)?;
        Ok(peer)
    }

    #[inline(always)]
    pub(super) fn transfer<'a>(
        &self,
        call: &'static str,
        peer: &'a Peer,
        origin: *mut u8,
        layout: &'a Layout,
        target: &Target<'a>,
        room: &mut KeyRoom,
    ) -> WinResult<Transfer<'a>> {
        same_elements(call, ("origin", layout), ("target", target.layout))?;
        let (displacement, extent) = (target.displacement, target.layout.extent());
        let place = match self.static_place(peer, displacement, extent) {
            Some(place) => place,
            None => self.other_place(call, peer, displacement, extent, room)?,
        };
        Ok(Transfer {
            call,
            target: target.rank,
            peer,
            address: place.address,
            handle: place.handle,
            target_layout: target.layout,
            origin,
            origin_layout: layout,
            local_handle: std::ptr::null_mut(),
            result: std::ptr::null_mut(),
            result_layout: None,
        })
    }

    #[inline(always)]
    pub(super) fn fetching<'a>(
        &self,
        call: &'static str,
        peer: &'a Peer,
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
pub(super) struct Fetch<'a> {
    pub(super) origin: *const u8,
    pub(super) layout: &'a Layout,
    pub(super) result: *mut u8,
    pub(super) result_layout: &'a Layout,
}
