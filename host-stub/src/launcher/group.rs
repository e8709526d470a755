//! The processes of a job: one process group, and processes that leave the group.
//!
//! The group's leader is a separate process, the guard, which kills the group when the launcher is dead. The guard is
//! reaped last, so no other group gets the group's number. A process that leaves the group (`setsid`) becomes a child of
//! the launcher when its parent ends, because the launcher is a subreaper.

use std::fs;
use std::io::{self, PipeWriter};
use std::os::fd::AsRawFd;

use crate::base::process::with_signals_blocked;
use crate::bootstrap::local::JOB_ENV;

/// The group of a job's processes.
pub(super) struct Group {
    /// The process id of the guard, which is also the group's number.
    leader: i32,
    /// The write end of the guard's pipe; the pipe ends with this process.
    _alive: PipeWriter,
    /// The environment entry that marks the job's processes.
    mark: Vec<u8>,
}

impl Group {
    pub(super) fn new(job: &str) -> io::Result<Group> {
        // SAFETY: the call takes no pointers.
        if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let (reader, writer) = io::pipe()?;
        let (from, to) = (reader.as_raw_fd(), writer.as_raw_fd());
        // SAFETY: the child makes only system calls that are allowed after fork.
        let leader = with_signals_blocked(|| unsafe {
            match libc::fork() {
                0 => guard(from, to),
                child => child,
            }
        });
        if leader < 0 {
            return Err(io::Error::last_os_error());
        }
        // Parent and child both call `setpgid`, so the group exists before either continues.
        // SAFETY: the call takes no pointers.
        unsafe { libc::setpgid(leader, leader) };
        Ok(Group {
            leader,
            _alive: writer,
            mark: format!("{JOB_ENV}={job}").into_bytes(),
        })
    }

    pub(super) fn number(&self) -> i32 {
        self.leader
    }

    pub(super) fn signal(&self, signal: i32) {
        // SAFETY: the call takes no pointers. The leader is not reaped yet, so the group belongs to
        // the job.
        unsafe { libc::kill(-self.leader, signal) };
    }

    /// The living child processes of this process that have the job's mark in their environment.
    pub(super) fn children(&self) -> Vec<i32> {
        let own = std::process::id().to_string();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The second field is a name in parentheses that may contain any character; the fourth field is the
            // parent.
            let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            rest.split_ascii_whitespace().nth(1) == Some(&own)
                // The environment is empty if the process has ended.
                && fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
                    let mut variables = environment.split(|byte| *byte == 0);
                    variables.any(|variable| variable == self.mark)
                })
        })
        .collect()
    }

    /// Reaps the guard, which was killed.
    pub(super) fn reap(self) {
        // SAFETY: the process is a child of this process, and the call writes no status.
        unsafe { libc::waitpid(self.leader, std::ptr::null_mut(), 0) };
    }
}

/// The body of the guard: waits until no process can write to the pipe, then kills its group and thereby
/// itself.
///
/// # Safety
/// The caller is a child after fork.
unsafe fn guard(from: i32, to: i32) -> ! {
    let mut byte = 0_u8;
    // SAFETY: these system calls are allowed after fork; the buffer has one byte.
    unsafe {
        libc::setpgid(0, 0);
        libc::close(to);
        while libc::read(from, (&raw mut byte).cast(), 1) > 0 {}
        libc::kill(0, libc::SIGKILL);
        libc::_exit(1)
    }
}
