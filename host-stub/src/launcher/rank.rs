//! One rank's process.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use serde::Serialize;

use super::output::{Stream, tag};
use super::{LaunchOptions, code_of_signal};
use crate::bootstrap::local::Inherited;
use crate::bootstrap::local::{JOB_ENV, RANK_ENV, SIZE_ENV, SOCKET_ENV};

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The process exited with this code.
    Exit(u8),
    /// This signal killed the process.
    Signal(i32),
}

impl End {
    /// The exit code that a shell would report: the exit code, or 128 plus the signal.
    pub fn code(self) -> u8 {
        match self {
            End::Exit(code) => code,
            End::Signal(signal) => code_of_signal(signal),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exit(code) => write!(f, "exited with code {code}"),
            End::Signal(signal) => write!(f, "was killed by {}", signal_name(*signal)),
        }
    }
}

/// The number and the name of a signal.
pub(super) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

/// A rank's process.
pub(super) struct Rank {
    pub(super) number: u32,
    child: Child,
    /// The end of the process, if it is known.
    pub(super) end: Option<End>,
    /// The threads that forward the rank's output.
    pub(super) taggers: Vec<JoinHandle<()>>,
}

impl Rank {
    /// Starts the rank's process in the job's process group. The rank inherits the socket to the launcher. The process is
    /// killed when the calling thread ends.
    ///
    /// The rank has no session of its own. If the kernel divides processor time among sessions
    /// (`sched_autogroup_enabled`), a waiting rank in its own session could not yield to another
    /// rank. The awaited ranks would then wait for the end of its time slice.
    pub(super) fn start(
        options: &LaunchOptions,
        (job, group): (&str, i32),
        settings: &(&str, String),
        (number, socket): (u32, UnixStream),
    ) -> io::Result<Rank> {
        let mut command = Command::new(&options.program);
        command
            .args(&options.arguments)
            .envs(options.environment.iter().cloned())
            .env(SOCKET_ENV, Inherited::of(&socket)?.to_string())
            .env(RANK_ENV, number.to_string())
            .env(SIZE_ENV, options.ranks.to_string())
            .env(JOB_ENV, job)
            .env(settings.0, &settings.1)
            .stdin(Stdio::null());
        // Threads start before the process, so no process is started if the system allows no
        // further thread.
        let mut taggers = Vec::new();
        if options.tag_output {
            let (stdout, into_stdout) = io::pipe()?;
            let (stderr, into_stderr) = io::pipe()?;
            taggers.push(tag(number, stdout, Stream::Stdout)?);
            taggers.push(tag(number, stderr, Stream::Stderr)?);
            command.stdout(into_stdout).stderr(into_stderr);
        }
        let launcher = std::process::id() as libc::pid_t;
        let descriptor = socket.as_raw_fd();
        // SAFETY: the closure makes only system calls that are allowed between fork and exec, and
        // allocates no memory.
        unsafe {
            command.pre_exec(move || {
                if libc::setpgid(0, group) < 0
                    || libc::fcntl(descriptor, libc::F_SETFD, 0) < 0
                    || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) < 0
                {
                    return Err(io::Error::last_os_error());
                }
                // If the launcher ended before the line above, no signal will come.
                if libc::getppid() != launcher {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        Ok(Rank {
            number,
            // The drop of the command closes this process's write ends of the pipes.
            child: command.spawn()?,
            end: None,
            taggers,
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Checks whether the process has ended; true if it has ended since the last check.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        if self.end.is_some() {
            return Ok(false);
        }
        self.end = self.child.try_wait()?.map(|status| match status.signal() {
            Some(signal) => End::Signal(signal),
            None => End::Exit(status.code().unwrap_or_default() as u8),
        });
        Ok(self.end.is_some())
    }
}
