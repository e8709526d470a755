//! Large transfers over TCP within a machine are sent in fragments. Only a few fragments are outstanding to a peer at a
//! time.
//!
//! A transport that posts all its data to the provider at once fills the buffers of the connection. TCP then always has
//! more data than it sends, and sends at the rate that its congestion control estimates. Under BBR, between processes of
//! one machine, this is a third of the connection's bandwidth (Reno has no such rate). Moreover, data that is posted later
//! waits behind all of these bytes, even if it is a single word.
//!
//! So a transfer is divided into fragments, and the outstanding fragments to a peer fit in one window
//! (`btl_ofi_stream_window`). Further transfers to the peer wait, in order. Each transfer is a compound operation
//! (`compound`), and its fragments are the parts.
//!
//! Transfers to other machines have no window (`policy::window_to`): networks differ in the bytes that they hold, and the
//! kernel sizes its buffers accordingly.
//!
//! A transfer over an idle connection may begin with a short fragment, which speeds up the copies of the rest ([`head`]).

mod head;

use std::ptr::NonNull;

use plugin_api::Status;

use crate::engine::compound::state::{Compound, Event, Next, Parts, note, part};
use crate::engine::compound::stream::Stream;
use crate::engine::transport::Transport;
use crate::fabric::policy::{NO_WINDOW, window_to};
use crate::mem::handle::Target;
use crate::op::request::Caller;
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;

/// Smallest transfer that counts in the window. A smaller transfer fits in one packet of loopback, and would gain less
/// than a compound operation costs.
pub(crate) const SMALLEST: usize = 64 * 1024;

impl Transport {
    /// Makes a transfer in fragments if it is large, goes over TCP, and gains by the division; otherwise returns `None`.
    /// `endpoint` is live, and the local buffer is valid until completion.
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

    /// Begins a transfer, and posts the fragments that have room.
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
            // The transfer waits.
            Ok(_) => Status::SUCCESS,
            Err(status) => {
                self.streams.end(endpoint, None);
                status
            }
        }
    }

    /// Takes the next step of a transfer after an event.
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
                // The transfer keeps its room in the window.
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
            // SAFETY: a waiting operation cannot end before it gets this event.
            unsafe { note(called, Event::Room) };
        }
        match is_over {
            true => Next::End(stream.status),
            false => Next::Parts,
        }
    }

    /// Posts a fragment. The part's number is the fragment's size in bytes.
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
        // SAFETY: endpoints outlive the operations that name them; the caller of the operation guarantees the local buffer
        // until its completion, and the fragment lies inside it.
        unsafe {
            match stream.put {
                true => self.post_put(endpoint, &caller, size, target),
                false => self.post_get(endpoint, &caller, size, target),
            }
        }
    }
}
