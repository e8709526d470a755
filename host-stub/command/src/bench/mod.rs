//! `host-stub bench`: latency and rate of single calls between two ranks.
//!
//! Rank 0 calls, rank 1 only makes progress; further ranks wait. Latency is a call and its flush,
//! one after the other; rate is many calls and then one flush.

mod measure;
mod report;

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use plugin_api::ThreadLevel;

use super::{CommandError, Common, Exit, Place, place, print_json};
use host_stub::comm::{Comm, CommError};
use host_stub::job::Job;
use host_stub::win::{Assertion, Info, TableChoice, WinError, Window};

use measure::Measure;
use report::Report;

/// The operation to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// put
    Put,
    /// get
    Get,
    /// fetch_and_op, sum of 64-bit integers
    Fop,
    /// compare_and_swap of 64-bit integers
    Cas,
    /// accumulate, sum of 64-bit integers
    Acc,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Get => "get",
            Operation::Fop => "fop",
            Operation::Cas => "cas",
            Operation::Acc => "acc",
        }
    }

    /// Sizes to measure, bytes, up to a largest one.
    fn sizes(self, largest: usize) -> Vec<usize> {
        let smallest = match self {
            Operation::Fop | Operation::Cas => return vec![8],
            Operation::Acc => 8,
            Operation::Put | Operation::Get => 1,
        };
        std::iter::successors(Some(smallest), |size| Some(size * 2))
            .take_while(|size| *size <= largest)
            .collect()
    }
}

/// The arguments of `bench`.
#[derive(Args)]
pub struct Bench {
    #[command(flatten)]
    common: Common,

    /// The operation to measure.
    #[arg(value_enum)]
    operation: Operation,

    /// Number of ranks; the first two take part.
    #[arg(
        short = 'n',
        long = "np",
        value_name = "N",
        allow_negative_numbers = true
    )]
    ranks: Option<u32>,

    /// The window's table of functions: auto, shm, mixed or btl.
    #[arg(long, value_name = "TABLE", default_value = "btl", value_parser = table_choice)]
    table: TableChoice,

    /// Largest size, bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20)]
    max_size: usize,

    /// For put and get: the target's bytes lie in runs of this size, each followed by a gap of seven times the size; 0:
    /// contiguous. A column of 256 doubles has runs of 8 bytes and a size of 2048.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    run: usize,

    /// Uses a dynamic window, to which the target attaches its memory.
    #[arg(long)]
    dynamic: bool,

    /// Approximate seconds that the whole run may take.
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    seconds: f64,
}

fn table_choice(word: &str) -> Result<TableChoice, &'static str> {
    TableChoice::parse(word).ok_or("wanted auto, shm, mixed or btl")
}

impl Bench {
    /// Runs the command, and returns the exit code.
    pub fn run(&self) -> Result<u8, CommandError> {
        if !(0.1..=3600.0).contains(&self.seconds) {
            return Err(CommandError::new(
                Exit::Usage,
                format!("--seconds {}: wanted 0.1 to 3600", self.seconds),
            ));
        }
        // SAFETY: this command calls from its one thread.
        let options = unsafe {
            self.common
                .job_options()
                .assume_threads(ThreadLevel::Funneled)
        };
        match place(&self.common, self.ranks, options)? {
            Place::Launched(code) => Ok(code),
            Place::Rank(job) => self.run_rank(&job),
        }
    }

    fn run_rank(&self, job: &Arc<Job>) -> Result<u8, CommandError> {
        if job.size() < 2 {
            return Err(CommandError::new(
                Exit::Usage,
                format!(
                    "bench {}: wanted two ranks, one that calls and one that is the target (--np 2)",
                    self.operation.name()
                ),
            ));
        }
        let scatters = matches!(self.operation, Operation::Put | Operation::Get);
        if self.run > 0 && !scatters {
            return Err(CommandError::new(
                Exit::Usage,
                format!("bench {} --run: wanted put or get", self.operation.name()),
            ));
        }
        let mut sizes = self.operation.sizes(self.max_size);
        // A size needs at least two runs.
        sizes.retain(|size| self.run == 0 || size / 2 >= self.run && size % self.run == 0);
        let largest = sizes.iter().copied().max().unwrap_or(8);
        let target = 1;
        let len = if job.rank() as usize == target {
            largest * if self.run > 0 { measure::SPREAD } else { 1 }
        } else {
            0
        };
        let (window, base) = self.window(job, len, target)?;
        let measured = if job.rank() == 0 {
            window.lock_all(Assertion::empty()).map_err(failed)?;
            let measured = self.measure(job, &window, (target, base), &sizes);
            window.unlock_all().map_err(failed)?;
            measured.map(Some)
        } else {
            Ok(None)
        };
        // The other ranks wait at this barrier from the beginning, and make progress.
        job.barrier()?;
        window.free().map_err(|error| failed(error.into()))?;
        job.finalize()?;
        if let Some(report) = measured?
            && self.common.json
        {
            print_json(&report)?;
        }
        Ok(Exit::Ok as u8)
    }

    /// Makes a window with `len` bytes at this rank; returns it with the displacement of the
    /// target's memory.
    fn window(
        &self,
        job: &Arc<Job>,
        len: usize,
        target: usize,
    ) -> Result<(Window, u64), CommandError> {
        let info = Info::new().with_table(self.table);
        if !self.dynamic {
            let window = Window::allocate_with(job, len, 1, &info).map_err(failed)?;
            return Ok((window, 0));
        }
        let window = Window::dynamic_with(job, &info).map_err(failed)?;
        // The memory is kept for the life of the process, because peers may reach it until the
        // window is freed.
        let memory = vec![0u8; len].leak().as_mut_ptr();
        if len > 0 {
            // SAFETY: the memory is never freed, and only calls on the window use it.
            unsafe { window.attach(memory, len) }.map_err(failed)?;
        }
        let address = (memory as u64).to_ne_bytes();
        let told = |error: CommError| CommandError::new(Exit::Failed, error.to_string());
        let all = Comm::world(job).and_then(|world| world.exchange(&address));
        let all = all.map_err(told)?;
        let base = all
            .get(target)
            .and_then(|bytes| bytes.as_slice().try_into().ok());
        Ok((window, base.map_or(0, u64::from_ne_bytes)))
    }

    fn measure(
        &self,
        job: &Job,
        window: &Window,
        (target, base): (usize, u64),
        sizes: &[usize],
    ) -> Result<Report, CommandError> {
        let budget = self.seconds_of_a_size(sizes.len());
        let largest = sizes.iter().copied().max().unwrap_or(8);
        let mut measure = Measure::new(window, self.operation, (target, base, self.run), largest);
        let attributes = job.transport().attributes();
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            provider: attributes.provider.clone(),
            completion: attributes.completion.clone(),
            table: window.table_name(),
            ranks: job.size(),
            operation: self.operation.name(),
            rows: Vec::new(),
        };
        if !self.common.json {
            report.print_head()?;
        }
        for size in sizes {
            let row = measure.run(*size, budget).map_err(failed)?;
            if !self.common.json {
                row.print()?;
            }
            report.rows.push(row);
        }
        Ok(report)
    }

    fn seconds_of_a_size(&self, sizes: usize) -> Duration {
        Duration::from_secs_f64(self.seconds / sizes.max(1) as f64)
    }
}

fn failed(error: Box<WinError>) -> CommandError {
    CommandError::new(Exit::Failed, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_up_to_the_largest() {
        assert_eq!(Operation::Put.sizes(8), [1, 2, 4, 8]);
        assert_eq!(Operation::Acc.sizes(20), [8, 16]);
        assert_eq!(Operation::Cas.sizes(4 << 20), [8]);
        assert_eq!(Operation::Get.sizes(4 << 20).len(), 23);
    }
}
