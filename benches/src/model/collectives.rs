//! Barrier and allreduce of the host, as what one rank sends (`host-stub/src/coll`): by the mailbox, or, where all ranks are on
//! one node, through shared memory.

use btl_ofi::sizes::Request;
use host_stub::coll::sizes::{FETCHED, OFFER_WORDS, Rings, message};

use crate::HANDLE;
use crate::traffic::{Job, Place, Round, Script, Step, Wait};

/// A rank of a communicator of all ranks, and what is on its way between it and the others.
struct Rank {
    job: Job,
    number: u64,
    rings: Rings,
    script: Script,
}

impl Rank {
    fn of(job: Job, number: u64) -> Rank {
        Rank {
            job,
            number,
            rings: Rings::of(job.ranks as usize, HANDLE),
            script: Script::default(),
        }
    }

    /// A message of the mailbox to a rank.
    fn message(&self, to: u64, payload: usize) -> Step {
        Step::one(
            self.job.place(self.number, to),
            Request::Put(message(payload)),
        )
    }

    /// Whether a payload is offered, for the receiver to fetch.
    fn is_long(&self, bytes: usize) -> bool {
        bytes > self.rings.capacity
    }

    /// A payload to another rank: one put, or an offer that the other fetches.
    fn send(&self, to: u64, bytes: usize) -> Step {
        match self.is_long(bytes) {
            false => self.message(to, bytes),
            true => self.message(to, OFFER_WORDS * size_of::<u64>() + HANDLE),
        }
    }

    /// What the receiver of a payload sends: nothing, or a get and the word that the offer was fetched.
    fn receive(&self, from: u64, bytes: usize) -> Vec<Step> {
        match self.is_long(bytes) {
            false => Vec::new(),
            true => vec![
                Step::one(self.job.place(self.number, from), Request::Get(bytes)),
                self.message(from, FETCHED),
            ],
        }
    }

    /// Rounds in which this rank sends bytes to a rank and receives from one; where the payload is offered, it waits for the
    /// get too.
    fn exchange(&mut self, sent: Option<(u64, usize)>, received: Option<(u64, usize)>) {
        let send = sent.map(|(to, bytes)| self.send(to, bytes));
        let wait = match received {
            Some(_) => Wait::Signal,
            None => Wait::Nothing,
        };
        let rounds = &mut self.script.rounds;
        rounds.push(Round::new(wait, send.into_iter().collect()));
        if let Some((from, bytes)) = received {
            let steps = self.receive(from, bytes);
            if !steps.is_empty() {
                self.script.rounds.push(Round::new(Wait::Answers, steps));
            }
            self.takes(from);
        }
        if let Some((to, bytes)) = sent
            && self.is_long(bytes)
        {
            // The word that it was fetched, for which a sender waits that does not wait for a payload.
            if received.is_none() {
                self.script
                    .rounds
                    .push(Round::new(Wait::Signal, Vec::new()));
            }
            self.takes(to);
        }
    }

    fn takes(&mut self, from: u64) {
        match self.job.place(self.number, from) {
            Place::Far => self.script.taken_far += 1,
            _ => self.script.taken_near += 1,
        }
    }
}

/// A collective of a job on one node, through its memory.
fn within_a_node(job: Job, bytes: usize) -> Script {
    let node_stages = u64::from(job.per_node > 1);
    Script {
        node_stages,
        node_bytes: node_stages * bytes as u64,
        ..Script::default()
    }
}

/// A barrier: dissemination.
pub(crate) fn barrier(job: Job, rank: u64) -> Script {
    if job.nodes() == 1 {
        return within_a_node(job, 0);
    }
    let mut here = Rank::of(job, rank);
    let mut distance = 1;
    while distance < job.ranks {
        let (to, from) = (rank + distance, rank + job.ranks - distance);
        here.exchange(Some((to % job.ranks, 0)), Some((from % job.ranks, 0)));
        distance *= 2;
    }
    here.script
}

/// An allreduce: recursive doubling, with the first ranks folded in pairs where their number is no power of two (`coll/algorithms/{allreduce,fold}.rs`).
pub(crate) fn allreduce(job: Job, rank: u64, bytes: usize) -> Script {
    if job.nodes() == 1 {
        return within_a_node(job, bytes);
    }
    let mut here = Rank::of(job, rank);
    let remaining = 1 << job.ranks.ilog2();
    let pairs = job.ranks - remaining;
    let is_folded = rank < 2 * pairs;
    if is_folded && rank.is_multiple_of(2) {
        here.exchange(Some((rank + 1, bytes)), None);
        here.exchange(None, Some((rank + 1, bytes)));
        return here.script;
    }
    if is_folded {
        here.exchange(None, Some((rank - 1, bytes)));
    }
    let place = if is_folded { rank / 2 } else { rank - pairs };
    let whole = |place: u64| match place < pairs {
        true => 2 * place + 1,
        false => place + pairs,
    };
    for round in 0..remaining.ilog2() {
        let partner = Some((whole(place ^ 1 << round), bytes));
        here.exchange(partner, partner);
    }
    if is_folded {
        here.exchange(Some((rank - 1, bytes)), None);
    }
    here.script
}

/// The same so often that every ring is given back evenly, with the puts of one byte by which a rank tells another, after each
/// half of a ring's messages, that it took them.
pub(crate) fn credited(job: Job, script: &Script, times: u64) -> Script {
    let half = Rings::of(job.ranks as usize, HANDLE).slots as u64 / 2;
    let mut all = script.repeated(times);
    let credits = [(Place::Near, all.taken_near), (Place::Far, all.taken_far)];
    let steps = credits.map(|(place, taken)| Step {
        targets: taken / half,
        ..Step::one(place, Request::Put(1))
    });
    all.rounds.push(Round::new(Wait::Nothing, steps.to_vec()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Near, Traffic};

    /// Sums over the ranks of a job with one on each node.
    fn sum(ranks: u64, script: impl Fn(Job, u64) -> Script) -> u64 {
        let job = Job { ranks, per_node: 1 };
        let of = |rank| Traffic::of(&script(job, rank), Near::Ring, 4096).far.bytes;
        (0..ranks).map(of).sum()
    }

    #[test]
    fn long_operands_cross_once_a_round() {
        // Each of four ranks gets the operand in both rounds, beside the offers.
        let bytes = 1 << 20;
        let got = sum(4, |job, rank| allreduce(job, rank, bytes));
        let least = 4 * 2 * bytes as u64;
        assert!((least..least + 10_000).contains(&got), "{got}");
    }

    #[test]
    fn ranks_of_one_node_send_nothing() {
        let job = Job {
            ranks: 8,
            per_node: 8,
        };
        assert!(barrier(job, 1).rounds.is_empty());
        assert_eq!(allreduce(job, 1, 8).node_stages, 1);
    }

    #[test]
    fn a_ring_is_given_back_by_halves_to_who_filled_it() {
        let job = Job {
            ranks: 4,
            per_node: 2,
        };
        let barriers = credited(job, &barrier(job, 0), 4);
        let traffic = Traffic::of(&barriers, Near::Ring, 4096);
        // To rank 1 and to rank 2; a put of one byte for rank 3 and for rank 2.
        assert_eq!(traffic.near.operations, 4);
        assert_eq!(traffic.far.operations, 4 + 2);
    }
}
