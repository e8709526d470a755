//! Functions shared by the tests of the loader, the launcher and jobs.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod counting;
pub(crate) mod ranks;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The command under test.
pub(crate) const HOST_STUB: &str = env!("CARGO_BIN_EXE_host-stub");

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies in the repository")
}

/// Compiles a C source to a shared object and returns its path.
pub(crate) fn shared_object(name: &str, source: &Path, defines: &[&str]) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = place.join(format!("lib{name}.so"));
    // Concurrent tests may build the same file: each builds it under its own name, then renames it.
    let own = place.join(format!(
        "lib{name}.{}.{:?}.so",
        std::process::id(),
        std::thread::current().id()
    ));
    let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread"])
        .arg("-I")
        .arg(root().join("plugin-api/include"))
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg(source)
        .arg("-o")
        .arg(&own)
        .output()
        .expect("a C compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::rename(&own, &path).expect("rename");
    path
}

/// The C plugin, whole or with one of its defects.
pub(crate) fn c_plugin(defect: Option<&str>) -> PathBuf {
    let source = root().join("tests/c/plugin.c");
    let name = format!("cma_{}", defect.unwrap_or("good").to_lowercase());
    shared_object(&name, &source, defect.as_slice())
}

/// A finished command.
pub(crate) struct Finished {
    pub(crate) output: Output,
}

impl Finished {
    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

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

/// Runs a command; a command that hangs is killed and fails the test.
pub(crate) fn finish(command: &mut Command) -> Finished {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spawn");
    let id = child.id();
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    match wait.recv_timeout(HANG) {
        Ok(output) => Finished {
            output: output.expect("wait"),
        },
        Err(_) => {
            // SAFETY: the call takes no pointers; the child is not reaped while its thread waits.
            unsafe { libc::kill(id as i32, libc::SIGKILL) };
            panic!("{command:?} did not end within {HANG:?}");
        }
    }
}

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

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// A seed of this run, printed so that a failure can be repeated with `SEED`.
pub(crate) fn seed() -> Random {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| {
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(1, |time| time.as_nanos() as u64 | 1)
        });
    println!("SEED={seed}");
    Random(seed)
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
