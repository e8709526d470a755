//! Shared-memory files that killed ranks could not remove themselves.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::directory::PREFIX;
use crate::base::process::Process;

const SHARED_MEMORY: &str = "/dev/shm";

/// More than the kernel's clock tick: the times of files are those of the last one.
const CLOCK_TICK: Duration = Duration::from_millis(100);

/// A job whose processes have ended.
pub(super) struct Ended<'a> {
    pub(super) job: &'a str,
    /// When it began.
    pub(super) began: SystemTime,
    /// All its processes. Other processes may have these ids now, or in another process-id namespace.
    pub(super) pids: &'a BTreeSet<i32>,
}

impl Ended<'_> {
    /// Removes its files: those named after the job, and those that the transport and libfabric's shm provider named after
    /// its processes.
    pub(super) fn remove_files(&self) {
        self.remove_files_in(Path::new(SHARED_MEMORY));
    }

    fn remove_files_in(&self, folder: &Path) {
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        // SAFETY: has no failure and no argument.
        let uid = unsafe { libc::geteuid() };
        for entry in entries.flatten() {
            // Metadata of the entry itself, not of what a link points to.
            let (name, Ok(metadata)) = (entry.file_name(), entry.metadata()) else {
                continue;
            };
            let ours = name.to_str().is_some_and(|name| {
                is_named_after(name, self.job) || self.is_of_process(name, &metadata)
            });
            if !ours || metadata.uid() != uid || !metadata.is_file() {
                continue;
            }
            match fs::remove_file(entry.path()) {
                Ok(()) => tracing::debug!("removed {}", entry.path().display()),
                Err(error) => tracing::warn!("cannot remove {}: {error}", entry.path().display()),
            }
        }
    }

    /// Whether a file is of an ended process of the job. A name with nothing but a process id may be that of another
    /// process: of one that lives, or of one that ended before this job.
    fn is_of_process(&self, name: &str, metadata: &Metadata) -> bool {
        let own = Process::own();
        match owner(name) {
            Some(Owner::Process(process)) => {
                process.is_beside(&own) && self.has(process.pid) && process.is_gone()
            }
            Some(Owner::Pid(pid)) => {
                let (started, space) = (0, own.space);
                self.has(pid)
                    && (Process {
                        pid,
                        started,
                        space,
                    })
                    .is_gone()
                    && metadata
                        .modified()
                        .is_ok_and(|time| time >= self.began - CLOCK_TICK)
            }
            None => false,
        }
    }

    fn has(&self, pid: u32) -> bool {
        i32::try_from(pid).is_ok_and(|pid| self.pids.contains(&pid))
    }
}

/// `host-stub-JOB-anything`, as windows name theirs.
fn is_named_after(name: &str, job: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_prefix(job))
        .is_some_and(|rest| rest.starts_with('-'))
}

/// What the name of a file tells of its process.
#[derive(Debug, PartialEq)]
enum Owner {
    Process(Process),
    Pid(u32),
}

/// The process in a name of the transport's files or the shm provider's: `btl_ofi.NODE.PID.STARTED`
/// with anything after a `:` or a `.`, or `PID:DOMAIN:ENDPOINT` for an endpoint without such a name,
/// followed by `_MESSAGE` for a message that is passed through a file of its own. NODE is the
/// process's [`space`](Process::space).
fn owner(name: &str) -> Option<Owner> {
    if let Some(rest) = name.strip_prefix("btl_ofi.") {
        let mut fields = rest.split([':', '.']);
        let node = fields.next()?;
        let process = Process {
            space: u64::from_str_radix(node, 16).ok()?,
            pid: fields.next()?.parse().ok()?,
            started: fields.next()?.parse().ok()?,
        };
        return (format!("{:016x}", process.space) == node).then_some(Owner::Process(process));
    }

    let number = |text: &str| -> Option<u32> {
        let canonical = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text.len() == 1 || !text.starts_with('0'));
        canonical.then(|| text.parse().ok())?
    };
    let mut fields = name.split(':');
    let pid = number(fields.next()?)?;
    number(fields.next()?)?;
    let last = fields.next()?;
    let (endpoint, message) = match last.split_once('_') {
        Some((endpoint, message)) => (endpoint, Some(message)),
        None => (last, None),
    };
    number(endpoint)?;
    if let Some(message) = message {
        number(message)?;
    }
    fields.next().is_none().then_some(Owner::Pid(pid))
}

#[cfg(test)]
mod tests;
