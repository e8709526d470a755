//! Which processes are of one run of a job, where the files of several were given.

use std::collections::BTreeMap;

use host_stub::trace::NO_RANK;

use super::read::Process;

/// Leaves the processes of the newest run, and says what was left out. Files are of several runs if two processes have the
/// same rank. A run begins where all processes that began before have ended: those of one run wait for each other when they
/// begin. Times of records and heads are those of one clock.
///
/// # Errors
/// Two processes of the newest run have the same rank.
pub(super) fn newest(
    mut processes: Vec<Process>,
) -> Result<(Vec<Process>, Option<String>), String> {
    let Some((rank, pids)) = twice(&processes) else {
        return Ok((processes, None));
    };
    processes.sort_by_key(|process| process.head.realtime);
    let (mut first, mut ended) = (0, 0);
    for (process, at) in processes.iter().zip(0..) {
        let began = process.head.realtime;
        if began > ended {
            first = at;
        }
        ended = ended.max(began).max(process.end());
    }
    let mut newest = processes.split_off(first);
    newest.sort_by(|a, b| key(a).cmp(&key(b)));
    if let Some((rank, pids)) = twice(&newest) {
        return Err(format!(
            "the files are of several jobs: rank {rank} has processes {} and {}, which ran at the same time; name the files \
             of one job",
            pids[0], pids[1]
        ));
    }
    let older = processes.len();
    let remark = format!(
        "the files are of several runs: rank {rank} has processes {} and {}; the newest run is shown, and {older} processes \
         of older ones are left out",
        pids[0], pids[1]
    );
    Ok((newest, Some(remark)))
}

/// What processes are ordered by.
fn key(process: &Process) -> (u64, &str, u32) {
    (process.rank, &process.head.host, process.head.process)
}

/// A rank that two processes have.
fn twice(processes: &[Process]) -> Option<(u64, [u32; 2])> {
    let mut known = BTreeMap::new();
    let mut ranked = processes.iter().filter(|p| p.rank != NO_RANK);
    ranked.find_map(|process| {
        let other = known.insert(process.rank, process.head.process)?;
        Some((process.rank, [other, process.head.process]))
    })
}

#[cfg(test)]
mod tests {
    use super::super::read::Job;
    use super::super::read::tests::file;
    use super::*;

    /// A process of host `a` with records of one nanosecond at these times.
    fn process(rank: u64, pid: u32, began: u64, times: &[u64]) -> Process {
        let mut process = file(rank, "a", (began, began), times);
        process.head.process = pid;
        process
    }

    fn pids(job: &Job) -> Vec<u32> {
        job.processes.iter().map(|p| p.head.process).collect()
    }

    /// The newest run has fewer ranks; its processes, and those of the other, began in any order.
    #[test]
    fn the_newest_run_is_taken() {
        let files = vec![
            process(0, 10, 100, &[110, 200]),
            process(1, 11, 103, &[120, 205]),
            process(2, 12, 101, &[]),
            process(1, 21, 300, &[310, 410]),
            process(0, 20, 302, &[305, 400]),
        ];
        let job = Job::of(files).unwrap();
        assert_eq!(pids(&job), [20, 21]);
        assert_eq!(job.processes[0].records[0].begin, 0);
        let remarks = job.remarks();
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(
            remarks[0].contains("rank 0 has processes 10 and 20")
                && remarks[0].contains("3 processes of older ones"),
            "{remarks:?}"
        );
    }

    #[test]
    fn jobs_at_the_same_time_are_refused() {
        let files = || {
            vec![
                process(0, 10, 100, &[200]),
                process(0, 20, 150, &[250]),
                process(0, 5, 1, &[9]),
            ]
        };
        let refused = Job::of(files()).err().unwrap();
        assert!(
            refused.contains("rank 0 has processes 10 and 20")
                && refused.contains("name the files of one job"),
            "{refused}"
        );
    }

    /// Without ranks nothing tells that there are several runs; and a rank may end before another begins.
    #[test]
    fn one_run_is_whole() {
        let nobody = |pid, began| process(NO_RANK, pid, began, &[began + 1]);
        let job = Job::of(vec![nobody(7, 10), nobody(8, 100)]).unwrap();
        assert_eq!(pids(&job), [7, 8]);
        let job = Job::of(vec![process(1, 11, 100, &[101]), process(0, 10, 1, &[2])]);
        let job = job.unwrap();
        assert_eq!(pids(&job), [10, 11]);
        assert!(job.remarks().is_empty());
    }
}
