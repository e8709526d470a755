//! Processes the results of messages (`fabric::msg`): ends of operations, failures, and messages of the peers'
//! hosts.

use crate::base::error::{describe, peer_is_gone};
use crate::base::lock::Guard;
use crate::core::context::{Carriers, Context, State};
use crate::core::count::thread_number;
use crate::core::failures::Reporting;
use crate::core::receive::Receive;
use crate::core::state::Core;
use crate::detector::Cause;
use crate::fabric::msg::{Arrived, Broken, Ended};
use crate::op::marked::Message;
use crate::peer::endpoint::Endpoint;
use libfabric_sys as ffi;
use plugin_api::Status;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

impl Core {
    /// Completes a message whose entry is the only one in the queue. For a received message,
    /// `message` holds its bytes.
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

    /// Reports the effects of completed messages. Releases the lock. Returns the number of operations that are over, and
    /// the sends that the caller must then [pass to the host](Self::deliver_arrived). If there is neither an operation
    /// nor a send, the number is 1, because a message arrived or left.
    pub(crate) fn report_messages(
        &self,
        context: &Context,
        mut state: Guard<'_, State>,
    ) -> (usize, Option<Arrived>) {
        context.has_found();
        // From the first message on, polls also check the messages.
        state.carriers = Carriers::Messages;
        let mut n = self.take_ended(context, &mut state);
        let ready = state.take_ready();
        let messages = state.messages.as_mut();
        let (arrived, failed) = messages.map_or((None, false), |messages| {
            let arrived = messages.begin_delivery(thread_number());
            (arrived, messages.origin.has_failures())
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

    /// Passes the sends that [`report_messages`](Self::report_messages) returned to the host. Returns their
    /// number.
    pub(crate) fn deliver_arrived(&self, context: &Context, arrived: Option<Arrived>) -> usize {
        arrived.map_or(0, |arrived| self.deliver_sends(context, arrived))
    }

    /// Moves operations that answers have ended to the lists from which they are reported. Returns the number of
    /// operations without a callback. If operations failed, the caller must then call
    /// [`tell_failures`](Self::tell_failures).
    pub(crate) fn take_ended(&self, context: &Context, state: &mut State) -> usize {
        let State {
            messages: Some(messages),
            ready,
            ..
        } = state
        else {
            return 0;
        };
        let ended = &mut messages.origin.ended;
        let n = ended.finished.len();
        ready.append(&mut ended.finished);
        // Untracked operations include failed ones.
        let mut failed = 0;
        for (tag, n, _) in &ended.lost {
            self.count_failed(*tag, *n);
            failed += *n as usize;
        }
        let untracked = ended.untracked.iter().map(|(_, n)| *n as usize).sum();
        // If operations failed, `tell_failures` lowers the counts after its reports, because a
        // release waits only until the counts are lowered.
        if ended.lost.is_empty() {
            for (tag, n) in ended.untracked.drain(..) {
                self.lower(context, tag, n);
            }
        }
        state.counts.completed += (n + untracked - failed) as u64;
        untracked
    }

    /// Reports operations that failed as messages, and peers that no message reaches. Releases the
    /// lock.
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
        } = std::mem::take(&mut messages.origin.ended);
        let broken: Vec<_> = std::iter::from_fn(|| messages.origin.broken.pop()).collect();
        // A release in another thread keeps the endpoints while these reports last.
        let _reporting = (!broken.is_empty()).then(|| Reporting::begin(&self.failures));
        state.counts.failed +=
            refused.len() as u64 + lost.iter().map(|(_, n, _)| u64::from(*n)).sum::<u64>();
        drop(state);
        let what = "the target refused it: its handle names no region there with this access, or the memory is not mapped";
        for (tag, n, status) in lost {
            self.report_failures(tag, n, status, what);
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
                // The peer's process lives, so operations at the provider may still write to the callers'
                // buffers.
                Broken::Lost => {
                    let why = "a message to it, or its answer, was lost on the way";
                    self.fail_peer(endpoint, Cause::Silent, Status::UNREACH, why);
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
            self.fail_peer(endpoint, Cause::Gone, Status::UNREACH, &why);
        }
        n
    }

    /// Whether a peer that takes no more messages may have left in good order: only heartbeats to it are outstanding, and
    /// the host lets processes leave before others. Such a peer gets no more heartbeats.
    #[cold]
    pub(crate) fn has_left(&self, endpoint: NonNull<Endpoint>) -> bool {
        if self.detector.watch_idle.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.contexts[0].state.lock();
        // SAFETY: endpoints live until the transport closes, or their line is removed.
        let peer = unsafe { endpoint.as_ref() };
        let messages = state.messages.as_mut();
        let heartbeats = &mut self.detector.lock().heartbeats;
        // Another call may have found this already, and removed the line.
        let is_known = heartbeats.left.contains(&peer.proc);
        let left = peer.is_idle()
            && messages.is_some_and(|messages| {
                messages.remove_idle(endpoint) || is_known && !messages.origin.has_line(endpoint)
            });
        if left {
            heartbeats.remove(peer.proc);
            heartbeats.left.insert(peer.proc);
        }
        left
    }

    /// Passes messages of peers to the host. The caller holds no lock. Returns their number.
    #[inline(never)]
    pub(crate) fn deliver_sends(&self, context: &Context, arrived: Arrived) -> usize {
        let receive = *self
            .receive
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let owner = self.setup.owner.load(Ordering::Relaxed);
        let mut n = 0;
        let mut next = Some(arrived);
        while let Some(arrived) = next {
            let nested = context.delivering.begin();
            for message in arrived.iter() {
                n += 1;
                if let Some(Receive { function, context }) = receive {
                    let (data, size) = (message.bytes.as_ptr().cast(), message.bytes.len());
                    // SAFETY: the pointer is NULL or an endpoint of a peer that was connected when this delivery began; the
                    // endpoint's memory stays readable until the transport closes.
                    let peer = unsafe { message.endpoint.as_ref() };
                    // The peer may have been released meanwhile, by the host's function or by another thread.
                    let peer = peer.filter(|peer| peer.is_connected());
                    let endpoint = peer.map_or(ptr::null(), ptr::from_ref).cast_mut().cast();
                    // SAFETY: the host set this function with its argument, and allows it to run on any thread that makes
                    // progress. The bytes are valid during the call.
                    unsafe { function(owner, endpoint, message.tag, data, size, context) };
                }
            }
            context.delivering.end(nested);
            let mut state = context.state.lock();
            next = state
                .messages
                .as_mut()
                .and_then(|messages| messages.next_delivery(arrived));
        }
        n
    }
}
