//! Functions shared by the tests of the loader, the launcher and jobs.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod counting;
pub(crate) mod ranks;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The command under test.
pub(crate) const HOST_STUB: &str = env!("CARGO_BIN_EXE_host-stub");

/// `host-stub` with arguments, in an environment without settings.
pub(crate) fn host_stub<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(HOST_STUB);
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("OMPI_MCA_") || name.starts_with("HOST_STUB_") {
            command.env_remove(name);
        }
    }
    // A user's own parameter file must not influence a test.
    command.env("OMPI_MCA_mca_base_param_files", "none");
    command
}

/// This time only bounds hangs: on a busy machine a shorter time would end runs that are merely
/// late.
pub(crate) const HANG: Duration = Duration::from_secs(600);

/// Waits until a condition is true.
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + HANG;
    while !is() {
        assert!(Instant::now() < deadline, "not within {HANG:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process lives and is no zombie.
pub(crate) fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| {
            let (_, rest) = stat.rsplit_once(')')?;
            rest.trim_start().chars().next()
        })
        .is_some_and(|state| state != 'Z' && state != 'X')
}

/// A directory for one test, removed at its end.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        // Two tests of a process may use the same name at the same time.
        static PLACES: AtomicUsize = AtomicUsize::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let unique = format!("hs-test-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).expect("create");
        Place(path)
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        std::fs::read_dir(&self.0)
            .expect("read")
            .map(|entry| entry.expect("entry").file_name().to_string_lossy().into())
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A child that does not outlive its test.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Progress of one rank for which another rank waits: a file, made at the hundredth call.
pub(crate) struct WaitedFor(std::path::PathBuf);

impl WaitedFor {
    const CALLS: u64 = 100;

    /// The same file for all ranks that one process started.
    pub(crate) fn new(name: &str) -> Self {
        let parent = std::os::unix::process::parent_id();
        WaitedFor(std::env::temp_dir().join(format!("host-stub-test-{parent}-{name}")))
    }

    /// Counts a call.
    pub(crate) fn count(&self, calls: u64) -> u64 {
        if calls + 1 == Self::CALLS {
            self.tell();
        }
        calls + 1
    }

    /// Lets the other rank continue.
    pub(crate) fn tell(&self) {
        std::fs::write(&self.0, "").expect("write");
    }

    /// Waits until the other rank has called often enough, and removes the file. The job's own limit ends a wait in vain.
    pub(crate) fn wait(&self) {
        while !self.0.exists() {
            std::thread::yield_now();
        }
        std::fs::remove_file(&self.0).expect("remove");
    }
}
