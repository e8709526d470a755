//! Atomics between processes of one node, without the provider. Small puts and gets may go the same way
//! (`ring_transfers`).
//!
//! shm's own atomics go through a command queue that is answered in order, over all peers: one that is
//! outstanding at a dead process holds up every later one. They cost about a microsecond, and updates
//! crash (see `policy`). So over shm, where puts and gets are copied by the kernel, atomics take a ring
//! of our own (`ring`, `segment`): the initiator (`requester`) writes a command into the target's segment,
//! the target's progress (`responder`) executes it with the processor's atomics and writes the answer
//! beside it, the initiator's progress takes the answer.
//!
//! **Which way.** For each peer it is settled at its first atomic, once and for both kinds of failure: if
//! the peer announced no segment, or it cannot be opened or has no ring left, all atomics to that peer go
//! through the provider. Never some this way and some that, so their order is kept; what was declared
//! at open is what the provider serves and `element` too, so a peer that goes either way can do all of it.
//!
//! **Atomicity.** A process executes what arrives in its segment, its atomics to itself, and what its
//! provider executes for others (in `fi_cq_read` and the posting calls, since shm progresses manually)
//! under the lock of its one context. So none of them meet, whichever way each initiator goes. Beside
//! that lock, each element is changed by atomic instructions (`element`), and so it is by the provider.
//!
//! **Order.** A ring is first in, first out, and an initiator has one at each target.
//!
//! **Failures.** A target that died answers nothing; when it is given up, the operations in its ring are
//! reported and forgotten: nothing of ours is written by anyone but us, so nothing else is held up. One
//! that closed its transport says so in its segment. An initiator that died leaves a ring that is executed
//! as far as it was published, and stays taken.
//!
//! **Leaving.** A peer that is released gives its ring back, for another process to claim, unless the target holds
//! something of it (`requester`): a fragment that it is copying, an atomic that was reported as failed. Such a ring is
//! kept among the active ones until the target has answered, without anybody waiting for it. A transport that closes
//! before leaves it taken.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use libfabric_sys as ffi;
use plugin_api::{AtomicKind, AtomicOp, Datatype, Status};

use crate::base::lock::{Guard, Lock};
use crate::engine::context::{Context, State};
use crate::engine::post::Caller;
use crate::engine::transport::Transport;
use crate::mem::handle::Target;
use crate::mem::regions::Regions;
use crate::op::element::Elements;
use crate::op::record::{Finished, Tag};
use crate::peer::endpoint::{Endpoint, Way};
use crate::peer::liveness::{self, ProcessId};
use crate::sm::requester::{Done, Operands, Requester};
use crate::sm::responder::{self, Responder};
use crate::sm::ring::Command;
use crate::sm::segment::{Place, Segment};

/// Rings whose answers are looked for in one poll.
const SWEEP: usize = 16;
/// Polls of which one goes to the provider, whatever there is to do here.
const LEAN: u32 = 8;

/// One process's end of all rings. Guarded by the lock of its transport's only context.
pub(crate) struct Channel {
    responder: Responder,
    requesters: Vec<NonNull<Requester>>,
    /// Those with operations outstanding. Room for all, so that it never grows on the data path.
    active: Vec<NonNull<Requester>>,
    cursor: usize,
    polls: u32,
}

// SAFETY: the pointers are owned boxes.
unsafe impl Send for Channel {}

/// A typed atomic, checked against what is served and against its handle.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub(crate) kind: AtomicKind,
    pub(crate) datatype: Datatype,
    pub(crate) op: AtomicOp,
    pub(crate) count: usize,
    pub(crate) target: Target,
    pub(crate) cookie: u64,
    pub(crate) operands: Operands,
    pub(crate) compare: u64,
    /// Where what was there goes; NULL for an update.
    pub(crate) result: *mut c_void,
}

impl Channel {
    pub(crate) fn new(segment: Segment) -> Channel {
        Channel {
            responder: Responder::new(segment),
            requesters: Vec::new(),
            active: Vec::new(),
            cursor: 0,
            polls: 0,
        }
    }

    /// Takes answers, of a bounded number of rings, beginning where the last call ended.
    #[inline]
    fn collect(&mut self, done: &mut Done) {
        for _ in 0..self.active.len().min(SWEEP) {
            if !done.has_room() {
                return;
            }
            if self.cursor >= self.active.len() {
                self.cursor = 0;
            }
            // SAFETY: rings live as long as they are listed, and are used under the lock only.
            let requester = unsafe { self.active[self.cursor].as_mut() };
            requester.collect(done);
            if requester.is_empty() {
                requester.listed = false;
                let ring = self.active.swap_remove(self.cursor);
                if requester.leaving.is_some() {
                    self.let_go(ring);
                }
            } else {
                self.cursor += 1;
            }
        }
    }

    /// Adds a ring; gives it back when memory is exhausted.
    fn add(&mut self, requester: Box<Requester>) -> Result<NonNull<Requester>, Box<Requester>> {
        let room = self.requesters.len() + 1;
        if self.requesters.try_reserve(1).is_err()
            || self
                .active
                .try_reserve(room.saturating_sub(self.active.len()))
                .is_err()
        {
            return Err(requester);
        }
        let requester = Box::leak(requester);
        let ring = NonNull::from(&mut *requester);
        self.requesters.push(ring);
        if !requester.is_empty() {
            // What was revoked before has to be passed over, or there may be no room.
            self.list(requester);
        }
        Ok(ring)
    }

    fn of(&self, endpoint: NonNull<Endpoint>) -> Option<NonNull<Requester>> {
        let mut all = self.requesters.iter().copied();
        all.find(|o| {
            // SAFETY: rings live as long as they are listed.
            let o = unsafe { o.as_ref() };
            // The endpoint of one that is leaving may be another peer's by now.
            o.endpoint == endpoint && o.leaving.is_none()
        })
    }

    /// Ends every operation in a peer's ring: those that were answered go to `done`, and then those that were not
    /// are returned, one by one. `done` must be emptied and this called again until it returns `None`. Nothing more is
    /// posted to the ring then, and nobody looks for its answers until the peer is released.
    fn abandon(&mut self, endpoint: NonNull<Endpoint>, done: &mut Done) -> Option<Finished> {
        // SAFETY: as in `of`; used under the lock.
        let requester = unsafe { self.of(endpoint)?.as_mut() };
        // Answers only: the kernel knows the peer by a number, which may be another process's by now.
        requester.take_answers(done);
        if !done.has_room() {
            return None;
        }
        let abandoned = requester.abandon();
        if requester.outstanding() == 0 {
            requester.listed = false;
            let ring = NonNull::from(requester);
            self.active.retain(|o| *o != ring);
        }
        abandoned
    }

    /// Executes what has arrived.
    #[inline]
    pub(crate) fn attend(&mut self, regions: &Lock<Regions>) {
        self.responder.attend(regions);
    }

    /// Has the answers of a ring that was just posted to looked for.
    #[inline]
    pub(crate) fn list(&mut self, requester: &mut Requester) {
        if !requester.listed {
            requester.listed = true;
            self.active.push(NonNull::from(requester));
        }
    }

    /// Forgets a peer's ring unless operations are outstanding. It may serve another process then: at once, or,
    /// where the target holds something of it, when that is answered. Not waited for is a target that is gone.
    pub(crate) fn remove(&mut self, endpoint: NonNull<Endpoint>) {
        let Some(mut ring) = self.of(endpoint) else {
            return;
        };
        // SAFETY: as in `of`; used under the lock.
        let requester = unsafe { ring.as_mut() };
        if requester.outstanding() > 0 {
            return;
        }
        if !requester.may_be_given_back() {
            // SAFETY: endpoints outlive their rings up to this.
            requester.leaving = unsafe { endpoint.as_ref() }.process();
            if requester.leaving.is_some() && !requester.has_lost_its_target() {
                self.list(requester);
                return;
            }
        }
        self.let_go(ring);
    }

    /// Forgets the rings that were kept for answers of targets that are gone.
    fn let_lost_ones_go(&mut self) {
        let lost = |ring: &NonNull<Requester>| {
            // SAFETY: as in `of`.
            let requester = unsafe { ring.as_ref() };
            requester.leaving.is_some() && requester.has_lost_its_target()
        };
        while let Some(ring) = self.requesters.iter().copied().find(lost) {
            self.let_go(ring);
        }
    }

    /// Takes a ring out, and gives it back if the target has answered.
    #[cold]
    fn let_go(&mut self, ring: NonNull<Requester>) {
        self.requesters.retain(|o| *o != ring);
        self.active.retain(|o| *o != ring);
        // SAFETY: made by `add`, and listed nowhere now.
        let requester = unsafe { Box::from_raw(ring.as_ptr()) };
        requester.give_back();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.active.clear();
        for requester in self.requesters.drain(..) {
            // SAFETY: made by `add`, and listed nowhere now.
            let requester = unsafe { Box::from_raw(requester.as_ptr()) };
            requester.give_back();
        }
    }
}

impl Transport {
    /// Posts an atomic to a peer that is not reached through the provider. `None` if it turns out to
    /// be: then it is for the provider.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers of `order` are good until completion.
    #[inline]
    pub(crate) unsafe fn command(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        order: &Order,
    ) -> Option<Status> {
        // SAFETY: the caller vouches for a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // Looked for under the lock: a ring is emptied under it once its peer was given up.
        if let Some(status) = peer.failure() {
            return Some(status);
        }
        match peer.way() {
            Way::Ring => {}
            Way::Provider => return None,
            // SAFETY: as the caller vouches.
            Way::Itself => return Some(unsafe { self.perform(endpoint, state, caller, order) }),
            Way::Unclaimed => {
                drop(state);
                if let Err(status) = self.introduce(endpoint) {
                    return Some(status);
                }
                // SAFETY: as the caller vouches. The way is settled now.
                return unsafe { self.command(endpoint, caller, order) };
            }
        }
        let State {
            channel: Some(channel),
            posted,
            again,
            ..
        } = &mut *state
        else {
            return None;
        };
        // SAFETY: the way is `Ring`, and the lock is held.
        let requester = unsafe { &mut *Requester::of(peer) };
        let size = order.count * order.datatype.size();
        let room = match requester.reserve(size, true) {
            Ok(room) => room,
            Err(status) => {
                *again += 1;
                let count = *again;
                drop(state);
                let rc = match status {
                    Status::TEMP_OUT_OF_RESOURCE => -(ffi::FI_EAGAIN as isize),
                    _ => -(ffi::FI_ENOMEM as isize),
                };
                return Some(self.refused(endpoint, context, rc, count));
            }
        };
        let tag = Tag::new(
            endpoint,
            context.count.raise(self.threaded),
            peer.count.raise(self.threaded),
        );
        let command = Command {
            what: responder::what(order.kind, order.datatype, order.op),
            count: order.count as u32,
            payload: 0,
            address: order.target.address,
            key: order.target.key,
            cookie: order.cookie,
            value: 0,
            compare: order.compare,
        };
        let finished = caller.finished(tag);
        // SAFETY: the caller vouches for the buffers.
        unsafe { requester.post(command, order.operands, room, order.result, finished) };
        channel.list(requester);
        *posted += 1;
        drop(state);
        self.poll_if_many(context);
        Some(Status::SUCCESS)
    }

    /// Executes an atomic to this process itself.
    ///
    /// # Safety
    /// As for [`command`](Self::command).
    unsafe fn perform(
        &self,
        endpoint: NonNull<Endpoint>,
        mut state: Guard<'_, State>,
        caller: Caller,
        order: &Order,
    ) -> Status {
        // Before anything is changed: an operation that was turned away is tried again.
        if caller.completion.is_some() && state.ready.try_reserve(1).is_err() {
            return Status::OUT_OF_RESOURCE;
        }
        let value;
        let operands: *const c_void = match order.operands {
            Operands::Value(v) => {
                value = v;
                (&raw const value).cast()
            }
            Operands::Buffer(buffer) => buffer,
        };
        let elements = Elements {
            datatype: order.datatype,
            op: order.op,
            count: order.count,
            at: std::ptr::with_exposed_provenance_mut(order.target.address as usize),
            operands: operands.cast(),
            compare: order.compare,
            results: order.result.cast(),
        };
        {
            let regions = self.registrar.regions();
            let known = regions
                .find(order.target.key)
                .filter(|k| k.handle.is_named(order.target.key, order.cookie));
            let Some(known) = known else {
                return Status::PERM;
            };
            let reach = regions.reach();
            // SAFETY: the caller vouches for the buffers; the regions are locked.
            let done = unsafe { responder::perform(known, reach, order.kind, &elements) };
            if let Err(status) = done {
                return status;
            }
        }
        if caller.completion.is_some() {
            // SAFETY: the caller vouches for a live endpoint.
            let peer = unsafe { endpoint.as_ref() };
            let context = &self.contexts[0];
            let tag = Tag::new(
                endpoint,
                context.count.raise(self.threaded),
                peer.count.raise(self.threaded),
            );
            state.ready.push(caller.finished(tag));
        }
        drop(state);
        self.count_direct();
        Status::SUCCESS
    }

    /// Settles which way atomics to a peer go.
    #[cold]
    #[inline(never)]
    pub(crate) fn introduce(&self, endpoint: NonNull<Endpoint>) -> Result<(), Status> {
        // SAFETY: the caller of the operation vouched for the endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let (probe, held) = {
            let peers = self.lock_peers();
            (peers.probe(peer), peers.segment(peer))
        };
        // Through the descriptor that this process holds, if it does.
        let (pid, descriptor) = match held {
            Some(descriptor) => (self.own.pid, descriptor),
            None => (peer.pid(), peer.segment()),
        };
        let place = Place {
            pid,
            descriptor,
            nonce: peer.nonce(),
        };
        let claimed = place.claim();
        let mut state = self.contexts[0].state.lock();
        if peer.way() != Way::Unclaimed {
            // Another thread was first.
            if let Ok(claim) = claimed {
                let (next, spent) = (claim.position, claim.spent);
                claim.give_back(next, spent);
            }
            return Ok(());
        }
        match (claimed, &mut state.channel) {
            (Ok(claim), Some(channel)) => {
                match channel.add(Box::new(Requester::new(claim, endpoint, probe))) {
                    Ok(ring) => peer.go(Way::Ring, ring.as_ptr().expose_provenance() as u64),
                    Err(requester) => {
                        requester.give_back();
                        return Err(Status::OUT_OF_RESOURCE);
                    }
                }
            }
            (Err(e), _) => {
                let gone = peer.process().map(ProcessId::state) == Some(liveness::State::Gone);
                let lost = if gone {
                    Some((Status::UNREACH, "its process no longer runs"))
                } else if self.broken.load(Ordering::Relaxed) {
                    Some((
                        Status::FATAL,
                        "it is reached through a provider that is of no use",
                    ))
                } else {
                    None
                };
                if let Some((status, why)) = lost {
                    drop(state);
                    self.fail_peer(endpoint, status, why);
                    return Err(status);
                }
                if let Err(why) = self.allocate_towards(peer) {
                    tracing::warn!("no atomics to process {}: {why}", peer.proc);
                    return Err(Status::OUT_OF_RESOURCE);
                }
                tracing::info!(
                    "atomics to process {} go through the provider: {e}",
                    peer.proc
                );
                self.lean.store(false, Ordering::Relaxed);
                peer.go(Way::Provider, 0);
            }
            (_, None) => {
                if let Err(why) = self.allocate_towards(peer) {
                    tracing::warn!("no atomics to process {}: {why}", peer.proc);
                    return Err(Status::OUT_OF_RESOURCE);
                }
                self.lean.store(false, Ordering::Relaxed);
                peer.go(Way::Provider, 0);
            }
        }
        Ok(())
    }

    /// Executes what has arrived, takes answers and delivers them. Gives the lock back if the provider
    /// is to be polled instead: now and then, and always when there is nothing here, unless no peer is
    /// reached through it. Then its queue holds nothing of ours, only what arrives from a peer that
    /// reaches us through it, and reading it takes several times as long as all of this.
    #[inline]
    pub(crate) fn poll_channel<'a>(
        &self,
        context: &Context,
        mut state: Guard<'a, State>,
    ) -> Result<usize, Guard<'a, State>> {
        let Some(channel) = &mut state.channel else {
            return Err(state);
        };
        channel.attend(self.registrar.table());
        channel.polls = channel.polls.wrapping_add(1);
        if channel.polls.is_multiple_of(LEAN) {
            return Err(state);
        }
        let mut done = Done::new();
        if !channel.active.is_empty() {
            channel.collect(&mut done);
        }
        let n = done.finished().len() + usize::from(done.refused.is_some());
        if n == 0 {
            if let Some((endpoint, refused)) = done.doubted {
                drop(state);
                // Either it fails with what is outstanding there, or the target makes that.
                self.examine(endpoint, refused);
                return Ok(0);
            }
            return if self.lean.load(Ordering::Relaxed) {
                Ok(self.without_entry(context, state))
            } else {
                Err(state)
            };
        }
        state.completed += done.finished().len() as u64;
        state.failed += u64::from(done.refused.is_some());
        let ready = state.take_ready();
        drop(state);
        self.deliver(context, done.finished(), Status::SUCCESS);
        if let Some((f, status)) = done.refused {
            self.deliver_refused(context, f, status);
        }
        Ok(n + self.deliver_ready(context, ready))
    }

    #[cold]
    fn deliver_refused(&self, context: &Context, f: Finished, status: Status) {
        let gone = status == Status::UNREACH;
        let what = if gone {
            "its process no longer runs"
        } else {
            "the target refused it: its handle names no region there that allows it, or the memory is not mapped"
        };
        if f.function.is_none() {
            self.lose(f.tag, 1, status, what);
        }
        self.deliver(context, &[f], status);
        if gone && let Some(endpoint) = NonNull::new(f.tag.endpoint()) {
            self.fail_peer(endpoint, status, what);
        }
    }

    /// Reports every operation in the ring of a peer that was given up.
    #[cold]
    pub(crate) fn abandon_commands(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        let context = &self.contexts[0];
        let mut unheard = Vec::new();
        loop {
            let mut done = Done::new();
            let abandoned = {
                let mut state = context.state.lock();
                let Some(channel) = &mut state.channel else {
                    return;
                };
                let abandoned = channel.abandon(endpoint, &mut done);
                state.completed += done.finished().len() as u64;
                let failed = abandoned.is_some() || done.refused.is_some();
                state.failed += u64::from(failed);
                abandoned
            };
            self.deliver(context, done.finished(), Status::SUCCESS);
            if let Some((f, status)) = done.refused {
                self.deliver_refused(context, f, status);
            }
            match abandoned {
                Some(f) if f.function.is_some() => self.deliver(context, &[f], status),
                Some(f) => unheard.push(f),
                None if done.finished().is_empty() && done.refused.is_none() => break,
                None => {}
            }
        }
        if let Some(f) = unheard.first() {
            self.lose(f.tag, unheard.len() as u32, status, why);
            self.deliver(context, &unheard, status);
        }
    }

    /// Peers with operations outstanding in their rings that have closed their transports.
    pub(crate) fn closed_peers(&self) -> Vec<NonNull<Endpoint>> {
        let mut state = self.contexts[0].state.lock();
        let Some(channel) = &mut state.channel else {
            return Vec::new();
        };
        channel.let_lost_ones_go();
        // SAFETY: rings live as long as they are listed; the lock is held.
        let rings = channel.active.iter().map(|o| unsafe { o.as_ref() });
        rings
            .filter(|o| o.outstanding() > 0 && o.is_closed())
            .map(|o| o.endpoint)
            .collect()
    }
}

#[cfg(test)]
mod tests;
