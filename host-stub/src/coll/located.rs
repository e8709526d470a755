//! Collectives whose buffers may be on a device. The call first determines the location of the buffers. An entry of the
//! communicator's table gets device buffers if it accepts them; otherwise it gets host memory in their place
//! ([`CollTable::call`](super::CollTable::call)).

use super::{CollArgs, CollRequest, Collective};
use crate::comm::table::{Place, find};
use crate::comm::{Comm, CommError, CommResult};

/// The arguments, with host addresses for buffers in host memory. If a buffer is on a device, the buffers keep the
/// program's pointers, and the arguments are marked.
fn located<'a>(
    comm: &Comm,
    collective: Collective,
    args: &CollArgs<'a>,
) -> CommResult<CollArgs<'a>> {
    let view = comm.view();
    args.check(collective, &view)?;
    let (call, devices) = (collective.name(), comm.job().devices());
    let span = args.span(collective, &view);
    let place = |pointer: *mut u8, len: usize| {
        let found = find(call, devices, pointer, len)?;
        if args.on_device && len > 0 && matches!(found, Place::Host(at) if !at.is_null()) {
            return Err(CommError::BadArgument {
                call,
                reason: format!("its type says device memory, and {pointer:p} is host memory"),
            });
        }
        Ok(found)
    };
    let send = place(args.send.cast_mut(), span.send)?;
    let recv = place(args.recv, span.recv)?;
    Ok(match (send, recv) {
        (Place::Host(send), Place::Host(recv)) => CollArgs {
            send,
            recv,
            on_device: false,
            ..*args
        },
        _ => CollArgs {
            on_device: true,
            ..*args
        },
    })
}

impl Comm {
    /// # Safety
    /// The conditions of [`collective`](Self::collective).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn collective_located(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<()> {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { self.collective_here(collective, &located(self, collective, args)?) }
    }

    /// # Safety
    /// The conditions of [`start_collective`](Self::start_collective).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn start_collective_located(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<CollRequest> {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { self.start_collective_here(collective, &located(self, collective, args)?) }
    }
}
