//! The counters as a line of JSON. The names are those of `host-stub stats --json`.

use std::sync::atomic::{AtomicU64, Ordering};

use plugin_api::counters::{Carrier, Counters, NO_PEER, PeerCounters};
use serde_json::{Value, json};

pub(super) fn line(counters: &Counters) -> String {
    let used = counters.front.used.load(Ordering::Relaxed) as usize;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let peers = counters.peers.iter().take(used).map(peer);
    json!({
        "host": host.trim_end(),
        "pid": std::process::id(),
        "title": counters.front.title(),
        "polls": read(&counters.front.polls),
        "peers": peers.flatten().collect::<Value>(),
    })
    .to_string()
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// `None` for a peer without traffic.
fn peer(peer: &PeerCounters) -> Option<Value> {
    let carried = Carrier::ALL.iter().zip(&peer.carried);
    let carried = carried.map(|(carrier, carried)| {
        json!({
            "carrier": carrier.name(),
            "operations": read(&carried.operations),
            "bytes": read(&carried.bytes),
        })
    });
    let operations: u64 = peer.carried.iter().map(|c| read(&c.operations)).sum();
    let others = [&peer.again, &peer.messages, &peer.waits];
    if operations == 0 && others.into_iter().all(|counter| read(counter) == 0) {
        return None;
    }
    let proc = read(&peer.proc);
    Some(json!({
        "peer": (proc != NO_PEER).then_some(proc),
        "carried": carried.collect::<Value>(),
        "again": read(&peer.again),
        "revoked": read(&peer.revoked),
        "messages": read(&peer.messages),
        "waits": read(&peer.waits),
        "waited_ns": read(&peer.waited),
    }))
}
