//! Requests that travel as messages (`fabric::msg`): the general path, and the reports of operations that are over. The quick
//! paths are in `gather`.
//!
//! Messages belong to the first context. Its lock guards them, and its queue completes them.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::base::error::{describe, peer_is_gone};
use crate::base::lock::Guard;
use crate::engine::context::{Carriers, Context, State};
use crate::engine::failure::Reporting;
use crate::engine::gather::Told;
use crate::engine::post::{Caller, guarded};
use crate::engine::transport::{Transport, thread_number};
use crate::fabric::msg::{Arrived, Broken, Ended};
use crate::op::marked::Message;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;

/// How long a transport that closes waits until its receipts have left.
const PARTING: Duration = Duration::from_millis(100);

impl Transport {
    /// Reads answers while batches are sent, so that both go on. Sends nothing: the batch that was just begun has one command,
    /// and more are likely to come. Where callbacks run nothing is read, because they would nest.
    #[cold]
    #[inline(never)]
    pub(super) fn poll_while_sending(&self, context: &Context) {
        guarded(|| {
            if !self.must_not_poll(context)
                && let Some(state) = context.state.try_lock()
                && !state.messages.as_ref().is_some_and(|m| m.is_full())
            {
                self.read_queue(context, state);
            }
            Status::SUCCESS
        });
    }

    /// Posts a request as a message.
    ///
    /// # Safety
    /// As for [`try_tell`](Self::try_tell).
    #[cold]
    pub(crate) unsafe fn tell(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        told: &Told,
    ) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until completion.
        if let Some(status) = unsafe { self.try_tell(endpoint, caller, told) } {
            return status;
        }
        self.untold(endpoint)
    }

    /// The status of a request that did not become a message: its peer failed, or there is no room at the moment.
    #[cold]
    pub(super) fn untold(&self, endpoint: NonNull<Endpoint>) -> Status {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        if let Some(status) = unsafe { endpoint.as_ref() }.failure() {
            return status;
        }
        self.refuse_for_now(endpoint, &self.contexts[0])
    }

    /// Completes a message, the queue's only entry. If it was received, it has so many bytes.
    #[inline(never)]
    pub(crate) fn complete_message(
        &self,
        context: &Context,
        mut state: Guard<'_, State>,
        message: (Message, usize),
    ) -> usize {
        let Some(messages) = &mut state.messages else {
            return 0;
        };
        messages.completed(message, self.registrar.table());
        let (n, arrived) = self.report_messages(context, state);
        n + self.deliver_arrived(context, arrived)
    }

    /// Reports what messages brought that were completed. Releases the lock, and returns the number of operations that
    /// are over, and the messages that are to be [delivered](Self::deliver_arrived) then; 1 if there are neither, because a
    /// message came or left.
    pub(crate) fn report_messages(
        &self,
        context: &Context,
        mut state: Guard<'_, State>,
    ) -> (usize, Option<Arrived>) {
        context.has_found();
        // From the first message on, polls look after them.
        state.carriers = Carriers::Messages;
        let mut n = self.take_ended(context, &mut state);
        let ready = state.take_ready();
        let messages = state.messages.as_mut();
        let (arrived, failed) = messages.map_or((None, false), |messages| {
            let arrived = messages.begin_delivery(thread_number());
            (arrived, messages.has_failures())
        });
        if failed {
            n += self.tell_failures(context, state);
        } else {
            drop(state);
        }
        n += self.deliver_ready(context, ready);
        match arrived {
            Some(_) => (n, arrived),
            None => (n.max(1), None),
        }
    }

    /// Hands to the host what [`report_messages`](Self::report_messages) returned. Returns the number of messages.
    pub(crate) fn deliver_arrived(&self, context: &Context, arrived: Option<Arrived>) -> usize {
        arrived.map_or(0, |arrived| self.deliver_sends(context, arrived))
    }

    /// Moves the operations that answers have ended to where they are reported, and returns the number of those without a
    /// callback. The caller calls [`tell_failures`](Self::tell_failures) if that says so.
    pub(crate) fn take_ended(&self, context: &Context, state: &mut State) -> usize {
        let State {
            messages: Some(messages),
            ready,
            ..
        } = state
        else {
            return 0;
        };
        let ended = messages.ended();
        let n = ended.finished.len();
        ready.append(&mut ended.finished);
        // Untracked operations include those that failed.
        let mut failed = 0;
        for (tag, n, _) in &ended.lost {
            self.count_lost(*tag, *n);
            failed += *n as usize;
        }
        let untracked = ended.untracked.iter().map(|(_, n)| *n as usize).sum();
        // Reported first, if some failed: a release waits until their counts are lowered.
        if ended.lost.is_empty() {
            for (tag, n) in ended.untracked.drain(..) {
                self.lower(context, tag, n);
            }
        }
        state.counts.completed += (n + untracked - failed) as u64;
        untracked
    }

    /// Reports operations by message that failed, and peers that no message reaches. Releases the lock.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell_failures(&self, context: &Context, mut state: Guard<'_, State>) -> usize {
        let Some(messages) = &mut state.messages else {
            return 0;
        };
        let Ended {
            refused,
            lost,
            untracked,
            ..
        } = std::mem::take(messages.ended());
        let broken: Vec<_> = std::iter::from_fn(|| messages.take_broken()).collect();
        // A release meanwhile keeps the endpoints.
        let _reporting = (!broken.is_empty()).then(|| Reporting::begin(self));
        state.counts.failed +=
            refused.len() as u64 + lost.iter().map(|(_, n, _)| u64::from(*n)).sum::<u64>();
        drop(state);
        let what = "the target refused it: its handle names no region there with this access, or the memory is not mapped";
        for (tag, n, status) in lost {
            self.report_lost(tag, n, status, what);
        }
        for (tag, n) in untracked {
            self.lower(context, tag, n);
        }
        let n = refused.len();
        for (f, status) in refused {
            self.tell_failed(&[f], status, what);
            self.deliver(context, &[f], status);
        }
        for (endpoint, broken) in broken {
            let why = match broken {
                // Its process lives: what the provider has for it may still write to the callers' buffers.
                Broken::Lost => {
                    let why = "a message to it, or its answer, was lost on the way";
                    self.abandon_peer(endpoint, why);
                    continue;
                }
                Broken::Code(rc) => {
                    let code = i32::try_from(-rc).unwrap_or(ffi::FI_EOTHER as i32);
                    if peer_is_gone(code) && self.has_left(endpoint) {
                        continue;
                    }
                    format!("a message could not be sent: {}", describe(code))
                }
            };
            self.fail_peer(endpoint, Status::UNREACH, &why);
        }
        n
    }

    /// Ends all operations by message to a peer that failed.
    #[cold]
    pub(crate) fn abandon_messages(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        let ended = {
            let mut state = self.contexts[0].state.lock();
            let Some(messages) = &mut state.messages else {
                return;
            };
            let ended = messages.abandon(endpoint, status);
            self.count_abandoned(&mut state, endpoint, &ended);
            ended
        };
        self.report_abandoned(endpoint, ended, status, why);
    }

    /// Counts operations to a peer that were abandoned, under the lock under which they were.
    pub(crate) fn count_abandoned(
        &self,
        state: &mut State,
        endpoint: NonNull<Endpoint>,
        ended: &Ended,
    ) {
        let lost: u32 = ended.lost.iter().map(|(_, n, _)| n).sum();
        state.counts.failed += ended.refused.len() as u64 + u64::from(lost);
        self.count_lost(Tag::new(endpoint, 0, 0), ended.silent());
        for (tag, n) in &ended.untracked {
            self.lower(&self.contexts[0], *tag, *n);
        }
    }

    /// Reports operations that were abandoned. The caller holds no lock.
    #[cold]
    pub(crate) fn report_abandoned(
        &self,
        endpoint: NonNull<Endpoint>,
        ended: Ended,
        status: Status,
        why: &str,
    ) {
        let silent = ended.silent();
        if silent > 0 {
            self.report_lost(Tag::new(endpoint, 0, 0), silent, status, why);
        }
        for (f, status) in ended.refused {
            self.deliver(&self.contexts[0], &[f], status);
        }
    }

    /// Sends what gathered, without waiting for the next progress. Returns whether something is left. Does nothing while another
    /// thread uses the context.
    pub fn send_gathered(&self) -> bool {
        if !self.policy.has_messages() {
            return false;
        }
        let context = &self.contexts[0];
        if let Some(mut state) = context.state.try_lock()
            && let Some(messages) = &mut state.messages
            && messages.has_work()
        {
            messages.send_waiting();
            let left = messages.has_work();
            if messages.has_failures() {
                self.tell_failures(context, state);
            }
            return left;
        }
        false
    }

    /// Sends what gathered, as far as there is room on the way, and reads nothing. For operations that peers wait for, but not this
    /// process, which may make no progress for long.
    pub fn send_now(&self) {
        if !self.policy.has_messages() {
            return;
        }
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        if let Some(messages) = &mut state.messages
            && messages.has_work()
        {
            messages.send_for_peers();
            if messages.has_failures() {
                self.tell_failures(context, state);
            }
        }
    }

    /// Asks peers that have not answered for receipts, so that a broken connection and what was lost with it is noticed.
    #[cold]
    pub(crate) fn knock(&self) {
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        if let Some(messages) = &mut state.messages {
            // Within a node nothing is lost with a connection.
            messages.send_alive(!self.policy.one_node);
            if messages.has_failures() {
                self.tell_failures(context, state);
            }
        }
    }

    /// Tells peers what was executed here and not answered, because this process leaves: they would take it for lost. They may have
    /// left themselves, so this waits a short time only.
    pub(crate) fn part(&self) {
        // A provider of one node takes messages to processes that have left: it misses nobody. Over shm 1.17 it must not be asked
        // to, because an endpoint of the same process may be unmapped.
        if !self.policy.has_messages() || self.policy.one_node {
            return;
        }
        let deadline = Instant::now() + PARTING;
        let owes_receipts = || {
            let mut state = self.contexts[0].state.lock();
            state.messages.as_mut().is_some_and(|messages| {
                messages.part();
                messages.owes_receipts()
            })
        };
        while owes_receipts() && Instant::now() < deadline {
            self.progress();
        }
    }

    /// Waits until answers and sends have left, or the sends to one peer, at most until `deadline`.
    pub(crate) fn wait_for_sends(&self, endpoint: Option<NonNull<Endpoint>>, deadline: Instant) {
        let is_sending = || {
            let state = self.contexts[0].state.lock();
            let messages = state.messages.as_ref();
            messages.is_some_and(|messages| messages.is_sending(endpoint))
        };
        while is_sending() {
            if Instant::now() >= deadline {
                self.detector.impatient.store(true, Ordering::Relaxed);
                break;
            }
            self.progress();
        }
    }
}
