//! Allreduce against Open MPI's own (coll/tuned over vader): both in turn, in one run, so that a
//! machine whose speed drifts slows both.
//!
//! `collectives` starts jobs of itself through `host-stub launch` (the program beside it) and jobs
//! of `benches/openmpi/allreduce.c` through `mpirun`. The table shows medians over the turns.

mod ours;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use benches::part;
use benches::statistics::{Figure, median};
use benches::target::{Bound, Target};
use clap::Parser;
use serde::Serialize;

#[derive(Parser)]
#[command(about = "Measure allreduce beside Open MPI's")]
struct Arguments {
    /// Turns, each measuring every side once.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Provider, as `fi_info` prints it.
    #[arg(long, default_value = "shm")]
    provider: String,
    /// Writes the results as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
    /// What a rank measures: bytes, rounds, calls per round. Set by this program for its own ranks.
    #[arg(long, num_args = 3, hide = true)]
    measure: Option<Vec<usize>>,
}

/// Medians of one case, in microseconds.
#[derive(Serialize)]
struct Row {
    ranks: usize,
    bytes: usize,
    openmpi: f64,
    node: f64,
}

/// Cases that are to be no slower than Open MPI: ranks and bytes.
const JUDGED: [(usize, usize); 3] = [(4, 8), (2, 1 << 20), (4, 1 << 20)];

/// Ranks, bytes, rounds, calls per round.
const CASES: [(usize, usize, usize, usize); 6] = [
    (2, 8, 21, 2000),
    (4, 8, 21, 1000),
    (2, 64 << 10, 21, 100),
    (4, 64 << 10, 21, 50),
    (2, 1 << 20, 15, 10),
    (4, 1 << 20, 15, 10),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.measure.as_deref() {
        Some([bytes, rounds, calls]) => ours::measure(*bytes, *rounds, *calls),
        _ => compare(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("collectives: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The number that a command prints.
fn run(command: &mut Command) -> Result<f64, Box<dyn std::error::Error>> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.trim().parse() {
        Ok(number) if output.status.success() => Ok(number),
        _ => Err(format!(
            "{command:?}: {}; printed {printed:?} and {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

/// Builds the C program; gives its path.
fn mpi_program(place: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("openmpi/allreduce.c");
    let program = place.join("allreduce-mpi");
    let built = Command::new("mpicc")
        .arg("-O2")
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status()?;
    if !built.success() {
        return Err(format!("mpicc: {built}").into());
    }
    Ok(program)
}

/// Ranks of Open MPI.
fn openmpi(program: &Path, ranks: usize, numbers: &[String]) -> Command {
    let mut mpirun = Command::new("mpirun");
    mpirun
        .args(["-n", &ranks.to_string(), "--oversubscribe"])
        .args(["--mca", "pml", "ob1", "--mca", "btl", "self,vader"])
        .args(["--mca", "coll", "^hcoll"])
        .arg(program)
        .args(numbers)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun
}

/// Ranks of ours.
fn ours(own: &Path, provider: &str, ranks: usize, numbers: &[String]) -> Command {
    let mut launch = Command::new(own.with_file_name("host-stub"));
    launch.args(["launch", "-n", &ranks.to_string(), "--provider", provider]);
    launch.arg("--").arg(own).arg("--measure").args(numbers);
    launch
}

/// Times of one case, of each side, by turn.
#[derive(Default)]
struct Times {
    openmpi: Vec<f64>,
    node: Vec<f64>,
}

fn measure_case(
    arguments: &Arguments,
    (own, mpi): (&Path, &Path),
    (ranks, bytes, rounds, calls): (usize, usize, usize, usize),
) -> Result<Times, Box<dyn std::error::Error>> {
    let numbers = [bytes, rounds, calls].map(|number| number.to_string());
    let provider = &arguments.provider;
    let mut times = Times::default();
    for turn in 0..arguments.turns {
        eprintln!(
            "allreduce of {bytes} B over {ranks} ranks: turn {} of {}",
            turn + 1,
            arguments.turns
        );
        times.openmpi.push(run(&mut openmpi(mpi, ranks, &numbers))?);
        times
            .node
            .push(run(&mut ours(own, provider, ranks, &numbers))?);
    }
    Ok(times)
}

/// The target that a ratio of two sides, turn by turn, is held against.
fn target(name: String, ours: &[f64], theirs: &[f64]) -> Target {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
    let ratio = Figure::of(ratios.collect());
    let spread = Some(ratio.spread());
    Target::new(name, Some(ratio.median), Bound::Most, 1.0, "times", spread)
}

fn compare(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let own = std::env::current_exe()?;
    let place = own.parent().ok_or("this program lies nowhere")?;
    let mpi = mpi_program(place)?;
    println!(
        "{:>5}{:>9}{:>14}{:>14}{:>9}",
        "ranks", "bytes", "Open MPI us", "node us", "node"
    );
    let (mut rows, mut targets) = (Vec::new(), Vec::new());
    for case in CASES {
        let (ranks, bytes, ..) = case;
        let times = measure_case(arguments, (&own, &mpi), case)?;
        if JUDGED.contains(&(ranks, bytes)) {
            let name = format!("allreduce of {bytes} B over {ranks} ranks, ours over Open MPI's");
            targets.push(target(name, &times.node, &times.openmpi));
        }
        let row = Row {
            ranks,
            bytes,
            openmpi: median(times.openmpi),
            node: median(times.node),
        };
        println!(
            "{ranks:>5}{bytes:>9}{:>14.2}{:>14.2}{:>9.2}",
            row.openmpi,
            row.node,
            row.node / row.openmpi
        );
        rows.push(row);
    }
    if let Some(path) = &arguments.output {
        part::write(path, &targets, &rows)?;
    }
    Ok(())
}
