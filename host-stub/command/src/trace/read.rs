//! Reading traces: the processes of a job, on one clock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plugin_api::trace::{HEAD, Head, Kind, NO_RANK, RECORD, Record};

/// Clocks of one host that differ by less than this many nanoseconds are the same: CLOCK_REALTIME was read at different times,
/// and may be adjusted between. Hosts with the same name have clocks that began at other times.
const SAME_CLOCK: u64 = 1_000_000_000;

/// The processes of a job.
pub(super) struct Job {
    /// In the order of their ranks.
    pub(super) processes: Vec<Process>,
}

/// A process, with its records in the order of their beginnings. Times are nanoseconds since the first record of the job.
pub(super) struct Process {
    pub(super) rank: u64,
    pub(super) head: Head,
    pub(super) records: Vec<Record>,
    /// Whether it closed its transport. Otherwise it was killed, or its trace ended early.
    pub(super) is_whole: bool,
}

impl Process {
    /// How it is called.
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

    /// When its last record ended.
    pub(super) fn end(&self) -> u64 {
        self.records.iter().map(Record::end).max().unwrap_or(0)
    }

    /// Reads a file, up to its last whole record.
    ///
    /// # Errors
    /// It cannot be read, or is no trace.
    fn read(path: &Path) -> Result<Process, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let bytes = std::fs::read(path).map_err(|e| failed(&e))?;
        let head = Head::from_bytes(&bytes).map_err(|e| failed(&e))?;
        let (records, _) = bytes[HEAD..].as_chunks::<RECORD>();
        // A kind that this version does not know belongs to another version of the format.
        let records: Vec<_> = records.iter().filter_map(Record::from_bytes).collect();
        Ok(Process {
            rank: head.rank,
            is_whole: records.iter().any(|record| record.kind == Kind::End),
            head,
            records,
        })
    }
}

impl Job {
    /// Reads the trace of each process.
    ///
    /// # Errors
    /// A file cannot be read, or is no trace.
    pub(super) fn read(files: &[PathBuf]) -> Result<Job, String> {
        let each = files.iter().map(|path| Process::read(path));
        Ok(Job::of(each.collect::<Result<_, _>>()?))
    }

    /// Joins the transports of each process, and brings all to one clock.
    fn of(files: Vec<Process>) -> Job {
        let mut offsets: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut by_process: BTreeMap<(u64, String, u32), Process> = BTreeMap::new();
        for mut file in files {
            let offset = file.head.realtime.wrapping_sub(file.head.monotonic);
            let known = offsets.entry(file.head.host.clone()).or_default();
            let same = known.iter().find(|k| k.abs_diff(offset) < SAME_CLOCK);
            let offset = same.copied().unwrap_or_else(|| {
                known.push(offset);
                offset
            });
            for record in &mut file.records {
                record.begin = record.begin.wrapping_add(offset);
            }
            let key = (file.rank, file.head.host.clone(), file.head.process);
            match by_process.get_mut(&key) {
                Some(process) => {
                    process.records.append(&mut file.records);
                    process.is_whole &= file.is_whole;
                }
                None => drop(by_process.insert(key, file)),
            }
        }
        let mut processes: Vec<_> = by_process.into_values().collect();
        let first = processes
            .iter()
            .flat_map(|p| &p.records)
            .map(|r| r.begin)
            .min();
        for (process, number) in processes.iter_mut().zip(0..) {
            if process.rank == NO_RANK {
                process.rank = number;
            }
            for record in &mut process.records {
                record.begin -= first.unwrap_or(0);
            }
            process
                .records
                .sort_by_key(|r| (r.begin, std::cmp::Reverse(r.duration)));
            super::open::drop_ended(&mut process.records, process.is_whole);
        }
        Job { processes }
    }

    /// The process with a rank.
    pub(super) fn process(&self, rank: u64) -> Option<usize> {
        self.processes
            .iter()
            .position(|process| process.rank == rank)
    }

    /// What the traces lack.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
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
mod tests {
    use super::*;

    fn file(rank: u64, host: &str, (monotonic, realtime): (u64, u64), begins: &[u64]) -> Process {
        let head = Head {
            process: 100 + rank as u32,
            rank,
            monotonic,
            realtime,
            host: host.to_owned(),
            title: String::new(),
        };
        let records = begins
            .iter()
            .map(|begin| Record::new(Kind::Post, *begin, 1));
        Process {
            rank,
            head,
            records: records.collect(),
            is_whole: true,
        }
    }

    fn begins(process: &Process) -> Vec<u64> {
        process.records.iter().map(|record| record.begin).collect()
    }

    /// Processes of one host share a clock, however late they read the other one; hosts are joined by the other one.
    #[test]
    fn one_clock_for_all() {
        const YEAR: u64 = 1 << 55;
        let job = Job::of(vec![
            file(1, "b", (500, YEAR + 1_000), &[600]),
            file(0, "a", (1_000, YEAR), &[2_000, 1_500]),
            file(2, "a", (9_000, YEAR + 8_003), &[1_600]),
        ]);
        assert_eq!(begins(&job.processes[0]), [0, 500]);
        assert_eq!(begins(&job.processes[1]), [600]);
        assert_eq!(begins(&job.processes[2]), [100]);
        assert_eq!(job.process(2), Some(2));
        assert_eq!(job.process(7), None);
    }

    /// The modules of a process are one process, and processes without ranks have their places as ranks.
    #[test]
    fn processes_of_several_files_and_without_ranks() {
        let job = Job::of(vec![
            file(3, "a", (0, 10), &[7]),
            file(3, "a", (0, 10), &[5, 9]),
        ]);
        assert_eq!(job.processes.len(), 1);
        assert_eq!(begins(&job.processes[0]), [0, 2, 4]);
        let mut nobody = file(5, "a", (0, 10), &[1]);
        nobody.rank = NO_RANK;
        assert_eq!(Job::of(vec![nobody]).processes[0].rank, 0);
    }
}
