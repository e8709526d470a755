//! One communication call, described once: [`RmaOp`].
//!
//! Each public call makes one. If a buffer may be on a device, `located` replaces it; then `checked` checks the
//! call and makes the transfer that the window's table gets.

use plugin_api::Handle;

use super::layout::Layout;
use super::request::request_state::RequestState;
use crate::base::Op;

/// The target side of a call: rank, displacement in the target's units, and layout.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The rank.
    pub rank: usize,
    /// Displacement in units of the target's window; in a dynamic window an address there.
    pub displacement: u64,
    /// The layout of the elements from the displacement on.
    pub layout: &'a Layout,
}

/// A call's use of its buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Get,
    /// Accumulates without a result.
    Update,
    /// Accumulates that fetch the target's old elements.
    Fetch,
    /// Compare-and-swap.
    Swap,
}

/// The arguments of a communication call, not yet checked. Elements of all layouts have one type, and there
/// are equally many in each; the check refuses anything else.
#[derive(Clone, Copy)]
pub(super) struct RmaOp<'a> {
    /// The call, for errors.
    pub(super) call: &'static str,
    pub(super) kind: Kind,
    /// The operation of an accumulate: [`Op::Replace`] for puts and compare-and-swap, [`Op::NoOp`]
    /// for gets.
    pub(super) op: Op,
    /// The origin's buffer, which only gets write.
    pub(super) origin: *mut u8,
    pub(super) layout: &'a Layout,
    /// The transport's handle of the origin's buffer, if the transport is to use device memory
    /// directly.
    pub(super) local_handle: *mut Handle,
    /// The value that compare-and-swap compares with.
    pub(super) compare: *const u8,
    /// The buffer into which fetching calls put the target's previous elements.
    pub(super) result: *mut u8,
    pub(super) result_layout: Option<&'a Layout>,
    pub(super) target: Target<'a>,
    /// See [`Transfer`](super::transfer::Transfer).
    pub(super) record: Option<&'a RequestState>,
}

impl<'a> RmaOp<'a> {
    #[inline(always)]
    fn new(
        call: &'static str,
        kind: Kind,
        op: Op,
        (origin, layout): (*mut u8, &'a Layout),
        target: Target<'a>,
    ) -> RmaOp<'a> {
        RmaOp {
            call,
            kind,
            op,
            origin,
            layout,
            local_handle: std::ptr::null_mut(),
            compare: std::ptr::null(),
            result: std::ptr::null_mut(),
            result_layout: None,
            target,
            record: None,
        }
    }

    #[inline(always)]
    pub(super) fn put(
        call: &'static str,
        origin: (*const u8, &'a Layout),
        target: Target<'a>,
    ) -> RmaOp<'a> {
        let (origin, layout) = origin;
        let buffer = (origin.cast_mut(), layout);
        Self::new(call, Kind::Put, Op::Replace, buffer, target)
    }

    #[inline(always)]
    pub(super) fn get(
        call: &'static str,
        origin: (*mut u8, &'a Layout),
        target: Target<'a>,
    ) -> RmaOp<'a> {
        Self::new(call, Kind::Get, Op::NoOp, origin, target)
    }

    #[inline(always)]
    pub(super) fn update(
        call: &'static str,
        origin: (*const u8, &'a Layout),
        target: Target<'a>,
        op: Op,
    ) -> RmaOp<'a> {
        let (origin, layout) = origin;
        Self::new(call, Kind::Update, op, (origin.cast_mut(), layout), target)
    }

    /// With [`Op::NoOp`] nothing is read from the origin, so its buffer and layout need not be valid.
    #[inline(always)]
    pub(super) fn fetch(
        call: &'static str,
        origin: (*const u8, &'a Layout),
        (result, result_layout): (*mut u8, &'a Layout),
        target: Target<'a>,
        op: Op,
    ) -> RmaOp<'a> {
        let (origin, layout) = match op {
            Op::NoOp => (std::ptr::null(), result_layout),
            _ => origin,
        };
        RmaOp {
            result,
            result_layout: Some(result_layout),
            ..Self::new(call, Kind::Fetch, op, (origin.cast_mut(), layout), target)
        }
    }

    /// All buffers hold the one element of `target.layout`.
    #[inline(always)]
    pub(super) fn swap(
        call: &'static str,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        target: Target<'a>,
    ) -> RmaOp<'a> {
        let one = target.layout;
        let origin = (origin.cast_mut(), one);
        RmaOp {
            compare,
            result,
            result_layout: Some(one),
            ..Self::new(call, Kind::Swap, Op::Replace, origin, target)
        }
    }

    /// Whether the call may change the target.
    #[inline(always)]
    pub(super) fn writes(&self) -> bool {
        self.op != Op::NoOp
    }
}
