//! `host-stub trace`: joins the traces of a job's processes (`host_trace`).

mod arrows;
mod merge;
mod open;
mod read;
mod why;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{CommandError, Exit, print_json};
use read::Job;

/// The arguments of `trace`.
#[derive(Args)]
pub struct Trace {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Writes the traces of a job as one file for Perfetto (ui.perfetto.dev) and chrome://tracing.
    Merge(Merge),
    /// Prints the longest waits of a job, with their reasons.
    Why(Why),
}

/// The files to read.
#[derive(Args)]
struct Files {
    /// The trace of each process.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Args)]
struct Merge {
    #[command(flatten)]
    files: Files,

    /// The file to write.
    #[arg(short, long, value_name = "OUT.json")]
    output: PathBuf,
}

#[derive(Args)]
struct Why {
    #[command(flatten)]
    files: Files,

    /// Show waits of at least this many milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 10.0)]
    over: f64,

    /// Maximum number of waits to print.
    #[arg(long, value_name = "N", default_value_t = 10)]
    most: usize,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Files {
    /// Reads the files, and prints remarks about left-out files and missing data.
    fn read(&self) -> Result<Job, CommandError> {
        let job = Job::read(&self.files).map_err(|e| CommandError::new(Exit::Failed, e))?;
        for remark in job.remarks() {
            eprintln!("host-stub: {remark}");
        }
        Ok(job)
    }
}

impl Trace {
    /// Runs the command.
    pub fn run(&self) -> Result<Exit, CommandError> {
        match &self.what {
            What::Merge(merge) => merge.run()?,
            What::Why(why) => why.run()?,
        }
        Ok(Exit::Ok)
    }
}

impl Merge {
    fn run(&self) -> Result<(), CommandError> {
        let (job, output) = (self.files.read()?, &self.output);
        let events = merge::write(&job, output).map_err(|e| failed(output, &e))?;
        let (name, ranks) = (output.display(), job.processes.len());
        writeln!(
            std::io::stdout(),
            "{name}: {events} events of {ranks} processes"
        )?;
        Ok(())
    }
}

impl Why {
    fn run(&self) -> Result<(), CommandError> {
        let least = nanoseconds("--over", self.over)?;
        let waits = why::find(&self.files.read()?, least, self.most);
        if self.json {
            return print_json(&waits);
        }
        write!(std::io::stdout(), "{}", why::text(&waits, least))?;
        Ok(())
    }
}

/// The value of an option in milliseconds, as nanoseconds.
fn nanoseconds(option: &str, milliseconds: f64) -> Result<u64, CommandError> {
    // Up to the 31 years that 53 bits hold exactly.
    if (0.0..1e12).contains(&milliseconds) {
        return Ok((milliseconds * 1e6) as u64);
    }
    let message = format!("{option} {milliseconds}: give a number of milliseconds");
    Err(CommandError::new(Exit::Usage, message))
}

/// The error of a file that could not be written.
fn failed(path: &Path, error: &dyn Display) -> CommandError {
    CommandError::new(Exit::Failed, format!("{}: {error}", path.display()))
}
