//! Peers: a million addresses in the address vector; no process has most of them.
//!
//! Each address is this transport's own, with another node, so that it belongs to a remote peer, and with another
//! place (port and address). Over the lab provider an address may keep the place, so that it can be reached.
//! Addresses of this node mean this process.

use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Instant;

use benches::statistics::{median, spread};
use benches::target::Bound;
use btl_ofi::Endpoint;
use plugin_api::ThreadLevel;

use crate::memory::{given, resident};
use crate::report::Report;
use crate::setup::{Local, open};

/// The maximum number of peers.
const MOST: usize = 1_000_000;
/// Bytes of our own memory that a peer may take: 48, and the overhead of chunks.
const BYTES: f64 = 48.5;
/// The same where the transport takes messages: the peer's key of 8 bytes more.
const BYTES_WITH_MESSAGES: f64 = 56.0;
/// Offsets in the data that a process publishes: the node, and the length of all fields before the provider's name
/// (`core/src/peer/address.rs`). The endpoint's address follows the name.
const NODE: std::ops::Range<usize> = 8..16;
const NAME_LENGTH: [usize; 2] = [44, 45];
const HEAD: usize = 52;
/// Operations measured at once.
const CALLS: usize = 2000;

/// Peers of one transport.
struct Many {
    local: Local,
    peers: Vec<NonNull<Endpoint>>,
    /// Bytes of our allocator; bytes that became resident, including the provider's; seconds that adding
    /// took.
    bytes: usize,
    resident: usize,
    seconds: f64,
}

/// The peers to add.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Peers on other nodes; the first, the middle one and the last are this process.
    Synthetic,
    /// This process, under the name of another node.
    Far,
    /// This process, on its own node.
    Near,
}

/// Opens a transport and adds `count` peers.
fn add(provider: &str, count: usize, which: Which) -> Result<Many, String> {
    let local = open(provider, ThreadLevel::Single, &[])?;
    let mut blob = local.transport.address().to_vec();
    let at = HEAD + usize::from(u16::from_le_bytes(NAME_LENGTH.map(|at| blob[at])));
    if which != Which::Near {
        for byte in &mut blob[NODE] {
            *byte = !*byte;
        }
    }
    let own = blob.clone();
    let mut peers = Vec::with_capacity(count);
    let (before, held) = (given(), resident()?);
    let start = Instant::now();
    for proc in 0..count {
        let real = which != Which::Synthetic || [0, count / 2, count - 1].contains(&proc);
        let number = proc as u32 + 1;
        if provider == "lab" {
            // The process id, the second word.
            blob[at + 8..at + 16].copy_from_slice(&(u64::from(number) << 32).to_le_bytes());
        } else {
            // Port and address of a sockaddr_in: 2,000 ports of each of many addresses in 10.0.0.0/8.
            let port = 1024 + (number % 2000) as u16;
            blob[at + 2..at + 4].copy_from_slice(&port.to_be_bytes());
            blob[at + 4..at + 8].copy_from_slice(&(0x0a00_0001 + number / 2000).to_be_bytes());
        }
        let address = if real { &own } else { &blob };
        let peer = local.transport.connect(address, proc as u64);
        peers.push(peer.map_err(|e| format!("peer {proc} over {provider}: {e}"))?);
    }
    let seconds = start.elapsed().as_secs_f64();
    // The list of peers belongs to the host, and was not touched before.
    let list = count * size_of::<NonNull<Endpoint>>();
    Ok(Many {
        bytes: given() - before,
        resident: resident()?.saturating_sub(held + list),
        seconds,
        local,
        peers,
    })
}

impl Many {
    /// Nanoseconds of a put with its flush, to peers by turns.
    fn time(&self, turn: impl Fn(usize) -> usize) -> Result<f64, String> {
        let start = Instant::now();
        for call in 0..CALLS {
            let peer = self.peers[turn(call) % self.peers.len()];
            self.local.put(peer, call, true)?;
            self.local.flush(Some(peer))?;
        }
        Ok(start.elapsed().as_nanos() as f64 / CALLS as f64)
    }
}

/// Measures the time per operation alternately with few and with many peers.
fn compare(
    report: &mut Report,
    provider: &str,
    what: &str,
    rounds: usize,
    (few, few_turn): (&Many, &dyn Fn(usize) -> usize),
    (many, many_turn): (&Many, &dyn Fn(usize) -> usize),
) -> Result<(), String> {
    let (mut a, mut b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (small, large) = (few.time(few_turn)?, many.time(many_turn)?);
        // The first round makes connections and touches pages, so it is not counted.
        if round > 0 {
            ratios.push(large / small);
            a.push(small);
            b.push(large);
        }
    }
    let around = spread(&mut ratios);
    let ratio = median(ratios);
    let few_peers = few.peers.len();
    report.row(format!(
        "{provider}: put 8 B + flush, {what}: {:.0} ns at {few_peers} peers, {:.0} ns at {}",
        median(a),
        median(b),
        many.peers.len()
    ));
    report.target(
        format!(
            "{provider}: time of a put at {} peers over that at {few_peers}, {what}",
            many.peers.len()
        ),
        ratio,
        Bound::Most,
        1.2,
        "times",
        Some(around),
    );
    Ok(())
}

/// Measures peers over the lab provider and over tcp;ofi_rxm.
pub(crate) fn measure(report: &mut Report, short: bool) -> Result<(), String> {
    let sizes: &[usize] = if short {
        &[2, MOST]
    } else {
        &[2, 100, 10_000, 100_000, MOST]
    };
    let rounds = if short { 11 } else { 31 };
    for provider in ["lab", "tcp;ofi_rxm"] {
        for &size in sizes {
            let many = add(provider, size, Which::Synthetic)?;
            report.row(format!(
                "{provider}: {size} peers: {:.1} bytes and {:.2} us each to add",
                many.bytes as f64 / size as f64,
                many.seconds / size as f64 * 1e6
            ));
            if size == MOST {
                // Fewer peers reuse memory that others left.
                report.row(format!(
                    "{provider}: {size} peers: {:.0} bytes each resident, the provider's included",
                    many.resident as f64 / size as f64
                ));
                let most = match provider {
                    "lab" => BYTES,
                    _ => BYTES_WITH_MESSAGES,
                };
                report.target(
                    format!("{provider}: bytes of ours per peer at {size} peers"),
                    many.bytes as f64 / size as f64,
                    Bound::Most,
                    most,
                    "B",
                    None,
                );
                let few = add(provider, 2, Which::Synthetic)?;
                let last = move |_| size - 1;
                let cases: [(&str, &dyn Fn(usize) -> usize); 2] = [
                    ("to the last", &last),
                    ("to the one in the middle", &move |_| size / 2),
                ];
                for (what, turn) in cases {
                    compare(
                        report,
                        provider,
                        what,
                        rounds,
                        (&few, &|_| 1),
                        (&many, turn),
                    )?;
                }
                few.local.close()?;
            }
            many.local.close()?;
        }
    }
    // No node has so many peers, but tables are measured at this size.
    let near = add("lab", MOST, Which::Near)?;
    report.target(
        format!("lab: bytes of ours per peer at {MOST} peers, all on this node"),
        near.bytes as f64 / MOST as f64,
        Bound::Most,
        BYTES,
        "B",
        None,
    );
    near.local.close()?;
    // Every peer is reached, in random order: each operation finds its peer's memory cold.
    let few = add("lab", 2, Which::Far)?;
    let mut many = add("lab", MOST, Which::Far)?;
    let mut state = 1u64;
    for last in (1..many.peers.len()).rev() {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        many.peers.swap(last, (state >> 33) as usize % (last + 1));
    }
    // The first peer of the next turn, so that no turn finds the peers of the one before.
    let next = Cell::new(0);
    let scattered = |call: usize| {
        if call == 0 {
            next.set(next.get() + CALLS);
        }
        next.get() + call
    };
    compare(
        report,
        "lab",
        "to any",
        rounds,
        (&few, &|call| call),
        (&many, &scattered),
    )?;
    few.local.close()?;
    many.local.close()
}
