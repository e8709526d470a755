//! Arrows from an operation to its execution at the target, if the traces of both show it.

use host_stub::trace::{Kind, NO_RANK, Record};
use plugin_api::counters::Carrier;

use super::read::{Job, Process};

/// An operation, and the progress of its target that executed it.
pub(super) struct Arrow<'a> {
    pub(super) from: usize,
    pub(super) post: &'a Record,
    pub(super) to: usize,
    pub(super) progress: &'a Record,
}

/// The arrows of all operations that the target's processor executes: by rings and by messages. Both keep the order of posts,
/// so the first progress of the target that executed anything and ended after the post has executed the operation, unless the
/// operation was complete before.
pub(super) fn find(job: &Job) -> Vec<Arrow<'_>> {
    let serving: Vec<Vec<&Record>> = job.processes.iter().map(serving).collect();
    let mut found = Vec::new();
    for (process, from) in job.processes.iter().zip(0..) {
        let ends = Ends::of(process);
        for post in process.of(Kind::Post).filter(|post| is_executed(post)) {
            let Some(to) = job.process(post.peer).filter(|to| *to != from) else {
                continue;
            };
            let at = serving[to].partition_point(|progress| progress.end() < post.begin);
            let Some(progress) = serving[to].get(at) else {
                continue;
            };
            if progress.begin <= ends.end_of(post) {
                found.push(Arrow {
                    from,
                    post,
                    to,
                    progress,
                });
            }
        }
    }
    found
}

fn is_executed(post: &Record) -> bool {
    post.status >= 0
        && [Carrier::Ring, Carrier::Message]
            .map(|c| c as u8)
            .contains(&post.carrier)
}

/// The progress calls of a process that executed operations of peers, in the order of their ends.
fn serving(process: &Process) -> Vec<&Record> {
    let mut serving: Vec<_> = process.of(Kind::Progress).filter(|r| r.bytes > 0).collect();
    serving.sort_by_key(|record| record.end());
    serving
}

/// The times at which the operations of a process were complete.
struct Ends<'a> {
    done: std::collections::HashMap<u64, u64>,
    flushes: Vec<&'a Record>,
}

impl Ends<'_> {
    fn of(process: &Process) -> Ends<'_> {
        let mut flushes: Vec<_> = process.of(Kind::Flush).collect();
        flushes.sort_by_key(|flush| flush.end());
        Ends {
            done: process.of(Kind::Done).map(|r| (r.id, r.end())).collect(),
            flushes,
        }
    }

    /// An operation without callback is complete at the end of the next flush of its peer.
    fn end_of(&self, post: &Record) -> u64 {
        let flushed = || {
            let at = self
                .flushes
                .partition_point(|flush| flush.end() < post.end());
            let mut later = self.flushes[at..].iter();
            later.find(|flush| {
                flush.begin >= post.begin && [post.peer, NO_RANK].contains(&flush.peer)
            })
        };
        let done = self.done.get(&post.id).copied();
        done.or_else(|| flushed().map(|f| f.end()))
            .unwrap_or(u64::MAX)
    }
}
