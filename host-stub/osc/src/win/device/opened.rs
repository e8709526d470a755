//! Device memory of other processes of this node in a window, opened here: the driver copies between it and the origin's
//! buffer, without the target's processor and without host memory in between.
//!
//! This path is for puts and gets only. The owner executes accumulates, which makes them atomic. A put or get is complete at
//! origin and target when its call returns, so flushes wait for nothing, and a flush still orders puts with accumulates.
//! If an origin cannot open the memory, the transport moves the bytes of this origin.

use crate::door::{OpenedMemory, Run};
use crate::win::error::{WinError, WinResult};
use crate::win::near;
use crate::win::pieces::{Piece, Pieces};
use crate::win::table::RmaTable;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// Returns the functions of a window with neighbours, based on `table`.
pub(in crate::win) fn over(table: RmaTable) -> RmaTable {
    RmaTable {
        put: communicate::<true>,
        get: communicate::<false>,
        rput: communicate::<true>,
        rget: communicate::<false>,
        ..table
    }
}

unsafe fn communicate<const PUT: bool>(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer.
    unsafe {
        match window.opened(transfer.target) {
            Some(memory) => copy::<PUT>(memory, transfer),
            None if PUT => near::put(window, transfer),
            None => near::get(window, transfer),
        }
    }
}

/// Makes a put or get at once.
unsafe fn copy<const PUT: bool>(
    memory: &dyn OpenedMemory,
    transfer: &Transfer<'_>,
) -> WinResult<()> {
    let offset = transfer.address.wrapping_sub(transfer.peer.base);
    let there = memory.base().wrapping_add(offset);
    let here = transfer.origin as u64;
    let run = |piece: Piece| {
        let ours = here.wrapping_add(piece.origin as u64);
        let theirs = there.wrapping_add(piece.target as u64);
        let (to, from) = if PUT { (theirs, ours) } else { (ours, theirs) };
        let len = piece.len;
        Run { to, from, len }
    };
    let layouts = (transfer.origin_layout, transfer.target_layout);
    let mut runs = Pieces::new(layouts.0, None, layouts.1, usize::MAX).map(run);
    // SAFETY: the caller vouches for the transfer: its target range lies in the target's memory, and the origin's buffer is valid
    // for its layout. A buffer on a device belongs to the driver, which `located` checked.
    unsafe { memory.copy(&mut runs) }.map_err(|why| {
        let (call, size) = (transfer.call, transfer.target_layout.bytes());
        tracing::error!("{call} of {size} B of memory that is opened here: {why}");
        Box::new(WinError::DeviceCopy {
            call,
            function: "the driver's copy of opened memory",
            size,
            answer: -i64::from(libc::EIO),
        })
    })
}

impl Window {
    /// Whether the driver copies puts and gets of a rank's device memory without this rank, because this process has opened the
    /// memory. Opens the memory if possible.
    pub fn is_opened(&self, rank: usize) -> bool {
        self.opened(rank).is_some()
    }

    /// A rank's memory, if this process has opened it. Opens the memory after this process has used
    /// the rank's device.
    pub(in crate::win) fn opened(&self, rank: usize) -> Option<&dyn OpenedMemory> {
        let neighbour = self.parts.neighbours.find(rank)?;
        if let Some(known) = neighbour.opened.get() {
            return known.as_deref();
        }
        let devices = self.link.devices();
        let opened = match devices.and_then(|devices| devices.open(&neighbour.exported)) {
            Ok(None) => return None,
            Ok(opened) => opened,
            Err(why) => {
                tracing::debug!("memory of rank {rank} is not opened here: {why}");
                None
            }
        };
        neighbour.opened.get_or_init(|| opened).as_deref()
    }
}
