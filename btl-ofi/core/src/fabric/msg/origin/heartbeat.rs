//! Heartbeats: batches without entries, which targets answer like other batches. Heartbeats are not counted as operations,
//! so no flush waits for one.

use std::collections::HashSet;
use std::ptr::NonNull;

use libfabric_sys::fi_addr_t;
use plugin_api::Status;

use crate::fabric::msg::line::Asker;
use crate::fabric::msg::origin::Origin;
use crate::fabric::msg::port::Port;
use crate::fabric::msg::wire::UNKNOWN;
use crate::peer::endpoint::Endpoint;

/// Peers that were heard from over messages.
pub(crate) struct Heard {
    /// Peers that have answered this process.
    targets: HashSet<NonNull<Endpoint>>,
    /// Addresses of processes that have sent batches to this process.
    origins: HashSet<fi_addr_t>,
}

impl Heard {
    /// Whether the peer has answered on its current line.
    pub(crate) fn answered(&self, peer: &Endpoint) -> bool {
        self.targets.contains(&NonNull::from(peer))
    }

    pub(crate) fn has(&self, peer: &Endpoint) -> bool {
        self.answered(peer) || self.origins.contains(&peer.address)
    }
}

impl Origin {
    /// The peers that have answered this process, together with the `origins`.
    pub(crate) fn heard(&self, origins: HashSet<fi_addr_t>) -> Heard {
        let lines = self.lines.iter().flatten();
        let introduced = lines.filter(|line| line.client != UNKNOWN);
        Heard {
            targets: introduced.map(|line| line.endpoint).collect(),
            origins,
        }
    }

    /// Peers that got a heartbeat and have not answered since.
    pub(crate) fn asked(&self) -> impl Iterator<Item = NonNull<Endpoint>> {
        let asked = self.lines.iter().flatten().filter(|line| line.asked);
        asked.map(|line| line.endpoint)
    }

    /// Sends a heartbeat to a peer. If an answer of the peer is due, this answer takes the heartbeat's place. A line with
    /// something else to send gets no heartbeat.
    ///
    /// # Safety
    /// The endpoint is live.
    #[cold]
    pub(in crate::fabric::msg) unsafe fn ask(&mut self, port: &Port, endpoint: NonNull<Endpoint>) {
        let number = self.line_to(endpoint);
        let Some(line) = &mut self.lines[number as usize] else {
            return;
        };
        if line.is_due() {
            line.asked = true;
        }
        if line.asked || line.has_more() {
            return;
        }
        let Ok(batch) = self.next_batch(port, number) else {
            return;
        };
        if let Some(line) = &mut self.lines[number as usize] {
            line.asked = true;
            line.current = None;
            line.waiting.push_back(batch);
        }
        self.send_line(port, number, Asker::Progress, None);
    }

    /// Removes the line to a peer if only heartbeats are outstanding on it. Returns whether the line was removed; the next
    /// command makes another line. Sends that have left are outstanding until an answer or a receipt covers them: the
    /// provider has them, but the peer may not have got them. A peer that leaves in good order sends the receipt.
    #[cold]
    pub(in crate::fabric::msg) fn remove_idle(
        &mut self,
        port: &Port,
        endpoint: NonNull<Endpoint>,
    ) -> bool {
        let number = self.by_endpoint.get(&endpoint);
        let line = number.and_then(|number| self.lines[*number as usize].as_ref());
        let idle = line.is_some_and(|line| {
            let unsent = line.waiting.iter().chain(&line.current);
            let mut all = line.unanswered.iter().chain(unsent);
            all.all(|n| self.batches[*n as usize].is_empty())
        });
        if idle {
            // Heartbeats are not operations, so the removal ends none.
            let _ = self.remove(port, endpoint, Status::UNREACH);
        }
        idle
    }

    /// Whether there is a line of messages to a peer.
    pub(crate) fn has_line(&self, endpoint: NonNull<Endpoint>) -> bool {
        self.by_endpoint.contains_key(&endpoint)
    }
}
