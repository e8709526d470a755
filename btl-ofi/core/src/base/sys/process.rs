//! Calls about processes: their existence, threads, users and limits, and the permission to trace.

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};

use super::{checked, failed, from_io};
use crate::base::error::CallError;

/// Checks whether a process exists. Fails with ESRCH if the process does not exist, and with EPERM if the
/// process exists and this process may not signal it.
pub(crate) fn find_process(pid: u32) -> Result<(), CallError> {
    scripted!("kill");
    // SAFETY: signal 0 is not sent; the kernel only checks the process.
    checked("kill", unsafe { libc::kill(pid as libc::pid_t, 0) }).map(drop)
}

/// The ids of a process's threads, from `/proc/<process>/task`; `None` for an entry that cannot be read. `process` is
/// a number or `self`.
pub(crate) fn threads(process: &str) -> Result<Vec<Option<u32>>, CallError> {
    scripted!("getdents");
    let entries = fs::read_dir(format!("/proc/{process}/task"));
    let entries = entries.map_err(|e| from_io("getdents", &e))?;
    let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.map(|entry| entry.ok().and_then(id)).collect())
}

/// Permits every process of this user to attach to this process, if Yama requires a permission. Fails
/// without Yama.
pub(crate) fn permit_tracing() -> Result<(), CallError> {
    scripted!("prctl");
    // SAFETY: the arguments of this request are numbers.
    let rc = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    checked("prctl", rc).map(drop)
}

/// Registers functions that fork calls: the first before the fork, the others after it in the parent and in the
/// child.
pub(crate) fn at_fork(
    before: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) -> Result<(), CallError> {
    scripted!("pthread_atfork");
    // SAFETY: the functions have the type of handlers. The C library removes the handlers when the image of this
    // function is unloaded.
    match unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) } {
        0 => Ok(()),
        code => Err(CallError {
            call: "pthread_atfork",
            code,
        }),
    }
}

/// Random numbers that no other process can guess, at most 32; none is 0.
pub(crate) fn random<const N: usize>() -> Result<[u64; N], CallError> {
    const {
        assert!(
            N <= 32,
            "getrandom may return a part of more than 256 bytes"
        )
    };
    loop {
        let mut numbers = [0u64; N];
        // SAFETY: the kernel writes at most the bytes of the numbers.
        let rc = unsafe { libc::getrandom((&raw mut numbers).cast(), size_of_val(&numbers), 0) };
        match checked("getrandom", i32::try_from(rc).unwrap_or(-1)) {
            Err(e) if e.code == libc::EINTR => {}
            Ok(_) if numbers.contains(&0) => {}
            result => return result.map(|_| numbers),
        }
    }
}

/// The effective user id.
pub(crate) fn effective_user() -> u32 {
    #[cfg(test)]
    if let Some(Ok(user)) = super::script::answer("geteuid", "geteuid") {
        return user;
    }
    // SAFETY: geteuid takes no argument and cannot fail.
    unsafe { libc::geteuid() }
}

/// Size of a page of memory in bytes. Offsets of mappings are multiples of this size.
pub(crate) fn page_size() -> Result<usize, CallError> {
    scripted!("sysconf");
    // SAFETY: sysconf takes an integer only.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).map_err(|_| failed("sysconf"))
}

/// Largest size in bytes to which this process may extend a file (RLIMIT_FSIZE).
pub(crate) fn file_size_limit() -> Result<u64, CallError> {
    scripted!("getrlimit");
    limit(libc::RLIMIT_FSIZE).map(|limit| limit.rlim_cur)
}

/// The limits on this process's descriptors: the soft limit, then the hard limit (RLIMIT_NOFILE).
pub(crate) fn descriptor_limits() -> Result<(u64, u64), CallError> {
    scripted!("getrlimit", "descriptors");
    limit(libc::RLIMIT_NOFILE).map(|limit| (limit.rlim_cur, limit.rlim_max))
}

/// Checks whether this process may open one more descriptor. Fails with EMFILE if this process has reached
/// its limit, or with ENFILE if the machine has no descriptor left.
pub(crate) fn is_descriptor_left() -> Result<(), CallError> {
    scripted!("eventfd");
    // SAFETY: the arguments are numbers.
    let made = checked("eventfd", unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
    // SAFETY: eventfd returned this descriptor just now, and nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(made) });
    Ok(())
}

/// Sets the limits of [`descriptor_limits`].
pub(crate) fn set_descriptor_limits((soft, hard): (u64, u64)) -> Result<(), CallError> {
    scripted!("setrlimit");
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: setrlimit only reads the limit.
    checked("setrlimit", unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit)
    })
    .map(drop)
}

fn limit(resource: libc::__rlimit_resource_t) -> Result<libc::rlimit, CallError> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a local that getrlimit may write.
    checked("getrlimit", unsafe {
        libc::getrlimit(resource, &mut limit)
    })?;
    Ok(limit)
}
