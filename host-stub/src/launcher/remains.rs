//! Shared-memory files that killed processes could not remove themselves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::base::process::Process;

/// Removes the transport's files of processes of this user that have ended, of earlier jobs too.
pub(super) fn remove_files() {
    remove_files_in(Path::new("/dev/shm"));
}

fn remove_files_in(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let own = Process::own();
    // SAFETY: has no failure and no argument.
    let uid = unsafe { libc::geteuid() };
    for entry in entries.flatten() {
        // Metadata of the entry itself, not of what a link points to.
        let (name, Ok(metadata)) = (entry.file_name(), entry.metadata()) else {
            continue;
        };
        // Of a process that is not beside this one, nothing is known.
        let owner = name.to_str().and_then(owner);
        let is_orphaned = owner.is_some_and(|of| of.is_beside(&own) && of.is_gone());
        if !is_orphaned || metadata.uid() != uid || !metadata.is_file() {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Ok(()) => tracing::debug!("removed {}", entry.path().display()),
            Err(error) => tracing::warn!("cannot remove {}: {error}", entry.path().display()),
        }
    }
}

/// The process in a name of the transport's files: `btl_ofi.NODE.PID.STARTED` with anything after a `:` or a `.`, as the shm
/// provider appends it. NODE is the process's [`space`](Process::space).
fn owner(name: &str) -> Option<Process> {
    let mut fields = name.strip_prefix("btl_ofi.")?.split([':', '.']);
    let node = fields.next()?;
    let process = Process {
        space: u64::from_str_radix(node, 16).ok()?,
        pid: fields.next()?.parse().ok()?,
        started: fields.next()?.parse().ok()?,
    };
    (format!("{:016x}", process.space) == node).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of processes that live, of another process-id namespace, and of others stay.
    #[test]
    fn files_of_ended_processes_alone_are_removed() {
        let folder = std::env::temp_dir().join(format!("host-stub-remains-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let own = Process::own();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        let named = |space: u64, pid: u32, started: u64, rest: &str| {
            format!("btl_ofi.{space:016x}.{pid}.{started}{rest}")
        };
        // The file has the lower 32 bits of the start.
        let started = own.started & u64::from(u32::MAX);
        let removed = [
            named(own.space, ended, 7, ":0:0_1"),
            named(own.space, own.pid, started ^ 1, ".words"),
        ];
        let kept = [
            named(own.space ^ 1, ended, 7, ":0:0"),
            named(own.space, own.pid, started, ":0:0"),
            format!("{ended}:0:0"),
            format!("btl_ofi.{:x}", own.space),
            format!("x{}", removed[0]),
        ];
        for name in removed.iter().chain(&kept) {
            fs::write(folder.join(name), "x").unwrap();
        }
        remove_files_in(&folder);
        for (names, there) in [(&kept[..], true), (&removed[..], false)] {
            for name in names {
                assert_eq!(folder.join(name).exists(), there, "{name}");
            }
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
