//! `host-stub check`: every call, type, layout and epoch of windows, against a model.
//!
//! The command launches itself as the ranks of a job. Every rank runs the same tests in the same
//! order; what a test does is drawn from a seed that all ranks share, so each rank knows what every
//! other does, and computes on the side what its own memory must hold afterwards. A test passes
//! when it does so on every rank.

mod accumulates;
mod atomicity;
mod case;
mod edges;
mod epochs;
mod errors;
mod kinds;
mod programs;
mod random;
mod report;
mod requests;
mod session;
mod shape;
mod threads;
mod transfers;
mod value;
mod watchdog;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use plugin_api::ThreadLevel;

use super::{CommandError, Common, Exit, Place, place};
use crate::job::{Job, JobOptions};
use crate::win::{WinError, Window};

use case::{Case, Context, REGION};
use report::Report;
use watchdog::Watchdog;

/// What to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Windows over the transport.
    Rma,
}

/// The arguments of `check`.
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    common: Common,

    /// Number of ranks.
    #[arg(short = 'n', long = "np", value_name = "N")]
    ranks: Option<u32>,

    /// What to check.
    #[arg(long, value_enum, default_value_t = Suite::Rma)]
    suite: Suite,

    /// Draws the same tests as the run that printed this seed [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,

    /// Threads of each rank in the tests of threads. More than one asks the transport for MPI's
    /// thread level `multiple`.
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,

    /// Runs the tests whose name contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// For a provider that is made to fail: the first failure that a call reports ends the run with
    /// exit code 6, and only what is wrong without such a report counts as failed. Leaves out the
    /// tests of mistakes, which expect other errors.
    #[arg(long)]
    faults: bool,

    /// Seconds that one test may take before the run is given up.
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout: u64,
}

impl Check {
    /// Runs it, and returns the exit code: 0 when nothing failed, else 1.
    pub fn run(&self) -> Result<u8, CommandError> {
        let mut options: JobOptions = self.common.job_options();
        if self.threads == 1 {
            // SAFETY: without further threads in the tests all calls come from this one: the
            // watchdog's thread talks to the launcher only.
            options = unsafe { options.assume_threads(ThreadLevel::Funneled) };
        }
        match place(&self.common, self.ranks, options)? {
            Place::Launched(code) => Ok(code),
            Place::Rank(job) => self.run_rank(&job),
        }
    }

    fn cases(&self) -> Vec<Case> {
        let Suite::Rma = self.suite;
        let mut cases = suite();
        if let Some(text) = &self.only {
            cases.retain(|case| case.name.contains(text.as_str()));
        }
        if self.faults {
            cases.retain(|case| !case.name.starts_with("errors/"));
        }
        cases
    }

    fn run_rank(&self, job: &Arc<Job>) -> Result<u8, CommandError> {
        let cases = self.cases();
        if cases.is_empty() {
            return Err(CommandError::new(
                Exit::Usage,
                format!(
                    "--only {}: no test has that in its name",
                    self.only.as_deref().unwrap_or_default()
                ),
            ));
        }
        let seed = self.agree_on_seed(job)?;
        let mut report = Report::start(
            job,
            seed,
            self.threads.into(),
            cases.len(),
            self.common.json,
        )?;
        let size = job.size() as usize;
        let window = Window::allocate(job, size * REGION, 1).map_err(transport)?;
        let watchdog = Watchdog::start(job, self.timeout, report.shared());
        for case in &cases {
            let context = Context {
                job,
                window: &window,
                rank: job.rank() as usize,
                size,
                seed,
                threads: self.threads.into(),
                name: &case.name,
            };
            watchdog.watch(&case.name);
            let started = Instant::now();
            let outcome = (case.run)(&context);
            let mine = match &outcome {
                Ok(()) => String::new(),
                Err(failure) => format!("rank {}: {}", job.rank(), failure.detail),
            };
            if self.faults && outcome.is_err_and(|failure| failure.reported) {
                // What the window holds is undefined from here on, and the other ranks may be
                // waiting for this one.
                let reason = format!(
                    "{} ended with a failure that was reported: {mine}",
                    case.name
                );
                job.abort(Exit::Failed as u8, &reason);
                return Err(CommandError::new(Exit::Failed, reason));
            }
            // Also keeps tests apart: none begins before all ranks have ended this one.
            let all = job.allgather(mine.as_bytes())?;
            report.add(&case.name, started.elapsed(), &all)?;
        }
        watchdog.stop();
        window.free().map_err(|error| transport(error.into()))?;
        let failed = report.finish()?;
        job.finalize()?;
        Ok(if failed == 0 {
            Exit::Ok as u8
        } else {
            Exit::ChecksFailed as u8
        })
    }

    /// The seed given, or rank 0's clock.
    fn agree_on_seed(&self, job: &Job) -> Result<u64, CommandError> {
        let mine = self.seed.unwrap_or_else(|| {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(1, |since| since.as_nanos() as u64)
        });
        let all = job.allgather(&mine.to_le_bytes())?;
        let first = all
            .first()
            .and_then(|bytes| bytes.as_slice().try_into().ok());
        Ok(first.map_or(mine, u64::from_le_bytes))
    }
}

fn transport(error: WinError) -> CommandError {
    CommandError::new(Exit::Failed, error.to_string())
}

/// Every test. The list depends on nothing, so it is the same for every provider.
fn suite() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(transfers::cases());
    cases.extend(accumulates::cases());
    cases.extend(atomicity::cases());
    cases.extend(edges::cases());
    cases.extend(kinds::cases());
    cases.extend(epochs::cases());
    cases.extend(requests::cases());
    cases.extend(programs::cases());
    cases.extend(threads::cases());
    cases.extend(errors::cases());
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let mut names: Vec<String> = suite().into_iter().map(|case| case.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 200);
    }
}
