//! Shared-memory files that killed ranks could not remove themselves.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::directory::PREFIX;

const SHARED_MEMORY: &str = "/dev/shm";

/// Removes the files of a job whose processes have all ended: those named after the job, and
/// those that libfabric's shm provider named after its processes.
pub(super) fn remove(job: &str, pids: &BTreeSet<i32>) {
    let Ok(entries) = fs::read_dir(SHARED_MEMORY) else {
        return;
    };
    // SAFETY: has no failure and no argument.
    let uid = unsafe { libc::geteuid() };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| {
            is_named_after(name, job) || pid_of(name).is_some_and(|p| pids.contains(&p))
        });
        // Metadata of the entry itself, not of what a link points to.
        if !ours
            || !entry
                .metadata()
                .is_ok_and(|m| m.uid() == uid && m.is_file())
        {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Ok(()) => tracing::debug!("removed {}", entry.path().display()),
            Err(error) => tracing::warn!("cannot remove {}: {error}", entry.path().display()),
        }
    }
}

/// `host-stub-JOB-anything`, as windows name theirs.
fn is_named_after(name: &str, job: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_prefix(job))
        .is_some_and(|rest| rest.starts_with('-'))
}

/// The process in a name of the transport's files or the shm provider's: `btl_ofi.NODE.PID.STARTED`
/// with anything after a `:` or a `.`, or `PID:DOMAIN:ENDPOINT` for an endpoint without such a name,
/// followed by `_MESSAGE` for a message that is passed through a file of its own.
fn pid_of(name: &str) -> Option<i32> {
    if let Some(rest) = name.strip_prefix("btl_ofi.") {
        let mut fields = rest.split([':', '.']);
        let node = fields.next()?;
        let pid = fields.next()?.parse().ok()?;
        let started: Option<u32> = fields.next()?.parse().ok();
        let hexadecimal = node.len() == 16 && node.bytes().all(|b| b.is_ascii_hexdigit());
        return (hexadecimal && started.is_some()).then_some(pid);
    }

    let number = |text: &str| -> Option<i32> {
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
    fields.next().is_none().then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_of_the_provider_match() {
        assert_eq!(pid_of("9547:0:1"), Some(9547));
        assert_eq!(pid_of("9547:0:1_12"), Some(9547));
        assert_eq!(pid_of("btl_ofi.00112233445566aa.9547.81:0:1_3"), Some(9547));
        assert_eq!(pid_of("btl_ofi.00112233445566aa.9547.81.words"), Some(9547));
        for other in [
            "9547",
            "9547:0",
            "btl_ofi.00112233445566aa.x.81:0:1",
            "btl_ofi.00112233445566aa.9547",
            "btl_ofi.0011.9547.81:0:1",
            "9547:0:1:2",
            "9547:0:x",
            "x9547:0:1",
            "9547:0:1_",
            "9547:0:1_a",
            "09547:0:1",
            "-9547:0:1",
            "+9547:0:1",
            "9547:0:",
            ":0:1",
            "99999999999:0:1",
            "",
        ] {
            assert_eq!(pid_of(other), None, "{other}");
        }
    }

    #[test]
    fn only_files_of_this_job_match() {
        assert!(is_named_after("host-stub-7-ab-win0", "7-ab"));
        assert!(!is_named_after("host-stub-7-abc-win0", "7-ab"));
        assert!(!is_named_after("host-stub-7-ab", "7-ab"));
        assert!(!is_named_after("x-host-stub-7-ab-win0", "7-ab"));
    }
}
