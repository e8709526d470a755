//! Barrier and allreduce of the host, as what one rank sends (`host-stub/src/coll`): within the nodes through shared memory,
//! between their leaders by the mailbox.

use btl_ofi::sizes::Request;
use host_stub::coll::sizes::{FETCHED, OFFER_WORDS, REDUCE_LONG, Rings, message};

use crate::HANDLE;
use crate::traffic::{Job, Place, Round, Script, Step, Wait};

/// Bytes of an element: doubles.
const ELEMENT: usize = size_of::<f64>();

/// Those that the stage between nodes is among, as seen from one of them.
struct Leaders {
    /// How many, and this one's number; none for a rank that is none.
    count: u64,
    number: Option<u64>,
    rings: Rings,
}

impl Leaders {
    fn of(job: Job, rank: u64) -> Leaders {
        Leaders {
            count: job.nodes(),
            number: rank
                .is_multiple_of(job.per_node)
                .then_some(rank / job.per_node),
            rings: Rings::of(job.ranks as usize, HANDLE),
        }
    }

    /// A payload to another leader: one put, or an offer that the other fetches.
    fn send(&self, bytes: usize) -> Step {
        let payload = match bytes <= self.rings.capacity {
            true => bytes,
            false => OFFER_WORDS * size_of::<u64>() + HANDLE,
        };
        Step::one(Place::Far, Request::Put(message(payload)))
    }

    /// What the receiver of a payload sends: nothing, or a get and the word that the offer was fetched.
    fn receive(&self, bytes: usize) -> Vec<Step> {
        if bytes <= self.rings.capacity {
            return Vec::new();
        }
        vec![
            Step::one(Place::Far, Request::Get(bytes)),
            Step::one(Place::Far, Request::Put(message(FETCHED))),
        ]
    }

    /// Rounds in which a leader sends and receives; where the payload is offered, it waits for the get too.
    fn rounds(&self, sent: Option<usize>, received: Option<usize>) -> Vec<Round> {
        let send = sent.map(|bytes| self.send(bytes));
        let wait = match received {
            Some(_) => Wait::Signal,
            None => Wait::Nothing,
        };
        let mut rounds = vec![Round::new(wait, send.into_iter().collect())];
        let receive = received.map_or(Vec::new(), |bytes| self.receive(bytes));
        if !receive.is_empty() {
            rounds.push(Round::new(Wait::Answers, receive));
        }
        // Of an offer the sender waits for the word that it was fetched.
        if sent.is_some_and(|bytes| bytes > self.rings.capacity) && received.is_none() {
            rounds.push(Round::new(Wait::Signal, Vec::new()));
        }
        rounds
    }
}

/// Stages within the nodes around one between them.
fn staged(job: Job, bytes: usize, between: Vec<Round>) -> Script {
    let node_stages = match (job.per_node, job.nodes()) {
        (1, _) => 0,
        (_, 1) => 1,
        _ => 2,
    };
    Script {
        node_stages,
        node_bytes: node_stages * bytes as u64,
        ..Script::of(between)
    }
}

/// A barrier: dissemination between the leaders.
pub(crate) fn barrier(job: Job, rank: u64) -> Script {
    let leaders = Leaders::of(job, rank);
    let mut rounds = Vec::new();
    let mut distance = 1;
    while leaders.number.is_some() && distance < leaders.count {
        rounds.extend(leaders.rounds(Some(0), Some(0)));
        distance *= 2;
    }
    staged(job, 0, rounds)
}

/// An allreduce of doubles: between the leaders recursive doubling, or, for long operands, Rabenseifner's algorithm, with
/// the first leaders folded in pairs where their number is no power of two (`coll/algorithms/{allreduce,fold}.rs`).
pub(crate) fn allreduce(job: Job, rank: u64, bytes: usize) -> Script {
    let leaders = Leaders::of(job, rank);
    let count = leaders.count as usize;
    let Some(number) = leaders.number.filter(|_| count > 1) else {
        return staged(job, bytes, Vec::new());
    };
    let remaining = 1usize << count.ilog2();
    let pairs = count - remaining;
    let (number, folded) = (number as usize, (number as usize) < 2 * pairs);
    if folded && number.is_multiple_of(2) {
        let mut rounds = leaders.rounds(Some(bytes), None);
        rounds.extend(leaders.rounds(None, Some(bytes)));
        return staged(job, bytes, rounds);
    }
    let mut rounds = Vec::new();
    if folded {
        rounds.extend(leaders.rounds(None, Some(bytes)));
    }
    let place = if folded { number / 2 } else { number - pairs };
    if bytes >= REDUCE_LONG && bytes / ELEMENT >= count {
        rounds.extend(rabenseifner(&leaders, bytes / ELEMENT, remaining, place));
    } else {
        for _ in 0..remaining.ilog2() {
            rounds.extend(leaders.rounds(Some(bytes), Some(bytes)));
        }
    }
    if folded {
        rounds.extend(leaders.rounds(Some(bytes), None));
    }
    staged(job, bytes, rounds)
}

/// Halving, then doubling, among a power of two of leaders.
fn rabenseifner(leaders: &Leaders, elements: usize, size: usize, place: usize) -> Vec<Round> {
    let (least, more) = (elements / size, elements % size);
    let start = |block: usize| block * least + block.min(more);
    let bytes = |first: usize, end: usize| (start(end) - start(first)) * ELEMENT;
    let mut rounds = Vec::new();
    let (mut first, mut end) = (0, size);
    while end - first > 1 {
        let middle = usize::midpoint(first, end);
        let halves = [(first, middle), (middle, end)];
        let own = usize::from(place >= middle);
        let (kept, given) = (halves[own], halves[1 - own]);
        let sent = bytes(given.0, given.1);
        rounds.extend(leaders.rounds(Some(sent), Some(bytes(kept.0, kept.1))));
        (first, end) = kept;
    }
    let mut distance = 1;
    while distance < size {
        let block = |place: usize| {
            let first = place / distance * distance;
            bytes(first, first + distance)
        };
        let partner = place ^ distance;
        rounds.extend(leaders.rounds(Some(block(place)), Some(block(partner))));
        distance *= 2;
    }
    rounds
}

/// The same so often that every ring is given back evenly, with the puts of one byte by which a leader tells another, after
/// each half of a ring's messages, that it took them. Each leader takes as many messages as it sends.
pub(crate) fn credited(job: Job, script: &Script, times: u64) -> Script {
    let half = Rings::of(job.ranks as usize, HANDLE).slots as u64 / 2;
    let mut all = script.repeated(times);
    let sent = all.rounds.iter().flat_map(|round| &round.steps);
    let sent = sent.filter(|step| matches!(step.request, Request::Put(_)));
    let step = Step {
        targets: sent.count() as u64 / half,
        ..Step::one(Place::Far, Request::Put(1))
    };
    all.rounds.push(Round::new(Wait::Nothing, vec![step]));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Near, Traffic};

    /// Sums over the leaders of one rank per node.
    fn sum(ranks: u64, script: impl Fn(Job, u64) -> Script) -> u64 {
        let job = Job { ranks, per_node: 1 };
        let of = |rank| Traffic::of(&script(job, rank), Near::Ring, 4096).far.bytes;
        (0..ranks).map(of).sum()
    }

    #[test]
    fn long_operands_cross_twice() {
        // Each leader gets (n - 1) / n of the operand twice, beside the offers.
        let bytes = 1 << 20;
        let got = sum(4, |job, rank| allreduce(job, rank, bytes));
        let least = 4 * 2 * bytes as u64 * 3 / 4;
        assert!((least..least + 10_000).contains(&got), "{got}");
    }

    #[test]
    fn ranks_that_lead_no_node_send_nothing() {
        let job = Job {
            ranks: 64,
            per_node: 8,
        };
        assert!(barrier(job, 1).rounds.is_empty());
        assert_eq!(barrier(job, 8).rounds.len(), 3);
        assert_eq!(barrier(job, 8).node_stages, 2);
    }

    #[test]
    fn a_ring_is_given_back_by_halves() {
        let job = Job {
            ranks: 4,
            per_node: 1,
        };
        let barriers = credited(job, &barrier(job, 0), 4);
        let traffic = Traffic::of(&barriers, Near::Ring, 4096);
        // Two rounds each; a put of one byte for each of two senders.
        assert_eq!(traffic.far.operations, 4 * 2 + 2);
    }
}
