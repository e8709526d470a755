//! Runs the test programs of the workspace, several at a time.
//!
//! `cargo test` runs one program after the other, and most of them wait for their own child processes. The
//! runner builds the programs with cargo, runs them side by side, prints the failures, and names the slowest
//! programs. Documentation tests are left to `cargo test --doc`.

mod hang;
mod order;
mod programs;
mod running;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use hang::Hang;
use order::{Room, Times};
use programs::Program;
use running::{Ended, Running};

/// Test programs that need the machine for themselves: `room` starts 48 processes that open endpoints in turns, and a
/// process waits at most 10 s for its turn. These programs run after all others, one by one.
const ALONE: [&str; 1] = ["core/room"];

/// Test programs whose tests wait for failing links and for timeouts of peers; they run more tests at a time.
pub(crate) const WAITING: [&str; 1] = ["core/hosts"];

#[derive(Parser)]
#[command(about = "Run the test programs of the workspace, several at a time")]
struct Arguments {
    /// The number of programs at a time, which doubles while processors idle; the default is twice the number of
    /// processors.
    #[arg(long)]
    jobs: Option<usize>,
    /// The limit in seconds after which a program is killed and has failed. The limit applies to the processor time,
    /// times the number of processors, and the time almost without output and processor time.
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// Runs only programs whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// The arguments of `cargo test --no-run`, such as `--workspace`.
    #[arg(last = true)]
    cargo: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("test-runner: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let mut programs = programs::build(&arguments.cargo)?;
    // Cargo's own processor time belongs to no program.
    running::used_since_the_last();
    if let Some(only) = &arguments.only {
        programs.retain(|program| program.name.contains(only.as_str()));
    }
    if programs.is_empty() {
        return Err("cargo built no test program of that name".to_owned());
    }
    let folder = programs[0].file.parent().map(Path::to_owned);
    let mut times = Times::read(&folder.unwrap_or_default());
    times.sort(&mut programs);
    let (alone, beside): (Vec<Program>, Vec<Program>) = programs
        .into_iter()
        .partition(|program| ALONE.contains(&program.name.as_str()));
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = arguments.jobs.unwrap_or(2 * processors).max(1);
    let limit = Duration::from_secs(arguments.limit);
    let most = limit.saturating_mul(u32::try_from(processors).unwrap_or(u32::MAX));
    let begun = Instant::now();
    let hang = || Hang::new(most, limit);
    let mut ended = several(beside, Room::new(processors, jobs), hang)?;
    ended.extend(several(alone, Room::new(processors, 1), hang)?);
    times.keep(&ended)?;
    Ok(report(&mut ended, begun.elapsed()))
}

/// Runs as many programs at a time as there is room for, and prints the end of each.
fn several(
    programs: Vec<Program>,
    mut room: Room,
    hang: impl Fn() -> Hang,
) -> Result<Vec<Ended>, String> {
    let mut waiting = programs.into_iter();
    let mut running: Vec<Running> = Vec::new();
    let mut ended = Vec::new();
    loop {
        while room.is_there(&running)
            && let Some(program) = waiting.next()
        {
            running.push(Running::start(program, hang())?);
        }
        if running.is_empty() {
            return Ok(ended);
        }
        let before = running.len();
        let mut index = 0;
        while index < running.len() {
            match running[index].poll()? {
                None => index += 1,
                Some(end) => {
                    end.print();
                    ended.push(end);
                    running.swap_remove(index);
                }
            }
        }
        if running.len() == before {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Prints the result of all programs; returns whether everything passed.
fn report(ended: &mut [Ended], took: Duration) -> bool {
    ended.sort_by_key(|end| std::cmp::Reverse(end.took));
    println!("\n==== the slowest test programs, in seconds on the wall and of the processors");
    for end in ended.iter().take(8) {
        let (took, used) = (end.took.as_secs_f64(), end.used.as_secs_f64());
        println!("     {took:7.1} {used:7.1} {}", end.name);
    }
    let tests: u32 = ended.iter().map(|end| end.passed).sum();
    let failed: Vec<&Ended> = ended.iter().filter(|end| !end.good).collect();
    let used: f64 = ended.iter().map(|end| end.used.as_secs_f64()).sum();
    println!(
        "\n{} test programs, {tests} tests passed, in {:.0} s, with {used:.0} s of the processors",
        ended.len(),
        took.as_secs_f64()
    );
    for end in &failed {
        end.print_failures();
    }
    failed.is_empty()
}
