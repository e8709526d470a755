//! The checks that every communication call passes before it goes through the window's table, and the
//! [`Transfer`] that the checks make of the call's arguments.
//!
//! The checks are always inlined into each call. A check in a function of its own would get a place or a transfer
//! through memory, and this would cost more than a store to shared memory.

use std::mem::MaybeUninit;

use plugin_api::{Datatype, Handle};

use super::dynamic::region_cache::KeyUse;
use super::dynamic::regions::KeyWords;
use super::error::{WinError, WinResult};
use super::kind::WindowKind;
use super::layout::Layout;
use super::op::{Kind, RmaOp};
use super::peer::Peer;
use super::transfer::Transfer;
use super::window::Window;
use crate::base::Op;

/// The place of a call's target memory.
struct Place {
    address: u64,
    handle: *const Handle,
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
) -> Box<WinError> {
    Box::new(WinError::LayoutMismatch {
        call,
        first,
        first_count: a.count(),
        first_type: a.datatype(),
        second,
        second_count: b.count(),
        second_type: b.datatype(),
    })
}

#[inline(always)]
fn defined(call: &'static str, op: Op, datatype: Datatype, fetches: bool) -> WinResult<()> {
    let why = if !op.is_defined_on(datatype) {
        "on floating-point types"
    } else if op == Op::NoOp && !fetches {
        "for calls that fetch nothing"
    } else {
        return Ok(());
    };
    Err(undefined(call, op, datatype, why))
}

#[cold]
#[inline(never)]
fn undefined(call: &'static str, op: Op, datatype: Datatype, why: &'static str) -> Box<WinError> {
    Box::new(WinError::InvalidOperation {
        call,
        op,
        datatype,
        why,
    })
}

#[cold]
#[inline(never)]
fn refuses_puts(call: &'static str) -> Box<WinError> {
    Box::new(WinError::EpochMisuse {
        call,
        state: "a fence epoch asserted to have no puts to this rank (NOPUT)",
    })
}

#[cold]
#[inline(never)]
fn out_of_bounds(
    call: &'static str,
    peer: &Peer,
    displacement: u64,
    extent: usize,
) -> Box<WinError> {
    Box::new(WinError::OutOfBounds {
        call,
        rank: peer.rank,
        displacement,
        unit: peer.unit,
        size: extent,
        limit: peer.limit,
    })
}

impl<'a> RmaOp<'a> {
    /// The transfer to a place that the checks found.
    #[inline(always)]
    pub(super) fn transfer(
        &self,
        peer: &'a Peer,
        (address, handle): (u64, *const Handle),
    ) -> Transfer<'a> {
        Transfer {
            call: self.call,
            op: self.op,
            target: self.target.rank,
            peer,
            address,
            handle,
            target_layout: self.target.layout,
            origin: self.origin,
            origin_layout: self.layout,
            local_handle: self.local_handle,
            compare: self.compare,
            result: self.result,
            result_layout: self.result_layout,
            record: self.record,
        }
    }

    #[inline(always)]
    fn check(&self) -> WinResult<()> {
        let (call, layout) = (self.call, self.target.layout);
        match self.kind {
            Kind::Put | Kind::Get => {}
            Kind::Update => defined(call, self.op, layout.datatype(), false)?,
            Kind::Fetch => defined(call, self.op, layout.datatype(), true)?,
            Kind::Swap => {
                if layout.datatype().is_float() {
                    let why = "as compare-and-swap on floating-point types";
                    return Err(undefined(call, self.op, layout.datatype(), why));
                }
                // All its layouts are one element.
                return Ok(());
            }
        }
        if let Some(result) = self.result_layout {
            same_elements(call, ("result", result), ("target", layout))?;
        }
        same_elements(call, ("origin", self.layout), ("target", layout))
    }
}

impl Window {
    #[inline(always)]
    pub(super) fn peer(&self, call: &'static str, rank: usize) -> WinResult<&Peer> {
        match self.parts.peers.made(rank) {
            Some(peer) => Ok(peer),
            None => self.parts.peers.make(&self.link.members, call, rank),
        }
    }

    /// Finds the place of a target's elements, and refuses elements outside the target's memory.
    #[inline(always)]
    fn place(
        &self,
        call: &'static str,
        peer: &Peer,
        displacement: u64,
        layout: &Layout,
        (room, key_use): (&mut KeyRoom, KeyUse),
    ) -> WinResult<Place> {
        match self.static_place(peer, displacement, layout.extent()) {
            Some(place) => Ok(place),
            None => self.other_place(call, peer, displacement, layout, (room, key_use)),
        }
    }

    #[inline(always)]
    fn static_place(&self, peer: &Peer, displacement: u64, extent: usize) -> Option<Place> {
        if self.kind() == WindowKind::Dynamic {
            return None;
        }
        let address = peer.address_of(displacement, extent)?;
        let handle = peer.handle.as_ptr();
        Some(Place { address, handle })
    }

    #[cold]
    #[inline(never)]
    fn other_place(
        &self,
        call: &'static str,
        peer: &Peer,
        displacement: u64,
        layout: &Layout,
        (room, key_use): (&mut KeyRoom, KeyUse),
    ) -> WinResult<Place> {
        if self.kind() == WindowKind::Dynamic {
            return self.dynamic_place(call, peer, displacement, layout, (room, key_use));
        }
        Err(out_of_bounds(call, peer, displacement, layout.extent()))
    }

    fn dynamic_place(
        &self,
        call: &'static str,
        peer: &Peer,
        address: u64,
        layout: &Layout,
        (room, key_use): (&mut KeyRoom, KeyUse),
    ) -> WinResult<Place> {
        let (begin, end) = (layout.begin(), layout.extent());
        if end == 0 || key_use == KeyUse::Later {
            // Nothing will be sent, so the address need not be attached; or the function that issues the
            // operation looks it up.
            return Ok(Place {
                address,
                handle: std::ptr::null(),
            });
        }
        // Bytes before the first element are not accessed, so they need not be attached. Only the
        // address of the first element counts.
        let first = address.wrapping_add(begin as u64);
        let words = self.region_key(call, peer, (first, end - begin), key_use)?;
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
            return Err(refuses_puts(call));
        }
        Ok(peer)
    }

    #[inline(always)]
    pub(super) fn allowed_request(&self, call: &'static str, rank: usize) -> WinResult<&Peer> {
        let peer = self.peer(call, rank)?;
        self.epochs.check_request(call, rank)?;
        Ok(peer)
    }

    /// Checks a call and finds its target memory.
    #[inline(always)]
    pub(super) fn resolve<'a>(
        &self,
        op: &RmaOp<'a>,
        peer: &'a Peer,
        key: (&mut KeyRoom, KeyUse),
    ) -> WinResult<Transfer<'a>> {
        op.check()?;
        let target = &op.target;
        let place = self.place(op.call, peer, target.displacement, target.layout, key)?;
        Ok(op.transfer(peer, (place.address, place.handle)))
    }
}
