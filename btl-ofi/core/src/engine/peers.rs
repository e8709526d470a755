//! Peers: connect from published addresses, look up, release.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Instant;

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::base::cma::Refused;
use crate::base::error::{Doing, Error};
use crate::engine::transport::Transport;
use crate::fabric::msg::Ended;
use crate::fabric::policy;
use crate::fabric::shm_files;
use crate::peer::address::Blob;
use crate::peer::endpoint::{Endpoint, LocalPeer};
use crate::peer::liveness::State;
use crate::peer::networks::{self, Meeting};
use crate::peer::reach::{self, Reach};
use crate::peer::route::{Atomics, Facts, Route};
use crate::peer::table::Placed;
use crate::sm::ring::RINGS;
use crate::sm::segment::Place;

impl Transport {
    /// Makes a peer from the bytes that it published, or finds it if process `proc` is already connected. The
    /// endpoint lives until the transport closes, or until [`disconnect`](Self::disconnect) was called as often
    /// as `connect`. This process itself is a peer like any other.
    ///
    /// # Errors
    /// [`Error::Modex`] if the bytes are no address, or an address of another kind of endpoint; otherwise the
    /// provider's refusal.
    pub fn connect(&self, blob: &[u8], proc: u64) -> Result<NonNull<Endpoint>, Error> {
        self.check_copy()?;
        self.expect_puts()?;
        let mut peers = self.lock_peers();
        if let Some(known) = peers.known.find(proc) {
            // SAFETY: a connected peer is live, and the lock keeps it connected.
            let again = unsafe { known.as_ref() }.connect_again();
            return again
                .map(|()| known)
                .ok_or(Error::OutOfMemory("one more connect"));
        }
        let modex = |reason| Error::Modex { proc, reason };
        let (blob, meeting) = self.decode(blob).map_err(modex)?;
        blob.check_form(self.device.name()?).map_err(modex)?;
        if !peers.known.reserve() || peers.words.try_reserve(1).is_err() {
            return Err(Error::OutOfMemory("another peer"));
        }
        // SAFETY: `check_form` verified that the address has the provider's format and length.
        let address = unsafe { self.device.addresses().insert(&blob.address) }
            .doing(|| format!("adding process {proc}"))?
            .ok_or_else(|| modex(String::from("the provider did not accept it")))?;
        if self.policy.has_messages() {
            self.device.addresses().set_key(address, blob.key);
        }
        let here = self.is_here(&blob, meeting);
        let mut placed = match here {
            true => self.place_local(address, proc, &blob),
            false => {
                let route = Route::decide(Facts {
                    messages: self.policy.messages,
                    ..Facts::default()
                });
                Placed::Remote(Endpoint::new(address, proc, route))
            }
        };
        let slot = self.counters.take(proc);
        placed.endpoint().counters = slot;
        let uses_provider = placed.endpoint().uses_provider() || self.policy.two_sided;
        let room = if self.policy.memory_only {
            let refusal = beyond_memory(&placed, peers.known.len());
            refusal.map_or(Ok(()), |why| Err(modex(String::from(why))))
        } else {
            Ok(())
        };
        let kept = room.and_then(|()| {
            let kept = peers.known.insert(placed);
            kept.ok_or(Error::OutOfMemory("another peer"))
        });
        let endpoint = kept.inspect_err(|_| {
            self.counters.give_back(slot);
            // The error that is returned says why the peer cannot be made.
            let _ = self.device.addresses().remove(address);
        })?;
        if let (Some(word), true) = (blob.word, self.policy.by_order) {
            peers.words.insert(proc, word);
        }
        self.detector.impatient.store(false, Ordering::Relaxed);
        if uses_provider {
            self.node.uses_fabric.store(true, Ordering::Relaxed);
        }
        // The order of locks: a context before the peers.
        drop(peers);
        self.expect_sends(endpoint);
        if uses_provider {
            self.connect_rails(proc, &blob);
        }
        Ok(endpoint)
    }

    /// Decodes the bytes that a peer published. Refuses a peer that this transport cannot reach.
    fn decode(&self, blob: &[u8]) -> Result<(Blob, Meeting), String> {
        if self.failures.broken.load(Ordering::Relaxed) {
            return Err(String::from(
                "the module can no longer be used, because a peer failed",
            ));
        }
        let blob = Blob::decode(blob)?;
        let own = self.capabilities.provider.to_string_lossy();
        if blob.provider != own {
            return Err(format!(
                "it uses provider {}, this process {own}",
                blob.provider
            ));
        }
        if blob.virtual_addresses != self.setup.virtual_addresses {
            return Err(String::from(
                "one side addresses memory by virtual address, the other by offset",
            ));
        }
        if blob.messages != self.policy.messages {
            return Err(String::from(
                "one side sends messages, the other does not (btl_ofi_message_limit is 0 at one of them)",
            ));
        }
        if blob.two_sided != self.policy.two_sided {
            return Err(String::from(
                "one side takes two-sided messages, the other does not (btl_ofi_mode differs)",
            ));
        }
        self.check_word(&blob)?;
        if self.policy.one_node {
            self.check_node(&blob)?;
        }
        let meeting = networks::meet(&self.node.networks, &blob.networks, &self.setup.interfaces)?;
        let format = self.device.info().raw().addr_format;
        if blob.format != format {
            return Err(format!(
                "address format {}, this process has {format}",
                blob.format
            ));
        }
        Ok((blob, meeting))
    }

    /// Refuses a peer of another node if the provider serves one node only.
    fn check_node(&self, blob: &Blob) -> Result<(), String> {
        let provider = &blob.provider;
        let elsewhere = |why: &str| {
            Err(format!(
                "provider {provider} connects processes of one node only, and {why}; for other nodes and containers, name \
                 another provider in btl_ofi_provider_include"
            ))
        };
        if blob.node != self.node.id {
            return elsewhere(
                "this one is on another node, or has another namespace of process ids",
            );
        }
        if policy::keeps_files(provider) && !shm_files::exists(&blob.address) {
            return elsewhere("the file of its endpoint is not in this process's /dev/shm");
        }
        // Another process here has the peer's process id: cloned nodes may have equal node numbers.
        match blob.probe().is_in(blob.process.pid) {
            Ok(false) | Err(Refused(libc::EFAULT)) => {
                elsewhere("the process here that has its process id is another one")
            }
            _ => Ok(()),
        }
    }

    /// Whether a peer is a process of this node. Equal node numbers are no proof, because clones of a virtual machine share
    /// their node number. A local process with the peer's process id is no proof, either.
    fn is_here(&self, blob: &Blob, meeting: Meeting) -> bool {
        let claims = self.node.id != 0 && blob.node == self.node.id
            // To kill(2), a number that is no process id would name a process group.
            && libc::pid_t::try_from(blob.process.pid).is_ok_and(|pid| pid > 0);
        let here = claims
            && (self.policy.one_node
                || blob.process.state() != State::Gone
                    && (meeting == Meeting::Namespace
                        || blob.probe().is_in(blob.process.pid) == Ok(true)));
        if claims && !here {
            tracing::info!(
                "process id {} of this node is not the peer that announces it: the peer is taken to be on another node",
                blob.process.pid
            );
        }
        here
    }

    /// Undoes one [`connect`](Self::connect). The last release waits a bounded time for outstanding operations,
    /// then removes the endpoint, unless it was connected again meanwhile.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect) and has at least one connect left.
    pub unsafe fn disconnect(&self, endpoint: NonNull<Endpoint>) -> Status {
        if self.is_copy() {
            return self.refuse_copy();
        }
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        {
            let _peers = self.lock_peers();
            if peer.disconnect_unless_last() {
                return Status::SUCCESS;
            }
        }
        self.act_on_failures();
        let flushed = self.flush_patiently(Some(peer));
        self.act_on_failures();
        if self.policy.two_sided && peer.failure().is_none() {
            self.wait_for_sends(Some(endpoint), Instant::now() + self.patience());
        }
        self.close_mailboxes(Some(endpoint));
        let mut guards: Vec<_> = self.contexts.iter().map(|c| c.state.lock()).collect();
        let mut peers = self.lock_peers();
        if peer.disconnect_unless_last() {
            // The peer was connected again meanwhile, perhaps by a callback during the flush.
            return Status::SUCCESS;
        }
        let unconfirmed = self.remove_puts(&mut guards, endpoint);
        let state = &mut *guards[0];
        if let Some(channel) = &mut state.channel {
            channel.remove(endpoint);
        }
        let all = peer.total().outstanding();
        let outstanding = all.saturating_sub(unconfirmed.number);
        let mut ended = Ended::default();
        let mut delivering = false;
        if let Some(messages) = &mut state.messages {
            delivering = messages.deliverer().is_some();
            ended = messages.remove(endpoint, Status::TIMEOUT);
            self.count_abandoned(state, endpoint, &ended);
        }
        if outstanding > 0 {
            // Operations of several parts post no further part: the peer's address is removed. All contexts are locked,
            // which prevents posts.
            peer.fail(Status::TIMEOUT);
        }
        // The endpoint may still be named by a late completion, or by a thread that reports failures or hands messages to
        // the host.
        let reporting = self.failures.reporting.load(Ordering::Acquire) > 0;
        let flushing = self.failures.flushing.load(Ordering::Acquire) > 0;
        let named = unconfirmed.is_named || reporting || delivering || flushing;
        let late = outstanding + unconfirmed.number > 0 || named;
        if !late {
            // Under the locks of the contexts: threads count in the common slot under these locks, without locked
            // instructions.
            self.counters.give_back(peer.counters);
        }
        drop(guards);
        let proc = peer.proc;
        if let Err(e) = self.remove_address(peer) {
            tracing::warn!("removing process {}: {e}", peer.proc);
        }
        self.detector.lock().abandon(proc);
        self.mapped.abandon(endpoint);
        if outstanding > 0 {
            tracing::warn!(
                "process {} is released with {outstanding} operations outstanding",
                peer.proc
            );
            // The counts over all peers may never reach zero again.
            self.failures.degraded.store(true, Ordering::Relaxed);
        }
        peers.remove(proc, late);
        let tracks = self.rails.take_tracks(proc, outstanding > 0);
        drop(peers);
        self.disconnect_rails(tracks, outstanding > 0);
        for (context, puts) in unconfirmed.puts {
            let why = "its process was released before it was confirmed";
            self.end_puts(context, puts, Status::TIMEOUT, why);
        }
        let why = "it was released before it answered";
        self.report_abandoned(endpoint, ended, Status::TIMEOUT, why);
        if outstanding > 0 && self.node.has_rings {
            self.abandon_commands(endpoint, Status::TIMEOUT, why);
            if let Some(channel) = &mut self.contexts[0].state.lock().channel {
                channel.remove(endpoint);
            }
        }
        // This ends transfers that waited for room.
        self.advance_compounds();
        if flushed == Status::UNREACH {
            Status::SUCCESS
        } else {
            flushed
        }
    }

    /// Decides the route to a peer whose process id is of this node. Returns the peer. If its memory can be read, also
    /// returns how to reach the memory.
    fn place_local(&self, address: ffi::fi_addr_t, proc: u64, blob: &Blob) -> Placed {
        let (pid, probe) = (blob.process.pid, blob.probe());
        let own = blob.process == self.node.own && self.is_own_probe(blob);
        let same_node = self.node.same_node && blob.same_node;
        let tried = (same_node && self.node.attaches && !own).then(|| probe.is_in(pid));
        let facts = Facts {
            own,
            same_node,
            reached: tried == Some(Ok(true)),
            ring: self.node.has_rings && blob.segment.is_some(),
            processor_atomics: self.policy.processor_atomics,
            messages: self.policy.messages,
        };
        let route = Route::decide(facts);
        if let Some(found) = tried
            && !facts.reached
        {
            tracing::info!(
                "process {proc} is on this node, but is reached through the provider, without cross-memory attach: {}",
                reach::reason(found)
            );
        }
        let (descriptor, nonce) = (blob.segment.unwrap_or_default(), blob.probe_value);
        let local = LocalPeer::new(address, proc, blob.process, route, (descriptor, nonce));
        let segment = (route.atomics == Atomics::Unclaimed).then(|| {
            let place = Place {
                pid,
                descriptor,
                nonce,
            };
            // A failure to open the segment is reported when the segment is used.
            place.open().ok()
        });
        let readable = facts.reached || probe.is_in(pid) == Ok(true);
        let reach = readable.then(|| Reach {
            probe,
            segment: segment.flatten(),
        });
        Placed::Local(local, reach)
    }
}

/// Returns why memory alone does not serve a peer while `connected` peers are connected; `None` if
/// it does.
fn beyond_memory(placed: &Placed, connected: usize) -> Option<&'static str> {
    let Placed::Local(peer, reach) = placed else {
        return Some("it is on another node, or in a container that hides it");
    };
    if peer.endpoint.uses_provider() {
        return Some("cross-memory attach does not reach it");
    }
    let segment = reach.as_ref().and_then(|reach| reach.segment.as_ref());
    if peer.endpoint.atomics() == Atomics::Unclaimed && segment.is_none() {
        return Some("its segment cannot be opened");
    }
    // Each connected process claims a ring here.
    (connected >= RINGS).then_some("as many processes are connected as have rings here")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::liveness::ProcessId;
    use crate::peer::route::Transfers;

    fn local(transfers: Transfers, atomics: Atomics) -> Placed {
        let route = Route { transfers, atomics };
        let process = ProcessId::own();
        Placed::Local(LocalPeer::new(0, 1, process, route, (3, 7)), None)
    }

    #[test]
    fn memory_alone_serves_whom_it_reaches_in_every_way() {
        let own = local(Transfers::Copy, Atomics::Own);
        assert_eq!(beyond_memory(&own, RINGS - 1), None);
        assert!(beyond_memory(&own, RINGS).is_some(), "no ring is left");
        for beyond in [
            Placed::Remote(Endpoint::new(0, 1, Route::decide(Facts::default()))),
            local(Transfers::Fabric, Atomics::Unclaimed),
            local(Transfers::Kernel, Atomics::Fabric),
            // The peer's segment was not opened.
            local(Transfers::Kernel, Atomics::Unclaimed),
        ] {
            assert!(beyond_memory(&beyond, 0).is_some());
        }
    }
}
