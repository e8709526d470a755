//! Growth of the transport: peers to a million, outstanding operations to a million, regions to a hundred thousand,
//! ranks of a window that are locked together to a thousand, threads to eight, ranks of a node to 256.
//!
//! This program's allocator counts bytes, with the bytes that the C library adds to each allocation.
//! The transport is linked into this program; libfabric and its providers, including the lab
//! provider, have another allocator. The kernel counts the memory of the ranks of a node. Times
//! are medians of rounds in which the small and the large case take turns.

mod locks;
mod memory;
mod node;
mod outstanding;
mod peers;
mod regions;
mod report;
mod setup;
mod threads;

use std::path::PathBuf;

use benches::ranks;
use clap::Parser;

use report::Report;

#[derive(Parser)]
#[command(about = "Measure how the transport grows")]
struct Arguments {
    /// Fewer sizes and shorter times; the largest sizes stay.
    #[arg(long)]
    short: bool,
    /// Measures only these parts: peers, outstanding, regions, locks, threads, node.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Writes the results as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Runs as a rank of a node over this provider. Set by this program for its own ranks.
    #[arg(long, hide = true, requires = "output")]
    rank_over: Option<String>,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let outcome = match (&arguments.rank_over, &arguments.output) {
        (Some(provider), Some(output)) => node::rank(provider, output),
        _ => grow(&arguments),
    };
    ranks::code("growth", outcome.map(|()| 0))
}

fn grow(arguments: &Arguments) -> Result<(), String> {
    ranks::offer_lab()?;
    setup::shape();
    let wanted = |part: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| o == part);
    let mut report = Report::default();
    if wanted("peers") {
        peers::measure(&mut report, arguments.short)?;
    }
    if wanted("outstanding") {
        outstanding::measure(&mut report, arguments.short)?;
    }
    if wanted("regions") {
        regions::measure(&mut report, arguments.short)?;
    }
    if wanted("locks") {
        locks::measure(&mut report)?;
    }
    if wanted("threads") {
        threads::measure(&mut report, arguments.short)?;
    }
    if wanted("node") {
        node::measure(&mut report, arguments.short)?;
    }
    report.finish(arguments.output.as_deref())
}
