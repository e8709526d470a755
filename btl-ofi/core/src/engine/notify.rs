//! Puts with notification: a put that raises a counter at its target once its bytes are visible there.
//!
//! | transfers to the peer | how the counter follows the bytes |
//! | --- | --- |
//! | message, small | both commands in one batch, executed in order (`fabric::msg`) |
//! | cross-memory attach, copy | the call copies the bytes before it returns; then the atomic is posted |
//! | any other | the atomic is posted when the put has completed (`engine::compound::notices`) |
//!
//! A ring put cannot carry the bytes: the origin may revoke the ring put and copy by cross-memory attach, while the target
//! already continues with the atomic in the ring.
//!
//! The atomic takes the route of the peer's atomics, so other atomics may also read and change the counter.

use std::ptr::{self, NonNull};

use plugin_api::counters::Carrier;
use plugin_api::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags, Status};

use crate::base::cma;
use crate::engine::compound::notices::PUT;
use crate::engine::compound::state::{Event, Parts, note, part};
use crate::engine::transport::Transport;
use crate::fabric::msg::Form;
use crate::op::request::{Action, Atomic, Caller, Notice, Op, Request};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::{Atomics, Transfers};

impl Transport {
    /// Makes a put, and raises a counter at the target when the bytes of the put are visible there. A reader that sees the
    /// raised counter also sees the bytes. The operation is complete after both steps. Then the put's callback runs, and
    /// flushes no longer wait for the operation. If the put fails, the counter is not raised. A put of no bytes only raises
    /// the counter.
    ///
    /// Returns the status that [`submit`](Self::submit) would return. Notifications of several puts may arrive in any
    /// order.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit).
    pub unsafe fn put_notify(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        notice: &Notice<'_>,
    ) -> Status {
        if self.is_copy() {
            return self.refuse_copy();
        }
        if !matches!(op.action, Action::Put) || op.local.is_null() && op.size > 0 {
            return Status::BAD_PARAM;
        }
        let Notice {
            counter,
            address,
            add,
        } = *notice;
        let plus = (BtlAtomicOp::Add, OpFlags::empty());
        let update = Op::word(plus, (counter, address), add, None);
        let (kind, datatype, sum) = (AtomicKind::Update, Datatype::Uint64, AtomicOp::Sum);
        let raise = match self.check_atomic(&update, counter, (kind, datatype, sum, 0)) {
            Ok(raise) => raise,
            Err(status) => return status,
        };
        // SAFETY: the caller guarantees that `endpoint` is live, the buffer is valid until completion, and the handles are
        // NULL or readable.
        let status = unsafe {
            match self.check_transfer(op, true) {
                Ok(_) if op.size > self.setup.put_limit => Status::VALUE_OUT_OF_BOUNDS,
                Ok(_) if op.size == 0 => self.atomic_by_route(endpoint, &Caller::of(op), &raise),
                Ok(_) => self.put_by_route(endpoint, op, &raise),
                // A buffer may be device memory. Otherwise `put_then_raise` refuses the put.
                Err(_) => self.put_then_raise(endpoint, op, &raise),
            }
        };
        if status.is_ok() {
            return status;
        }
        self.after_refusal(endpoint, status)
    }

    /// Makes a checked put with notification by the route of its peer.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit).
    unsafe fn put_by_route(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        raise: &Atomic,
    ) -> Status {
        let (caller, size) = (Caller::of(op), op.size);
        let silent = Caller {
            completion: None,
            ..caller
        };
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        if let Some(status) = peer.failure() {
            return status;
        }
        loop {
            let transfers = peer.transfers();
            let copies = matches!(transfers, Transfers::Copy | Transfers::Kernel);
            if copies
                && peer.atomics() == Atomics::Unclaimed
                // Claimed before the copy, because the claim may be refused.
                && let Err(status) = self.claim_ring(endpoint)
            {
                return status;
            }
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffer is valid until completion; the
            // target's bounds and rights were checked.
            unsafe {
                match transfers {
                    Transfers::Message
                        if size <= self.setup.message_limits.0
                            && peer.atomics() == Atomics::Message =>
                    {
                        let put = Request::transfer(true, op.local, op.remote, op.address, size);
                        return self.tell_notified(endpoint, &caller, &put, raise);
                    }
                    Transfers::Copy => {
                        let copied =
                            self.copy(endpoint, &silent, op.remote, op.address, size, true);
                        return match copied {
                            Status::SUCCESS => self.raise_behind(endpoint, &caller, raise),
                            refused => refused,
                        };
                    }
                    Transfers::Kernel => {
                        let made = self.put_to_memory(endpoint, &silent, op);
                        match made {
                            Some(Status::SUCCESS) => {
                                return self.raise_behind(endpoint, &caller, raise);
                            }
                            Some(refused) => return refused,
                            None => {}
                        }
                    }
                    Transfers::Doubted => {
                        if let Some(status) = self.examine_doubted(endpoint) {
                            return status;
                        }
                    }
                    Transfers::Fabric | Transfers::Message | Transfers::Ring => {
                        return self.put_then_raise(endpoint, op, raise);
                    }
                }
            }
        }
    }

    /// Puts to the memory of a local peer, by a mapping or by CMA. Returns `None` if the peer's route has
    /// changed.
    ///
    /// # Safety
    /// `endpoint` is live, the local buffer is valid, and the target's bounds and rights were checked.
    unsafe fn put_to_memory(
        &self,
        endpoint: NonNull<Endpoint>,
        silent: &Caller,
        op: &Op<'_>,
    ) -> Option<Status> {
        if op.remote.is_shared() {
            let to = (op.remote, op.address);
            // SAFETY: the caller guarantees that `endpoint` is live, and the buffer and the range.
            let mapped = unsafe { self.mapped_transfer(endpoint, silent, to, op.size, true) };
            if mapped.is_some() {
                return mapped;
            }
        }
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        // SAFETY: the caller guarantees the local buffer, and the range at the target.
        match unsafe { cma::write(peer.pid(), op.local, op.address, op.size) } {
            Ok(()) => Some(self.complete_copy(endpoint, silent, (Carrier::Cma, op.size))),
            Err(refused) => self.examine(endpoint, refused),
        }
    }

    /// Raises the counter after the bytes are in place. If there is no room, a later progress raises the
    /// counter.
    ///
    /// # Safety
    /// `endpoint` is live.
    unsafe fn raise_behind(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        raise: &Atomic,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        match unsafe { self.atomic_by_route(endpoint, caller, raise) } {
            again if again.is_again() => self.raise_later(endpoint, caller, raise),
            status => status,
        }
    }

    /// Adds a put and its notification to the current batch of their target.
    ///
    /// # Safety
    /// `endpoint` is live, and its transfers and atomics travel as messages; the buffer of `put` is valid until completion.
    unsafe fn tell_notified(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        put: &Request,
        raise: &Atomic,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // The check is under the lock, because the messages to a failed peer end under it.
        let messages = match peer.failure() {
            Some(_) => None,
            None => state.messages.as_mut(),
        };
        let form = Form::known(put.command.what, put.size);
        let gathered = messages.and_then(|messages| {
            // SAFETY: the caller guarantees the buffer; the line of a peer is removed before its endpoint is.
            let gathered =
                unsafe { messages.gather_notified(endpoint, (put, &form), &raise.request) };
            gathered.ok()
        });
        let Some((batch, full)) = gathered else {
            drop(state);
            return self.untold(endpoint);
        };
        let (to, how) = ((endpoint, context), (caller, &form));
        let (none, threaded) = (ptr::null_mut(), self.setup.threaded);
        // SAFETY: the caller guarantees that `endpoint` is live; a put has no result.
        unsafe { self.count_added(batch, to, how, (put.size, 0), none, threaded) };
        drop(state);
        if full {
            self.poll_while_sending(context);
        }
        Status::SUCCESS
    }

    /// Makes a put, and raises the counter when it has completed.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit).
    unsafe fn put_then_raise(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        raise: &Atomic,
    ) -> Status {
        let parts = Parts::Notified(*raise);
        let notified = match self.begin_compound(endpoint, &Caller::of(op), parts) {
            Ok(notified) => notified,
            Err(status) => return status,
        };
        let put = op.with_completion(part((notified, PUT), op.local).completion);
        // SAFETY: the caller guarantees that `endpoint` is live, the buffers are valid until completion, and the
        // handles are NULL or readable.
        match unsafe { self.execute(endpoint, &put) } {
            Status::SUCCESS => Status::SUCCESS,
            Status::COMPLETED => {
                // SAFETY: the put is complete, and no callback runs for it.
                unsafe { note(notified, Event::Visible) };
                Status::SUCCESS
            }
            // The peer may have failed during the call. Then all its operations, including this one, have
            // been reported.
            _ if self.withdraw_compound(notified) => Status::SUCCESS,
            refused => refused,
        }
    }
}
