//! Running a program for a bounded time.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    /// Its end.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Whether it was killed because its time was over.
    pub late: bool,
}

impl Outcome {
    /// Everything it said, for the message of a failed assertion.
    pub fn transcript(&self) -> String {
        format!(
            "{}\n--- stdout\n{}--- stderr\n{}",
            self.status, self.stdout, self.stderr
        )
    }
}

/// After so long a program hangs, however busy the machine is.
const HANGS: Duration = Duration::from_secs(600);

/// Runs a program in a process group of its own. If it hangs the whole group is killed, and the test fails with what the
/// program said until then.
pub fn run(command: &mut Command) -> Outcome {
    let outcome = attempt(command, HANGS);
    assert!(
        !outcome.late,
        "{command:?} did not end within {HANGS:?}: {}",
        outcome.transcript()
    );
    outcome
}

/// As [`run`] with a limit of the caller's, to whom it leaves what to do about a program that did not end in time.
pub fn attempt(command: &mut Command, limit: Duration) -> Outcome {
    // A test that is ended takes its programs with it: a launcher ends its job then. The thread that starts a program waits
    // for it, so the thread's end is the test's.
    // SAFETY: prctl is a system call, which a child may make between fork and exec.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
    let mut child = command
        // A machine with a GPU gives the results of one without. The fake of the driver does not read this.
        .env("CUDA_VISIBLE_DEVICES", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break Some(status);
        }
        if Instant::now() >= end {
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    // Whatever the program left behind holds its pipes open, so it ends before they are read.
    let group = libc::pid_t::try_from(child.id()).expect("a process id fits pid_t");
    // SAFETY: kill takes plain numbers; the group is this child's own, and gone or ours.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    Outcome {
        late: status.is_none(),
        status: status.unwrap_or_else(|| child.wait().expect("a child can be waited for")),
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    }
}

/// Reads a pipe to its end on a thread of its own, so that a program never blocks on it.
fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // An error ends the text where it occurred.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
