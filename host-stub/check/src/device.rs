//! Device memory, on the machine's first device, or on a simulated device if there is none: the window
//! suite with windows and with buffers on the device, collectives with buffers there, and tests that
//! only devices need.

mod attached;
mod cases;
mod collectives;
mod garbage;
#[cfg(feature = "cuda")]
mod kernel;
mod mistakes;
mod one_rank;
mod scattered;
mod started;
mod under_way;

use host_stub::device::{pretend, pretended_bytes};
use host_stub::job::Job;
use host_stub::win::Info;

use super::buffer::DEVICE;
use super::case::Failure;
use super::coll;
use super::pass::{Pass, windows};

/// Adds a device at every rank, before any window is made.
pub(super) fn prepare(job: &Job) -> Result<(), Failure> {
    if job.devices().all().is_empty() {
        pretend(job.devices(), pretended_bytes(job.params())?)?;
    }
    Ok(())
}

/// The device's own tests, then the tests of windows with memory and buffers in each place.
pub(super) fn passes(_ranks: usize) -> Vec<Pass> {
    let there = || Info::new().with_device(DEVICE);
    // Leaves out a test that makes a window of host memory, although its info says device memory;
    // the module `cases` tries both kinds of memory.
    let mut on_device = windows();
    on_device.retain(|case| case.name != "window/create");
    let mut again = windows();
    again.retain(|case| case.name != "window/create");
    // The others have many at once under way, each with copies of its own.
    let mut collectives = coll::cases();
    collectives.retain(|case| {
        let ends = ["/sizes", "/types", "/in-place"];
        ends.iter().any(|end| case.name.ends_with(end))
    });
    vec![
        Pass::new(there(), cases::cases()),
        Pass::new(there(), on_device).named("window"),
        Pass::new(Info::new(), windows())
            .on_device()
            .named("buffers"),
        Pass::new(there(), again).on_device().named("both"),
        Pass::new(Info::new(), collectives)
            .on_device()
            .named("buffers"),
    ]
}
