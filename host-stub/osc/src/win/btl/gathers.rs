//! Small accumulates to a target that wait to be sent in one command ([`super::gather`]).

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use plugin_api::{ApplyRequest, MOST_APPLIED, Status};

use super::callbacks::done;
use super::how::How;
use super::runs::Runs;
use crate::base::{Turn, Turns};
use crate::win::error::WinError;
use crate::win::layout::Segment;
use crate::win::link::Link;
use crate::win::peer::Peer;
use crate::win::peers::Peers;
use crate::win::pending::{Cell, KeptBack};

/// Number of targets that accumulates can be gathered for at a time.
const PLACES: usize = 64;

/// The accumulates that a window has gathered. Targets share places, which bounds the memory. If another target uses a place,
/// nothing is gathered.
#[derive(Default)]
pub(in crate::win) struct Gathers {
    places: OnceLock<Box<[Place]>>,
    /// Set if a target's processor does not change elements of the transport's atomics; these elements are no longer gathered
    /// then. Relaxed accesses suffice: a thread that sees the flag late has one more command refused.
    pub(super) refused: AtomicBool,
}

#[derive(Default)]
pub(super) struct Place {
    holds: KeptBack,
    gathered: Turns<Gathered>,
}

/// Elements for one target.
#[derive(Default)]
pub(super) struct Gathered {
    /// One plus the rank that last used the place.
    pub(super) rank: usize,
    /// Whether the target is known to take commands for elements of the transport's atomics, and for other elements.
    pub(super) takes: [bool; 2],
    /// `None`: nothing is gathered.
    pub(super) command: Option<Command>,
    room: Option<Box<Room>>,
}

/// The properties that all elements of a command share.
pub(super) struct Command {
    how: How,
    /// Counts the command.
    cell: NonNull<Cell>,
}

struct Room {
    runs: Runs,
    operands: MaybeUninit<[u8; MOST_APPLIED]>,
}

// SAFETY: the cell belongs to the window, which lives while it counts the command, and may be used by any thread.
unsafe impl Send for Gathered {}

/// The outcome of an attempt to send.
pub(super) enum Sent {
    /// Nothing is left to send.
    All,
    /// The transport has no room now.
    Later,
}

impl Gathers {
    /// The place that a rank shares with others.
    pub(super) fn place(&self, rank: usize) -> &Place {
        let places = self
            .places
            .get_or_init(|| (0..PLACES).map(|_| Place::default()).collect());
        &places[rank % PLACES]
    }

    /// The place of a rank, if anything is gathered for it.
    #[inline]
    fn of(&self, rank: usize) -> Option<&Place> {
        let place = self.places.get()?.get(rank % PLACES)?;
        (place.holds.rank() == Some(rank)).then_some(place)
    }

    /// Sends the command gathered for a rank. The next flush reports a failure.
    #[inline]
    pub(super) fn send(&self, link: &Link, call: &'static str, peer: &Peer) {
        if let Some(place) = self.of(peer.rank) {
            place.send(link, call, peer);
        }
    }

    /// As [`send`](Self::send), for all ranks.
    pub(super) fn send_all(&self, link: &Link, call: &'static str, peers: &Peers) {
        for place in self.places.get().into_iter().flatten() {
            if let Some(peer) = place.holds.rank().and_then(|rank| peers.made(rank)) {
                place.send(link, call, peer);
            }
        }
    }
}

impl Place {
    /// Takes the turn. No thread keeps the turn across a wait, so it comes soon.
    pub(super) fn take(&self) -> Turn<'_, Gathered> {
        loop {
            match self.gathered.try_take() {
                Some(turn) => return turn,
                None => std::thread::yield_now(),
            }
        }
    }

    /// Hands the command to the transport. `peer` is the place's present user.
    pub(super) fn try_send(&self, link: &Link, peer: &Peer, gathered: &mut Gathered) -> Sent {
        let Gathered {
            command: Some(Command { how, cell }),
            room: Some(room),
            ..
        } = gathered
        else {
            return Sent::All;
        };
        let request = how.request(&room.runs, room.operands.as_ptr().cast());
        // SAFETY: runs and operands are readable, and nothing is fetched; `done` takes the cell, which counts the command.
        let status = unsafe { apply(link, peer, &request, cell.as_ptr()) };
        // SAFETY: the cell belongs to the window.
        let cell = unsafe { cell.as_ref() };
        match status {
            Status::SUCCESS => {}
            Status::COMPLETED => cell.finish(0),
            status if status.is_again() => return Sent::Later,
            status => cell.finish(status.0),
        }
        room.runs.clear();
        gathered.command = None;
        self.holds.end();
        Sent::All
    }

    /// Gives up the command gathered for a rank: the next flush of the target fails.
    fn give_up(&self, rank: usize, error: &WinError) {
        let mut gathered = self.take();
        if gathered.rank != rank + 1 {
            return;
        }
        if let Some(Command { cell, .. }) = gathered.command.take() {
            let status = match error {
                WinError::Transport { status, .. } => *status,
                _ => Status::UNREACH,
            };
            // SAFETY: the cell belongs to the window.
            unsafe { cell.as_ref() }.finish(status.0);
        }
        if let Some(room) = &mut gathered.room {
            room.runs.clear();
        }
        self.holds.end();
    }

    /// Sends the command gathered for a rank. Another thread may have sent the command, and may have gathered for another
    /// rank since. The next flush of the target reports a failure.
    fn send(&self, link: &Link, call: &'static str, peer: &Peer) {
        let mut waiter = link.tries_of(call, peer.rank);
        while let Sent::Later = {
            let mut gathered = self.take();
            match gathered.rank == peer.rank + 1 {
                true => self.try_send(link, peer, &mut gathered),
                false => Sent::All,
            }
        } {
            if let Err(error) = waiter.step() {
                return self.give_up(peer.rank, &error);
            }
        }
    }
}

/// Posts a command to the memory of a rank.
///
/// # Safety
/// Runs and operands are readable; `done` takes the cell.
unsafe fn apply(link: &Link, peer: &Peer, request: &ApplyRequest, cell: *mut Cell) -> Status {
    // SAFETY: the endpoint is the job's and the handle the peer's; the caller guarantees the rest.
    unsafe {
        let report = (Some(done as _), cell.cast(), std::ptr::null_mut());
        link.transport.apply(
            peer.endpoint,
            (peer.base, peer.handle.as_ptr()),
            request,
            report,
        )
    }
}

impl Gathered {
    /// Whether a run can be added to the command, or no command is there yet.
    pub(super) fn fits(&self, how: &How, bytes: usize) -> bool {
        match (&self.command, &self.room) {
            (Some(command), Some(room)) => command.how == *how && bytes <= room.runs.room(),
            _ => true,
        }
    }

    /// Adds a run, which [fits](Self::fits).
    ///
    /// # Safety
    /// The operands are readable.
    pub(super) unsafe fn push(
        &mut self,
        place: &Place,
        peer: &Peer,
        how: How,
        run: Segment,
        operands: *const u8,
    ) {
        let room = self.room.get_or_insert_with(|| {
            Box::new(Room {
                runs: Runs::new(MOST_APPLIED),
                operands: MaybeUninit::uninit(),
            })
        });
        self.command.get_or_insert_with(|| {
            let cell = NonNull::from(place.holds.begin(peer.rank, &peer.accumulates));
            Command { how, cell }
        });
        let at = room.runs.bytes();
        let to = room.operands.as_mut_ptr().cast::<u8>().wrapping_add(at);
        // SAFETY: the caller guarantees the operands, and a run that fits has room here.
        unsafe {
            match run.len {
                // The usual size, copied without a call.
                8 => to
                    .cast::<u64>()
                    .write_unaligned(operands.cast::<u64>().read_unaligned()),
                len => std::ptr::copy_nonoverlapping(operands, to, len),
            }
        };
        room.runs.push(run);
    }
}
