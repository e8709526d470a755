//! Commands that run as ranks: they start themselves again under the launcher.

use std::sync::Arc;

use super::{CommandError, Common, Exit, launch};
use host_stub::bootstrap::local::Environment;
use host_stub::bootstrap::pmix;
use host_stub::job::{Job, JobError, JobOptions};
use host_stub::launcher::LaunchOptions;

/// The role of this process.
pub enum Place {
    /// A rank, connected to all others.
    Rank(Arc<Job>),
    /// The launcher of a job that has ended, with this exit code.
    Launched(u8),
}

/// Makes this command a job of `ranks` ranks. If a launcher started this process (the local one, or one with PMIx, such as
/// `mpirun`), it joins that job as a rank. Otherwise the command starts `ranks` processes with the same arguments. With
/// `None` the launcher sets the number of ranks; without a launcher this process is the only rank.
pub fn place(
    common: &Common,
    ranks: Option<u32>,
    options: JobOptions,
) -> Result<Place, CommandError> {
    let launched = Environment::read().map_err(JobError::from)?;
    match (launched, ranks) {
        (Some(environment), Some(ranks)) if ranks != environment.size => {
            Err(other_size(ranks, environment.size))
        }
        // Only the PMIx server knows the size.
        (None, wanted) if pmix::launched() => {
            let job = Job::init(options)?;
            match wanted {
                Some(ranks) if ranks != job.size() => {
                    let size = job.size();
                    job.finalize()?;
                    Err(other_size(ranks, size))
                }
                _ => Ok(Place::Rank(job)),
            }
        }
        (None, Some(ranks)) => {
            let program = std::env::current_exe()?;
            let mut launch = LaunchOptions::new(ranks, program);
            launch.arguments = std::env::args_os().skip(1).collect();
            let outcome = launch::run(common, launch)?;
            // The codes of this command keep their meaning; a signal means a dead rank.
            Ok(Place::Launched(if outcome >= 126 {
                Exit::Job as u8
            } else {
                outcome
            }))
        }
        (Some(_), _) | (None, None) => Ok(Place::Rank(Job::init(options)?)),
    }
}

fn other_size(ranks: u32, size: u32) -> CommandError {
    CommandError::new(
        Exit::Usage,
        format!("--np {ranks} in a job of {size} ranks: leave it out, or give the same number"),
    )
}
