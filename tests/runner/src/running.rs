//! A running test program, in its own process group and with its output in a file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::hang::Hang;
use crate::programs::Program;

/// A running program.
pub(crate) struct Running {
    program: Program,
    child: Child,
    output: File,
    begun: Instant,
    hang: Hang,
}

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) good: bool,
    /// The reason of the failure; empty if the program passed.
    why: String,
    pub(crate) took: Duration,
    /// The processor time of its processes, without those that no process waited for.
    pub(crate) used: Duration,
    /// The number of tests that passed.
    pub(crate) passed: u32,
    output: String,
}

/// A file without a name, for the output of a program.
fn unnamed() -> Result<File, String> {
    let path = std::env::temp_dir().join(format!("test-runner-{}", std::process::id()));
    let open = || {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    };
    open().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

/// Makes the kernel kill a program whose runner was killed, for example by Ctrl-C, because the program's
/// group is not the terminal's.
fn end_with_the_runner() -> std::io::Result<()> {
    // SAFETY: the arguments are numbers.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The processor time of all children that were waited for since the last call; the last call followed the wait for
/// another child.
pub(crate) fn used_since_the_last() -> Duration {
    static BEFORE: Mutex<Duration> = Mutex::new(Duration::ZERO);
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` is writable, and is filled if the call succeeds.
    let now = unsafe {
        match libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) {
            0 => usage.assume_init(),
            _ => return Duration::ZERO,
        }
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    let now = of(now.ru_utime) + of(now.ru_stime);
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    now.saturating_sub(std::mem::replace(&mut before, now))
}

impl Running {
    pub(crate) fn start(program: Program, hang: Hang) -> Result<Running, String> {
        let output = unnamed()?;
        let copy = || output.try_clone().map_err(|error| error.to_string());
        let mut command = Command::new(&program.file);
        // SAFETY: prctl is a system call, which a child may make between fork and exec.
        unsafe { command.pre_exec(end_with_the_runner) };
        if program.waits() {
            command.arg("--test-threads=8");
        }
        let child = command
            .current_dir(&program.folder)
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .stdin(Stdio::null())
            .stdout(copy()?)
            .stderr(copy()?)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", program.file.display()))?;
        Ok(Running {
            program,
            child,
            output,
            begun: Instant::now(),
            hang,
        })
    }

    /// The number of processors that the program uses.
    pub(crate) fn rate(&self) -> f64 {
        self.hang.rate()
    }

    /// The result of the program, once it has ended. A hanging program is killed with its process
    /// group.
    pub(crate) fn poll(&mut self) -> Result<Option<Ended>, String> {
        let waited = |error| format!("{}: {error}", self.program.name);
        let status = self.child.try_wait().map_err(waited)?;
        let hung = match status {
            Some(_) => None,
            None => {
                let said = self.output.metadata().map_err(waited)?.len();
                let hung = self.hang.look(self.child.id(), said);
                if hung.is_none() {
                    return Ok(None);
                }
                hung
            }
        };
        // Processes that the program left behind are killed too.
        if let Ok(group) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: the arguments are numbers; the group belongs to this child, and has ended or
            // still belongs to it.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let status = match status {
            Some(status) => status,
            None => self.child.wait().map_err(waited)?,
        };
        let mut output = Vec::new();
        self.output
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.output.read_to_end(&mut output))
            .map_err(waited)?;
        let output = String::from_utf8_lossy(&output).into_owned();
        Ok(Some(Ended {
            name: std::mem::take(&mut self.program.name),
            good: status.success() && hung.is_none(),
            why: hung.unwrap_or_else(|| why(status)),
            took: self.begun.elapsed(),
            used: used_since_the_last(),
            passed: passed(&output),
            output,
        }))
    }
}

fn why(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, code) => format!("exit code {}", code.unwrap_or_default()),
    }
}

/// The number of tests that the harness reported as passed; 1 for a program without a harness.
fn passed(output: &str) -> u32 {
    let results = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "));
    let counts: Vec<u32> = results
        .filter_map(|line| {
            let (_, rest) = line.split_once(". ")?;
            rest.split_once(" passed")?.0.parse().ok()
        })
        .collect();
    match counts.is_empty() {
        true => 1,
        false => counts.iter().sum(),
    }
}

impl Ended {
    /// Prints one line, or the whole output of a failed program.
    pub(crate) fn print(&self) {
        let seconds = self.took.as_secs_f64();
        let used = self.used.as_secs_f64();
        if self.good {
            let (passed, name) = (self.passed, &self.name);
            println!("ok   {seconds:7.1} s {used:7.1} s CPU {passed:5} {name}");
        } else {
            println!(
                "FAIL {seconds:7.1} s {used:7.1} s CPU       {}: {}",
                self.name, self.why
            );
            println!("---- {} said:\n{}\n----", self.name, self.output);
        }
    }
}

/// The number of lines that are shown from the end of the output.
const LAST_LINES: usize = 12;

/// The lines of a failed program's output that show the failure: those of failed tests and panics, and the
/// last lines.
fn telling(output: &str) -> Vec<&str> {
    let lines: Vec<&str> = output.lines().collect();
    let last = lines.len().saturating_sub(LAST_LINES);
    let mut shown = Vec::new();
    let mut after_panic = false;
    for (index, line) in lines.into_iter().enumerate() {
        let panicked = line.contains("' panicked at ") || line.contains(") panicked at ");
        // The message of a panic follows its location.
        if panicked || after_panic || line.ends_with("... FAILED") || index >= last {
            shown.push(line);
        }
        after_panic = panicked;
    }
    shown
}

impl Ended {
    /// A program that passed one test in the given time, and used no processor time.
    #[cfg(test)]
    pub(crate) fn passed(name: &str, took: Duration) -> Ended {
        Ended {
            name: name.to_owned(),
            good: true,
            why: String::new(),
            took,
            used: Duration::ZERO,
            passed: 1,
            output: String::new(),
        }
    }

    /// Prints the failure again and in short, for the end of a long run.
    pub(crate) fn print_failures(&self) {
        println!("FAILED: {}: {}", self.name, self.why);
        for line in telling(&self.output) {
            println!("    {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str, most: Duration, silence: Duration) -> Ended {
        let shell = Program {
            name: "shell".to_owned(),
            file: "/bin/sh".into(),
            folder: "/".into(),
        };
        let output = unnamed().unwrap();
        let child = Command::new(&shell.file)
            .args(["-c", script])
            .stdout(output.try_clone().unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut running = Running {
            program: shell,
            child,
            output,
            begun: Instant::now(),
            hang: Hang::new(most, silence),
        };
        loop {
            if let Some(ended) = running.poll().unwrap() {
                return ended;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn ends_are_told_apart() {
        let long = Duration::from_secs(60);
        let good = ended("echo 'test result: ok. 7 passed; 0 failed'", long, long);
        assert!(good.good);
        assert_eq!(good.passed, 7);
        let bad = ended("echo said; exit 3", long, long);
        assert!(!bad.good && bad.output == "said\n" && bad.why == "exit code 3");
        let killed = ended("kill -9 $$", long, long);
        assert!(!killed.good && killed.why == "ended by signal 9");
        let silent = ended("sleep 1000 & wait", long, Duration::ZERO);
        assert!(!silent.good && silent.why.starts_with("no output"));
        // A loop in a child counts as processor time.
        let busy = ended("(while :; do :; done) & wait", long / 300, long);
        assert!(!busy.good && busy.why.ends_with("s of processor time"));
    }

    #[test]
    fn failures_are_told_in_short() {
        let middle = "test slow ... ok\n".repeat(100);
        let panic = "thread 'a' (7) panicked at a.rs:1:2:\nleft: 1\n";
        let output = format!("test a ... FAILED\n{middle}{panic}{middle}test result: FAILED");
        let shown = telling(&output);
        assert_eq!(shown.len(), 3 + LAST_LINES);
        assert_eq!(shown.first(), Some(&"test a ... FAILED"));
        assert_eq!(shown.get(2), Some(&"left: 1"));
        assert_eq!(shown.last(), Some(&"test result: FAILED"));
    }

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(passed("nothing of a harness"), 1);
        let two = "test result: ok. 3 passed; 0 failed\ntest result: ok. 4 passed; 1 failed";
        assert_eq!(passed(two), 7);
    }
}
