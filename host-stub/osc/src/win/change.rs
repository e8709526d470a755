//! Changes of a target's bytes by a function of the caller: accumulates of types, or by operations, that the engine does not know.
//!
//! They exclude each other, and nothing else. So elements of one type are always changed so, or never.

use super::btl::locked;
use super::checked::KeyRoom;
use super::error::WinResult;
use super::op::{RmaOp, Target};
use super::shm;
use super::window::Window;

/// Changes bytes in place; whether they are to be written.
pub(super) type Change<'c> = &'c mut dyn FnMut(&mut [u8]) -> bool;

impl Window {
    /// Reads the target's bytes, which the layout packs in its order, has them changed, and writes them if that says so; under the
    /// target's accumulate lock. Complete when it returns. `change` runs once, and calls nothing of a window.
    pub fn change(
        &self,
        target: Target<'_>,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> WinResult<()> {
        let call = "accumulate";
        let op = RmaOp::put(call, (std::ptr::null(), target.layout), target);
        let _entered = self.link.enter(call)?;
        let peer = self.allowed(call, target.rank, true)?;
        let mut room = KeyRoom::uninit();
        let transfer = self.resolve(&op, peer, &mut room)?;
        if target.layout.bytes() == 0 {
            return Ok(());
        }
        match self.parts.shared {
            Some(_) => shm::change(self, &transfer, change),
            None => locked::change(self, peer, &transfer, change),
        }
    }
}
