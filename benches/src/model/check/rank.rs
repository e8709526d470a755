//! A rank of the check: runs each case, reads the counters before and after, and compares with the model.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use host_stub::comm::Comm;
use host_stub::job::Members;
use host_stub::win::Window;
use host_stub::{Job as HostJob, JobOptions};
use host_stub_command::stats::read::Process;
use plugin_api::ThreadLevel;

use super::cases::{CASES, Case, LONG, Rank, fits};
use super::exchanges::Counted;
use super::judge::{KINDS, Line, judge};
use super::{LIMIT, PLUGIN, wire};
use crate::traffic::{Job, Near, Place, Sums, Traffic};
use crate::{collectives, creation};

/// Runs of a case, of which each rank's least counts are taken: a rank that waits for long looks after the others by gets.
const RUNS: usize = 3;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What this process counted by now: by place, and bytes sent over TCP.
fn counted(shape: Job, me: u64) -> Outcome<([Sums; 3], u64)> {
    let process = Process::read(std::process::id())?;
    let transport = process.transports.first().ok_or("no transport")?;
    let mut sums = [Sums::default(); 3];
    for peer in &transport.peers {
        let Some(rank) = peer.peer else { continue };
        let provider = peer.carried.iter().filter(|c| c.carrier == "provider");
        sums[shape.place(me, rank) as usize] += Sums {
            operations: peer.operations(),
            bytes: peer.bytes(),
            messages: peer.messages,
            provider: provider.map(|carried| carried.operations).sum(),
            ..Sums::default()
        };
    }
    Ok((sums, wire::sent()?))
}

/// The differences of two readings, number by number.
fn since(after: ([Sums; 3], u64), before: ([Sums; 3], u64)) -> Vec<u64> {
    let words = |sums: &Sums| [sums.operations, sums.bytes, sums.messages, sums.provider];
    let all = |(sums, sent): &([Sums; 3], u64)| {
        let mut all: Vec<u64> = sums.iter().flat_map(words).collect();
        all.push(*sent);
        all
    };
    let pairs = all(&after).into_iter().zip(all(&before));
    pairs.map(|(after, before)| after - before).collect()
}

/// What the model says of the same numbers; the last is bytes of messages and answers.
fn modelled(case: &Case, shape: Job, rank: u64) -> Vec<u64> {
    let script = (case.script)(shape, rank);
    let script = match case.by_mailbox {
        true => collectives::credited(shape, &script, case.times),
        false => script.repeated(case.times),
    };
    let traffic = Traffic::of(&script, Near::Message, LIMIT);
    let places = [traffic.own, traffic.near, traffic.far];
    let words = |sums: &Sums| [sums.operations, sums.bytes, sums.messages, sums.provider];
    let mut all: Vec<u64> = places.iter().flat_map(words).collect();
    all.push(traffic.near.wire + traffic.far.wire);
    all
}

/// This rank's counts of each run of a case.
fn measure(job: &HostJob, rank: &mut Rank, case: &Case) -> Outcome<Vec<Vec<u64>>> {
    let settle = || -> Outcome<()> {
        // Then all ranks' requests are answered.
        job.transport().flush(None).ok()?;
        Ok(job.barrier()?)
    };
    let mut runs = Vec::new();
    // Connections are made in a run that is not counted.
    for _ in 0..=RUNS {
        settle()?;
        let before = counted(rank.shape, rank.me)?;
        job.barrier()?;
        for _ in 0..case.times {
            (case.run)(rank)?;
            if case.by_mailbox {
                settle()?;
            }
        }
        settle()?;
        runs.push(since(counted(rank.shape, rank.me)?, before));
    }
    runs.remove(0);
    Ok(runs)
}

/// The counts of all ranks, of each in the run of a case in which it made the fewest operations and then sent the fewest bytes.
fn least(job: &HostJob, rank: &mut Rank, case: &Case) -> Outcome<Vec<Vec<u64>>> {
    let runs = measure(job, rank, case)?;
    let cost = |counts: &Vec<u64>| -> (u64, u64) {
        let of_places = counts.iter().step_by(KINDS.len());
        let operations = of_places.take(PLACES.len()).sum();
        (operations, counts.last().copied().unwrap_or_default())
    };
    let least = runs.into_iter().min_by_key(cost).unwrap_or_default();
    gathered(job, &least)
}

fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn to_words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.as_chunks::<8>().0.iter();
    words.map(|word| u64::from_ne_bytes(*word)).collect()
}

/// Gives each rank's numbers to all.
fn gathered(job: &HostJob, mine: &[u64]) -> Outcome<Vec<Vec<u64>>> {
    let all = job.allgather(&to_bytes(mine))?;
    Ok(all.iter().map(|bytes| to_words(bytes)).collect())
}

/// Makes the window of the check, and says what its ranks exchanged for it.
fn window(job: &Arc<HostJob>) -> Outcome<(Window, creation::Exchanges)> {
    let members = Counted::new(job);
    let window = Window::allocate(Members::new(Arc::clone(&members) as _), LONG, 1)?;
    Ok((window, members.exchanges()))
}

/// Runs the check as a rank of a job that was launched for it.
pub(super) fn run() -> Outcome<()> {
    // SAFETY: this program has one thread.
    let mut options = unsafe { JobOptions::default().assume_threads(ThreadLevel::Single) };
    if let Some(plugin) = std::env::var_os(PLUGIN) {
        // SAFETY: the launching process of the same program names it.
        options = unsafe { options.plugin(PathBuf::from(plugin)) };
    }
    let job = HostJob::init(options)?;
    let me = u64::from(job.rank());
    let beside = (0..job.size()).filter(|rank| job.node(*rank) == job.node(0));
    let shape = Job {
        ranks: u64::from(job.size()),
        per_node: beside.count() as u64,
    };
    if !fits(shape) {
        return Err(format!("{shape:?}: two nodes or more of equal size are wanted").into());
    }
    let (window, exchanges) = window(&job)?;
    let mut rank = Rank {
        shape,
        me,
        window,
        comm: Comm::world(&job)?,
        from: vec![0; LONG / 8],
        into: vec![0; LONG / 8],
    };
    let mut lines = Vec::new();
    for case in &CASES {
        let counts = least(&job, &mut rank, case)?;
        let ranks = 0..shape.ranks;
        lines.push(Line {
            name: case.name,
            times: case.times,
            shared: case.shared,
            has_wire: !case.by_provider,
            counted: counts,
            modelled: ranks.map(|rank| modelled(case, shape, rank)).collect(),
        });
    }
    let exchanged = gathered(&job, &[exchanges.rounds, exchanges.given])?;
    rank.window.free().map_err(|e| e.to_string())?;
    job.finalize()?;
    if me > 0 {
        return Ok(());
    }
    let wrong = judge(shape, &lines, &exchanged);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("the model is wrong:\n{}", wrong.join("\n")).into()),
    }
}

/// The place of each number, as [`since`] has them.
pub(super) const PLACES: [Place; 3] = [Place::Own, Place::Near, Place::Far];
