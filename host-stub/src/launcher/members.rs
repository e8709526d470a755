//! The processes of a job, found by what they cannot shed by forking: the job's name in the
//! environment they were started with, or the process group or session of a rank.
//!
//! The process that joins as a rank need not be the one that the launcher started. It may lead a
//! group of its own, but it is another's child: once it has ended, its number may become that of
//! another group of this user. So its group counts only while it exists itself. After that its
//! descendants are found by their environment.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Names of the jobs that a process belongs to, separated by colons: a rank may launch a job.
pub(super) const MEMBER_ENV: &str = "HOST_STUB_JOBS";

/// The processes of one job.
pub(super) struct Members {
    job: String,
    /// Processes that the launcher started, each in a group of its own. It reaps none before the job
    /// has ended, so their numbers are nobody else's; the guard looks as soon as the launcher is gone.
    started: BTreeSet<i32>,
    /// Other processes that joined, with their starts, where those could be read.
    joined: BTreeMap<i32, Option<u64>>,
}

impl Members {
    pub(super) fn new(job: &str) -> Self {
        Members {
            job: job.to_owned(),
            started: BTreeSet::new(),
            joined: BTreeMap::new(),
        }
    }

    /// Adds a process that the launcher started.
    pub(super) fn add(&mut self, pid: i32) {
        if may_be_member(pid) {
            self.started.insert(pid);
        }
    }

    /// Adds a process that has joined the job; false if it is known. Its start: from [`start_of`].
    pub(super) fn join(&mut self, pid: i32, start: Option<u64>) -> bool {
        may_be_member(pid)
            && !self.started.contains(&pid)
            && self.joined.insert(pid, start) != Some(start)
    }

    /// Every process ever added.
    pub(super) fn pids(&self) -> BTreeSet<i32> {
        self.started
            .iter()
            .chain(self.joined.keys())
            .copied()
            .collect()
    }

    /// The processes of the job that have not ended, descendants of ranks included.
    pub(super) fn living(&self) -> Vec<i32> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| self.is_living_member(*pid))
            .collect()
    }

    fn is_living_member(&self, pid: i32) -> bool {
        // SAFETY: these have no failure and no argument.
        let (uid, own) = unsafe { (libc::geteuid(), libc::getpid()) };
        if pid == own {
            return false;
        }
        let path = format!("/proc/{pid}");
        if !fs::metadata(&path).is_ok_and(|entry| entry.uid() == uid) {
            return false;
        }
        let Some(stat) = Stat::of(pid) else {
            return false;
        };
        if matches!(stat.state, 'Z' | 'X') {
            return false;
        }
        stat.groups.iter().any(|group| self.has_group(*group))
            || fs::read(format!("{path}/environ"))
                .is_ok_and(|environment| self.is_named_in(&environment))
    }

    /// Whether a process group or session is the job's.
    fn has_group(&self, group: i32) -> bool {
        self.started.contains(&group)
            || self
                .joined
                .get(&group)
                .is_some_and(|start| start.is_some() && *start == start_of(group))
    }

    fn is_named_in(&self, environment: &[u8]) -> bool {
        environment
            .split(|byte| *byte == 0)
            .filter_map(|variable| {
                variable
                    .strip_prefix(MEMBER_ENV.as_bytes())?
                    .strip_prefix(b"=")
            })
            .flat_map(|jobs| jobs.split(|byte| *byte == b':'))
            .any(|job| job == self.job.as_bytes())
    }

    /// Sends a signal to every living process of the job.
    pub(super) fn signal(&self, signal: i32) {
        for pid in self.living() {
            // SAFETY: no pointers. The process was a member a moment ago; that its number has gone
            // round to another since would take as many forks as there are numbers.
            unsafe {
                libc::kill(pid, signal);
            }
        }
    }
}

/// The value of [`MEMBER_ENV`] for the ranks of a job that this process launches.
pub(super) fn membership(job: &str) -> OsString {
    match std::env::var_os(MEMBER_ENV).filter(|jobs| !jobs.is_empty()) {
        Some(mut jobs) => {
            jobs.push(":");
            jobs.push(job);
            jobs
        }
        None => job.into(),
    }
}

/// When a process started, clock ticks since boot; none if it is not there.
pub(super) fn start_of(pid: i32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.start)
}

/// Neither the launcher nor "everyone" nor init, whatever a client claims.
fn may_be_member(pid: i32) -> bool {
    pid > 1 && pid != std::process::id() as i32
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, PartialEq)]
struct Stat {
    state: char,
    /// Process group and session.
    groups: [i32; 2],
    start: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Stat::parse(&text)
    }

    /// The second field is a name in parentheses that may itself contain anything.
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        // The parent comes before.
        let group = fields.nth(1)?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        // The session is the sixth field, the start the 22nd.
        let start = fields.nth(15)?.parse().ok()?;
        Some(Stat {
            state,
            groups: [group, session],
            start,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn stat_is_read_past_a_hostile_name() {
        let stat = "42 (a) Z 1 (b c) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 5 6";
        let expected = Stat {
            state: 'S',
            groups: [8, 9],
            start: 777,
        };
        assert_eq!(Stat::parse(stat), Some(expected));
        assert_eq!(Stat::parse("42 (a"), None);
        assert_eq!(Stat::parse("42 (a) S 1"), None);
        let own = std::process::id();
        assert_eq!(
            start_of(own as i32),
            Some(crate::base::process::Process::own().started)
        );
    }

    #[test]
    fn membership_is_by_whole_names() {
        let members = Members::new("1-ab");
        let named = |text: &str| members.is_named_in(text.as_bytes());
        assert!(named("A=b\0HOST_STUB_JOBS=1-ab\0C=d"));
        assert!(named("HOST_STUB_JOBS=9-x:1-ab"));
        assert!(!named("HOST_STUB_JOBS=1-abc"));
        assert!(!named("XHOST_STUB_JOBS=1-ab\0HOST_STUB_JOBSX=1-ab"));
    }

    #[test]
    fn nobody_adds_the_launcher_or_everyone() {
        let mut members = Members::new("j");
        for pid in [-1, 0, 1, std::process::id() as i32] {
            members.add(pid);
            assert!(!members.join(pid, Some(1)), "{pid}");
        }
        assert!(members.pids().is_empty());
        members.add(4_000_000);
        assert!(!members.join(4_000_000, Some(1)));
        assert!(members.join(4_000_001, Some(1)));
        assert!(!members.join(4_000_001, Some(1)));
        assert_eq!(members.pids().len(), 2);
    }

    /// A shell that leads a group, and the process that it started in it.
    struct Group {
        shell: Child,
        other: i32,
    }

    impl Group {
        fn new() -> Group {
            let mut shell = Command::new("sh")
                .args(["-c", "sleep 60 >&- & echo $!; read line"])
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(shell.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            Group {
                shell,
                other: line.trim().parse().unwrap(),
            }
        }

        fn leader(&self) -> i32 {
            self.shell.id() as i32
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            // SAFETY: no pointers. The group is not empty, so it is this one.
            unsafe { libc::kill(-self.leader(), libc::SIGKILL) };
            let _ = self.shell.wait();
        }
    }

    #[test]
    fn a_group_of_another_process_under_a_joined_number_is_not_the_jobs() {
        let group = Group::new();
        let (leader, other) = (group.leader(), group.other);
        let start = start_of(leader).unwrap();
        let mut members = Members::new("j");
        let has = |members: &Members| [leader, other].map(|pid| members.is_living_member(pid));
        assert_eq!(has(&members), [false; 2]);
        assert!(members.join(leader, Some(start)));
        assert_eq!(has(&members), [true; 2]);
        // What joined started earlier, and has ended.
        assert!(members.join(leader, Some(start - 1)));
        assert_eq!(has(&members), [false; 2]);
        assert!(members.join(leader, None));
        assert_eq!(has(&members), [false; 2]);
    }

    #[test]
    fn a_group_is_the_jobs_without_its_leader_only_if_the_launcher_started_that() {
        let mut group = Group::new();
        let (leader, other) = (group.leader(), group.other);
        let (mut joined, mut started) = (Members::new("j"), Members::new("j"));
        assert!(joined.join(leader, start_of(leader)));
        started.add(leader);
        drop(group.shell.stdin.take());
        group.shell.wait().unwrap();
        assert!(!joined.is_living_member(other));
        assert!(started.is_living_member(other));
    }
}
