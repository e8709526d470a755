//! Shared-memory files that killed processes could not remove themselves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::base::process::Process;

/// Removes the transport's files of this user's dead processes, including those of earlier jobs.
pub(super) fn remove_files() {
    remove_files_in(Path::new("/dev/shm"));
}

fn remove_files_in(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let own = Process::own();
    // SAFETY: the call has no arguments and cannot fail.
    let uid = unsafe { libc::geteuid() };
    for entry in entries.flatten() {
        // The metadata belongs to the entry itself, not to the target of a link.
        let (name, Ok(metadata)) = (entry.file_name(), entry.metadata()) else {
            continue;
        };
        // A process in another namespace is unknown, so its files stay.
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

/// The process in a file name of the transport: `btl_ofi.NODE.PID.STARTED`, then anything after a `:` or a `.`, which the
/// shm provider appends. NODE is the process's [`space`](Process::space).
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

    /// The function removes only files of dead processes. Files of living processes, of other
    /// process-id namespaces and of other programs stay.
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
        // The file name contains the lower 32 bits of the start time.
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
