//! The machine's resources that processes of one node need: shared memory, copies between processes,
//! limits, a home.

use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;

use super::Finding;

const SHM: &str = "/dev/shm";
/// Shared memory that 16 processes of a node need, about 4 MiB each.
const SHM_NEEDED: u64 = 64 << 20;
/// Shared memory that libfabric wants for each processor before it offers the provider shm.
const SHM_OF_PROCESSOR: u64 = 16 << 20;

pub(super) fn look() -> Vec<Finding> {
    vec![shared_memory(), copies(), memlock(), home()]
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn shared_memory() -> Finding {
    let Some(space) = space(SHM) else {
        return Finding::problem(SHM, "missing, and processes of a node meet there")
            .set("sudo mount -t tmpfs tmpfs /dev/shm");
    };
    let probe = format!("{SHM}/host-stub-doctor.{}", std::process::id());
    let written = fs::File::create_new(&probe);
    // The file exists only if the write above made it.
    if written.is_ok() {
        let _ = fs::remove_file(&probe);
    }
    if let Err(error) = written {
        return Finding::problem(SHM, format!("no file can be made there: {error}"))
            .set("sudo chmod 1777 /dev/shm");
    }
    // SAFETY: sysconf takes an integer only.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    judge_space(space, u64::try_from(processors).unwrap_or(1))
}

/// Bytes of a file system.
#[derive(Clone, Copy)]
struct Space {
    /// The bytes that a user may still write.
    free: u64,
    /// All bytes, free or not.
    size: u64,
}

/// Whether shared memory suffices for a job on all processors, and for the provider shm.
fn judge_space(space: Space, processors: u64) -> Finding {
    let of_provider = processors.saturating_mul(SHM_OF_PROCESSOR);
    let needed = of_provider.max(SHM_NEEDED);
    let free = mib(space.free);
    if space.free >= needed {
        return Finding::ok(SHM, format!("{free} free"));
    }
    let mut wants = Vec::new();
    if space.free < SHM_NEEDED {
        wants.push(format!("16 processes of a node need {}", mib(SHM_NEEDED)));
    }
    if space.free < of_provider {
        let wanted = mib(of_provider);
        wants.push(format!(
            "the provider shm needs {wanted} (16 MiB for each processor)"
        ));
    }
    let found = format!("{free} are free, and {}", wants.join("; "));
    let finding = if space.free < SHM_NEEDED {
        Finding::problem(SHM, found)
    } else {
        Finding::note(SHM, found)
    };
    // Used memory stays used, and half as much again lets a job begin while another ends.
    let used = space.size.saturating_sub(space.free);
    let size = (used + needed + needed / 2).div_ceil(1 << 20);
    finding.set(format!(
        "sudo mount -o remount,size={size}m /dev/shm   # in a container: docker run --shm-size={size}m"
    ))
}

/// The bytes of the file system that holds `path`.
fn space(path: &str) -> Option<Space> {
    let path = CString::new(path).ok()?;
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is NUL-terminated, and `stat` is writable.
    if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded and filled the structure.
    let stat = unsafe { stat.assume_init() };
    Some(Space {
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        size: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

/// Checks whether processes may copy from each other (cross-memory attach).
fn copies() -> Finding {
    const SUBJECT: &str = "ptrace";
    let slower = "large transfers on a node go through shared memory, which is slower";
    if let Err(error) = copy_own() {
        return Finding::note(
            SUBJECT,
            format!("the kernel refuses process_vm_readv ({error}): {slower}"),
        )
        .set("docker run --cap-add=SYS_PTRACE ...   # where a container's filter of system calls refuses it");
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "2" | "3" => Finding::note(
            SUBJECT,
            format!("ptrace_scope is {}: {slower}", scope.trim()),
        )
        .set("sudo sysctl kernel.yama.ptrace_scope=1"),
        "" => Finding::ok(SUBJECT, "processes of one user may copy from each other"),
        scope => Finding::ok(
            SUBJECT,
            format!("ptrace_scope is {scope}: the transport allows copies between its processes"),
        ),
    }
}

/// Copies a word of this process by the system call that copies between processes.
fn copy_own() -> std::io::Result<()> {
    let (from, mut to) = (0x5eed_u64, 0_u64);
    let local = libc::iovec {
        iov_base: (&raw mut to).cast(),
        iov_len: size_of::<u64>(),
    };
    let remote = libc::iovec {
        iov_base: (&raw const from).cast_mut().cast(),
        iov_len: size_of::<u64>(),
    };
    // SAFETY: both vectors name a live word of this process; the kernel writes to `to` only.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if copied < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

fn memlock() -> Finding {
    const SUBJECT: &str = "memlock";
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } != 0 {
        return Finding::note(SUBJECT, std::io::Error::last_os_error().to_string());
    }
    if limit.rlim_cur == libc::RLIM_INFINITY {
        return Finding::ok(SUBJECT, "unlimited");
    }
    let found = format!("{} may be pinned", mib(limit.rlim_cur));
    let adapters =
        fs::read_dir("/sys/class/infiniband").is_ok_and(|mut list| list.next().is_some());
    if !adapters {
        return Finding::ok(
            SUBJECT,
            format!("{found}; no adapter of this machine pins memory"),
        );
    }
    Finding::problem(
        SUBJECT,
        format!("{found}, and the adapters in /sys/class/infiniband pin every window"),
    )
    .set("echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/memlock.conf   # then log in again")
}

/// The folder of a user's parameter file. A home that cannot be written is no obstacle.
fn home() -> Finding {
    const SUBJECT: &str = "home";
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) else {
        return Finding::note(
            SUBJECT,
            "HOME is not set: no file of the user's own is read",
        )
        .set("mpirun --tune FILE ...   # instead of $HOME/.openmpi/mca-params.conf");
    };
    let home = Path::new(&home);
    let file = home.join(".openmpi/mca-params.conf");
    if file.is_file() {
        return Finding::ok(SUBJECT, format!("{} is read", file.display()));
    }
    let writable = CString::new(home.as_os_str().as_encoded_bytes())
        // SAFETY: the path is NUL-terminated.
        .is_ok_and(|path| unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0);
    if writable {
        return Finding::ok(SUBJECT, format!("{} can be written", home.display()));
    }
    Finding::note(
        SUBJECT,
        format!(
            "{} cannot be written: nothing needs to be, but parameters cannot be kept there",
            home.display()
        ),
    )
    .set("mpirun --tune FILE ...   # instead of $HOME/.openmpi/mca-params.conf")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    fn judged(free: u64, size: u64, processors: u64) -> (Verdict, String, String) {
        let space = Space {
            free: free << 20,
            size: size << 20,
        };
        let finding = judge_space(space, processors);
        (finding.verdict, finding.found, finding.set.join("\n"))
    }

    #[test]
    fn shared_memory_has_to_suffice_for_the_provider_shm_too() {
        assert_eq!(judged(64, 64, 4).0, Verdict::Ok);
        assert_eq!(judged(128, 128, 8).0, Verdict::Ok);
        // Docker's default size, on 5 processors.
        let (verdict, found, set) = judged(64, 64, 5);
        assert_eq!(verdict, Verdict::Note);
        let said = "64 MiB are free, and the provider shm needs 80 MiB (16 MiB for each processor)";
        assert_eq!(found, said);
        let lines = "sudo mount -o remount,size=120m /dev/shm   # in a container: docker run --shm-size=120m";
        assert_eq!(set, lines);
    }

    #[test]
    fn less_than_processes_of_a_node_need_is_a_problem() {
        let (verdict, found, set) = judged(40, 64, 2);
        assert_eq!(verdict, Verdict::Problem);
        assert_eq!(
            found,
            "40 MiB are free, and 16 processes of a node need 64 MiB"
        );
        // 24 MiB are used.
        assert!(set.contains("--shm-size=120m"), "{set}");
        let (_, found, set) = judged(40, 64, 16);
        let said = "need 64 MiB; the provider shm needs 256 MiB (16 MiB for each processor)";
        assert!(found.ends_with(said), "{found}");
        assert!(set.contains("--shm-size=408m"), "{set}");
    }
}
