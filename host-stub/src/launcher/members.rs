//! The processes of a job, found by what they cannot shed by forking: the job's name in the
//! environment they were started with, or the process group or session of a rank.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Names of the jobs that a process belongs to, separated by colons: a rank may launch a job.
pub(super) const MEMBER_ENV: &str = "HOST_STUB_JOBS";

/// The processes of one job.
pub(super) struct Members {
    job: String,
    pids: BTreeSet<i32>,
}

impl Members {
    pub(super) fn new(job: &str) -> Self {
        Members {
            job: job.to_owned(),
            pids: BTreeSet::new(),
        }
    }

    /// Adds a process that leads a group of its own or has joined the job; false if it is known.
    pub(super) fn add(&mut self, pid: i32) -> bool {
        // Neither the launcher nor "everyone" nor init, whatever a client claims.
        pid > 1 && pid != std::process::id() as i32 && self.pids.insert(pid)
    }

    /// Every process ever added.
    pub(super) fn pids(&self) -> &BTreeSet<i32> {
        &self.pids
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
        let Some((state, groups)) = fs::read_to_string(format!("{path}/stat"))
            .ok()
            .as_deref()
            .and_then(state_and_groups)
        else {
            return false;
        };
        if matches!(state, 'Z' | 'X') {
            return false;
        }
        groups.iter().any(|group| self.pids.contains(group))
            || fs::read(format!("{path}/environ"))
                .is_ok_and(|environment| self.is_named_in(&environment))
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

/// State, process group and session out of `/proc/PID/stat`, whose second field is a name in parentheses that
/// may itself contain anything.
fn state_and_groups(stat: &str) -> Option<(char, [i32; 2])> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The parent comes before.
    let group = fields.nth(1)?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    Some((state, [group, session]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_hostile_name() {
        let stat = "42 (a) Z 1 (b c) S 7 8 9 0 -1 4194560";
        assert_eq!(state_and_groups(stat), Some(('S', [8, 9])));
        assert_eq!(state_and_groups("42 (a"), None);
        assert_eq!(state_and_groups("42 (a) S 1"), None);
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
            assert!(!members.add(pid), "{pid}");
        }
        assert!(members.add(4_000_000));
        assert!(!members.add(4_000_000));
    }
}
