//! Puts with notification whose two parts are posted one after the other: the atomic when the put has completed. Each is a
//! compound operation (`compound`).

use std::ptr::{self, NonNull};

use plugin_api::Status;

use crate::engine::compound::{Compound, Event, Next, Parts, note, part};
use crate::engine::notify::Raise;
use crate::engine::post::Caller;
use crate::engine::transport::Transport;
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;

/// The numbers of the two parts.
const PUT: usize = 0;
const RAISE: usize = 1;

impl Transport {
    /// Makes a put, and raises the counter when it has completed.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    pub(crate) unsafe fn put_then_raise(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        raise: &Raise,
    ) -> Status {
        let parts = Parts::Notified(*raise);
        let notified = match self.begin_compound(endpoint, &Caller::of(op), parts) {
            Ok(notified) => notified,
            Err(status) => return status,
        };
        let put = op.with_completion(part((notified, PUT), op.local).completion);
        // SAFETY: the caller guarantees that `endpoint` is live, the buffers are valid until completion, and the handles are
        // NULL or readable.
        match unsafe { self.transfer(endpoint, &put, true) } {
            Status::SUCCESS => Status::SUCCESS,
            Status::COMPLETED => {
                // SAFETY: the put is complete, and its callback does not run.
                unsafe { note(notified, Event::Visible) };
                Status::SUCCESS
            }
            // The peer may have failed during the call, and its operations been reported, this one included.
            _ if self.withdraw_compound(notified) => Status::SUCCESS,
            refused => refused,
        }
    }

    /// Has progress raise the counter of a put that is complete.
    #[cold]
    pub(crate) fn raise_later(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        raise: &Raise,
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

    /// The next step of a put with notification, after this event.
    pub(crate) fn advance_notice(
        &self,
        (at, endpoint): (NonNull<Compound>, NonNull<Endpoint>),
        raise: &Raise,
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
        raise: &Raise,
    ) -> Next {
        let caller = part((at, RAISE), ptr::null_mut());
        // SAFETY: endpoints outlive the operations whose tags name them.
        match unsafe { self.raise(endpoint, &caller, raise) } {
            Status::SUCCESS => Next::Parts,
            Status::COMPLETED => Next::End(Status::SUCCESS),
            again if again.is_again() => Next::Again(Event::Visible),
            refused => Next::End(refused),
        }
    }
}
