//! A model of the protocol past this machine: messages, bytes, waits, time and memory of a rank, for 2 to 1,000,000 ranks.
//!
//! What is sent is written down once more, round by round (`epochs`, `collectives`, `creation`), with sizes from the code
//! (`btl_ofi::sizes`, `host_stub::{win, coll}::sizes`) and times from recorded measurements (`measured`). `check` runs the same
//! on pretended nodes and compares the counts. `docs/scale.md` has the assumptions.

mod check;
mod collectives;
mod creation;
mod epochs;
mod measured;
mod memory;
mod tables;
mod time;
mod traffic;

use std::process::ExitCode;

use benches::ranks::code;
use clap::Parser;
use host_stub::bootstrap::local::Environment;

use time::Assumed;
use traffic::Job;

/// Bytes of a registration handle.
const HANDLE: usize = btl_ofi::Handle::SIZE;

#[derive(Parser)]
#[command(about = "Model jobs of up to a million ranks")]
struct Arguments {
    /// Ranks of a node.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..))]
    per_node: u64,
    /// Microseconds that the network adds to loopback, one way.
    #[arg(long, default_value_t = 0.0)]
    network: f64,
    /// Runs 2 to 64 ranks here instead, on pretended nodes, and compares the counts.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match Environment::read() {
        Ok(Some(_)) => check::rank(),
        Ok(None) if arguments.check => check_all(),
        Ok(None) => model(&arguments),
        Err(e) => Err(e.to_string()),
    };
    code("model", result.map(|()| 0))
}

fn check_all() -> Result<(), String> {
    let jobs = [(2, 1), (6, 2), (7, 1), (8, 1), (16, 4), (32, 8), (64, 8)];
    for (ranks, per_node) in jobs {
        check::check(Job { ranks, per_node }, vec!["--check".into()], None)?;
    }
    println!("the model and all runs have the same counts");
    Ok(())
}

fn model(arguments: &Arguments) -> Result<(), String> {
    if !(arguments.network.is_finite() && arguments.network >= 0.0) {
        return Err(format!("--network {}: give 0 or more", arguments.network));
    }
    let assumed = Assumed {
        network: arguments.network,
        limit: 4096,
    };
    tables::print(arguments.per_node, assumed);
    Ok(())
}
