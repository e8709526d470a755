//! `host-stub check`: the self-check, in a job of ranks that this command launches.

use clap::Args;
use host_stub_check::{Check, CheckError};

use super::{CommandError, Common, Exit, Place, place};

/// The arguments of `check`.
#[derive(Args)]
pub struct CheckCommand {
    #[command(flatten)]
    common: Common,

    /// Number of ranks.
    #[arg(
        short = 'n',
        long = "np",
        value_name = "N",
        allow_negative_numbers = true
    )]
    ranks: Option<u32>,

    #[command(flatten)]
    check: Check,
}

impl CheckCommand {
    /// Runs the command, and returns the exit code: 0 if no test failed, otherwise 1.
    pub fn run(&self) -> Result<u8, CommandError> {
        // SAFETY: a rank of this command only runs the check.
        let options = unsafe { self.check.job_options(self.common.job_options()) };
        let job = match place(&self.common, self.ranks, options)? {
            Place::Launched(code) => return Ok(code),
            Place::Rank(job) => job,
        };
        Ok(match self.check.run(&job, self.common.json)? {
            0 => Exit::Ok as u8,
            _ => Exit::ChecksFailed as u8,
        })
    }
}

impl From<CheckError> for CommandError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::NoTest(_) => CommandError::new(Exit::Usage, error.to_string()),
            CheckError::Job(error) => error.into(),
            CheckError::Output(error) => error.into(),
            error => CommandError::new(Exit::Failed, error.to_string()),
        }
    }
}
