//! Large transfers over TCP within a machine: in pieces, of which few are on the way to a peer at a time.
//!
//! A transport that hands the provider all that it is given fills the buffers of the connection. TCP then always has more to send than
//! it lets out, and takes the pace that its congestion control estimates: under BBR, between processes of one machine, a third of what
//! the connection carries (Reno has no such pace). And whatever is sent later, if only a word, waits behind all of it.
//!
//! So a transfer is divided into pieces, and a peer has pieces of one window (`btl_ofi_stream_window`) on the way. Further
//! transfers to it wait, in order. Each is a compound operation (`compound`) whose parts are the pieces.
//!
//! Other machines have no window (`policy::window_to`): networks differ in what they hold, and the kernel sizes its buffers by that.
//!
//! A transfer over an idle connection may have a short piece at its beginning, for the copies of the rest ([`head`]).

mod head;

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_api::Status;

use crate::engine::compound::{Compound, Event, Next, Parts, note, part};
use crate::engine::post::Caller;
use crate::engine::transport::Transport;
use crate::fabric::policy::{NO_WINDOW, in_window, window_to};
use crate::mem::handle::Target;
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;

/// Smallest transfer that counts in the window. Those below have a packet of loopback to themselves, and gain less than a compound
/// operation costs.
pub(crate) const SMALLEST: usize = 64 * 1024;
/// Largest piece, and smallest one, but for a last one. With its header, the largest fits in four packets of loopback.
const LARGEST_PIECE: usize = 252 * 1024;
const SMALLEST_PIECE: usize = 16 * 1024;
/// Largest transfer that may go whole.
const LARGEST_WHOLE: usize = 320 * 1024;

/// Transfers that may wait or be on the way at a time. A further one is refused with [`Status::TEMP_OUT_OF_RESOURCE`].
const MOST: u32 = 1024;

/// A transfer in pieces.
pub(crate) struct Stream {
    put: bool,
    local: *mut c_void,
    target: Target,
    size: usize,
    /// Bytes of the first piece if it is a short one, else 0, and of the others but the last.
    head: usize,
    piece: usize,
    /// Where the next piece begins.
    next: usize,
    /// Pieces on the way.
    pieces: u32,
    /// Whether it was among those that wait, and is next.
    is_next: bool,
    /// What the transfer ends with.
    status: Status,
}

// SAFETY: the pointer is to the caller's buffer, which is valid until completion; whichever thread makes progress may post it.
unsafe impl Send for Stream {}

impl Stream {
    fn new(
        (op, put, target): (&Op<'_>, bool, Target),
        (is_busy, head): (bool, usize),
        window: usize,
    ) -> Stream {
        let piece = piece_of(op.size, is_busy, window);
        Stream {
            put,
            local: op.local,
            target,
            size: op.size,
            head,
            piece,
            next: 0,
            pieces: 0,
            is_next: false,
            status: Status::SUCCESS,
        }
    }

    /// Bytes of the next piece; 0 if there is none.
    fn next_size(&self) -> usize {
        let left = self.size - self.next;
        match self.next {
            0 if self.head > 0 => self.head,
            _ => self.piece.min(left),
        }
    }

    /// Notes the end of a piece.
    fn end_piece(&mut self, status: Status) {
        self.pieces -= 1;
        if !status.is_ok() {
            self.status = status;
        }
    }
}

/// Bytes of the pieces of a transfer: at least two of them have room. A transfer that has the connection to itself, and is
/// little more than a piece, goes whole.
fn piece_of(size: usize, is_busy: bool, window: usize) -> usize {
    match window {
        NO_WINDOW => NO_WINDOW,
        _ if !is_busy && size <= LARGEST_WHOLE.min(window) => size,
        _ => LARGEST_PIECE.min(window / 2).max(SMALLEST_PIECE),
    }
}

/// What is on the way to each peer, and what waits.
#[derive(Default)]
pub(crate) struct Streams(Mutex<HashMap<NonNull<Endpoint>, Flight>>);

// SAFETY: the pointers to endpoints are keys, and nothing follows them. Those to compound operations are passed on, under the rules of
// `compound::note`.
unsafe impl Send for Streams {}
// SAFETY: as above; the map is locked.
unsafe impl Sync for Streams {}

/// What is on the way to one peer, as it counts in the window, and the operations that wait, of which no piece is on the way.
#[derive(Default)]
struct Flight {
    bytes: usize,
    waiting: VecDeque<Waiting>,
}

/// An operation that waits, and what its next piece counts.
struct Waiting {
    compound: NonNull<Compound>,
    counted: usize,
}

impl Flight {
    fn has_room(&self, counted: usize, window: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(counted) <= window
    }
}

/// Where a transfer that asks for room in the window stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Behind those that wait.
    Last,
    /// Before them, because it has waited.
    Next,
    /// Before them, because it has pieces on the way. It does not wait: the end of a piece has it ask again.
    Begun,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, HashMap<NonNull<Endpoint>, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a piece of so many bytes as on the way. If there is no room, returns false, and the operation waits.
    fn enter(
        &self,
        endpoint: NonNull<Endpoint>,
        (compound, turn): (NonNull<Compound>, Turn),
        size: usize,
        window: usize,
    ) -> bool {
        let mut flights = self.lock();
        let flight = flights.entry(endpoint).or_default();
        let counted = in_window(size);
        let enters =
            flight.has_room(counted, window) && (turn != Turn::Last || flight.waiting.is_empty());
        match turn {
            _ if enters => flight.bytes += counted,
            Turn::Last => flight.waiting.push_back(Waiting { compound, counted }),
            Turn::Next => flight.waiting.push_front(Waiting { compound, counted }),
            Turn::Begun => {}
        }
        enters
    }

    /// A piece is no longer on the way.
    fn leave(&self, endpoint: NonNull<Endpoint>, size: usize) {
        let mut flights = self.lock();
        if let Some(flight) = flights.get_mut(&endpoint) {
            flight.bytes = flight.bytes.saturating_sub(in_window(size));
            if flight.bytes == 0 && flight.waiting.is_empty() {
                flights.remove(&endpoint);
            }
        }
    }

    /// The operation that is to take the room that there is, if any waits.
    fn called(&self, endpoint: NonNull<Endpoint>, window: usize) -> Option<NonNull<Compound>> {
        let mut flights = self.lock();
        let flight = flights.get_mut(&endpoint)?;
        let first = flight.waiting.front()?;
        if !flight.has_room(first.counted, window) {
            return None;
        }
        flight.waiting.pop_front().map(|first| first.compound)
    }

    /// Has every operation to a peer that waits go on. The peer has failed, so they end.
    pub(crate) fn end_waiting(&self, endpoint: NonNull<Endpoint>) {
        let waiting = self.lock().remove(&endpoint).map(|flight| flight.waiting);
        for waiting in waiting.unwrap_or_default() {
            // SAFETY: an operation that waits is not over before it was called.
            unsafe { note(waiting.compound, Event::Room) };
        }
    }
}

impl Transport {
    /// Makes a transfer in pieces, if it is a large one over TCP for which that is good; else `None`. `endpoint` is live, and the local buffer is valid
    /// until completion.
    #[inline]
    pub(crate) fn stream(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        whole: (&Op<'_>, bool, Target),
    ) -> Option<Status> {
        if whole.0.size < SMALLEST {
            return None;
        }
        let headers = self.policy.headers?;
        // Parts have no local handle, by which registered memory is known.
        if self.setup.local_registration {
            return None;
        }
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let is_busy = peer.count.outstanding() > 0;
        let head = if is_busy {
            0
        } else {
            head::of(headers, &whole)
        };
        let window = window_to(peer, self.setup.stream_window);
        if window == NO_WINDOW && head == 0 {
            return None;
        }
        if self.compounds.held() >= MOST {
            return Some(Status::TEMP_OUT_OF_RESOURCE);
        }
        let stream = Stream::new(whole, (is_busy, head), window);
        let begun = self.begin_compound(endpoint, caller, Parts::Streamed(stream));
        Some(match begun {
            Ok(compound) => {
                // SAFETY: the operation has no outstanding part.
                unsafe { note(compound, Event::Room) };
                self.advance_compounds();
                Status::SUCCESS
            }
            Err(status) => status,
        })
    }

    /// The next step of a transfer, after this event.
    pub(crate) fn advance_stream(
        &self,
        (at, endpoint): (NonNull<Compound>, NonNull<Endpoint>),
        stream: &mut Stream,
        event: Event,
    ) -> Next {
        if let Event::Part(size, status) = event {
            self.streams.leave(endpoint, size);
            stream.end_piece(status);
        }
        // SAFETY: an operation's endpoint is live until the operation is over.
        let window = window_to(unsafe { endpoint.as_ref() }, self.setup.stream_window);
        while stream.status.is_ok() && stream.next_size() > 0 {
            let size = stream.next_size();
            let turn = match stream.pieces {
                0 if stream.next == 0 && !stream.is_next => Turn::Last,
                0 => Turn::Next,
                _ => Turn::Begun,
            };
            if !self.streams.enter(endpoint, (at, turn), size, window) {
                stream.is_next = true;
                return Next::Parts;
            }
            let status = self.post_stream(at, endpoint, stream, size);
            if status.is_ok() {
                stream.next += size;
                stream.pieces += 1;
                continue;
            }
            self.streams.leave(endpoint, size);
            if !status.is_again() {
                stream.status = status;
            } else if stream.pieces > 0 {
                return Next::Parts;
            } else {
                stream.is_next = true;
                return Next::Again(Event::Room);
            }
        }
        if let Some(called) = self.streams.called(endpoint, window) {
            // SAFETY: an operation that waits is not over before it was called.
            unsafe { note(called, Event::Room) };
        }
        match stream.pieces {
            0 => Next::End(stream.status),
            _ => Next::Parts,
        }
    }

    /// Posts a piece. The number of the part is that of its bytes.
    fn post_stream(
        &self,
        at: NonNull<Compound>,
        endpoint: NonNull<Endpoint>,
        stream: &Stream,
        size: usize,
    ) -> Status {
        let local = stream.local.wrapping_byte_add(stream.next);
        let caller = part((at, size), local);
        let target = Target {
            address: stream.target.address + stream.next as u64,
            key: stream.target.key,
        };
        // SAFETY: endpoints outlive the operations that name them; the caller of the operation guarantees the local buffer until its
        // completion, and the piece lies inside it.
        unsafe {
            match stream.put {
                true => self.post_put(endpoint, &caller, size, target),
                false => self.post_get(endpoint, &caller, size, target),
            }
        }
    }
}

#[cfg(test)]
mod tests;
