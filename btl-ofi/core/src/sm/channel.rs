//! One process's side of all rings: the responder of its own segment, and its requesters at other processes.
//!
//! **Release.** The ring of a released peer is given back for another process to claim, unless the target still
//! holds a slot of it (`sm::requester`): a fragment that it copies, or an atomic that was reported as failed.
//! Such a ring stays active until the target has answered; no call waits for the answer. If the transport
//! closes earlier, the ring stays taken until no other one is free (`sm::segment::reclaim`).

use std::ptr::NonNull;

use crate::base::lock::Lock;
use crate::mem::regions::Regions;
use crate::op::completion::Finished;
use crate::peer::endpoint::Endpoint;
use crate::sm::requester::{Done, Requester};
use crate::sm::segment::Segment;
use crate::sm::server::Server;

/// Maximum rings whose answers are read in one poll.
const RINGS_PER_POLL: usize = 16;

/// One process's side of all rings: its own segment, and its rings at other processes. The lock of the
/// transport's first context guards the channel.
pub(crate) struct Channel {
    server: Server,
    requesters: Vec<NonNull<Requester>>,
    /// Requesters with outstanding operations or held slots. The list's capacity covers all requesters, so it never
    /// grows on the data path.
    active: Vec<NonNull<Requester>>,
    cursor: usize,
    polls: u32,
}

// SAFETY: the pointers are to boxes that the channel owns.
unsafe impl Send for Channel {}

impl Channel {
    pub(crate) fn new(segment: Segment) -> Channel {
        Channel {
            server: Server::new(segment),
            requesters: Vec::new(),
            active: Vec::new(),
            cursor: 0,
            polls: 0,
        }
    }

    /// Reads the answers of at most [`RINGS_PER_POLL`] rings, starting where the last call ended.
    #[inline]
    pub(crate) fn collect(&mut self, done: &mut Done) {
        for _ in 0..self.active.len().min(RINGS_PER_POLL) {
            if !done.has_room() {
                return;
            }
            if self.cursor >= self.active.len() {
                self.cursor = 0;
            }
            // SAFETY: a listed requester is live, and it is used only under the lock.
            let requester = unsafe { self.active[self.cursor].as_mut() };
            requester.collect(done);
            if requester.is_empty() {
                requester.listed = false;
                let ring = self.active.swap_remove(self.cursor);
                if requester.leaving.is_some() {
                    self.take_out(ring);
                }
            } else {
                self.cursor += 1;
            }
        }
    }

    /// Adds a requester; returns it if memory is exhausted.
    pub(crate) fn add(
        &mut self,
        requester: Box<Requester>,
    ) -> Result<NonNull<Requester>, Box<Requester>> {
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
            // The target must first skip revoked slots of the ring's last owner, otherwise there may be no
            // room.
            self.list(requester);
        }
        Ok(ring)
    }

    pub(crate) fn of(&self, endpoint: NonNull<Endpoint>) -> Option<NonNull<Requester>> {
        let mut all = self.requesters.iter().copied();
        all.find(|o| {
            // SAFETY: a listed requester is live.
            let o = unsafe { o.as_ref() };
            // The endpoint's address in a leaving requester may already belong to another peer.
            o.endpoint == endpoint && o.leaving.is_none()
        })
    }

    /// Ends every operation in a peer's ring. Answered operations go to `done`; then each call returns one
    /// unanswered operation. The caller empties `done` and calls again until this returns `None`. Afterwards
    /// nothing is posted to the ring, and its answers are not read until the peer is released.
    pub(crate) fn abandon(
        &mut self,
        endpoint: NonNull<Endpoint>,
        done: &mut Done,
    ) -> Option<Finished> {
        // SAFETY: a listed requester is live, and it is used only under the lock.
        let requester = unsafe { self.of(endpoint)?.as_mut() };
        // Only reads answers, without CMA, because another process may already have the peer's
        // process id.
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

    /// Whether a ring may hold answers.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Peers that closed their transports while operations were outstanding in their rings. These operations get no
    /// answer.
    pub(crate) fn closed(&self) -> impl Iterator<Item = NonNull<Endpoint>> {
        // SAFETY: a listed requester is live, and the transport's lock is held.
        let rings = self.active.iter().map(|o| unsafe { o.as_ref() });
        rings
            .filter(|o| o.outstanding() > 0 && o.is_closed() && !o.has_answer())
            .map(|o| o.endpoint)
    }

    /// Number of polls so far.
    #[inline]
    pub(crate) fn polls(&self) -> u32 {
        self.polls
    }

    /// Executes the commands that arrived. Counts as a poll.
    #[inline]
    pub(crate) fn attend(&mut self, regions: &Lock<Regions>) {
        self.polls = self.polls.wrapping_add(1);
        self.serve(regions);
    }

    /// As [`attend`](Self::attend), outside a poll.
    #[inline]
    pub(crate) fn serve(&mut self, regions: &Lock<Regions>) {
        self.server.attend(regions);
    }

    /// Whether nothing must be done after [`attend`](Self::attend): no ring may have an answer, and no command was
    /// executed.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.len() | self.server.served_lately == 0
    }

    /// Whether commands were executed since the last [`clear_served`](Self::clear_served).
    #[inline]
    pub(crate) fn has_served(&self) -> bool {
        self.server.served_lately != 0
    }

    /// Clears the result of [`has_served`](Self::has_served).
    pub(crate) fn clear_served(&mut self) {
        self.server.served_lately = 0;
    }

    /// Adds a ring to the rings whose answers progress reads, after a post to it.
    #[inline]
    pub(crate) fn list(&mut self, requester: &mut Requester) {
        if !requester.listed {
            requester.listed = true;
            self.active.push(NonNull::from(requester));
        }
    }

    /// Removes a peer's ring, unless operations are outstanding. Another process may claim the ring
    /// immediately or, if the target holds slots of it, after the target's answer. If the target is dead, the
    /// ring is removed without an answer.
    pub(crate) fn remove(&mut self, endpoint: NonNull<Endpoint>) {
        let Some(mut ring) = self.of(endpoint) else {
            return;
        };
        // SAFETY: a listed requester is live, and it is used only under the lock.
        let requester = unsafe { ring.as_mut() };
        if requester.outstanding() > 0 {
            return;
        }
        if !requester.may_be_given_back() {
            // SAFETY: an endpoint lives until its ring is removed.
            requester.leaving = unsafe { endpoint.as_ref() }.process();
            if requester.leaving.is_some() && !requester.has_lost_its_target() {
                self.list(requester);
                return;
            }
        }
        self.take_out(ring);
    }

    /// Removes rings that wait for answers of dead targets.
    pub(crate) fn remove_lost(&mut self) {
        let lost = |ring: &NonNull<Requester>| {
            // SAFETY: a listed requester is live.
            let requester = unsafe { ring.as_ref() };
            requester.leaving.is_some() && requester.has_lost_its_target()
        };
        while let Some(ring) = self.requesters.iter().copied().find(lost) {
            self.take_out(ring);
        }
    }

    /// Removes a requester. Gives its ring back if the target has answered.
    #[cold]
    fn take_out(&mut self, ring: NonNull<Requester>) {
        self.requesters.retain(|o| *o != ring);
        self.active.retain(|o| *o != ring);
        // SAFETY: `add` made the box, and no list contains the pointer now.
        let requester = unsafe { Box::from_raw(ring.as_ptr()) };
        requester.give_back();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.active.clear();
        for requester in self.requesters.drain(..) {
            // SAFETY: `add` made the box, and no list contains the pointer now.
            let requester = unsafe { Box::from_raw(requester.as_ptr()) };
            requester.give_back();
        }
    }
}

#[cfg(test)]
mod tests;
