//! Collectives with buffers that may be on a device: where they are is found out, and what is on a
//! device goes through host memory, from which it comes back when the collective is done. So the tables
//! and their layers only ever see host memory.

use super::{CollArgs, CollRequest, Collective};
use crate::comm::table::{Staged, give_back, lose};
use crate::comm::{Comm, CommError, CommResult};
use crate::device::{Devices, HOST, Location};
use crate::schedule::Extents;

/// Where one buffer of a collective is.
enum Place {
    Host(*mut u8),
    Device(Staged),
}

/// Finds a buffer of `len` bytes; of one that nothing is done with, the pointer is left as it is.
fn place(
    call: &'static str,
    devices: &Devices,
    pointer: *mut u8,
    len: usize,
    on_device: bool,
) -> CommResult<Place> {
    if pointer.is_null() || len == 0 {
        return Ok(Place::Host(pointer));
    }
    let bad = |reason: String| CommError::BadArgument { call, reason };
    let located = devices.locate(pointer as u64, len);
    let Location { device, address } = located.map_err(|e| bad(e.to_string()))?;
    devices.allow(device).map_err(|e| bad(e.to_string()))?;
    if device == HOST {
        if on_device {
            return Err(bad(format!(
                "its type says device memory, and {pointer:p} is host memory"
            )));
        }
        let here = std::ptr::with_exposed_provenance_mut(address as usize);
        return Ok(Place::Host(here));
    }
    let iface = devices
        .device(device)
        .map_err(|e| bad(e.to_string()))?
        .iface;
    match Staged::new(call, len, iface, address) {
        Some(staged) => Ok(Place::Device(staged)),
        None => Err(bad(format!(
            "there is no host memory for {len} B of a device"
        ))),
    }
}

/// The arguments with which the host can work, and what stands between them and a device.
struct Placed<'a> {
    args: CollArgs<'a>,
    staged: Vec<Staged>,
}

/// # Safety
/// The buffers are good for the collective, wherever they are.
unsafe fn placed<'a>(
    comm: &Comm,
    collective: Collective,
    args: &CollArgs<'a>,
) -> CommResult<Placed<'a>> {
    let (rank, size) = (comm.rank(), comm.size());
    args.check(collective, rank, size)?;
    let (call, devices) = (collective.name(), comm.job().devices());
    let span = args.span(collective, rank, size);
    let mut placed = Placed {
        args: CollArgs {
            on_device: false,
            ..*args
        },
        staged: Vec::new(),
    };
    let send = args.send.cast_mut();
    match place(call, devices, send, span.send, args.on_device)? {
        Place::Host(at) => placed.args.send = at,
        Place::Device(mut staged) => {
            placed.args.send = staged.base();
            // SAFETY: the caller vouches for the buffer.
            unsafe { staged.fill(devices) }?;
            placed.staged.push(staged);
        }
    }
    match place(call, devices, args.recv, span.recv, args.on_device)? {
        Place::Host(at) => placed.args.recv = at,
        Place::Device(mut staged) => {
            placed.args.recv = staged.base();
            if span.writes {
                match args.taken_blocks(collective, rank) {
                    blocks @ Extents::Listed(_) => staged.set_written(blocks, size),
                    Extents::Even(_) => staged.set_written(Extents::Even(span.recv), 1),
                }
            }
            if span.reads {
                // SAFETY: as above.
                unsafe { staged.fill(devices) }?;
            }
            placed.staged.push(staged);
        }
    }
    Ok(placed)
}

impl Comm {
    /// # Safety
    /// As for [`collective`](Self::collective).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn collective_located(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<()> {
        // SAFETY: passed on; the copies live until the call returns.
        unsafe {
            let placed = match placed(self, collective, args) {
                Ok(placed) => placed,
                Err(error) => return self.collective_here(collective, args, Err(error)),
            };
            let done = self.collective_here(collective, &placed.args, Ok(()));
            give_back(placed.staged, self.job().devices(), done)
        }
    }

    /// # Safety
    /// As for [`start_collective`](Self::start_collective).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn start_collective_located(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
        start: Option<u32>,
    ) -> CommResult<CollRequest> {
        // SAFETY: passed on; the request keeps the copies.
        unsafe {
            let placed = match placed(self, collective, args) {
                Ok(placed) => placed,
                Err(error) => {
                    return self.start_collective_here(collective, args, (Err(error), start));
                }
            };
            match self.start_collective_here(collective, &placed.args, (Ok(()), start)) {
                Ok(request) => Ok(request.and_then_back(placed.staged)),
                Err(error) => {
                    lose(placed.staged);
                    Err(error)
                }
            }
        }
    }
}
