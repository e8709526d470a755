//! Memory attached to a dynamic window, to a hundred thousand regions: attaching, detaching, and what an origin pays to
//! learn of a change. The origin is this process too, through the transport.

use std::time::Instant;

use benches::ranks;
use benches::statistics::median;
use host_stub::win::{Assertion, Datatype, Info, Layout, TableChoice, Target, WinError, Window};

use crate::report::Report;

const MOST: usize = 100_000;
/// Bytes of a region. Every second one is attached, so that none touches another.
const SIZE: usize = 64;
/// Changes, each with the access after it.
const CHANGES: usize = 21;

fn text(error: Box<WinError>) -> String {
    error.to_string()
}

/// Microseconds of reading a word of a region.
fn read(window: &Window, from: *const u8) -> Result<f64, String> {
    let mut word = [0u8; 8];
    let layout = Layout::contiguous(Datatype::Uint8, word.len());
    let target = Target {
        rank: 0,
        displacement: from as u64,
        layout: &layout,
    };
    let start = Instant::now();
    // SAFETY: the word lives until the flush.
    unsafe { window.get(word.as_mut_ptr(), &layout, target) }.map_err(text)?;
    window.flush(0).map_err(text)?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Measures every number of regions.
pub(crate) fn measure(report: &mut Report, short: bool) -> Result<(), String> {
    let provider = "shm";
    let sizes: &[usize] = if short {
        &[1000, MOST]
    } else {
        &[1000, 10_000, MOST]
    };
    let memory = vec![0u8; (MOST + 1) * 2 * SIZE].leak().as_mut_ptr();
    let region = |number: usize| memory.wrapping_add(number * 2 * SIZE);
    let job = ranks::job(provider, None)?;
    for &size in sizes {
        let info = Info::new().with_table(TableChoice::Btl);
        let window = Window::dynamic_with(&job, &info).map_err(text)?;
        window.lock_all(Assertion::empty()).map_err(text)?;
        let start = Instant::now();
        for number in 0..size {
            // SAFETY: the memory is never freed.
            unsafe { window.attach(region(number), SIZE) }.map_err(text)?;
        }
        let attached = start.elapsed().as_secs_f64() / size as f64;
        // The first access reads the whole table, the next ones its version only.
        let first = read(&window, region(size / 2))?;
        let same = (0..CHANGES).map(|_| read(&window, region(size / 2)));
        let same = median(same.collect::<Result<_, _>>()?);
        let mut changed = Vec::new();
        for _ in 0..CHANGES {
            // SAFETY: the memory is never freed, and this region is attached nowhere else.
            unsafe { window.attach(region(MOST), SIZE) }.map_err(text)?;
            changed.push(read(&window, region(size / 2))?);
            window.detach(region(MOST)).map_err(text)?;
            changed.push(read(&window, region(size / 2))?);
        }
        let mut left: Vec<usize> = (0..size).collect();
        let start = Instant::now();
        // In another order than they came in.
        while !left.is_empty() {
            let number = left.swap_remove((left.len() * 5 / 8).min(left.len() - 1));
            window.detach(region(number)).map_err(text)?;
        }
        let detached = start.elapsed().as_secs_f64() / size as f64;
        window.unlock_all().map_err(text)?;
        window.free().map_err(|e| e.to_string())?;
        report.row(format!(
            "{provider}: {size} regions of a dynamic window: attached in {:.2} us, detached in {:.2} us each; get of \
             8 B and flush {first:.1} us at first, {same:.2} us without a change, {:.2} us after one",
            attached * 1e6,
            detached * 1e6,
            median(changed),
        ));
    }
    job.finalize().map_err(|e| e.to_string())
}
