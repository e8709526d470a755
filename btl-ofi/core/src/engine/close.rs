//! Waits before a peer is released, and before the transport closes.

use crate::base::error::Error;
use crate::core::state::Core;
use crate::engine::transport::Transport;
use crate::peer::endpoint::Endpoint;
use plugin_api::Status;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest time for which a close, or the release of a peer, waits for outstanding operations.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// The longest time for which a closing transport waits until its receipts are sent.
const PARTING: Duration = Duration::from_millis(100);

impl Transport {
    /// Waits for outstanding operations, for at most 5 s. Doors call this before they end their
    /// registrations and [`close`](Self::close) the transport.
    pub fn flush_for_close(&self) {
        if self.is_copy() {
            return;
        }
        let until = Instant::now() + CLOSE_PATIENCE;
        self.flush_patiently(None);
        self.close_mailboxes(None);
        // Peers wait for answers to commands that this process executed, and for sends.
        self.wait_for_sends(None, until);
        self.part();
        self.act_on_failures();
    }

    /// Makes progress until `is_done` returns true, but no longer than a release waits. Doors call this if they must send
    /// something before they release a peer or close the transport.
    pub fn progress_until(&self, is_done: impl FnMut() -> bool) {
        self.wait_until(Instant::now() + self.patience(), is_done);
    }

    /// Makes progress until `is_done` returns true, or until the deadline. After a missed deadline, later waits end
    /// immediately.
    fn wait_until(&self, deadline: Instant, mut is_done: impl FnMut() -> bool) {
        while !is_done() {
            if Instant::now() >= deadline || self.is_copy() {
                self.detector.impatient.store(true, Ordering::Relaxed);
                break;
            }
            self.progress();
        }
    }

    /// The time that a release waits at most. The time is zero after an earlier wait timed out.
    pub(crate) fn patience(&self) -> Duration {
        match self.detector.impatient.load(Ordering::Relaxed) {
            false => CLOSE_PATIENCE,
            true => Duration::ZERO,
        }
    }

    /// Waits for outstanding operations to one peer or to all, for at most `CLOSE_PATIENCE`. After one
    /// timeout, later calls do not wait.
    pub(crate) fn flush_patiently(&self, peer: Option<&Endpoint>) -> Status {
        let status = self.flush_until(peer, Some(Instant::now() + self.patience()));
        if status == Status::TIMEOUT {
            self.detector.impatient.store(true, Ordering::Relaxed);
        }
        status
    }

    /// Sends the receipts that this process still owes for executed commands, because this process leaves. Without a
    /// receipt, the peer would take a command for lost. The peer may have left itself, so the wait is short.
    pub(crate) fn part(&self) {
        // A provider of one node delivers messages even to a process that has left, so no receipt is needed. Over shm 1.17
        // a receipt must not be sent: the memory of an endpoint of the same process may already be unmapped.
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

    /// Waits until answers and sends to `endpoint`, or to all peers, have left, at most until
    /// `deadline`.
    pub(crate) fn wait_for_sends(&self, endpoint: Option<NonNull<Endpoint>>, deadline: Instant) {
        self.wait_until(deadline, || {
            let state = self.contexts[0].state.lock();
            let messages = state.messages.as_ref();
            !messages.is_some_and(|messages| messages.is_sending(endpoint))
        });
    }

    /// Waits for outstanding operations, for at most 5 s, then closes everything. Regions that still exist keep
    /// their domain open until they are dropped, but peers no longer reach them through this transport's endpoints.
    ///
    /// # Errors
    /// The provider's first error; all other objects are closed nevertheless. [`Error::Forked`] in a child of fork,
    /// which closes nothing.
    pub fn close(self) -> Result<(), Error> {
        if let Err(e) = self.check_copy() {
            // Threads of the parent may have been changing the transport at the fork, so it is not even dropped.
            std::mem::forget(self);
            return Err(e);
        }
        self.flush_for_close();
        let outstanding: u32 = self.contexts.iter().map(|c| c.count.outstanding()).sum();
        if outstanding > 0 && !self.failures.degraded.load(Ordering::Relaxed) {
            tracing::warn!("closing with {outstanding} operations outstanding");
        }
        let Transport {
            core,
            hmem,
            rails,
            compounds,
            ..
        } = self;
        let Core {
            device,
            registrar,
            contexts,
            peers,
            mut node,
            scratch,
            counters,
            entry,
            ..
        } = core;
        counters.write();
        hmem.close();
        drop((node.word.take(), registrar));
        let on_rails = rails.close();
        // Live regions keep the device open, but outstanding operations use memory that is freed
        // here.
        let ended = device.close_endpoints();
        let closed = match Arc::into_inner(device) {
            Some(device) => device.close(),
            // Live regions share the device; the last one closes it.
            None => Ok(()),
        };
        // Peers may read the probe until the allocator reuses its memory.
        node.probe.store(0, Ordering::Relaxed);
        drop(entry);
        // This memory is dropped after the provider, which may have written to it until its close.
        let memory = (contexts, scratch, peers, node, hmem, counters, compounds);
        match &ended {
            Ok(()) => drop(memory),
            // The provider may still use the memory.
            Err(_) => std::mem::forget(memory),
        }
        ended.and(closed).and(on_rails)
    }

    /// Returns the lanes that this process holds in the mailboxes of a peer, or of all peers. Removes the channels to these
    /// mailboxes, because a new peer may get the endpoint's address after the release. Waits as
    /// [`flush_patiently`](Self::flush_patiently) does. Operations that still remain end with the failure of the peer.
    pub(crate) fn close_mailboxes(&self, endpoint: Option<NonNull<Endpoint>>) {
        let deadline = Instant::now() + self.patience();
        loop {
            let late = Instant::now() >= deadline;
            let (done, lost) = self.hmem.close_channels(endpoint, &self.slow, late);
            if lost > 0 {
                tracing::warn!("{lost} lanes for device memory could not be returned");
            }
            if late && (!done || lost > 0) {
                self.detector.impatient.store(true, Ordering::Relaxed);
            }
            if late || done {
                break;
            }
            self.progress();
        }
    }
}
