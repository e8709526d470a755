//! Copies between packed host memory and the elements of a buffer on a device, many runs at a time.

use plugin_api::{Datatype, IoVec};

use super::error::{WinError, WinResult};
use super::layout::Layout;
use super::pieces::Cursor;
use super::window::Window;
use crate::device::Devices;

/// Runs handed to a copy function at once.
const RUNS: usize = 256;

/// Which way bytes are copied: out of a buffer, or into it.
pub(super) enum Way<'a> {
    From(&'a mut [u8]),
    To(&'a [u8]),
}

/// A buffer's memory: its kind, one of [`plugin_api::hmem_iface`], and its first byte there.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) iface: u32,
    pub(super) address: u64,
}

/// Copies between packed bytes and the elements of a buffer on a device.
///
/// # Safety
/// The buffer is valid for its layout.
pub(super) unsafe fn copy(
    devices: &Devices,
    call: &'static str,
    (place, layout): (Place, &Layout),
    mut way: Way<'_>,
) -> WinResult<()> {
    let mut cursor = Cursor::new(layout);
    let mut done = 0;
    loop {
        let (mut runs, mut bytes) = (Vec::new(), 0);
        while runs.len() < RUNS {
            let Some(segment) = cursor.take(usize::MAX) else {
                break;
            };
            let at = place.address.wrapping_add(segment.offset as u64);
            runs.push(IoVec {
                base: std::ptr::with_exposed_provenance_mut(at as usize),
                len: segment.len,
            });
            bytes += segment.len;
        }
        if runs.is_empty() {
            return Ok(());
        }
        let kinds = vec![place.iface; runs.len()];
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

impl Window {
    /// Copies between host memory and this rank's own, on whatever device that is.
    pub(super) fn copy_own(
        &self,
        call: &'static str,
        offset: usize,
        way: Way<'_>,
    ) -> WinResult<()> {
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
        let devices = self.link.job.devices();
        // SAFETY: the range was checked to lie in this rank's memory, which is of that kind.
        unsafe { copy(devices, call, (place, &layout), way) }
    }
}
