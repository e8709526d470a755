//! Copies between devices and the host in a plan.

use super::engine::{Schedule, State};
use super::error::CommError;
use crate::device::{CopyFailed, CopyUnderWay};

/// A copy under way.
pub(super) struct Copying {
    /// Its number, if it is one from a device.
    number: Option<usize>,
    len: usize,
    under_way: CopyUnderWay,
}

/// Copies of one schedule.
#[derive(Default)]
pub(super) struct Copies {
    under_way: Vec<Copying>,
    /// Copies from devices that were started.
    fetches: usize,
    /// Why the schedule ends once no copy is under way, which uses its memory.
    pub(super) ending: Option<CommError>,
}

impl Copies {
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether the first so many copies from devices are over.
    pub(super) fn fetched(&self, count: usize) -> bool {
        let mut numbers = self.under_way.iter().filter_map(|copy| copy.number);
        !numbers.any(|number| number < count)
    }
}

fn failure(call: &'static str, size: usize, (function, answer): CopyFailed) -> CommError {
    CommError::DeviceCopy {
        call,
        function,
        size,
        answer,
    }
}

impl Schedule {
    /// Asks what has become of the copies under way. True when one is over.
    pub(super) fn look_at_copies(&mut self) -> bool {
        let before = self.copies.under_way.len();
        let mut failed = None;
        self.copies.under_way.retain(|copy| {
            let outcome = copy.under_way.outcome();
            if let Some(Err(error)) = outcome {
                failed.get_or_insert(failure(self.call, copy.len, error));
            }
            outcome.is_none()
        });
        if let Some(error) = failed {
            self.failed.get_or_insert(error);
        }
        self.copies.under_way.len() < before
    }

    /// Takes note of a copy that was started.
    fn started(
        &mut self,
        len: usize,
        is_fetch: bool,
        outcome: Result<Option<CopyUnderWay>, CopyFailed>,
    ) {
        let number = is_fetch.then_some(self.copies.fetches);
        self.copies.fetches += usize::from(is_fetch);
        match outcome {
            Ok(None) => {}
            Ok(Some(under_way)) => self.copies.under_way.push(Copying {
                number,
                len,
                under_way,
            }),
            Err(error) => {
                let error = failure(self.call, len, error);
                self.failed.get_or_insert(error);
            }
        }
    }
}

impl State {
    /// Starts to copy from a device.
    pub(super) fn fetch_from_device(
        &mut self,
        index: usize,
        (iface, from): (u32, u64),
        to: *mut u8,
        len: usize,
    ) {
        if let Some(schedule) = self.schedule(index)
            && let Some(devices) = schedule.plan.devices.clone()
        {
            // SAFETY: the plan's maker vouches for both memories until the schedule is done, which it is not before
            // the copy is over.
            let outcome = unsafe { devices.start_read(iface, from, to, len) };
            schedule.started(len, true, outcome);
        }
    }

    /// Starts to copy to a device.
    pub(super) fn return_to_device(
        &mut self,
        index: usize,
        from: *const u8,
        (iface, to): (u32, u64),
        len: usize,
    ) {
        if let Some(schedule) = self.schedule(index)
            && let Some(devices) = schedule.plan.devices.clone()
        {
            // SAFETY: as in `fetch_from_device`.
            let outcome = unsafe { devices.start_write(iface, to, from, len) };
            schedule.started(len, false, outcome);
        }
    }
}
