//! Registered regions, to a hundred thousand.

use std::time::Instant;

use plugin_api::{Access, ThreadLevel};

use crate::memory::given;
use crate::report::Report;
use crate::setup::open;

const MOST: usize = 100_000;
/// Bytes of a region.
const SIZE: usize = 4096;

/// Measures registering and deregistering.
pub(crate) fn measure(report: &mut Report, short: bool) -> Result<(), String> {
    let memory = vec![0u8; MOST * SIZE].leak().as_mut_ptr();
    let sizes: &[usize] = if short {
        &[1000, MOST]
    } else {
        &[1000, 10_000, MOST]
    };
    for provider in ["shm", "tcp;ofi_rxm"] {
        for &size in sizes {
            let local = open(provider, ThreadLevel::Single, &[])?;
            let mut regions = Vec::with_capacity(size);
            let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
            let before = given();
            let start = Instant::now();
            for number in 0..size {
                // SAFETY: the memory is never freed.
                let region = unsafe {
                    let base = memory.add(number * SIZE).cast();
                    local.transport.register(base, SIZE, access)
                };
                regions.push(region.map_err(|e| format!("region {number}: {e}"))?);
            }
            let registered = start.elapsed().as_secs_f64() / size as f64;
            let bytes = (given() - before) as f64 / size as f64;
            let start = Instant::now();
            // In another order than the registrations.
            while !regions.is_empty() {
                let index = (regions.len() * 5 / 8).min(regions.len() - 1);
                let region = regions.swap_remove(index);
                region.close().map_err(|e| e.to_string())?;
            }
            let closed = start.elapsed().as_secs_f64() / size as f64;
            report.row(format!(
                "{provider}: {size} regions: {bytes:.0} bytes of ours, registered in {:.2} us, \
                 deregistered in {:.2} us each",
                registered * 1e6,
                closed * 1e6,
            ));
            local.close()?;
        }
    }
    Ok(())
}
