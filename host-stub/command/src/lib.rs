//! The `host-stub` program: its arguments, its exit codes, and the printing of its errors.

pub mod bench;
pub mod check;
pub mod doctor;
pub mod info;
pub mod launch;
pub mod params;
mod relaunch;
mod run;
pub mod stats;
pub mod trace;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, CommandFactory, Parser, Subcommand};

use host_stub::declarations::REMOVED;
use host_stub::job::{JobError, JobOptions};
use host_stub::launcher::LaunchError;
use host_stub::loader::{self, HostServices, LoadError, Plugin};
use host_stub::log;
use host_stub::params::{Params, ParamsError, Setting};

pub use relaunch::{Place, place};

/// The meanings of the command's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command succeeded.
    Ok = 0,
    /// A check failed.
    ChecksFailed = host_stub_check::CHECKS_FAILED,
    /// The arguments or a parameter cannot be understood.
    Usage = 2,
    /// The plugin could not be loaded.
    Plugin = 3,
    /// The plugin found no usable provider.
    NoProvider = 4,
    /// A rank died, or the job failed.
    Job = 5,
    /// The transport or the system failed.
    Failed = host_stub_check::FAILED,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  everything asked for was done
  1  a check failed, or the doctor found a problem
  2  the arguments or a parameter cannot be understood
  3  the plugin could not be loaded
  4  no provider can be used
  5  a rank died, or left the job without a word
  6  the transport or the system failed
`launch` ends with the exit code of the rank that failed first, with 128 and the signal that
killed it, or with 128 and the signal that ended the launcher; 126 and 127 mean that the program
could not be run or found.";

/// Loads a transport plugin, shows what it can do, and runs programs on it.
#[derive(Parser)]
#[command(name = "host-stub", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures latency and rate of a call between two ranks.
    Bench(bench::Bench),
    /// Checks every call, type, layout and epoch of windows against a model.
    Check(check::CheckCommand),
    /// Checks Open MPI, libfabric and this machine, and prints the lines to set.
    Doctor(doctor::Doctor),
    /// Shows the plugin and every provider, accepted or with the reason for its refusal.
    Info(info::Info),
    /// Shows every parameter with its value and the source of the value.
    Params(params::ParamsCommand),
    /// Shows the activity of running processes: operations and bytes by peer and carrier, waits,
    /// progress.
    Stats(stats::Stats),
    /// Joins the traces of a job (`host_trace`).
    Trace(trace::Trace),
    /// Runs a program as the ranks of a job on this machine.
    Launch(launch::Launch),
}

/// Arguments that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub struct Common {
    /// The plugin [default: the file that HOST_STUB_PLUGIN names, or else libbtl_ofi.so beside this
    /// program, or else the one that the dynamic loader finds].
    #[arg(long, value_name = "PATH")]
    pub plugin: Option<PathBuf>,

    /// The provider to use, as `fi_info` prints it; short for `--mca btl_ofi_provider_include P`.
    #[arg(long, value_name = "P")]
    pub provider: Option<String>,

    /// Sets a parameter, with precedence over every other source. May be given many times.
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true)]
    pub mca: Vec<String>,

    /// Prints JSON.
    #[arg(long)]
    pub json: bool,
}

impl Common {
    /// The parameters set here; later ones have precedence.
    pub fn settings(&self) -> Vec<Setting> {
        let provider = self
            .provider
            .iter()
            .map(|provider| ("btl_ofi_provider_include".to_owned(), provider.clone()));
        let pairs = self.mca.chunks_exact(2).map(|pair| match pair {
            [name, value] => (name.clone(), value.clone()),
            // chunks_exact gives pairs only.
            _ => (String::new(), String::new()),
        });
        provider.chain(pairs).collect()
    }

    /// The plugin to open.
    pub fn plugin_path(&self) -> PathBuf {
        self.plugin.clone().unwrap_or_else(loader::default_path)
    }

    /// The options for joining a job by these arguments.
    pub fn job_options(&self) -> JobOptions {
        // SAFETY: the user who started this program named the file on its command line or in its
        // environment, or installed it, and trusts it as this program.
        let mut options = unsafe { JobOptions::default().plugin(self.plugin_path()) };
        options.settings = self.settings();
        options
    }

    /// The parameters of this process; starts logging by them.
    fn params(&self) -> Result<Arc<Params>, CommandError> {
        let params = Params::from_system(&self.settings())?;
        let refused = params.read(|registry| registry.refuse(&REMOVED));
        refused.map_err(ParamsError::from)?;
        log::init(&params, None).map_err(JobError::from)?;
        Ok(Arc::new(params))
    }

    /// Opens the plugin for a process without a job.
    fn open(&self, params: &Arc<Params>) -> Result<Arc<Plugin>, CommandError> {
        let services = HostServices {
            params: Arc::clone(params),
            published: Arc::default(),
        };
        // SAFETY: the user who started this program named the file on its command line or in its
        // environment, or installed it, and trusts it as this program.
        Ok(unsafe { Plugin::open(&self.plugin_path(), services) }?)
    }
}

/// An error of a command: the text for stderr and the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// The exit code.
    pub exit: u8,
    /// The text to print.
    pub message: String,
}

impl CommandError {
    /// An error with one of the command's own codes.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        CommandError {
            exit: exit as u8,
            message: message.into(),
        }
    }
}

impl From<LoadError> for CommandError {
    fn from(error: LoadError) -> Self {
        let exit = match &error {
            error if error.is_no_provider() => Exit::NoProvider,
            error if error.is_parameter() => Exit::Usage,
            LoadError::Component { .. } => Exit::Failed,
            _ => Exit::Plugin,
        };
        CommandError::new(exit, error.to_string())
    }
}

impl From<ParamsError> for CommandError {
    fn from(error: ParamsError) -> Self {
        CommandError::new(Exit::Usage, error.to_string())
    }
}

impl From<JobError> for CommandError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Load(error) => error.into(),
            JobError::Params(error) => error.into(),
            JobError::Param(error) => CommandError::new(Exit::Usage, error.to_string()),
            JobError::Bootstrap(error) => CommandError::new(Exit::Job, error.to_string()),
            error => CommandError::new(Exit::Failed, error.to_string()),
        }
    }
}

impl From<LaunchError> for CommandError {
    fn from(error: LaunchError) -> Self {
        let exit = match &error {
            LaunchError::Ranks { .. } => Exit::Usage as u8,
            LaunchError::Program { source, .. } => match source.kind() {
                // The exit code of a shell.
                std::io::ErrorKind::NotFound => 127,
                std::io::ErrorKind::PermissionDenied => 126,
                _ => Exit::Failed as u8,
            },
            _ => Exit::Failed as u8,
        };
        CommandError {
            exit,
            message: error.to_string(),
        }
    }
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            // The reader closed the output: exit as by SIGPIPE, without a message.
            return CommandError {
                exit: 128 + libc::SIGPIPE as u8,
                message: String::new(),
            };
        }
        CommandError::new(Exit::Failed, error.to_string())
    }
}

/// Writes a value as JSON on stdout.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))?;
    Ok(())
}

/// The command's arguments, for manual pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command with this process's arguments.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Bench(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Doctor(command) => command.run().map(|exit| exit as u8),
        Command::Info(command) => command.run().map(|exit| exit as u8),
        Command::Params(command) => command.run().map(|exit| exit as u8),
        Command::Stats(command) => command.run().map(|exit| exit as u8),
        Command::Trace(command) => command.run().map(|exit| exit as u8),
        Command::Launch(command) => command.run(),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if error.message.is_empty() => ExitCode::from(error.exit),
        Err(error) => {
            eprintln!("host-stub: {}", error.message);
            ExitCode::from(error.exit)
        }
    }
}
