//! Running a function under limits of this process.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::super::case::Failure;

/// Runs a function under another limit of this process.
pub(super) fn limited<T>(
    resource: libc::__rlimit_resource_t,
    limit: u64,
    run: impl FnOnce() -> T,
) -> Result<T, Failure> {
    let mut old = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes the limits it is given.
    if unsafe { libc::getrlimit(resource, &mut old) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let new = libc::rlimit {
        rlim_cur: limit.min(old.rlim_max),
        ..old
    };
    // SAFETY: the call reads the limits; the old soft limit is set again below.
    unsafe { libc::setrlimit(resource, &new) };
    let result = run();
    // SAFETY: the call reads the limits.
    unsafe { libc::setrlimit(resource, &old) };
    Ok(result)
}

/// Runs a function while this process can open no further file. The limit is not below the number of open files: poll(2)
/// fails with more entries than the limit, and then tcp;ofi_rxm delivers no message of the window's creation.
pub(super) fn without_descriptors<T>(run: impl FnOnce() -> T) -> Result<T, Failure> {
    let mut highest = 0;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        highest = highest.max(number.unwrap_or(0));
    }
    // These files take the free descriptors below the highest one.
    let mut fillers = Vec::new();
    let limit = loop {
        let filler = File::open("/dev/null")?;
        let number = filler.as_raw_fd();
        if number > highest {
            break number;
        }
        fillers.push(filler);
    };
    limited(libc::RLIMIT_NOFILE, limit as u64, run)
}
