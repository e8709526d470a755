//! Running a program for a bounded time.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The end of a program and its output.
#[derive(Debug)]
pub struct Outcome {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
    /// Whether the program was killed because its time was over.
    pub late: bool,
}

impl Outcome {
    /// The whole output, for the message of a failed assertion.
    pub fn transcript(&self) -> String {
        format!(
            "{}\n--- stdout\n{}--- stderr\n{}",
            self.status, self.stdout, self.stderr
        )
    }
}

/// The time after which a program hangs, however busy the machine is.
const HANGS: Duration = Duration::from_secs(600);

/// Runs a program in a separate process group. If the program hangs, its whole group is killed, and the test fails with
/// the program's output.
pub fn run(command: &mut Command) -> Outcome {
    let outcome = attempt(command, HANGS);
    assert!(
        !outcome.late,
        "{command:?} did not end within {HANGS:?}: {}",
        outcome.transcript()
    );
    outcome
}

/// The same as [`run`] with the caller's limit; the caller handles a program that did not end in time.
pub fn attempt(command: &mut Command, limit: Duration) -> Outcome {
    // If a test is killed, the kernel kills its programs too; a launcher then ends its job. The thread that starts a
    // program waits for it, so the thread ends when the test ends. SAFETY: prctl is a system call, which a child may make
    // between fork and exec.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
    let mut child = command
        // The variable hides GPUs, so every machine gives the same results. The fake of the driver does not
        // read this.
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
    // Processes that the program left behind hold its pipes open, so they are killed before the
    // pipes are read.
    let group = libc::pid_t::try_from(child.id()).expect("a process id fits pid_t");
    // SAFETY: the arguments are numbers; the group belongs to this child, and has ended or still
    // belongs to it.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    Outcome {
        late: status.is_none(),
        status: status.unwrap_or_else(|| child.wait().expect("a child can be waited for")),
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    }
}

/// Reads a pipe to its end on a separate thread, so that a program never blocks on the pipe.
fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // An error ends the text where the error occurred.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
