//! The fast path of communication calls, and of a flush of one rank: a call that passes a few comparisons goes to the
//! transport without a [`Transfer`] in memory and without the window's table.
//!
//! The path is for calls without tracing or checks, on contiguous host memory, in a window whose functions for them are
//! those over the transport. Anything else falls back to the general path before side effects, and so does every error.

use std::ptr::fn_addr_eq;

use super::btl::{accumulate, passive, rma};
use super::error::WinResult;
use super::kind::WindowKind;
use super::link::Link;
use super::op::RmaOp;
use super::peer::Peer;
use super::table::{Communicate, Direct, Flush, RmaTable};
use super::transfer::Transfer;
use super::window::Window;
use crate::door::is_looked_for;

/// The calls of a window that may take the fast path, once hooks have seen its table.
pub(super) fn direct(kind: WindowKind, table: &RmaTable, link: &Link) -> Direct {
    let may = kind != WindowKind::Dynamic && link.enters_freely();
    let is = |entry: Communicate, own: Communicate| may && fn_addr_eq(entry, own);
    Direct {
        put: is(table.put, rma::put),
        get: is(table.get, rma::get),
        accumulate: is(table.accumulate, accumulate::accumulate),
        fetch_and_op: is(table.fetch_and_op, accumulate::accumulate),
        flush: may && fn_addr_eq(table.flush, passive::flush as Flush),
    }
}

/// The place of a call's target elements.
#[derive(Clone, Copy)]
struct Spot<'a> {
    peer: &'a Peer,
    address: u64,
}

impl Window {
    /// Issues a put or get. None: nothing was done, because the call takes the general path. `make` makes the description
    /// several times, as in [`communicate`](Self::communicate).
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline(always)]
    pub(super) unsafe fn direct_transfer<'o, const PUT: bool>(
        &'o self,
        make: impl Fn() -> RmaOp<'o>,
    ) -> Option<WinResult<()>> {
        let attributes = self.link.transport.attributes();
        let (may, limit) = match PUT {
            true => (self.direct.put, attributes.put_limit),
            false => (self.direct.get, attributes.get_limit),
        };
        let spot = self.spot(may, &make(), limit)?;
        // SAFETY: `spot` checked the call; the caller guarantees the buffer.
        Some(unsafe { rma::issue_whole::<PUT>(self, || spot.transfer(&make())) })
    }

    /// Issues an accumulate that `may` take the fast path; see [`direct_transfer`](Self::direct_transfer).
    ///
    /// # Safety
    /// As for [`get_accumulate`](Self::get_accumulate). The result, if there is one, has the origin's layout.
    #[inline(always)]
    pub(super) unsafe fn direct_update<'o>(
        &'o self,
        may: bool,
        make: impl Fn() -> RmaOp<'o>,
    ) -> Option<WinResult<()>> {
        let spot = self.spot(may, &make(), usize::MAX)?;
        // SAFETY: `spot` checked the call; the caller guarantees the buffers.
        unsafe { accumulate::issue_direct(self, || spot.transfer(&make())) }
    }

    /// The place of the target's elements, if the call may take the fast path: the open epoch includes the target, and
    /// both layouts are the same contiguous elements, at least one and at most `limit` bytes, inside the target's
    /// memory.
    #[inline(always)]
    fn spot(&self, may: bool, op: &RmaOp<'_>, limit: usize) -> Option<Spot<'_>> {
        let (here, there) = (op.layout, op.target.layout);
        if !may || is_looked_for() || !here.is_contiguous() || !there.is_contiguous() {
            return None;
        }
        let bytes = here.bytes();
        let is_same = here.datatype() as u32 == there.datatype() as u32 && bytes == there.bytes();
        // Zero wraps to more than any limit.
        if !is_same || bytes.wrapping_sub(1) >= limit {
            return None;
        }
        let peer = self.parts.peers.made(op.target.rank)?;
        if !self.epochs.includes(op.target.rank) {
            return None;
        }
        let address = peer.address_of(op.target.displacement, bytes)?;
        Some(Spot { peer, address })
    }
}

impl<'a> Spot<'a> {
    #[inline(always)]
    fn transfer(self, op: &RmaOp<'a>) -> Transfer<'a> {
        op.transfer(self.peer, (self.address, self.peer.handle.as_ptr()))
    }
}
