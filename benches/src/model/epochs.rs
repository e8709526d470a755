//! Operations and epochs of a window over several nodes, as what one rank sends (`host-stub/src/win/btl`).

use btl_ofi::sizes::Request;
use host_stub::win::sizes::LOCKS_AT_ONCE;

use crate::traffic::{Job, Place, Round, Script, Step, Wait};

/// One request to a rank of another node, and its flush.
pub(crate) fn operation(request: Request) -> Script {
    let step = Step::one(Place::Far, request);
    Script::of(vec![Round::new(Wait::Answers, vec![step])])
}

/// Puts of 8 bytes to one rank of another node, and one flush.
pub(crate) fn puts(count: u64) -> Script {
    let step = Step {
        each: count,
        ..Step::one(Place::Far, Request::Put(8))
    };
    Script::of(vec![Round::new(Wait::Answers, vec![step])])
}

/// A fence without operations before it: in round k a rank adds to a word of the one 2^k further (`active.rs`, `barrier`).
pub(crate) fn fence(job: Job, rank: u64) -> Script {
    let distances = (0..u64::BITS).map(|k| 1u64 << k);
    let rounds = distances
        .take_while(|distance| *distance < job.ranks)
        .map(|distance| {
            let to = (rank + distance) % job.ranks;
            let step = Step::one(job.place(rank, to), Request::Add);
            Round::new(Wait::Signal, vec![step])
        });
    Script::of(rounds.collect())
}

/// The ranks before and behind a rank on a ring, which exchange halos.
pub(crate) fn neighbours(job: Job, rank: u64) -> Vec<u64> {
    let mut both = vec![(rank + job.ranks - 1) % job.ranks, (rank + 1) % job.ranks];
    both.sort_unstable();
    both.dedup();
    both.retain(|other| *other != rank);
    both
}

/// Post, start, a put of `bytes` to each neighbour, complete, wait. Puts to ranks of the node are stores.
pub(crate) fn halo(job: Job, rank: u64, bytes: usize) -> Script {
    let group = neighbours(job, rank);
    let to = |request| {
        let places = group.iter().map(|other| job.place(rank, *other));
        places.map(move |place| Step::one(place, request))
    };
    let adds = || to(Request::Add).collect::<Vec<_>>();
    let puts: Vec<_> = to(Request::Put(bytes))
        .filter(|step| step.place == Place::Far)
        .collect();
    let mapped = (group.len() - puts.len()) as u64;
    let mut rounds = vec![Round::new(Wait::Signal, adds())];
    if !puts.is_empty() {
        rounds.push(Round::new(Wait::Answers, puts));
    }
    rounds.push(Round::new(Wait::Answers, adds()));
    Script {
        mapped,
        ..Script::of(rounds)
    }
}

/// A request to the lock word of every rank. They wait so many at a time.
fn every_lock(job: Job, rank: u64, request: Request, wait: Wait) -> Round {
    let near = job.beside(rank) - 1;
    let targets = [
        (Place::Own, 1),
        (Place::Near, near),
        (Place::Far, job.ranks - 1 - near),
    ];
    let steps = targets.into_iter().filter(|(_, targets)| *targets > 0);
    let steps = steps.map(|(place, targets)| Step {
        targets,
        ..Step::one(place, request)
    });
    Round {
        steps: steps.collect(),
        wait,
        waits: match wait {
            Wait::Nothing => 0,
            _ => job.ranks.div_ceil(LOCKS_AT_ONCE as u64),
        },
    }
}

/// `lock_all` and `unlock_all`, nobody holding a lock exclusively.
pub(crate) fn locks(job: Job, rank: u64) -> Script {
    Script::of(vec![
        every_lock(job, rank, Request::FetchAdd, Wait::Answers),
        // Nobody waits until the locks are given back.
        every_lock(job, rank, Request::Add, Wait::Nothing),
    ])
}

/// A put of 8 bytes to every other rank, and `flush_all`. Puts to ranks of the node are stores.
pub(crate) fn put_to_all(job: Job, rank: u64) -> Script {
    let near = job.beside(rank) - 1;
    let far = job.ranks - 1 - near;
    let step = Step {
        targets: far,
        ..Step::one(Place::Far, Request::Put(8))
    };
    let rounds = (far > 0).then(|| Round::new(Wait::Answers, vec![step]));
    Script {
        mapped: near,
        ..Script::of(rounds.into_iter().collect())
    }
}

/// An exclusive lock of a free rank of another node, a put of 8 bytes, and the unlock.
pub(crate) fn exclusive_put() -> Script {
    let requests = [
        (Request::CompareSwap, Wait::Answers),
        (Request::Put(8), Wait::Answers),
        (Request::Add, Wait::Nothing),
    ];
    let rounds = requests.map(|(request, wait)| {
        let step = Step::one(Place::Far, request);
        Round::new(wait, vec![step])
    });
    Script::of(rounds.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Near, Traffic};

    #[test]
    fn a_fence_takes_a_round_for_each_doubling() {
        for (ranks, rounds) in [(1, 0), (2, 1), (3, 2), (64, 6), (65, 7), (1_000_000, 20)] {
            let job = Job { ranks, per_node: 1 };
            let traffic = Traffic::of(&fence(job, 0), Near::Ring, 4096);
            assert_eq!((traffic.signals, traffic.far.operations), (rounds, rounds));
        }
    }

    #[test]
    fn every_rank_is_locked_once() {
        let job = Job {
            ranks: 100,
            per_node: 8,
        };
        for rank in [0, 50, 99] {
            let traffic = Traffic::of(&locks(job, rank), Near::Ring, 4096);
            let all = [traffic.own, traffic.near, traffic.far];
            let operations: u64 = all.iter().map(|sums| sums.operations).sum();
            assert_eq!((operations, traffic.round_trips), (200, 7));
        }
    }
}
