//! One rank's process.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use serde::Serialize;

use super::directory::Directory;
use super::members::{MEMBER_ENV, membership};
use super::output::{Stream, Tagger};
use super::{LaunchOptions, code_of_signal};
use crate::bootstrap::local::{JOB_ENV, RANK_ENV, SIZE_ENV, SOCKET_ENV};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// It exited with this code.
    Exit(u8),
    /// This signal killed it.
    Signal(i32),
}

impl End {
    /// The code by which a shell would know it: the exit code, or 128 and the signal.
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

/// A signal's number and name.
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

/// What providers read from the environment, and transports cannot set once there are threads. The user's own
/// values stay. The progress thread of sockets would sleep 10 ms at a time.
const PROVIDER_SETTINGS: [(&str, &str); 1] = [("FI_SOCKETS_PE_WAITTIME", "0")];

/// What it takes to start one.
pub(super) struct Spawn<'a> {
    pub(super) options: &'a LaunchOptions,
    /// Of its open descriptors, if they are others than this process's.
    pub(super) limits: Option<libc::rlimit>,
    pub(super) directory: &'a Directory,
    pub(super) settings: &'a (&'static str, String),
    pub(super) number: u32,
}

impl Spawn<'_> {
    /// Starts it, in a process group of its own, to be killed when the calling thread ends.
    ///
    /// Not in a session of its own: where the kernel shares processors out among sessions
    /// (`sched_autogroup_enabled`), a rank that yields while it waits would yield to nobody, and the
    /// ranks it waits for would wait for the end of its time slice.
    pub(super) fn start(self) -> io::Result<Rank> {
        let Spawn {
            options,
            limits,
            directory,
            settings,
            number,
        } = self;
        let mut command = Command::new(&options.program);
        for (name, value) in PROVIDER_SETTINGS {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        command
            .args(&options.arguments)
            .envs(
                options
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .env(SOCKET_ENV, directory.socket())
            .env(RANK_ENV, number.to_string())
            .env(SIZE_ENV, options.ranks.to_string())
            .env(JOB_ENV, directory.job())
            .env(MEMBER_ENV, membership(directory.job()))
            .env(settings.0, &settings.1)
            .stdin(Stdio::null());
        // Before the process: where there are no more threads, none is started.
        let mut taggers = Vec::new();
        if options.tag_output {
            let (stdout, into_stdout) = io::pipe()?;
            let (stderr, into_stderr) = io::pipe()?;
            taggers.push(Tagger::start(number, stdout, Stream::Stdout)?);
            taggers.push(Tagger::start(number, stderr, Stream::Stderr)?);
            command.stdout(into_stdout).stderr(into_stderr);
        }
        let launcher = std::process::id() as libc::pid_t;
        // SAFETY: the closure makes only system calls that may be made between fork and exec, and
        // allocates nothing.
        unsafe {
            command.pre_exec(move || {
                if libc::setpgid(0, 0) < 0
                    || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) < 0
                    || limits
                        .is_some_and(|limits| libc::setrlimit(libc::RLIMIT_NOFILE, &limits) < 0)
                {
                    return Err(io::Error::last_os_error());
                }
                // The launcher may have ended before the line above; then nobody will tell.
                if libc::getppid() != launcher {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        Ok(Rank {
            number,
            // The command goes, and with it this process's writing ends of the pipes.
            child: command.spawn()?,
            end: None,
            taggers,
        })
    }
}

/// A rank's process. It stays a zombie until [`reap`](Self::reap), so that its number, which is
/// also its group's, belongs to nobody else.
pub(super) struct Rank {
    number: u32,
    child: Child,
    end: Option<End>,
    taggers: Vec<Tagger>,
}

impl Rank {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// How it ended, as far as is known.
    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Looks whether it has ended; true if it has since the last look.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        if self.end.is_some() {
            return Ok(false);
        }
        // SAFETY: an all-zero siginfo is valid; waitid fills it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable; the process is this one's child and not yet reaped.
        let result = unsafe {
            libc::waitid(
                libc::P_PID,
                self.child.id(),
                &mut info,
                libc::WEXITED | libc::WNOHANG | libc::WNOWAIT,
            )
        };
        if result != 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        }
        // SAFETY: waitid filled the fields of a child's state change, or left them zero.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return Ok(false);
        }
        self.end = Some(match info.si_code {
            libc::CLD_EXITED => End::Exit(status as u8),
            _ => End::Signal(status),
        });
        Ok(true)
    }

    /// The threads that pass its output on.
    pub(super) fn taggers(&mut self) -> impl Iterator<Item = Tagger> + '_ {
        self.taggers.drain(..)
    }

    /// Lets the process go, if it has ended.
    pub(super) fn reap(&mut self) {
        if self.end.is_some()
            && let Err(error) = self.child.wait()
        {
            tracing::warn!("rank {}: cannot wait for it: {error}", self.number);
        }
    }
}
