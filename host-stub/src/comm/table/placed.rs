//! Buffers of collectives that may be on a device: their locations, and host memory in their place for entries that take
//! no device buffers.

use super::args::{CollArgs, Collective};
use super::staged::Staged;
use super::view::View;
use crate::comm::{CommError, CommResult};
use crate::device::{Devices, HOST, Location};
use crate::schedule::Extents;

/// The location of one buffer of a collective.
pub(crate) enum Place {
    Host(*mut u8),
    Device { iface: u32, address: u64 },
}

/// Finds the location of a buffer of `len` bytes. The pointer of an unused buffer does not change.
pub(crate) fn find(
    call: &'static str,
    devices: &Devices,
    pointer: *mut u8,
    len: usize,
) -> CommResult<Place> {
    if pointer.is_null() || len == 0 {
        return Ok(Place::Host(pointer));
    }
    let bad = |reason: String| CommError::BadArgument { call, reason };
    let located = devices.locate(pointer as u64, len);
    let Location { device, address } = located.map_err(|e| bad(e.to_string()))?;
    devices.allow(device).map_err(|e| bad(e.to_string()))?;
    if device == HOST {
        let here = std::ptr::with_exposed_provenance_mut(address as usize);
        return Ok(Place::Host(here));
    }
    let device = devices.device(device).map_err(|e| bad(e.to_string()))?;
    Ok(Place::Device {
        iface: device.iface,
        address,
    })
}

/// Arguments in host memory, and the host memory that takes the place of device memory.
pub(crate) struct Placed<'a> {
    pub(crate) args: CollArgs<'a>,
    pub(crate) staged: Vec<Staged>,
    /// The reason why the host memory does not contain the device's data.
    pub(crate) failed: Option<CommError>,
}

fn room(call: &'static str, len: usize, iface: u32, address: u64) -> CommResult<Staged> {
    Staged::new(call, len, iface, address).ok_or_else(|| CommError::BadArgument {
        call,
        reason: format!("there is no host memory for {len} B of a device"),
    })
}

/// Copies the bytes of device buffers that a collective reads to host memory.
///
/// # Safety
/// The buffers are valid for the collective, wherever they are.
pub(crate) unsafe fn placed<'a>(
    view: &View,
    devices: &Devices,
    collective: Collective,
    args: &CollArgs<'a>,
) -> CommResult<Placed<'a>> {
    args.check(collective, view)?;
    let call = collective.name();
    let span = args.span(collective, view);
    let mut placed = Placed {
        args: CollArgs {
            on_device: false,
            ..*args
        },
        staged: Vec::new(),
        failed: None,
    };
    match find(call, devices, args.send.cast_mut(), span.send)? {
        Place::Host(at) => placed.args.send = at,
        Place::Device { iface, address } => {
            let mut staged = room(call, span.send, iface, address)?;
            placed.args.send = staged.base();
            // SAFETY: the caller guarantees the buffer.
            placed.failed = unsafe { staged.fill(devices) }.err();
            placed.staged.push(staged);
        }
    }
    match find(call, devices, args.recv, span.recv)? {
        Place::Host(at) => placed.args.recv = at,
        Place::Device { iface, address } => {
            let mut staged = room(call, span.recv, iface, address)?;
            placed.args.recv = staged.base();
            if span.writes {
                match args.taken_blocks(collective) {
                    blocks @ Extents::Listed(_) => {
                        staged.set_written(blocks, view.size);
                    }
                    Extents::Even(_) => staged.set_written(Extents::Even(span.recv), 1),
                }
            }
            if span.reads {
                // SAFETY: the caller guarantees the buffer.
                let filled = unsafe { staged.fill(devices) };
                placed.failed = placed.failed.or(filled.err());
            }
            placed.staged.push(staged);
        }
    }
    Ok(placed)
}

/// The same for an entry that cannot continue without the device's data.
///
/// # Safety
/// The conditions of [`placed`].
pub(super) unsafe fn copied<'a>(
    view: &View,
    devices: &Devices,
    collective: Collective,
    args: &CollArgs<'a>,
) -> CommResult<Placed<'a>> {
    // SAFETY: the caller guarantees the same conditions.
    let mut placed = unsafe { placed(view, devices, collective, args) }?;
    match placed.failed.take() {
        Some(error) => Err(error),
        None => Ok(placed),
    }
}
