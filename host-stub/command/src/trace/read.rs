//! Reading traces: the processes of a job, on one clock.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use host_stub::trace::{HEAD, Head, Kind, RECORD, Record, Unreadable};

/// Clocks of one host that differ by less than this many nanoseconds are the same clock: CLOCK_REALTIME was read at different
/// times, and may be adjusted in between. Different hosts with the same name have clocks that started at other times.
const SAME_CLOCK: u64 = 1_000_000_000;

/// The processes of a job.
pub(super) struct Job {
    /// The processes in the order of their ranks.
    pub(super) processes: Vec<Process>,
    /// The files that were left out, each with the reason.
    pub(super) left_out: Vec<String>,
}

/// A process, with its records in the order of their beginnings. Times of records are nanoseconds since the first record of
/// the job.
pub(super) struct Process {
    pub(super) rank: u64,
    pub(super) head: Head,
    pub(super) records: Vec<Record>,
    /// Whether the process closed its transport. Otherwise the process was killed, or its trace
    /// ended early.
    pub(super) is_whole: bool,
}

impl Process {
    /// The title of the process.
    pub(super) fn title(&self) -> String {
        let Head {
            process,
            host,
            title,
            ..
        } = &self.head;
        format!("rank {} ({host}, process {process}): {title}", self.rank)
    }

    /// Its records of one kind.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .filter(move |record| record.kind == kind)
    }

    /// The time at which the last record of the process ended.
    pub(super) fn end(&self) -> u64 {
        self.records.iter().map(Record::end).max().unwrap_or(0)
    }

    /// Reads a file, up to its last whole record; `None` if it is no trace.
    ///
    /// # Errors
    /// The file cannot be read, or has the format of another version.
    fn read(path: &Path) -> Result<Option<Process>, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let bytes = std::fs::read(path).map_err(|e| failed(&e))?;
        let head = match Head::from_bytes(&bytes) {
            Ok(head) => head,
            Err(Unreadable::NoTrace) => return Ok(None),
            Err(e) => return Err(failed(&e)),
        };
        let (records, _) = bytes[HEAD..].as_chunks::<RECORD>();
        // A kind that this version does not know belongs to another version of the format.
        let mut records: Vec<_> = records.iter().filter_map(Record::from_bytes).collect();
        add_carriers(&mut records);
        Ok(Some(Process {
            rank: head.rank,
            is_whole: records.iter().any(|record| record.kind == Kind::End),
            head,
            records,
        }))
    }
}

/// The record of a completion has no carrier, because it is made before the post: only the record of the post names the
/// carrier.
fn add_carriers(records: &mut [Record]) {
    let posts = records.iter().filter(|r| r.kind == Kind::Post);
    let carriers: HashMap<u64, u8> = posts.map(|post| (post.id, post.carrier)).collect();
    for done in records.iter_mut().filter(|r| r.kind == Kind::Done) {
        done.carrier = carriers.get(&done.id).copied().unwrap_or(done.carrier);
    }
}

impl Job {
    /// Reads the trace of each process. Files that are no traces are left out.
    ///
    /// # Errors
    /// A file cannot be read or has the format of another version, or no file is a trace.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Job, String> {
        let (mut files, mut no_traces) = (Vec::new(), Vec::new());
        for path in paths {
            match Process::read(path)? {
                Some(file) => files.push(file),
                None => no_traces.push(format!("{}: {}", path.display(), Unreadable::NoTrace)),
            }
        }
        if files.is_empty() {
            return Err(no_traces.join("; "));
        }
        let mut job = Job::of(files)?;
        job.left_out.extend(no_traces);
        Ok(job)
    }

    /// Brings the processes to one clock.
    ///
    /// # Errors
    /// The files belong to several jobs.
    pub(super) fn of(files: Vec<Process>) -> Result<Job, String> {
        let mut offsets: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut processes = files;
        for file in &mut processes {
            let offset = file.head.realtime.wrapping_sub(file.head.monotonic);
            let known = offsets.entry(file.head.host.clone()).or_default();
            let same = known.iter().find(|k| k.abs_diff(offset) < SAME_CLOCK);
            let offset = same.copied().unwrap_or_else(|| {
                known.push(offset);
                offset
            });
            file.head.realtime = file.head.monotonic.wrapping_add(offset);
            for record in &mut file.records {
                record.begin = record.begin.wrapping_add(offset);
            }
        }
        processes.sort_by_key(|process| process.rank);
        for pair in processes.windows(2) {
            if pair[0].rank == pair[1].rank {
                return Err(format!(
                    "the files are of several jobs: rank {} has processes {} and {}; name the files of one job",
                    pair[0].rank, pair[0].head.process, pair[1].head.process
                ));
            }
        }
        let first = processes
            .iter()
            .flat_map(|p| &p.records)
            .map(|r| r.begin)
            .min();
        for process in &mut processes {
            for record in &mut process.records {
                record.begin -= first.unwrap_or(0);
            }
            process
                .records
                .sort_by_key(|r| (r.begin, std::cmp::Reverse(r.duration)));
            super::open::drop_ended(&mut process.records, process.is_whole);
        }
        Ok(Job {
            processes,
            left_out: Vec::new(),
        })
    }

    /// The process with a rank.
    pub(super) fn process(&self, rank: u64) -> Option<usize> {
        self.processes
            .iter()
            .position(|process| process.rank == rank)
    }

    /// Remarks about left-out files, and about data that the traces lack.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.left_out.clone();
        for process in &self.processes {
            let rank = process.rank;
            let lost: u64 = process.of(Kind::Lost).map(|record| record.id).sum();
            if lost > 0 {
                remarks.push(format!(
                    "rank {rank}: {lost} records are missing, which came faster than they could be written"
                ));
            }
            if !process.is_whole {
                remarks.push(format!(
                    "rank {rank}: the end is missing: the process was killed, or its disk was full, or it still runs"
                ));
            }
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
