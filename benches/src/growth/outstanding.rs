//! Outstanding operations, up to a million, over the lab provider, which accepts this number.

use std::time::Instant;

use benches::target::Bound;
use plugin_api::ThreadLevel;

use crate::memory::given;
use crate::report::Report;
use crate::setup::open;

const MOST: usize = 1_000_000;
/// Bytes of our own memory that an outstanding operation may take.
const BYTES: f64 = 65.0;

/// Measures operations with a callback, each of which needs a record, and operations without.
pub(crate) fn measure(report: &mut Report, short: bool) -> Result<(), String> {
    let sizes: &[usize] = if short {
        &[1000, MOST]
    } else {
        &[1000, 10_000, 100_000, MOST]
    };
    for callback in [true, false] {
        for &size in sizes {
            // Posting makes no progress, so all stay outstanding.
            let settings = [("btl_ofi_progress_threshold", i32::MAX)];
            let local = open("lab", ThreadLevel::Single, &settings)?;
            let peer = local.transport.connect(local.transport.address(), 0);
            let peer = peer.map_err(|e| e.to_string())?;
            local.put(peer, 0, callback)?;
            local.flush(None)?;
            let before = given();
            let start = Instant::now();
            for word in 0..size {
                local.put(peer, word, callback)?;
            }
            let posted = start.elapsed();
            let bytes = given().saturating_sub(before) as f64 / size as f64;
            let stats = local.transport.stats();
            let outstanding = stats.posted - stats.completed;
            if outstanding != size as u64 {
                return Err(format!("{outstanding} outstanding, not {size}"));
            }
            let start = Instant::now();
            local.flush(None)?;
            let flushed = start.elapsed();
            let kind = if callback { "with" } else { "without" };
            report.row(format!(
                "lab: {size} operations outstanding, {kind} callback: {bytes:.1} bytes each, posted in \
                 {:.2} us each, completed in {:.2} us each",
                posted.as_secs_f64() / size as f64 * 1e6,
                flushed.as_secs_f64() / size as f64 * 1e6,
            ));
            if size == MOST {
                report.target(
                    format!("bytes of ours per operation at {size} outstanding, {kind} callback"),
                    bytes,
                    Bound::Most,
                    BYTES,
                    "B",
                    None,
                );
            }
            local.close()?;
        }
    }
    Ok(())
}
