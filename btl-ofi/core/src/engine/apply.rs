//! Applies: any operation on elements of any size and alignment, in runs of the target's memory
//! ([`op::apply`](crate::op::apply)). Each apply is one command to the target's responder. The path depends on the peer's
//! atomics:
//!
//! | atomics of the peer | path of an apply |
//! | --- | --- |
//! | this thread | this thread, by the responder's function |
//! | the peer's ring | by the ring; by instructions of this thread if it maps the memory, no function is needed and the ring holds none |
//! | message | by message |
//! | the provider | by message, if there are messages, and never on aligned elements of a type that the typed atomics serve |
//!
//! A put or get of several runs goes by message if small puts and gets do. This thread makes the put or get if the
//! peer is this transport ([`scatters`](Transport::scatters)).
//!
//! So the commands of one origin to one target take effect in order, together with the origin's atomics. The order does not
//! hold in the last row, nor on device memory: there, an element may be changed either by commands or by atomics, never by
//! both.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::{AtomicKind, AtomicOp, Status};

use crate::core::context::{Carriers, State};
use crate::engine::transport::Transport;
use crate::fabric::msg::Form;
use crate::mem::regions::Arithmetic;
use crate::op::apply::{Apply, Area, Carried, Plan};
use crate::op::request::Caller;
use crate::op::request::Operands;
use crate::op::responder::{APPLY, Command, Responder};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::{Atomics, Transfers};
use crate::sm::requester::Requester;

/// An apply as a command, with its operands.
struct Encoded<'a> {
    command: Command,
    area: &'a Area,
    carried: Carried,
    result: *mut c_void,
    caller: Caller,
}

impl Transport {
    /// Sets the function that executes operations for which the processor has no instruction: operations of peers on this
    /// process's memory, and operations of this process on its own memory.
    pub fn on_apply(&self, arithmetic: Option<Arithmetic>) {
        self.registrar.regions().arithmetic = arithmetic;
    }

    /// Changes elements of a peer's memory as [`Apply`] describes. Returns the status that [`submit`](Self::submit) would
    /// return, or [`Status::NOT_SUPPORTED`] if only the provider may change these elements, or if no message reaches the
    /// peer.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect). The operands are readable during the call, the results writable until completion.
    pub unsafe fn apply(&self, endpoint: NonNull<Endpoint>, apply: &Apply<'_>) -> Status {
        // SAFETY: the caller's guarantees.
        let status = unsafe { self.apply_by_route(endpoint, apply) };
        if status.is_ok() {
            return status;
        }
        self.after_refusal(endpoint, status)
    }

    /// Sends an apply along the route of the peer's atomics.
    ///
    /// # Safety
    /// The conditions of [`apply`](Self::apply).
    unsafe fn apply_by_route(&self, endpoint: NonNull<Endpoint>, apply: &Apply<'_>) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        if apply.change.is_transfer && !self.scatters(peer, apply) {
            return Status::NOT_SUPPORTED;
        }
        let mut area = Area::new();
        // SAFETY: the caller guarantees the operands.
        let carried = match unsafe { area.fill(apply) } {
            Ok(carried) => carried,
            Err(status) => return status,
        };
        let by_others = peer.atomics() == Atomics::Fabric || apply.remote.is_device();
        if by_others && self.is_typed(apply) && has_atomic(apply) {
            return Status::NOT_SUPPORTED;
        }
        let has_results = carried.results > 0;
        if !apply.change.is_allowed(apply.remote.access(), has_results) {
            return Status::PERM;
        }
        let caller = Caller::plain(apply.completion, apply.results);
        if apply.remote.is_shared() && !apply.change.is_transfer {
            let words = area.words(carried);
            let plan = match Plan::read(words, carried, apply.address) {
                Ok(plan) => plan,
                Err(status) => return status,
            };
            let results = apply.results.cast();
            // SAFETY: the caller guarantees that `endpoint` is live and that the results are writable.
            let mapped =
                unsafe { self.mapped_apply(endpoint, &caller, apply.remote, (&plan, results)) };
            if let Some(status) = mapped {
                return status;
            }
        }
        let encoded = Encoded {
            command: Command::on(apply.remote, apply.address, APPLY, carried.count() as usize),
            area: &area,
            carried,
            result: apply.results,
            caller,
        };
        if apply.change.is_transfer {
            // SAFETY: the caller guarantees that `endpoint` is live and that the results are writable until completion.
            return unsafe {
                match peer.transfers() {
                    Transfers::Copy => self.apply_here(endpoint, &encoded),
                    _ => self.apply_by_message(endpoint, &encoded),
                }
            };
        }
        loop {
            // SAFETY: the caller guarantees that `endpoint` is live and that the results are writable until completion.
            unsafe {
                match peer.atomics() {
                    Atomics::Unclaimed => {
                        if let Err(status) = self.claim_ring(endpoint) {
                            return status;
                        }
                    }
                    Atomics::Ring => {
                        if let Some(status) = self.apply_by_ring(endpoint, &encoded) {
                            return status;
                        }
                    }
                    Atomics::Own => return self.apply_here(endpoint, &encoded),
                    Atomics::Message => return self.apply_by_message(endpoint, &encoded),
                    Atomics::Fabric => return self.apply_beside(endpoint, &encoded),
                }
            }
        }
    }

    /// Whether one command carries a put or get of several runs. This is so if the target's processor executes puts and
    /// gets of this length as messages, or if the peer is this transport. On other routes the origin accesses the memory
    /// directly and needs no processor of the target.
    fn scatters(&self, peer: &Endpoint, apply: &Apply<'_>) -> bool {
        let (puts, gets) = self.setup.message_limits;
        let limit = match apply.change.op {
            Some(AtomicOp::Read) => gets,
            _ => puts,
        };
        let told = match peer.transfers() {
            Transfers::Message => apply.runs.iter().all(|run| run.length <= limit as u64),
            transfers => transfers == Transfers::Copy,
        };
        told && !apply.remote.is_device()
    }

    /// Whether the typed atomics support read, replace and compare-and-swap on the elements' type. All other operations can
    /// be built from these three.
    fn is_typed(&self, apply: &Apply<'_>) -> bool {
        apply.change.datatype.is_some_and(|datatype| {
            let serves = |kind, op| self.atomics.table.count(kind, datatype, op) > 0;
            serves(AtomicKind::Fetch, AtomicOp::Read)
                && serves(AtomicKind::Update, AtomicOp::Write)
                && serves(AtomicKind::Compare, AtomicOp::Cswap)
        })
    }

    /// Makes an apply to a peer whose atomics the provider executes.
    ///
    /// # Safety
    /// The conditions of [`apply`](Self::apply).
    #[cold]
    unsafe fn apply_beside(&self, endpoint: NonNull<Endpoint>, encoded: &Encoded<'_>) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let key = match self.policy.has_messages() {
            true => self.device.addresses().key(peer.address),
            false => 0,
        };
        // SAFETY: the caller guarantees that `endpoint` is live and that the results are writable until completion.
        unsafe {
            match key {
                _ if peer.transfers() == Transfers::Copy => self.apply_here(endpoint, encoded),
                // The peer takes no messages.
                0 => Status::NOT_SUPPORTED,
                key if key == self.node.key => self.apply_here(endpoint, encoded),
                _ => self.apply_by_message(endpoint, encoded),
            }
        }
    }

    /// Posts an apply to the peer's ring. `None` if the peer's atomics no longer go by a ring.
    ///
    /// # Safety
    /// The conditions of [`apply`](Self::apply).
    unsafe fn apply_by_ring(
        &self,
        endpoint: NonNull<Endpoint>,
        encoded: &Encoded<'_>,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // The check is under the lock, because the ring of a failed peer is emptied under it.
        if let Some(status) = peer.failure() {
            return Some(status);
        }
        let State {
            channel: Some(channel),
            ..
        } = &mut *state
        else {
            return Some(Status::NOT_SUPPORTED);
        };
        if peer.atomics() != Atomics::Ring {
            return None;
        }
        // SAFETY: the peer's atomics go by a ring, so it has a requester, and the lock is held.
        let requester = unsafe { &mut *Requester::of(peer) };
        let carried = encoded.carried;
        let size = carried.operands.max(carried.results);
        let room = match requester.reserve(size, true) {
            Ok(room) => room,
            Err(status) => {
                state.counts.again += 1;
                let count = state.counts.again;
                drop(state);
                return Some(self.refused_by_ring(endpoint, context, status, count));
            }
        };
        let tag = self.count_in_ring(context, peer, carried.operands);
        let operands = (encoded.area.start(), carried);
        let finished = encoded.caller.finished(tag);
        // SAFETY: the area holds the operands, and the caller guarantees the results.
        unsafe { requester.post_apply(&encoded.command, operands, room, encoded.result, finished) };
        channel.list(requester);
        drop(state);
        self.poll_after_post(context);
        Some(Status::SUCCESS)
    }

    /// Adds an apply to the current batch of its target.
    ///
    /// # Safety
    /// The conditions of [`apply`](Self::apply).
    unsafe fn apply_by_message(
        &self,
        endpoint: NonNull<Endpoint>,
        encoded: &Encoded<'_>,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // The check is under the lock, because the messages to a failed peer end under it.
        if let Some(status) = peer.failure() {
            return status;
        }
        let Some(messages) = state.messages.as_mut() else {
            return Status::NOT_SUPPORTED;
        };
        let Encoded {
            command,
            area,
            carried,
            result,
            caller,
        } = encoded;
        let form = Form::of_apply(*carried);
        // SAFETY: the line of a peer is removed before its endpoint.
        let Ok((batch, full)) = (unsafe { messages.batch(endpoint, &form) }) else {
            drop(state);
            return self.untold(endpoint);
        };
        let operands = Operands::Buffer(area.start().cast());
        // SAFETY: the batch has room, the area holds the operands, and the caller guarantees the results.
        unsafe {
            batch.push((command, &form), (operands, carried.operands));
            let (to, how) = ((endpoint, context), (caller, &form));
            let bytes = (carried.operands, carried.results);
            self.count_added(batch, to, how, bytes, *result, self.setup.threaded);
        }
        state.carriers = Carriers::Messages;
        drop(state);
        if full {
            self.poll_while_sending(context);
        }
        Status::SUCCESS
    }

    /// Executes an apply on this transport's own memory.
    ///
    /// # Safety
    /// The conditions of [`apply`](Self::apply).
    unsafe fn apply_here(&self, endpoint: NonNull<Endpoint>, encoded: &Encoded<'_>) -> Status {
        let (words, size) = (
            encoded.area.words(encoded.carried),
            encoded.carried.operands,
        );
        self.change_here(endpoint, &encoded.caller, size, || {
            let regions = self.registrar.regions();
            let result = encoded.result.cast();
            // SAFETY: the caller guarantees the results; the lock on the regions keeps the target registered.
            unsafe { Responder::default().apply(&regions, &encoded.command, words, result) }
        })
    }
}

/// Whether an element of an apply is aligned, so that atomics may change it, too.
fn has_atomic(apply: &Apply<'_>) -> bool {
    let first = |run: &plugin_api::ApplyRun| apply.address.wrapping_add(run.offset);
    let mut runs = apply.runs.iter();
    runs.any(|run| {
        let blocks = (0..run.count).map(|i| first(run).wrapping_add(i.wrapping_mul(run.stride)));
        blocks
            .into_iter()
            .any(|block| apply.change.is_atomic_at(block))
    })
}
