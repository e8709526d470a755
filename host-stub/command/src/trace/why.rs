//! The longest waits of a job, and their reasons.
//!
//! A wait is a blocking call of the host, a long flush of the transport, or posts that were refused. If waits are nested,
//! the outermost is shown. The reason is the first that holds for at least half of the wait:
//!
//! | reason | seen in |
//! | --- | --- |
//! | a rank held the lock | its `lock` and `unlock` |
//! | another rank made no progress, or its trace ends before the wait does | that rank's trace |
//! | another rank came to the same call later | its call of the same name that began during the wait |
//! | this rank itself made no progress | its own times without progress |
//! | the provider or the peer had no room | the refused posts of the waiting rank |
//! | an operation was under way, although its target made progress | its post and its callback |

use host_stub::trace::{Kind, NO_RANK, Record};
use serde::Serialize;

use super::merge::title;
use super::read::{Job, Process};

/// An interval of time.
#[derive(Clone, Copy)]
struct Span {
    begin: u64,
    end: u64,
}

impl Span {
    fn of(record: &Record) -> Span {
        Span {
            begin: record.begin,
            end: record.end(),
        }
    }

    /// The time for which both last at once.
    fn overlap(self, other: Span) -> u64 {
        let (begin, end) = (self.begin.max(other.begin), self.end.min(other.end));
        end.saturating_sub(begin)
    }

    fn contains(self, other: Span) -> bool {
        self.begin <= other.begin && other.end <= self.end
    }

    fn length(self) -> u64 {
        self.end - self.begin
    }
}

/// A wait and its reason.
#[derive(Debug, Serialize)]
pub(super) struct Waited {
    /// The beginning in nanoseconds since the job's first record; `duration_ns` is the length.
    pub(super) begin_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) rank: u64,
    /// The call, with the peer if one is known.
    pub(super) place: String,
    /// Whether the wait ended; an unfinished wait took `duration_ns` at least.
    pub(super) ended: bool,
    /// The rank that kept the call waiting.
    pub(super) blamed: Option<u64>,
    pub(super) reason: String,
}

/// The `most` longest waits of at least `least` nanoseconds. Waits that never ended come first, regardless of their
/// length.
pub(super) fn find(job: &Job, least: u64, most: usize) -> Vec<Waited> {
    let mut waits: Vec<(usize, &Record)> = Vec::new();
    for (process, at) in job.processes.iter().zip(0..) {
        let mut outermost: Vec<&Record> = Vec::new();
        // Records are ordered by their beginnings; of two with the same beginning the longer one
        // comes first.
        for record in process
            .records
            .iter()
            .filter(|r| is_wait(r) && (r.duration >= least || r.open))
        {
            let around =
                |o: &&Record| o.thread == record.thread && Span::of(o).contains(Span::of(record));
            if !outermost.iter().rev().any(around) {
                outermost.push(record);
            }
        }
        waits.extend(outermost.into_iter().map(|record| (at, record)));
    }
    waits.sort_by_key(|(_, record)| std::cmp::Reverse((record.open, record.duration)));
    waits.truncate(most);
    let explained = waits
        .into_iter()
        .map(|(at, record)| explain(job, at, record));
    explained.collect()
}

fn is_wait(record: &Record) -> bool {
    matches!(record.kind, Kind::Call | Kind::Wait | Kind::Refused)
}

fn explain(job: &Job, at: usize, wait: &Record) -> Waited {
    let (process, span) = (&job.processes[at], Span::of(wait));
    let reason = holder(job, at, wait)
        .or_else(|| silent(job, at, wait))
        .or_else(|| late(job, at, wait))
        .or_else(|| own_pause(process, span))
        .or_else(|| no_room(process, span))
        .or_else(|| under_way(process, span));
    let (blamed, reason) = reason.unwrap_or_else(|| {
        let unknown = "no single reason; are the traces of all ranks here?";
        (None, String::from(unknown))
    });
    Waited {
        begin_ns: wait.begin,
        duration_ns: wait.duration,
        rank: process.rank,
        place: place(process, wait),
        ended: !wait.open,
        blamed,
        reason,
    }
}

type Reason = (Option<u64>, String);

/// The call, with the flush of one peer if this flush took most of the time.
fn place(process: &Process, wait: &Record) -> String {
    let span = Span::of(wait);
    let inner = process
        .of(Kind::Wait)
        .filter(|r| wait.kind == Kind::Call && r.peer != NO_RANK);
    let inner = inner.filter(|r| span.contains(Span::of(r)) && r.duration * 2 >= wait.duration);
    match inner.max_by_key(|r| r.duration) {
        Some(inner) if wait.peer == NO_RANK => format!("{}, for rank {}", title(wait), inner.peer),
        _ => title(wait),
    }
}

/// The rank that held the lock for which a rank waited.
fn holder(job: &Job, at: usize, wait: &Record) -> Option<Reason> {
    if wait.kind != Kind::Call || !["lock", "lock_all"].contains(&wait.name().as_str()) {
        return None;
    }
    let span = Span::of(wait);
    let others = job
        .processes
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != at);
    let all = others.flat_map(|(_, process)| held(process).map(move |h| (process.rank, h)));
    let asked = |target: u64| target == wait.peer || [target, wait.peer].contains(&NO_RANK);
    let held = all.filter(|(_, (target, _))| asked(*target));
    let (rank, (target, held)) = held.max_by_key(|(_, (_, held))| held.overlap(span))?;
    let overlap = held.overlap(span);
    let whose = match target {
        NO_RANK => String::from("the locks of all ranks"),
        target => format!("the lock of rank {target}"),
    };
    let reason = format!("rank {rank} held {whose} for {} of it", time(overlap));
    (overlap * 2 >= span.length()).then_some((Some(rank), reason))
}

/// The times in which a process held the lock of a rank, or of all: from the end of the call that took it to the end of the
/// next call that released it, or to the end of the trace.
fn held(process: &Process) -> impl Iterator<Item = (u64, Span)> {
    let takes = |r: &&Record| !r.open && ["lock", "lock_all"].contains(&r.name().as_str());
    process.of(Kind::Call).filter(takes).map(|lock| {
        let (begin, released) = (lock.end(), format!("un{}", lock.name()));
        let mut later = process.of(Kind::Call).filter(move |r| r.begin >= begin);
        let unlock = later.find(|r| r.name() == released && r.peer == lock.peer);
        let end = unlock.map_or_else(|| process.end(), Record::end);
        (lock.peer, Span { begin, end })
    })
}

/// A rank that makes no progress in its own wait has no processor, or runs a long callback.
fn own_pause(process: &Process, span: Span) -> Option<Reason> {
    let (paused, _) = paused(process, span);
    (paused * 2 >= span.length()).then(|| {
        let reason = format!(
            "this rank made no progress itself for {} of it: it had no processor, or a callback ran for long",
            time(paused)
        );
        (Some(process.rank), reason)
    })
}

/// The total and the longest time of an interval in which a process made no progress.
fn paused(process: &Process, span: Span) -> (u64, Option<Span>) {
    let pauses = || process.of(Kind::Quiet).map(Span::of);
    let longest = pauses().max_by_key(|pause| pause.overlap(span));
    (pauses().map(|pause| pause.overlap(span)).sum(), longest)
}

/// The other rank that made no progress for the longest part of a wait.
fn silent(job: &Job, at: usize, wait: &Record) -> Option<Reason> {
    let (span, asked) = (Span::of(wait), peer(&job.processes[at], wait));
    let others = job
        .processes
        .iter()
        .enumerate()
        .filter(|(other, process)| *other != at && (asked == NO_RANK || process.rank == asked));
    let after = |process: &Process| Span {
        begin: process.end(),
        end: u64::MAX,
    };
    let silent = others.map(|(_, process)| {
        let (paused, longest) = paused(process, span);
        (paused, after(process).overlap(span), longest, process)
    });
    let (paused, ended, longest, process) =
        silent.max_by_key(|(paused, ended, ..)| paused + ended)?;
    if (paused + ended) * 2 < span.length() {
        return None;
    }
    let rank = process.rank;
    let reason = match longest {
        Some(longest) if paused >= ended => format!(
            "rank {rank} made no progress for {} of it{}",
            time(paused),
            between(process, longest)
        ),
        _ if process.is_whole => format!("rank {rank} had closed its transport"),
        _ => format!(
            "the trace of rank {rank} ends before: it was killed, its disk was full, or it did nothing any more"
        ),
    };
    Some((Some(rank), reason))
}

/// The rank that came last to a call that all make, such as a fence or a barrier: it did other work meanwhile.
fn late(job: &Job, at: usize, wait: &Record) -> Option<Reason> {
    let (span, name) = (Span::of(wait), wait.name());
    if wait.kind != Kind::Call || wait.peer != NO_RANK {
        return None;
    }
    let others = job.processes.iter().enumerate().filter(|o| o.0 != at);
    let came = others.filter_map(|(_, process)| {
        let within = |c: &&Record| span.begin < c.begin && c.begin < span.end;
        let same = process.of(Kind::Call).filter(|c| c.name() == name);
        same.filter(within)
            .map(|call| (call.begin, process.rank))
            .min()
    });
    let (begin, rank) = came.max()?;
    let by = begin - span.begin;
    let reason = format!("rank {rank} came to its {name} {} later", time(by));
    (by * 2 >= span.length()).then_some((Some(rank), reason))
}

/// The peer of a wait: its own, or the peer of the longest flush in it.
fn peer(process: &Process, wait: &Record) -> u64 {
    let span = Span::of(wait);
    let known = |r: &&Record| matches!(r.kind, Kind::Wait | Kind::Refused) && r.peer != NO_RANK;
    let within = process.records.iter().filter(known);
    let within = within.filter(|r| span.contains(Span::of(r)) && r.duration * 2 >= wait.duration);
    match wait.kind {
        Kind::Call => within
            .max_by_key(|r| r.duration)
            .map_or(NO_RANK, |r| r.peer),
        _ => wait.peer,
    }
}

/// The calls before and after a time without progress, or the call during it.
fn between(process: &Process, pause: Span) -> String {
    let calls = || process.of(Kind::Call);
    let before = calls()
        .filter(|c| c.end() <= pause.begin + pause.length() / 2)
        .max_by_key(|c| c.end());
    let after = calls().find(|c| c.begin >= pause.begin + pause.length() / 2);
    match (before, after) {
        (Some(before), Some(after)) => {
            format!(", between its {} and its {}", title(before), title(after))
        }
        (Some(before), None) => format!(", after its {}", title(before)),
        (None, Some(after)) => format!(", before its {}", title(after)),
        (None, None) => String::new(),
    }
}

/// The queue or ring that had no room for posts.
fn no_room(process: &Process, span: Span) -> Option<Reason> {
    let refused = process
        .of(Kind::Refused)
        .filter(|r| Span::of(r).overlap(span) * 2 >= span.length());
    let refused = refused.max_by_key(|r| r.duration)?;
    let (peer, times) = (refused.peer, refused.id);
    let what = match refused.name().as_str() {
        "peer" => format!(
            "rank {peer} took no more: its ring was full, or the credits for messages ran out"
        ),
        _ => String::from("the wire was full (FI_EAGAIN)"),
    };
    Some((
        Some(peer),
        format!("{what}: {times} posts in a row were refused"),
    ))
}

/// The operation that was under way for most of a wait.
fn under_way(process: &Process, span: Span) -> Option<Reason> {
    let longest = process
        .of(Kind::Done)
        .max_by_key(|done| Span::of(done).overlap(span))?;
    (Span::of(longest).overlap(span) * 2 >= span.length()).then(|| {
        let reason = format!(
            "its {} of {} bytes took {}: the wire, or a connection that was made first",
            title(longest),
            longest.bytes,
            time(longest.duration)
        );
        (Some(longest.peer), reason)
    })
}

/// A time in milliseconds.
fn time(nanoseconds: u64) -> String {
    format!("{:.1} ms", nanoseconds as f64 / 1e6)
}

/// The waits as lines.
pub(super) fn text(waits: &[Waited], least: u64) -> String {
    if waits.is_empty() {
        return format!("no wait took {} or longer\n", time(least));
    }
    let line = |w: &Waited| {
        format!(
            "{:>10}  at {:>10}  rank {}, {}: {}\n",
            time(w.duration_ns),
            time(w.begin_ns),
            w.rank,
            w.place,
            w.reason
        )
    };
    waits.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
