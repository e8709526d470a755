//! The files of the shm provider's endpoints in `/dev/shm`: whether a peer's is there, and the orphaned segments of dead
//! processes, which are removed.
//!
//! The shm provider names an endpoint's segments after its address. Our address names the process: node (kernel and
//! process-id namespace, see `peer::liveness`), process id and start time. So a name shows whether its owner is
//! dead. A file of another program, of another container or of a reused process id never matches.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::base::sys;
use crate::peer::liveness::{ProcessId, State};

const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "btl_ofi.";

/// Whether the file of the shm endpoint with this address is there. True for addresses that name no file: libfabric
/// reports errors of these.
pub(crate) fn exists(address: &[u8]) -> bool {
    let text = address.strip_prefix(b"fi_shm://").unwrap_or(address);
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    match std::str::from_utf8(text) {
        Ok(name) if !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) => {
            let found = fs::symlink_metadata(Path::new(FOLDER).join(name));
            !found.is_err_and(|e| e.kind() == ErrorKind::NotFound)
        }
        _ => true,
    }
}

/// Prefix of this process's file names in `/dev/shm`; a `:` or a `.` follows. `None` if the process cannot be
/// distinguished from others.
pub(crate) fn name(node: u64, process: ProcessId) -> Option<String> {
    (node != 0 && process.started != 0)
        .then(|| format!("{PREFIX}{node:016x}.{}.{}", process.pid, process.started))
}

/// The process that a file name belongs to, if it is a process of this node.
fn owner(name: &str, node: u64) -> Option<ProcessId> {
    let rest = name.strip_prefix(PREFIX)?;
    let end = rest.find(':').unwrap_or(rest.len());
    let mut fields = rest[..end].split('.');
    let of = fields.next()?;
    let pid = fields.next()?.parse().ok()?;
    let started = fields.next()?.parse().ok()?;
    (node != 0 && of == format!("{node:016x}")).then_some(ProcessId { pid, started })
}

/// Removes the files of one dead process.
pub(crate) fn remove(node: u64, process: ProcessId) {
    sweep(Path::new(FOLDER), node, |found| found == process);
}

/// Removes the files of all dead processes of this user on this node.
pub(crate) fn remove_all(node: u64) {
    sweep(Path::new(FOLDER), node, |_| true);
}

fn sweep(folder: &Path, node: u64, wanted: impl Fn(ProcessId) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let user = sys::effective_user();
    for entry in entries.flatten() {
        let file = entry.file_name();
        let Some(process) = file.to_str().and_then(|name| owner(name, node)) else {
            continue;
        };
        // Metadata of the entry itself, not of the target of a link.
        let ours = entry
            .metadata()
            .is_ok_and(|m| m.uid() == user && m.is_file());
        if ours && wanted(process) && process.state() == State::Gone {
            match fs::remove_file(entry.path()) {
                Ok(()) => tracing::debug!("removed {} of a dead process", entry.path().display()),
                // Another process removed the file first.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => tracing::warn!("cannot remove {}: {e}", entry.path().display()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sys::script::Script;

    #[test]
    fn names_identify_their_owner() {
        let process = ProcessId {
            pid: 17,
            started: 99,
        };
        let name = name(0xabc, process).unwrap();
        for file in [
            format!("{name}:0:1"),
            format!("{name}:0:1_12"),
            format!("{name}.words"),
            name.clone(),
        ] {
            assert_eq!(owner(&file, 0xabc), Some(process), "{file}");
            assert_eq!(owner(&file, 0xabd), None, "of another node");
        }
        for other in [
            "17:0:1",
            "btl_ofi",
            "btl_ofi.",
            "btl_ofi.0000000000000abc.x.9",
        ] {
            assert_eq!(owner(other, 0xabc), None, "{other}");
        }
        assert_eq!(super::name(0, process), None);
    }

    #[test]
    fn only_names_of_files_are_looked_for() {
        for (address, found) in [
            (&b"fi_shm://no such file\0"[..], false),
            (b"no such file", false),
            (b"fi_shm://../none", true),
            (b"fi_shm://.", true),
            (b"\xff", true),
            (b"", true),
        ] {
            assert_eq!(exists(address), found, "{address:?}");
        }
    }

    #[test]
    fn only_files_of_dead_processes_are_removed() {
        let place = std::env::temp_dir().join(format!("btl-ofi-orphans-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let node = crate::peer::liveness::node();
        let own = ProcessId::own();
        let before = ProcessId {
            started: own.started.wrapping_sub(1),
            ..own
        };
        let file = |process, tail: &str| place.join(name(node, process).unwrap() + tail);
        let living = file(own, ":0:0");
        let dead = file(before, ":0:0");
        let other = place.join("btl_ofi.0000000000000001.1.1:0:0");
        let link = file(before, ":0:1");
        for path in [&living, &dead, &other] {
            fs::write(path, b"x").unwrap();
        }
        let of_other_user = Script::new().answers("geteuid", sys::effective_user() + 1);
        sweep(&place, node, |_| true);
        assert!(dead.exists(), "of another user");
        drop(of_other_user);
        std::os::unix::fs::symlink(&living, &link).unwrap();
        sweep(&place, node, |_| true);
        assert!(living.exists() && other.exists() && link.exists());
        assert!(!dead.exists());
        fs::remove_dir_all(&place).unwrap();
    }
}
