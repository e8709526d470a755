//! The outstanding fragments of large transfers to each peer, and the transfers that wait for room
//! in the window.

use crate::engine::compound::state::{Compound, Event, note};
use crate::engine::compound::stream::Asked;
use crate::fabric::policy::in_window;
use crate::peer::endpoint::Endpoint;
use std::collections::{HashMap, VecDeque};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of transfers to a peer that wait or are outstanding. A further transfer is refused with
/// [`Status::TEMP_OUT_OF_RESOURCE`].
const MOST: u32 = 1024;

/// The outstanding bytes to each peer, and the transfers that wait for room.
#[derive(Default)]
pub(crate) struct Streams(Mutex<HashMap<NonNull<Endpoint>, Flight>>);

// SAFETY: the pointers to endpoints are keys, and are never dereferenced. Pointers to compound operations are passed on,
// under the rules of `engine::compound::note`.
unsafe impl Send for Streams {}
// SAFETY: the map is behind a lock.
unsafe impl Sync for Streams {}

/// The transfers to one peer.
#[derive(Default)]
pub(super) struct Flight {
    /// Number of transfers that have not ended.
    transfers: u32,
    /// Bytes in the window: outstanding fragments, and fragments that are about to be posted.
    bytes: usize,
    /// The transfer that has begun and has fragments left to post. All other transfers wait behind it.
    current: Option<NonNull<Compound>>,
    /// Transfers that wait for room; if the current transfer waits, it is the first.
    waiting: VecDeque<(NonNull<Compound>, Asked)>,
}

impl Flight {
    /// Adds the next fragment of an operation to the window if there is room. A fragment that is larger than the window is
    /// sent alone.
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

    /// Counts another transfer to a peer. Returns false if there are too many.
    pub(super) fn begin(&self, endpoint: NonNull<Endpoint>) -> bool {
        let mut flights = self.lock();
        let transfers = &mut flights.entry(endpoint).or_default().transfers;
        let may = *transfers < MOST;
        *transfers += u32::from(may);
        may
    }

    /// Removes a transfer that has ended.
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

    /// Adds the next fragment of an operation to the window. Returns false, and lets the operation wait, if others come
    /// first or there is no room.
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

    /// Removes a fragment that is no longer outstanding from the window.
    pub(super) fn leave(&self, endpoint: NonNull<Endpoint>, size: usize) {
        if let Some(flight) = self.lock().get_mut(&endpoint) {
            flight.bytes = flight.bytes.saturating_sub(in_window(size));
        }
    }

    /// Returns the operation that may post next, if it waits and there is room. The room is reserved for
    /// it.
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

    /// Gives every waiting operation to a failed peer an event. The operations then end with the
    /// failure.
    pub(crate) fn fail_waiting(&self, endpoint: NonNull<Endpoint>) {
        if let Some(flight) = self.lock().get_mut(&endpoint) {
            for (compound, asked) in flight.waiting.drain(..) {
                flight.bytes += asked.counted;
                // SAFETY: a waiting operation cannot end before it gets this event.
                unsafe { note(compound, Event::Room) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
