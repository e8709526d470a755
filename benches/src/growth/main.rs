//! How the transport grows: peers to a million, outstanding operations to a million, regions to a
//! hundred thousand, registered and attached to a window, threads to eight.
//!
//! Bytes are those that this program's allocator gave, with what the C library adds to each piece: the
//! transport is linked into it, while libfabric and its providers, the lab provider too, have memory
//! of their own. Times are medians of rounds in which the small and the large case take turns.

mod attached;
mod memory;
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
    /// Only these parts: peers, outstanding, regions, attached, threads.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Writes the results as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    ranks::code("growth", grow(&arguments).map(|()| 0))
}

fn grow(arguments: &Arguments) -> Result<(), String> {
    ranks::offer_lab()?;
    setup::shape();
    let wanted = |part: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| o == part);
    let mut report = Report::new()?;
    if wanted("peers") {
        peers::measure(&mut report, arguments.short)?;
    }
    if wanted("outstanding") {
        outstanding::measure(&mut report, arguments.short)?;
    }
    if wanted("regions") {
        regions::measure(&mut report, arguments.short)?;
    }
    if wanted("attached") {
        attached::measure(&mut report, arguments.short)?;
    }
    if wanted("threads") {
        threads::measure(&mut report, arguments.short)?;
    }
    report.finish(arguments.output.as_deref())
}
