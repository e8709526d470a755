//! The self-check: every call, type, layout and epoch of windows, against a model.
//!
//! A program joins a job and runs [`Check::run`] on every rank. Every rank runs the same tests in the same
//! order; the steps of a test are drawn from a seed that all ranks share, so each rank knows the steps of
//! every other rank, and computes the expected contents of its own memory. A test passes if it passes on
//! every rank.

mod accumulates;
mod atomicity;
mod attempt;
mod buffer;
mod case;
mod coll;
mod customs;
mod device;
mod edges;
mod epochs;
mod errors;
mod hints;
mod kinds;
mod memory;
mod notified;
mod pass;
mod programs;
mod random;
mod regions;
mod report;
mod requests;
mod rows;
mod session;
mod shape;
mod suites;
mod tables;
mod threads;
mod transfers;
mod value;
mod waiting;
mod watchdog;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use clap::builder::PossibleValuesParser;
use plugin_api::ThreadLevel;

use host_stub::job::{Job, JobError, JobOptions};
use host_stub::win::{WinError, Window};

use case::{Context, REGION};
use pass::Pass;
use report::Report;
use watchdog::Watchdog;

/// The exit code of a rank that gives up a test which does not end: the code of a failed check.
pub const CHECKS_FAILED: u8 = 1;
/// The exit code of the other ranks after a failure reported under `--faults`.
pub const FAILED: u8 = 6;

/// The reason why a check did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// No test has the text of `--only` in its name.
    #[error("--only {0}: no test has that in its name")]
    NoTest(String),
    /// The job failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A window could not be made or freed, devices could not be prepared, or a call reported a failure
    /// under `--faults`.
    #[error("{0}")]
    Failed(String),
    /// The outcome could not be printed.
    #[error(transparent)]
    Output(#[from] std::io::Error),
}

/// The tests to run, as arguments of a command.
#[derive(Args)]
pub struct Check {
    /// The suite to run.
    #[arg(long, value_name = "SUITE", default_value = suites::DEFAULT,
          value_parser = PossibleValuesParser::new(suites::possible()))]
    suite: String,

    /// Draws the same tests as the run that printed this seed [default: from the clock].
    #[arg(long)]
    seed: Option<u64>,

    /// Threads of each rank in the tests of threads. With more than one, the job requests MPI's
    /// thread level `multiple`.
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,

    /// Runs only the tests whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// For a provider that is made to fail: the first failure that a call reports ends the run with
    /// exit code 6, and only wrong results without such a report count as failed. Leaves out the
    /// tests of mistakes, which expect other errors.
    #[arg(long)]
    faults: bool,

    /// Seconds that one test may take before the run is given up.
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout: u64,
}

impl Check {
    /// The options for joining the job: with the thread level that the tests need.
    ///
    /// # Safety
    /// Only the thread that joined the job calls it, except through [`run`](Self::run).
    pub unsafe fn job_options(&self, mut options: JobOptions) -> JobOptions {
        options.arithmetic = Some(customs::combine);
        if self.threads > 1 {
            return options;
        }
        // SAFETY: without further threads in the tests, all calls come from the thread that runs them;
        // the watchdog's thread calls the launcher only. The caller vouches for the rest of the
        // program.
        unsafe { options.assume_threads(ThreadLevel::Funneled) }
    }

    /// The passes of the suite, with the selected tests.
    fn passes(&self, ranks: usize) -> Vec<Pass> {
        let mut passes = suites::passes(&self.suite, ranks);
        for pass in &mut passes {
            if let Some(text) = &self.only {
                pass.cases.retain(|case| case.name.contains(text.as_str()));
            }
        }
        if self.faults {
            let of_mistakes = |name: &str| name.starts_with("errors/") || name.contains("/errors/");
            for pass in &mut passes {
                pass.cases.retain(|case| !of_mistakes(&case.name));
            }
        }
        passes.retain(|pass| !pass.cases.is_empty());
        passes
    }

    /// Runs the tests, prints their outcome at rank 0 (`json`: as one object), and leaves the job;
    /// collective. Returns the number of failed tests.
    pub fn run(&self, job: &Arc<Job>, json: bool) -> Result<usize, CheckError> {
        let passes = self.passes(job.size() as usize);
        if passes.is_empty() {
            return Err(CheckError::NoTest(self.only.clone().unwrap_or_default()));
        }
        let seed = self.agree_on_seed(job)?;
        let mut report = Report::start(
            job,
            seed,
            self.threads.into(),
            passes.iter().map(|pass| pass.cases.len()).sum(),
            json,
        )?;
        if self.suite == "device" {
            device::prepare(job).map_err(|failure| CheckError::Failed(failure.detail))?;
        }
        let watchdog = Watchdog::start(job, self.timeout, report.shared());
        for pass in &passes {
            self.run_pass(job, pass, seed, &watchdog, &mut report)?;
        }
        watchdog.stop();
        let failed = report.finish()?;
        job.finalize()?;
        Ok(failed)
    }

    fn run_pass(
        &self,
        job: &Arc<Job>,
        pass: &Pass,
        seed: u64,
        watchdog: &Watchdog,
        report: &mut Report,
    ) -> Result<(), CheckError> {
        let size = job.size() as usize;
        let window = Window::allocate_with(job, size * REGION, 1, &pass.info).map_err(transport)?;
        for case in &pass.cases {
            let context = Context {
                job,
                window: &window,
                info: &pass.info,
                on_device: pass.on_device,
                rank: job.rank() as usize,
                size,
                seed,
                threads: self.threads.into(),
                name: &case.name,
            };
            watchdog.watch(&case.name);
            let started = Instant::now();
            let outcome = (case.run)(&context);
            if let (Err(failure), false) = (&outcome, self.faults) {
                // Logged now, because the other ranks may wait for this one until the watchdog ends
                // them.
                tracing::warn!("{} failed: {}", case.name, failure.detail);
            }
            let mine = match &outcome {
                Ok(()) => String::new(),
                Err(failure) => format!("rank {}: {}", job.rank(), failure.detail),
            };
            if self.faults && outcome.is_err_and(|failure| failure.reported) {
                // The window's contents are undefined from here on, and the other ranks may be
                // waiting for this one.
                let reason = format!(
                    "{} ended with a failure that was reported: {mine}",
                    case.name
                );
                job.abort(FAILED, &reason);
                return Err(CheckError::Failed(reason));
            }
            // The exchange also separates tests: no rank begins the next test before all ranks have
            // ended this test.
            let all = job.allgather(mine.as_bytes())?;
            report.add(&case.name, started.elapsed(), &all)?;
        }
        window.free().map_err(|error| transport(error.into()))
    }

    /// The given seed, or rank 0's clock.
    fn agree_on_seed(&self, job: &Job) -> Result<u64, CheckError> {
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

fn transport(error: Box<WinError>) -> CheckError {
    CheckError::Failed(error.to_string())
}
