//! Accumulates of elements of types that the engine does not know, by the [function](CombineFn) that the door registered.
//!
//! The window decides which rank changes such an element. If its ranks share a segment, every rank does, under the target's
//! lock. Otherwise, if commands reach every rank, the target does ([apply](super::btl::apply)); if not, every rank does, under
//! the target's lock. Elements that this module changes and elements of types that the engine knows do not exclude each other,
//! as MPI allows.

use plugin_api::{AtomicOp, MOST_ELEMENT, Status};

use super::bounce::Bounce;
use super::btl;
use super::checked::KeyRoom;
use super::copy::{pack, unpack};
use super::dynamic::region_cache::KeyUse;
use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::op::{RmaOp, Target};
use super::shm;
use super::transfer::Transfer;
use super::window::Window;
use crate::base::{OF_DOOR, Op, combine_by_door};
use crate::door::is_looked_for;

/// The operation on elements of a type that the engine does not know.
#[derive(Clone, Copy, Debug)]
pub struct Custom {
    /// Bytes of an element's values, at most [`MOST_ELEMENT`]. This size is the same in all accumulates on one
    /// element.
    pub size: usize,
    /// The operation on each element.
    pub op: CustomOp,
}

/// See [`Custom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomOp {
    /// The element becomes the operand.
    Replace,
    /// The element stays unchanged; fetching calls only.
    NoOp,
    /// Combines by the door's function with this code, which is less than 2^31.
    Combine(u32),
}

/// Changes bytes in place; returns whether the caller must write the bytes.
pub(super) type Change<'c> = &'c mut dyn FnMut(&mut [u8]) -> WinResult<bool>;

impl CustomOp {
    /// The operation for the checks of a call.
    fn op(self) -> Op {
        match self {
            CustomOp::NoOp => Op::NoOp,
            _ => Op::Replace,
        }
    }
}

impl Custom {
    /// The effect of a command with this operation.
    pub(super) fn how(&self) -> btl::how::How {
        let of_transport = |op| btl::how::How::without_type(self.size, op);
        match self.op {
            CustomOp::Replace => of_transport(AtomicOp::Write),
            CustomOp::NoOp => of_transport(AtomicOp::Read),
            CustomOp::Combine(code) => btl::how::How::by_code(self.size, OF_DOOR | code),
        }
    }

    fn check(&self, call: &'static str, target: &Layout) -> WinResult<()> {
        let reason = match *self {
            Custom { size, .. } if !(1..=MOST_ELEMENT).contains(&size) => {
                format!("elements of {size} bytes (1 to {MOST_ELEMENT} are possible)")
            }
            Custom { size, .. } if !target.bytes().is_multiple_of(size) => {
                format!("{} bytes are no elements of {size}", target.bytes())
            }
            Custom {
                op: CustomOp::Combine(code),
                ..
            } if code >= OF_DOOR => format!("code {code:#x} (less than {OF_DOOR:#x} are possible)"),
            _ => return Ok(()),
        };
        Err(Box::new(WinError::BadArgument { call, reason }))
    }
}

impl Window {
    /// Accumulates elements of a type that the engine does not know. All layouts are of bytes ([`Uint8`](super::Datatype::Uint8)), in the
    /// same number. With a result buffer the call fetches the old elements; then [`CustomOp::NoOp`] ignores the origin's buffer
    /// and layout. Errors of the door's function are reported here or by the next flush.
    ///
    /// # Safety
    /// The buffers are readable and writable for their layouts until the operation is complete.
    pub unsafe fn accumulate_custom(
        &self,
        custom: Custom,
        origin: (*const u8, &Layout),
        result: Option<(*mut u8, &Layout)>,
        target: Target<'_>,
    ) -> WinResult<()> {
        let call = "accumulate";
        custom.check(call, target.layout)?;
        let op = match result {
            Some(result) => RmaOp::fetch(call, origin, result, target, custom.op.op()),
            None => RmaOp::update(call, origin, target, custom.op.op()),
        };
        if is_looked_for() {
            // SAFETY: the caller guarantees the buffers, and `located` the buffers that replace them.
            return unsafe { self.located(op, |op| self.custom_here(custom, op)) };
        }
        // SAFETY: the caller guarantees the buffers.
        unsafe { self.custom_here(custom, op) }
    }

    /// [`accumulate_custom`](Self::accumulate_custom) with buffers in host memory at their pointers.
    ///
    /// # Safety
    /// The buffers are memory of the host, and otherwise as for [`accumulate_custom`](Self::accumulate_custom).
    unsafe fn custom_here(&self, custom: Custom, op: RmaOp<'_>) -> WinResult<()> {
        let (call, target) = (op.call, op.target);
        let _entered = self.link.enter(call)?;
        let peer = self.allowed(call, target.rank, op.writes())?;
        let mut room = KeyRoom::uninit();
        let transfer = self.resolve(&op, peer, (&mut room, KeyUse::Once))?;
        if target.layout.bytes() == 0 {
            return Ok(());
        }
        let Some(_) = self.parts.shared else {
            let (how, request) = (custom.how(), op.record);
            // SAFETY: the caller guarantees the buffers.
            return match unsafe { btl::apply::accumulate(self, &transfer, &how, request) }? {
                true => Ok(()),
                false => Err(transfer.failed(Status::NOT_SUPPORTED)),
            };
        };
        let mut operands = Bounce::new(target.layout.bytes());
        if custom.op != CustomOp::NoOp {
            // SAFETY: the caller guarantees the origin's buffer.
            unsafe { pack(op.layout, op.origin, operands.as_mut_ptr()) };
        }
        let mut change = |elements: &mut [u8]| {
            if let Some(layout) = transfer.result_layout {
                // SAFETY: the caller guarantees the result's buffer, which has as many elements.
                unsafe { unpack(layout, elements.as_ptr(), transfer.result) };
            }
            self.change_here(custom, &transfer, elements, &mut operands)
        };
        shm::change(self, &transfer, &mut change)
    }

    /// Changes elements, which are aligned for every type; returns whether it changed them.
    fn change_here(
        &self,
        custom: Custom,
        transfer: &Transfer<'_>,
        elements: &mut [u8],
        operands: &mut Bounce,
    ) -> WinResult<bool> {
        let CustomOp::Combine(code) = custom.op else {
            let bytes = elements.len();
            if custom.op == CustomOp::Replace {
                elements.copy_from_slice(&operands.bytes_mut()[..bytes]);
            }
            return Ok(custom.op == CustomOp::Replace);
        };
        let count = elements.len() / custom.size;
        let (elements, operands) = (elements.as_mut_ptr(), operands.as_mut_ptr());
        let what = (code, custom.size);
        // SAFETY: both buffers have `count` elements.
        let status =
            unsafe { combine_by_door(self.link.context.combine, what, elements, operands, count) };
        match status {
            Status::SUCCESS => Ok(true),
            status => Err(transfer.failed(status)),
        }
    }
}
