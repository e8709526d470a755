//! Collectives with buffers that may be on a device. The call first finds out where they are. An entry of the communicator's
//! table gets device buffers if it takes them, and otherwise host memory in their place
//! ([`CollTable::call`](super::CollTable::call)).

use super::{CollArgs, CollRequest, Collective};
use crate::comm::table::{Place, find};
use crate::comm::{Comm, CommError, CommResult};

/// The arguments with host memory at its host address. If a buffer is on a device, the buffers are as the program named them,
/// and marked.
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
    /// As for [`collective`](Self::collective).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn collective_located(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<()> {
        // SAFETY: passed on.
        unsafe { self.collective_here(collective, &located(self, collective, args)?) }
    }

    /// # Safety
    /// As for [`start_collective`](Self::start_collective).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn start_collective_located(
        &self,
        collective: Collective,
        args: &CollArgs<'_>,
    ) -> CommResult<CollRequest> {
        // SAFETY: passed on.
        unsafe { self.start_collective_here(collective, &located(self, collective, args)?) }
    }
}
