//! Small accumulates to a target that still has earlier ones under way, gathered into one command of many runs. An accumulate
//! that finds nothing under way is issued at once, so a single one waits for nothing.
//!
//! What is gathered leaves when there is no room for more, before any other accumulate to its target, and at every call that
//! completes operations. So accumulates stay in order, and one command carries those of one target, one type and one operation.
//!
//! The first accumulate of a target that could be gathered leaves as a command by itself. It shows whether the target takes commands for
//! such elements; a refused command of many could not be undone.
//!
//! All of a command are one operation of the target's count, which is raised when the first is gathered. A flush directs new
//! operations to the other cell and sends after that, so what it waits for is on its way.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use plugin_api::{ApplyRequest, MOST_APPLIED, Status};

use super::apply::How;
use super::runs::Runs;
use super::tracked::done;
use crate::base::{Turn, Turns};
use crate::win::error::{WinError, WinResult};
use crate::win::kind::WindowKind;
use crate::win::layout::Segment;
use crate::win::peer::Peer;
use crate::win::pending::{Cell, KeptBack};
use crate::win::request::request_state::RequestState;
use crate::win::table::Transfer;
use crate::win::window::Window;

/// Bytes of an accumulate up to which it is gathered.
const SMALL: usize = 64;

/// Targets for which something can be gathered at a time.
const PLACES: usize = 64;

/// What a window has gathered. Targets share places, so its memory has a bound; where a place is in use for another target, nothing
/// is gathered.
#[derive(Default)]
pub(in crate::win) struct Gathers {
    places: OnceLock<Box<[Place]>>,
    /// Whether a target's processor does not change elements of the transport's atomics, so these are gathered no more. Relaxed
    /// accesses suffice: a thread that sees it late has one more command refused.
    refused: AtomicBool,
}

#[derive(Default)]
struct Place {
    holds: KeptBack,
    gathered: Turns<Gathered>,
}

/// Elements for one target.
#[derive(Default)]
struct Gathered {
    /// The rank that used the place last, plus one.
    rank: usize,
    /// Whether it is known to take commands, of elements of the transport's atomics and of others.
    takes: [bool; 2],
    /// None: nothing is gathered.
    command: Option<Command>,
    room: Option<Box<Room>>,
}

/// What all elements of a command share.
struct Command {
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

/// What became of an attempt to send.
enum Sent {
    /// Nothing is left.
    All,
    /// The transport has no room now.
    Later,
}

impl Gathers {
    fn places(&self) -> &[Place] {
        self.places
            .get_or_init(|| (0..PLACES).map(|_| Place::default()).collect())
    }

    /// The place of a rank, if anything is gathered for it.
    #[inline]
    fn of(&self, rank: usize) -> Option<&Place> {
        let place = self.places.get()?.get(rank % PLACES)?;
        (place.holds.rank() == Some(rank)).then_some(place)
    }
}

impl Place {
    /// The turn is never kept across a wait, so it comes soon.
    fn take(&self) -> Turn<'_, Gathered> {
        loop {
            match self.gathered.try_take() {
                Some(turn) => return turn,
                None => std::thread::yield_now(),
            }
        }
    }

    /// Hands the command to the transport.
    fn try_send(&self, window: &Window, gathered: &mut Gathered) -> Sent {
        let Gathered {
            rank,
            command: Some(Command { how, cell }),
            room: Some(room),
            ..
        } = gathered
        else {
            return Sent::All;
        };
        let Some(peer) = window.parts.peers.get(*rank - 1) else {
            return Sent::All;
        };
        let request = how.request(&room.runs, room.operands.as_ptr().cast());
        // SAFETY: runs and operands are there and nothing is fetched; `done` takes the cell, which counts the command.
        let status = unsafe { apply(window, peer, &request, cell.as_ptr()) };
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

    /// Gives up what is gathered for a rank: the next flush of its target fails.
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

    /// Sends what is gathered for a rank; another thread may have sent it, and gathered for another rank since. A failure is the
    /// next flush's of its target.
    fn send(&self, window: &Window, call: &'static str, rank: usize) {
        let mut waiter = window.link.tries_of(call, rank);
        while let Sent::Later = {
            let mut gathered = self.take();
            match gathered.rank == rank + 1 {
                true => self.try_send(window, &mut gathered),
                false => Sent::All,
            }
        } {
            if let Err(error) = waiter.step() {
                return self.give_up(rank, &error);
            }
        }
    }
}

/// Posts a command to the memory of a rank.
///
/// # Safety
/// Runs and operands are readable; `done` takes the cell.
unsafe fn apply(window: &Window, peer: &Peer, request: &ApplyRequest, cell: *mut Cell) -> Status {
    // SAFETY: the endpoint is the job's and the handle the peer's; the caller guarantees the rest.
    unsafe {
        window.link.transport.apply(
            peer.endpoint,
            peer.base,
            peer.handle.as_ptr(),
            request,
            Some(done),
            cell.cast(),
            std::ptr::null_mut(),
        )
    }
}

impl Window {
    /// Whether an accumulate to a rank follows others that are under way.
    #[inline(always)]
    pub(in crate::win) fn follows(&self, peer: &Peer) -> bool {
        !peer.accumulates.is_idle()
    }

    /// Gathers an accumulate behind others to its target. False: it is to be issued by itself, and what was gathered has left.
    ///
    /// # Safety
    /// The caller vouches for the transfer.
    #[inline(never)]
    pub(in crate::win) unsafe fn gather(
        &self,
        transfer: &Transfer<'_>,
        request: Option<&RequestState>,
        how: How,
    ) -> WinResult<bool> {
        let small = transfer.target_layout.bytes() <= SMALL && transfer.is_contiguous();
        let alone = request.is_none() && transfer.result_layout.is_none();
        if small && alone && self.may_gather(&how) {
            // SAFETY: the caller vouches for the transfer.
            return unsafe { self.add(transfer, how) };
        }
        self.send_gathered(transfer.call, transfer.peer);
        Ok(false)
    }

    /// Whether commands to all ranks keep the order that the program asks for. The key of a dynamic window's memory is that of
    /// one call.
    fn may_gather(&self, how: &How) -> bool {
        let in_order = self.link.ordered || self.rules.now().unordered;
        let is_static = self.kind() != WindowKind::Dynamic;
        let refused = how.has_atomics() && self.parts.gathers.refused.load(Ordering::Relaxed);
        self.link.applies && in_order && is_static && !refused
    }

    /// # Safety
    /// The caller vouches for the transfer, which is small and without gaps.
    unsafe fn add(&self, transfer: &Transfer<'_>, how: How) -> WinResult<bool> {
        let (call, peer) = (transfer.call, transfer.peer);
        let run = Segment {
            // From where the command counts its runs.
            offset: transfer.address.wrapping_sub(peer.base) as usize,
            len: transfer.target_layout.bytes(),
        };
        let place = &self.parts.gathers.places()[peer.rank % PLACES];
        let mut waiter = None;
        loop {
            let mut gathered = place.take();
            if gathered.rank != peer.rank + 1 {
                if gathered.command.is_some() {
                    return Ok(false);
                }
                (gathered.rank, gathered.takes) = (peer.rank + 1, [false; 2]);
            }
            if !gathered.takes[usize::from(how.has_atomics())] {
                let sent = place.try_send(self, &mut gathered);
                drop(gathered);
                if let Sent::Later = sent {
                    self.send_gathered(call, peer);
                }
                // SAFETY: the caller vouches for the transfer.
                return unsafe { self.is_taken(transfer, &how, place) };
            }
            if gathered.fits(&how, run.len)
                || matches!(place.try_send(self, &mut gathered), Sent::All)
            {
                // SAFETY: the caller vouches for the transfer.
                unsafe { gathered.push(place, peer, how, run, transfer.origin) };
                drop(gathered);
                self.note(peer);
                return Ok(true);
            }
            drop(gathered);
            let waiter = waiter.get_or_insert_with(|| self.link.tries_of(call, peer.rank));
            waiter.step()?;
        }
    }

    /// Issues the first command of a target by itself: where a network card changes such elements, or where they lie on a device, it
    /// is refused, and none of them is gathered from then on.
    ///
    /// # Safety
    /// The caller vouches for the transfer, which has no gaps.
    unsafe fn is_taken(
        &self,
        transfer: &Transfer<'_>,
        how: &How,
        place: &Place,
    ) -> WinResult<bool> {
        let pending = &transfer.peer.accumulates;
        // SAFETY: the caller vouches for the transfer.
        let made = unsafe { super::apply::issue(self, transfer, how, None, pending) }?;
        // It is small, so it is one command.
        let taken = made > 0;
        let mut gathered = place.take();
        if gathered.rank == transfer.peer.rank + 1 {
            gathered.takes[usize::from(how.has_atomics())] = taken;
        }
        if !taken && how.has_atomics() {
            self.parts.gathers.refused.store(true, Ordering::Relaxed);
        }
        Ok(taken)
    }

    /// Sends what is gathered for a rank. A failure is the next flush's.
    #[inline]
    pub(in crate::win) fn send_gathered(&self, call: &'static str, peer: &Peer) {
        if let Some(place) = self.parts.gathers.of(peer.rank) {
            place.send(self, call, peer.rank);
        }
    }

    /// As [`send_gathered`](Self::send_gathered), for all ranks.
    pub(in crate::win) fn send_all_gathered(&self, call: &'static str) {
        for place in self.parts.gathers.places.get().into_iter().flatten() {
            if let Some(rank) = place.holds.rank() {
                place.send(self, call, rank);
            }
        }
    }
}

impl Gathered {
    /// Whether a run can be added to what is there, or there is nothing.
    fn fits(&self, how: &How, bytes: usize) -> bool {
        match (&self.command, &self.room) {
            (Some(command), Some(room)) => command.how == *how && bytes <= room.runs.room(),
            _ => true,
        }
    }

    /// Adds a run, which [fits](Self::fits).
    ///
    /// # Safety
    /// The operands are readable.
    unsafe fn push(
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
                // What most are, without a call.
                8 => to
                    .cast::<u64>()
                    .write_unaligned(operands.cast::<u64>().read_unaligned()),
                len => std::ptr::copy_nonoverlapping(operands, to, len),
            }
        };
        room.runs.push(run);
    }
}
