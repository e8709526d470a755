//! The counters as a line of JSON. The names are those of `host-stub stats --json`.

use std::sync::atomic::{AtomicU64, Ordering};

use plugin_api::counters::{Carrier, Front, NO_PEER, PeerCounters, Share};
use serde_json::{Value, json};

pub(super) fn line(front: &Front, shares: &[Share]) -> String {
    let used = front.used.load(Ordering::Relaxed) as usize;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let peers = (0..used).map(|slot| peer(shares, slot));
    let polls = shares.iter().map(|share| read(&share.polls));
    json!({
        "host": host.trim_end(),
        "pid": std::process::id(),
        "title": front.title(),
        "polls": polls.sum::<u64>(),
        "peers": peers.flatten().collect::<Value>(),
    })
    .to_string()
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The sum of a peer's counters over all contexts; `None` for a peer without traffic.
fn peer(shares: &[Share], slot: usize) -> Option<Value> {
    let sum = |of: &dyn Fn(&PeerCounters) -> &AtomicU64| -> u64 {
        let each = shares.iter().map(|share| read(of(&share.peers[slot])));
        each.sum()
    };
    let carried = Carrier::ALL.map(|carrier| {
        let operations = sum(&|peer| &peer.carried[carrier as usize].operations);
        let bytes = sum(&|peer| &peer.carried[carrier as usize].bytes);
        (carrier, operations, bytes)
    });
    let (again, messages) = (sum(&|peer| &peer.again), sum(&|peer| &peer.messages));
    let waits = sum(&|peer| &peer.waits);
    let operations: u64 = carried.iter().map(|(_, operations, _)| operations).sum();
    if operations + again + messages + waits == 0 {
        return None;
    }
    let carried = carried.map(|(carrier, operations, bytes)| {
        json!({
            "carrier": carrier.name(),
            "operations": operations,
            "bytes": bytes,
        })
    });
    let proc = read(&shares.first()?.peers[slot].proc);
    Some(json!({
        "peer": (proc != NO_PEER).then_some(proc),
        "carried": carried,
        "again": again,
        "revoked": sum(&|peer| &peer.revoked),
        "messages": messages,
        "waits": waits,
        "waited_ns": sum(&|peer| &peer.waited),
    }))
}
