//! The outstanding pieces of large transfers to each peer, and the transfers that wait for room.

use crate::engine::compound::state::{Compound, Event, note};
use crate::engine::compound::stream::Asked;
use crate::fabric::policy::in_window;
use crate::peer::endpoint::Endpoint;
use std::collections::{HashMap, VecDeque};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum transfers to a peer that wait or are outstanding. A further transfer is refused with
/// [`Status::TEMP_OUT_OF_RESOURCE`].
const MOST: u32 = 1024;

/// The outstanding bytes to each peer, and the transfers that wait.
#[derive(Default)]
pub(crate) struct Streams(Mutex<HashMap<NonNull<Endpoint>, Flight>>);

// SAFETY: the pointers to endpoints are keys, and nothing follows them. Those to compound operations are passed on, under the rules of
// `engine::compound::note`.
unsafe impl Send for Streams {}
// SAFETY: as above; the map is locked.
unsafe impl Sync for Streams {}

/// The transfers to one peer.
#[derive(Default)]
pub(super) struct Flight {
    /// All that are not over.
    transfers: u32,
    /// Bytes on the way, or about to be, as they count in the window.
    bytes: usize,
    /// The one that has begun and is not on the way as a whole: the others come behind it.
    current: Option<NonNull<Compound>>,
    /// Those that wait for room; the current one is the first.
    waiting: VecDeque<(NonNull<Compound>, Asked)>,
}

impl Flight {
    /// Counts the next piece of the operation whose turn it is, if there is room. A piece that is larger than the window goes alone.
    pub(super) fn take(
        &mut self,
        compound: NonNull<Compound>,
        asked: Asked,
        window: usize,
    ) -> bool {
        let has_room = self.bytes == 0 || self.bytes.saturating_add(asked.counted) <= window;
        if has_room {
            self.bytes += asked.counted;
            self.current = (!asked.is_last).then_some(compound);
        }
        has_room
    }
}

impl Streams {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<NonNull<Endpoint>, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts another transfer to a peer; false if there are too many.
    pub(super) fn begin(&self, endpoint: NonNull<Endpoint>) -> bool {
        let mut flights = self.lock();
        let transfers = &mut flights.entry(endpoint).or_default().transfers;
        let may = *transfers < MOST;
        *transfers += u32::from(may);
        may
    }

    /// A transfer is over.
    pub(super) fn end(&self, endpoint: NonNull<Endpoint>, compound: Option<NonNull<Compound>>) {
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
    pub(super) fn enter(
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
    pub(super) fn leave(&self, endpoint: NonNull<Endpoint>, size: usize) {
        if let Some(flight) = self.lock().get_mut(&endpoint) {
            flight.bytes = flight.bytes.saturating_sub(in_window(size));
        }
    }

    /// The operation whose turn it is, if it waits and there is room, which counts as its own from here on.
    pub(super) fn called(
        &self,
        endpoint: NonNull<Endpoint>,
        window: usize,
    ) -> Option<NonNull<Compound>> {
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
    pub(crate) fn fail_waiting(&self, endpoint: NonNull<Endpoint>) {
        if let Some(flight) = self.lock().get_mut(&endpoint) {
            for (compound, asked) in flight.waiting.drain(..) {
                flight.bytes += asked.counted;
                // SAFETY: an operation that waits is not over before it was called.
                unsafe { note(compound, Event::Room) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
