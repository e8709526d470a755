//! `host-stub launch`: a program as the ranks of a job.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{CommandError, Common};
use host_stub::launcher::{Interrupts, LaunchOptions, Outcome, launch};
use host_stub::loader::PLUGIN_ENV;
use host_stub::params;

/// The arguments of `launch`.
#[derive(Args)]
pub struct Launch {
    #[command(flatten)]
    common: Common,

    /// Number of ranks.
    #[arg(
        short = 'n',
        long = "np",
        value_name = "N",
        allow_negative_numbers = true
    )]
    ranks: u32,

    /// Starts each line of the ranks' output with `[rank] `.
    #[arg(long)]
    tag_output: bool,

    /// Lets the other ranks continue if one fails: a wait for the failed rank gets an error.
    #[arg(long)]
    enable_recovery: bool,

    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Launch {
    /// Runs the command, and returns the exit code. With `--json` the outcome goes to stderr,
    /// because stdout belongs to the ranks.
    pub fn run(&self) -> Result<u8, CommandError> {
        let [program, arguments @ ..] = self.program.as_slice() else {
            return Err(CommandError::new(super::Exit::Usage, "no program given"));
        };
        let mut options = LaunchOptions::new(self.ranks, program);
        options.arguments = arguments.to_vec();
        options.tag_output = self.tag_output;
        options.recovery = self.enable_recovery;
        run(&self.common, options)
    }
}

/// Launches a job, passes the common arguments to its ranks, and returns its outcome.
pub(super) fn run(common: &Common, mut options: LaunchOptions) -> Result<u8, CommandError> {
    common.params()?;
    // A launcher that is itself a rank passes its own settings, which have lower precedence.
    options.settings = params::inherited()?;
    options.settings.extend(common.settings());
    // The ranks may run in another directory, and their program lie in another.
    options
        .environment
        .push((PLUGIN_ENV.into(), absolute(common.plugin_path()).into()));
    options.interrupts = Some(Interrupts::install()?);
    let outcome = launch(&options)?;
    report(&outcome, common.json)?;
    Ok(outcome.code)
}

fn report(outcome: &Outcome, json: bool) -> Result<(), CommandError> {
    if json {
        let text = serde_json::to_string(outcome).map_err(std::io::Error::from)?;
        eprintln!("{text}");
    } else if let Some(failure) = &outcome.failure {
        eprintln!("host-stub: {failure}");
    }
    Ok(())
}

/// A path made independent of the directory; the dynamic loader finds a bare name.
fn absolute(path: PathBuf) -> PathBuf {
    let bare = path.parent() == Some(Path::new(""));
    if bare {
        return path;
    }
    std::path::absolute(&path).unwrap_or(path)
}
