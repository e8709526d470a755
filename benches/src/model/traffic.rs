//! What one rank sends: rounds of requests, and their sum in operations, bytes, messages and waits.
//!
//! Sizes come from the code of the transport (`btl_ofi::sizes`).

use btl_ofi::sizes::{MESSAGE_HEADER, MESSAGE_MOST, Request};

/// Where a target is, as seen from its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The origin itself.
    Own,
    /// Another rank of its node.
    Near,
    /// A rank of another node.
    Far,
}

/// A job: ranks follow each other on nodes of equal size, the last one excepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) ranks: u64,
    pub(crate) per_node: u64,
}

impl Job {
    pub(crate) fn place(&self, from: u64, to: u64) -> Place {
        match (from == to, from / self.per_node == to / self.per_node) {
            (true, _) => Place::Own,
            (false, true) => Place::Near,
            (false, false) => Place::Far,
        }
    }

    pub(crate) fn nodes(&self) -> u64 {
        self.ranks.div_ceil(self.per_node)
    }

    /// Ranks of the node of a rank.
    pub(crate) fn beside(&self, rank: u64) -> u64 {
        let first = rank / self.per_node * self.per_node;
        self.per_node.min(self.ranks - first)
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) place: Place,
    pub(crate) request: Request,
    /// Targets, and requests to each, which travel together.
    pub(crate) targets: u64,
    pub(crate) each: u64,
}

impl Step {
    /// One request to one target.
    pub(crate) fn one(place: Place, request: Request) -> Step {
        Step {
            place,
            request,
            targets: 1,
            each: 1,
        }
    }

    fn bytes_of_one(&self) -> u64 {
        (match self.request {
            Request::Put(bytes) | Request::Get(bytes) | Request::Notified(bytes) => bytes,
            Request::Add | Request::FetchAdd | Request::CompareSwap => size_of::<u64>(),
        }) as u64
    }

    /// Whether it is too long for a message, so that the provider makes it.
    fn is_long(&self, limit: u64) -> bool {
        self.bytes_of_one() > limit
    }

    /// Messages to one target, and their bytes with those of the answers.
    fn messages(&self) -> (u64, u64) {
        let size = self.request.size();
        let room = MESSAGE_MOST - MESSAGE_HEADER - size.first;
        // An answer has room for a word that names the request as failed.
        let answered = (MESSAGE_MOST - MESSAGE_HEADER) / (size.answer + size_of::<u64>());
        let most = (1 + room / size.next).min(answered) as u64;
        let messages = self.each.div_ceil(most);
        let named = messages * size.first as u64;
        let repeated = (self.each - messages) * size.next as u64;
        let answers = messages * MESSAGE_HEADER as u64 + self.each * size.answer as u64;
        let requests = messages * MESSAGE_HEADER as u64 + named + repeated;
        (messages, requests + answers)
    }
}

/// What a rank waits for at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The answers to its requests.
    Answers,
    /// A request of another rank, sent at the same time as this rank's.
    Signal,
    /// Nothing: what follows does not depend on it.
    Nothing,
}

/// Steps that are taken together.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) steps: Vec<Step>,
    pub(crate) wait: Wait,
    /// Waits, one after the other, among which the steps are divided.
    pub(crate) waits: u64,
}

impl Round {
    pub(crate) fn new(wait: Wait, steps: Vec<Step>) -> Round {
        let waits = u64::from(wait != Wait::Nothing);
        Round { steps, wait, waits }
    }
}

/// What a rank does in one operation or epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) rounds: Vec<Round>,
    /// Collectives of the node's ranks through shared memory, which need no transport, and the bytes of their operands.
    pub(crate) node_stages: u64,
    pub(crate) node_bytes: u64,
    /// Messages of the mailbox that this rank takes, from its node and from others.
    pub(crate) taken_near: u64,
    pub(crate) taken_far: u64,
    /// Stores and loads of memory that is mapped here, which need no transport.
    pub(crate) mapped: u64,
}

impl Script {
    pub(crate) fn of(rounds: Vec<Round>) -> Script {
        Script {
            rounds,
            ..Script::default()
        }
    }

    /// All of it so many times.
    pub(crate) fn repeated(&self, times: u64) -> Script {
        let rounds = (0..times).flat_map(|_| self.rounds.iter().cloned());
        Script {
            rounds: rounds.collect(),
            node_stages: self.node_stages * times,
            node_bytes: self.node_bytes * times,
            taken_near: self.taken_near * times,
            taken_far: self.taken_far * times,
            mapped: self.mapped * times,
        }
    }
}

/// What carries requests to other ranks of the node. Those to other nodes are messages, and long ones the provider's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Near {
    Ring,
    /// As those to other nodes (`btl_ofi_same_node` off).
    Message,
}

/// Sums of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// As the counters of the transport count them.
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// Without the answers, of which there is one for each.
    pub(crate) messages: u64,
    /// Bytes of messages and answers, without headers of the provider.
    pub(crate) wire: u64,
    /// Operations of the provider, and their bytes.
    pub(crate) provider: u64,
    pub(crate) provider_bytes: u64,
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.messages += other.messages;
        self.wire += other.wire;
        self.provider += other.provider;
        self.provider_bytes += other.provider_bytes;
    }
}

/// What a script comes to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) own: Sums,
    pub(crate) near: Sums,
    pub(crate) far: Sums,
    /// Waits for answers, and for signals of other ranks, one after the other.
    pub(crate) round_trips: u64,
    pub(crate) signals: u64,
}

impl Traffic {
    /// Sums up a script. `limit` is `btl_ofi_message_limit`.
    pub(crate) fn of(script: &Script, near: Near, limit: u64) -> Traffic {
        let mut traffic = Traffic::default();
        for round in &script.rounds {
            match round.wait {
                Wait::Answers => traffic.round_trips += round.waits,
                Wait::Signal => traffic.signals += round.waits,
                Wait::Nothing => {}
            }
            for step in &round.steps {
                let sums = match step.place {
                    Place::Own => &mut traffic.own,
                    Place::Near => &mut traffic.near,
                    Place::Far => &mut traffic.far,
                };
                let operations = step.targets * step.each;
                sums.operations += operations;
                sums.bytes += operations * step.bytes_of_one();
                let by_message =
                    step.place == Place::Far || step.place == Place::Near && near == Near::Message;
                if by_message && step.is_long(limit) {
                    sums.provider += operations;
                    sums.provider_bytes += operations * step.bytes_of_one();
                } else if by_message {
                    let (messages, wire) = step.messages();
                    sums.messages += step.targets * messages;
                    sums.wire += step.targets * wire;
                }
            }
        }
        traffic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(request: Request, each: u64) -> (u64, u64) {
        let step = Step {
            each,
            ..Step::one(Place::Far, request)
        };
        step.messages()
    }

    #[test]
    fn sizes_are_those_of_the_page_on_the_wire_protocol() {
        // docs/wire-protocol.md: a put of 8 bytes to the region of the previous put takes 24 bytes.
        assert_eq!(Request::Put(8).size().next, 24);
        assert_eq!(messages(Request::Put(8), 1), (1, 48 + 40 + 48));
        assert_eq!(messages(Request::Put(8), 64), (1, 48 + 40 + 63 * 24 + 48));
        assert_eq!(messages(Request::Get(8), 1), (1, 48 + 32 + 48 + 8));
        // 64 puts of 256 B fill a message and a part of a second one (docs/performance.md).
        assert_eq!(messages(Request::Put(256), 64).0, 2);
        // An answer has the bytes of three gets of 4 KiB.
        assert_eq!([3, 4].map(|n| messages(Request::Get(4096), n).0), [1, 2]);
    }

    #[test]
    fn places_follow_the_nodes() {
        let job = Job {
            ranks: 10,
            per_node: 4,
        };
        assert_eq!((job.nodes(), job.beside(9), job.beside(3)), (3, 2, 4));
        assert_eq!(job.place(3, 4), Place::Far);
        assert_eq!(job.place(4, 7), Place::Near);
        assert_eq!(job.place(9, 9), Place::Own);
    }
}
