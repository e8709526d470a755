//! Puts with notification in two parts: the atomic is posted after the put has completed. Each such put is a compound
//! operation (`compound`).

use std::ptr::{self, NonNull};

use plugin_api::Status;

use crate::engine::compound::state::{Compound, Event, Next, Parts, note, part};
use crate::engine::transport::Transport;
use crate::op::request::{Atomic, Caller};
use crate::peer::endpoint::Endpoint;

/// The numbers of the two parts.
pub(crate) const PUT: usize = 0;
const RAISE: usize = 1;

impl Transport {
    /// Lets progress raise the counter of a completed put.
    #[cold]
    pub(crate) fn raise_later(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        raise: &Atomic,
    ) -> Status {
        match self.begin_compound(endpoint, caller, Parts::Notified(*raise)) {
            Ok(notified) => {
                // SAFETY: the operation has no outstanding part.
                unsafe { note(notified, Event::Visible) };
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Takes the next step of a put with notification after an event.
    pub(crate) fn advance_notice(
        &self,
        (at, endpoint): (NonNull<Compound>, NonNull<Endpoint>),
        raise: &Atomic,
        event: Event,
    ) -> Next {
        match event {
            Event::Part(PUT, Status::SUCCESS) | Event::Visible | Event::Room => {
                self.raise_counter(at, endpoint, raise)
            }
            Event::Part(_, ended) => Next::End(ended),
        }
    }

    /// Raises the counter of an operation whose bytes are visible.
    fn raise_counter(
        &self,
        at: NonNull<Compound>,
        endpoint: NonNull<Endpoint>,
        raise: &Atomic,
    ) -> Next {
        let caller = part((at, RAISE), ptr::null_mut());
        // SAFETY: endpoints outlive the operations whose tags name them.
        match unsafe { self.atomic_by_route(endpoint, &caller, raise) } {
            Status::SUCCESS => Next::Parts,
            Status::COMPLETED => Next::End(Status::SUCCESS),
            again if again.is_again() => Next::Again(Event::Visible),
            refused => Next::End(refused),
        }
    }
}
