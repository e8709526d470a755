//! Large transfers over TCP within a machine go in pieces, only a few of which are on the way to a peer at a time.
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
use crate::fabric::policy::{NO_WINDOW, PACKET, in_window, window_to};
use crate::mem::handle::Target;
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;

/// Smallest transfer that counts in the window. Smaller ones fit into one packet of loopback, and would gain less than a
/// compound operation costs.
pub(crate) const SMALLEST: usize = 64 * 1024;
/// Largest piece, and smallest one, except for a first ([`head`]) or last one.
const LARGEST_PIECE: usize = 4 * PACKET - PAGE;
const SMALLEST_PIECE: usize = 16 * 1024;
/// Largest transfer that may go whole.
const LARGEST_WHOLE: usize = 320 * 1024;
/// What a piece leaves of its last packet, for the header.
const PAGE: usize = 4096;

/// Transfers to a peer that may wait or be on the way at a time. A further one is refused with [`Status::TEMP_OUT_OF_RESOURCE`].
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
    /// Whether it waits for [`Event::Room`].
    waits: bool,
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
            waits: true,
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

    /// What the next piece asks of the window.
    fn asks(&self) -> Asked {
        let size = self.next_size();
        Asked {
            counted: in_window(size),
            is_last: self.next + size == self.size,
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

/// Bytes of the pieces of a transfer: two of them have room, but in the smallest windows. A transfer that has the connection to
/// itself, and is little more than a piece, goes whole.
fn piece_of(size: usize, is_busy: bool, window: usize) -> usize {
    if window == NO_WINDOW || !is_busy && size <= LARGEST_WHOLE.min(window) {
        return size;
    }
    match window / 2 / PACKET {
        0 => (window / 2).max(SMALLEST_PIECE),
        packets => LARGEST_PIECE.min(packets * PACKET - PAGE),
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

/// The transfers to one peer.
#[derive(Default)]
struct Flight {
    /// All that are not over.
    transfers: u32,
    /// Bytes on the way, or about to be, as they count in the window.
    bytes: usize,
    /// The one that has begun and is not on the way as a whole: the others come behind it.
    current: Option<NonNull<Compound>>,
    /// Those that wait for room; the current one is the first.
    waiting: VecDeque<(NonNull<Compound>, Asked)>,
}

/// A piece that asks for room: what it counts in the window, and whether it is the last one.
#[derive(Clone, Copy)]
struct Asked {
    counted: usize,
    is_last: bool,
}

impl Flight {
    /// Counts the next piece of the operation whose turn it is, if there is room. A piece that is larger than the window goes alone.
    fn take(&mut self, compound: NonNull<Compound>, asked: Asked, window: usize) -> bool {
        let has_room = self.bytes == 0 || self.bytes.saturating_add(asked.counted) <= window;
        if has_room {
            self.bytes += asked.counted;
            self.current = (!asked.is_last).then_some(compound);
        }
        has_room
    }
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, HashMap<NonNull<Endpoint>, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts another transfer to a peer; false if there are too many.
    fn begin(&self, endpoint: NonNull<Endpoint>) -> bool {
        let mut flights = self.lock();
        let transfers = &mut flights.entry(endpoint).or_default().transfers;
        let may = *transfers < MOST;
        *transfers += u32::from(may);
        may
    }

    /// A transfer is over.
    fn end(&self, endpoint: NonNull<Endpoint>, compound: Option<NonNull<Compound>>) {
        let mut flights = self.lock();
        if let Some(flight) = flights.get_mut(&endpoint) {
            flight.transfers -= 1;
            if flight.transfers == 0 {
                flights.remove(&endpoint);
            } else if flight.current == compound {
                flight.current = None;
            }
        }
    }

    /// Counts the next piece of an operation as on the way. If others come first, or there is no room, returns false, and the
    /// operation waits.
    fn enter(
        &self,
        endpoint: NonNull<Endpoint>,
        (compound, asked): (NonNull<Compound>, Asked),
        window: usize,
    ) -> bool {
        let mut flights = self.lock();
        let flight = flights.entry(endpoint).or_default();
        let is_current = flight.current == Some(compound);
        let is_next = is_current || flight.current.is_none() && flight.waiting.is_empty();
        if is_next && flight.take(compound, asked, window) {
            return true;
        }
        match is_current {
            true => flight.waiting.push_front((compound, asked)),
            false => flight.waiting.push_back((compound, asked)),
        }
        false
    }

    /// A piece is no longer on the way.
    fn leave(&self, endpoint: NonNull<Endpoint>, size: usize) {
        if let Some(flight) = self.lock().get_mut(&endpoint) {
            flight.bytes = flight.bytes.saturating_sub(in_window(size));
        }
    }

    /// The operation whose turn it is, if it waits and there is room, which counts as its own from here on.
    fn called(&self, endpoint: NonNull<Endpoint>, window: usize) -> Option<NonNull<Compound>> {
        let mut flights = self.lock();
        let flight = flights.get_mut(&endpoint)?;
        let (compound, asked) = *flight.waiting.front()?;
        let is_next = flight.current.is_none_or(|current| current == compound);
        if !is_next || !flight.take(compound, asked, window) {
            return None;
        }
        flight.waiting.pop_front();
        Some(compound)
    }

    /// Has every operation to a peer that waits go on. The peer has failed, so they end.
    pub(crate) fn end_waiting(&self, endpoint: NonNull<Endpoint>) {
        if let Some(flight) = self.lock().get_mut(&endpoint) {
            for (compound, asked) in flight.waiting.drain(..) {
                flight.bytes += asked.counted;
                // SAFETY: an operation that waits is not over before it was called.
                unsafe { note(compound, Event::Room) };
            }
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
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let is_busy = !peer.is_idle();
        let head = if is_busy {
            0
        } else {
            head::of(headers, &whole)
        };
        let window = window_to(peer, self.setup.stream_window);
        if window == NO_WINDOW && head == 0 {
            return None;
        }
        if !self.streams.begin(endpoint) {
            return Some(self.refuse_for_now(endpoint, self.context()));
        }
        let stream = Stream::new(whole, (is_busy, head), window);
        Some(self.start_stream(endpoint, caller, stream, window))
    }

    /// Begins a transfer, and posts what has room.
    fn start_stream(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        stream: Stream,
        window: usize,
    ) -> Status {
        let first = stream.asks();
        match self.begin_compound(endpoint, caller, Parts::Streamed(stream)) {
            Ok(at) if self.streams.enter(endpoint, (at, first), window) => self.start_compound(at),
            // It waits.
            Ok(_) => Status::SUCCESS,
            Err(status) => {
                self.streams.end(endpoint, None);
                status
            }
        }
    }

    /// The next step of a transfer, after this event.
    pub(crate) fn advance_stream(
        &self,
        (at, endpoint): (NonNull<Compound>, NonNull<Endpoint>),
        stream: &mut Stream,
        event: Event,
    ) -> Next {
        // SAFETY: an operation's endpoint is live until the operation is over.
        let window = window_to(unsafe { endpoint.as_ref() }, self.setup.stream_window);
        let mut has_room = false;
        if let Event::Part(bytes, status) = event {
            self.streams.leave(endpoint, bytes);
            stream.end_piece(status);
        } else {
            (stream.waits, has_room) = (false, true);
        }
        while !stream.waits && stream.status.is_ok() && stream.next_size() > 0 {
            if !has_room && !self.streams.enter(endpoint, (at, stream.asks()), window) {
                stream.waits = true;
                break;
            }
            let size = stream.next_size();
            let status = self.post_stream(at, endpoint, stream, size);
            if status.is_again() {
                // It keeps its room.
                stream.waits = true;
                return Next::Again(Event::Room);
            }
            has_room = !status.is_ok();
            if status.is_ok() {
                stream.next += size;
                stream.pieces += 1;
            } else {
                stream.status = status;
            }
        }
        if has_room {
            self.streams.leave(endpoint, stream.next_size());
        }
        let is_over = stream.pieces == 0 && !stream.waits;
        if is_over {
            self.streams.end(endpoint, Some(at));
        }
        while let Some(called) = self.streams.called(endpoint, window) {
            // SAFETY: an operation that waits is not over before it was called.
            unsafe { note(called, Event::Room) };
        }
        match is_over {
            true => Next::End(stream.status),
            false => Next::Parts,
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
