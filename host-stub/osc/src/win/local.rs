//! Local loads and stores of this rank's memory, on the host or a device.

use plugin_api::{Datatype, hmem_iface};

use super::device::device_copy::{Elements, Place, Way, copy};
use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::window::Window;

impl Window {
    /// Copies out of this rank's memory, as a local load. [`WinError::OutOfBounds`]: the range does
    /// not lie in this memory.
    pub fn read_local(&self, offset: usize, into: &mut [u8]) -> WinResult<()> {
        let from = self.local("local read", offset, into.len())?;
        if self.parts.exposed.iface != hmem_iface::SYSTEM {
            return self.copy_own("local read", offset, Way::From(into));
        }
        // SAFETY: the range was checked to lie in this rank's memory, which stays while the window
        // is not freed. No thread of this process writes it meanwhile: only unsafe functions write
        // here, and their contract forbids that. Other processes may write this memory: each byte
        // read is then old or new, and bytes have no invalid values.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies to this rank's memory, as a local store. [`WinError::OutOfBounds`]: the range does
    /// not lie in this memory.
    ///
    /// ```compile_fail,E0133
    /// fn two_threads_at_once(window: &host_stub::win::Window) {
    ///     std::thread::scope(|scope| {
    ///         scope.spawn(|| window.write_local(0, &[1]));
    ///         scope.spawn(|| window.write_local(0, &[2]));
    ///     });
    /// }
    /// ```
    ///
    /// # Safety
    /// No other code of this process accesses the same bytes during the call: no local read or write, no
    /// access through [`base`](Self::base) or a reference made of it, and no operation whose origin buffer or
    /// target is this range. For other processes MPI's rules for local stores in
    /// the open epoch hold.
    pub unsafe fn write_local(&self, offset: usize, from: &[u8]) -> WinResult<()> {
        let to = self.local("local write", offset, from.len())?;
        if self.parts.exposed.iface != hmem_iface::SYSTEM {
            return self.copy_own("local write", offset, Way::To(from));
        }
        // SAFETY: the range was checked to lie in this rank's memory; the caller keeps all other accesses
        // away.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    fn local(&self, call: &'static str, offset: usize, len: usize) -> WinResult<*mut u8> {
        let fits = offset
            .checked_add(len)
            .is_some_and(|end| end <= self.parts.exposed.len);
        if !fits {
            return Err(Box::new(WinError::OutOfBounds {
                call,
                rank: self.link.rank,
                displacement: offset as u64,
                unit: 1,
                size: len,
                limit: self.parts.exposed.len as u64,
            }));
        }
        Ok(self.parts.exposed.base.wrapping_add(offset))
    }

    /// Copies between host memory and this rank's memory, which may be on a device.
    fn copy_own(&self, call: &'static str, offset: usize, way: Way<'_>) -> WinResult<()> {
        let exposed = &self.parts.exposed;
        let place = Place {
            iface: exposed.iface,
            address: (exposed.base as u64).wrapping_add(offset as u64),
        };
        let len = match &way {
            Way::From(into) => into.len(),
            Way::To(from) => from.len(),
        };
        let layout = Layout::contiguous(Datatype::Uint8, len);
        let transport = &self.link.transport;
        // SAFETY: the range was checked to lie in this rank's memory, which is of that kind.
        unsafe { copy(transport, call, &Elements::Of(place, layout), way) }
    }
}
