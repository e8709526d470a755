//! Plans with buffers on devices: host memory stands in their place, and steps copy fragments to it and from it, so that
//! copies overlap what the plan sends and receives.
//!
//! A fragment is copied from the device just before the step that reads it first, and to the device when it has been written
//! for the last time, after the sends and receives of the round that follows have begun. Bytes that no step writes are not
//! written on the device.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::plan::{Plan, Step};
use crate::device::Devices;

/// Bytes of one copy.
pub(crate) const FRAGMENT: usize = 256 << 10;

/// A buffer on a device.
#[derive(Clone, Copy)]
pub(crate) struct OnDevice {
    /// The host memory in its place.
    pub(crate) host: *mut u8,
    pub(crate) len: usize,
    pub(crate) iface: u32,
    pub(crate) address: u64,
    /// Whether the collective reads it.
    pub(crate) read: bool,
}

/// Host memory that has yet to be copied from a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lazy {
    host: Range<usize>,
    iface: u32,
    address: u64,
}

impl Lazy {
    /// The part that lies in a range of the host.
    fn part(&self, range: &Range<usize>) -> Option<Lazy> {
        let host = common(&self.host, range)?;
        Some(Lazy {
            iface: self.iface,
            address: self.address + (host.start - self.host.start) as u64,
            host,
        })
    }

    fn on_device(&self) -> Range<usize> {
        let start = self.address as usize;
        start..start + self.host.len()
    }
}

fn common(a: &Range<usize>, b: &Range<usize>) -> Option<Range<usize>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}

/// What is left of `range` without `taken`.
fn without(range: &Range<usize>, taken: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let before = range.start..range.end.min(taken.start);
    let behind = range.start.max(taken.end)..range.end;
    [before, behind].into_iter().filter(|part| !part.is_empty())
}

fn fragments(range: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    let starts = range.clone().step_by(FRAGMENT);
    starts.map(move |start| start..end.min(start + FRAGMENT))
}

pub(super) fn range(at: *const u8, len: usize) -> Range<usize> {
    at as usize..at as usize + len
}

pub(super) fn pointer(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

impl Step {
    /// What it writes.
    fn written(&self) -> Option<Range<usize>> {
        match *self {
            Step::Receive { at, len, .. } => Some(range(at, len)),
            Step::Copy { to, len, .. } => Some(range(to, len)),
            Step::Combine {
                datatype,
                into,
                count,
                ..
            } => Some(range(into, count * datatype.size())),
            _ => None,
        }
    }
}

impl Plan {
    /// Adds what copies between the devices and the host memory in the place of their buffers. `result` is a receive buffer of
    /// the host.
    pub(crate) fn stage(
        &mut self,
        devices: &Arc<Devices>,
        buffers: &[OnDevice],
        result: Option<Range<usize>>,
    ) {
        let steps = std::mem::take(&mut self.steps);
        self.devices = Some(Arc::clone(devices));
        self.steps = staged(steps, buffers, result);
    }
}

/// The steps with those that copy.
pub(super) fn staged(
    steps: Vec<Step>,
    buffers: &[OnDevice],
    result: Option<Range<usize>>,
) -> Vec<Step> {
    let mut last = last_writes(&steps, buffers);
    let mut staging = Staging {
        steps: Vec::with_capacity(steps.len() * 2),
        buffers,
        lazy: Vec::new(),
        fetches: 0,
    };
    for buffer in buffers.iter().filter(|buffer| buffer.read) {
        let host = range(buffer.host, buffer.len);
        staging.lazy.push(Lazy {
            host: host.clone(),
            iface: buffer.iface,
            address: buffer.address,
        });
        // Nothing to overlap: what fails is known before anything is sent.
        if buffer.len <= FRAGMENT {
            staging.need(&host);
        }
    }
    // Written for the last time: now, and when the round is done.
    let (mut ready, mut arriving) = (Vec::new(), Vec::new());
    for step in steps {
        let written = last.pop_front().unwrap_or_default();
        match step {
            Step::Receive { .. } => arriving.extend(written),
            Step::Round => {
                staging.give_back(&mut ready);
                ready.append(&mut arriving);
            }
            _ => ready.extend(written),
        }
        staging.add(step);
    }
    staging.give_back(&mut ready);
    if let Some(result) = result {
        staging.need(&result);
    }
    if !arriving.is_empty() {
        staging.steps.push(Step::Round);
        staging.give_back(&mut arriving);
    }
    staging.steps
}

/// For each step the parts of the buffers that no later step writes.
fn last_writes(steps: &[Step], buffers: &[OnDevice]) -> VecDeque<Vec<Range<usize>>> {
    let mut later: Vec<Range<usize>> = Vec::new();
    let mut last = VecDeque::with_capacity(steps.len());
    for step in steps.iter().rev() {
        let mut parts = Vec::new();
        if let Some(written) = step.written() {
            let in_buffers = buffers
                .iter()
                .filter_map(|buffer| common(&written, &range(buffer.host, buffer.len)));
            parts.extend(in_buffers);
            for known in &later {
                parts = parts.iter().flat_map(|part| without(part, known)).collect();
            }
            later.extend(parts.iter().cloned());
        }
        last.push_front(parts);
    }
    last
}

/// A plan on its way.
struct Staging<'a> {
    steps: Vec<Step>,
    buffers: &'a [OnDevice],
    lazy: Vec<Lazy>,
    /// Copies from devices so far.
    fetches: usize,
}

impl Staging<'_> {
    /// Copies what of a range of the host is still on a device, and waits for it.
    fn need(&mut self, wanted: &Range<usize>) {
        let parts: Vec<Lazy> = self.lazy.iter().filter_map(|l| l.part(wanted)).collect();
        if parts.is_empty() {
            return;
        }
        self.forget(wanted);
        for part in parts {
            for piece in fragments(&part.host) {
                self.steps.push(Step::Fetch {
                    iface: part.iface,
                    from: part.address + (piece.start - part.host.start) as u64,
                    to: pointer(piece.start),
                    len: piece.len(),
                });
                self.fetches += 1;
            }
        }
        self.steps.push(Step::Fetched {
            count: self.fetches,
        });
    }

    /// A range of the host is written in another way.
    fn forget(&mut self, written: &Range<usize>) {
        let rest = self.lazy.iter().flat_map(|lazy| {
            let parts = without(&lazy.host, written);
            parts.filter_map(|part| lazy.part(&part))
        });
        self.lazy = rest.collect();
    }

    /// Copies parts of the buffers to their devices.
    fn give_back(&mut self, parts: &mut Vec<Range<usize>>) {
        for part in parts.drain(..) {
            self.need(&part);
            let buffers = self.buffers;
            let on = buffers
                .iter()
                .find(|buffer| common(&part, &range(buffer.host, buffer.len)).is_some());
            let Some(buffer) = on else { continue };
            let start = buffer.address + (part.start - buffer.host as usize) as u64;
            let there = start as usize..start as usize + part.len();
            // What is yet to be read there.
            let under: Vec<Range<usize>> = self
                .lazy
                .iter()
                .filter(|lazy| common(&lazy.on_device(), &there).is_some())
                .map(|lazy| lazy.host.clone())
                .collect();
            under.iter().for_each(|host| self.need(host));
            for piece in fragments(&part) {
                self.steps.push(Step::Return {
                    iface: buffer.iface,
                    from: pointer(piece.start),
                    to: start + (piece.start - part.start) as u64,
                    len: piece.len(),
                });
            }
        }
    }

    /// Adds a step, after what it reads.
    fn add(&mut self, step: Step) {
        match step {
            Step::Send { at, len, .. } => self.need(&range(at, len)),
            Step::Combine {
                datatype,
                left,
                right,
                count,
                ..
            } => {
                self.need(&range(left, count * datatype.size()));
                self.need(&range(right, count * datatype.size()));
            }
            Step::Copy { from, to, len } => return self.copy(from, to, len),
            _ => {}
        }
        if let Some(written) = step.written() {
            self.forget(&written);
        }
        self.steps.push(step);
    }

    /// What is still on a device is copied from there when it is read, straight to where it is wanted.
    fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) {
        let (source, target) = (range(from, len), range(to, len));
        if common(&source, &target).is_some() {
            self.need(&source);
        }
        let parts: Vec<Lazy> = self.lazy.iter().filter_map(|l| l.part(&source)).collect();
        self.forget(&target);
        let mut rest = vec![source.clone()];
        for part in parts {
            let left = rest.iter().flat_map(|range| without(range, &part.host));
            rest = left.collect();
            let start = target.start + (part.host.start - source.start);
            self.lazy.push(Lazy {
                host: start..start + part.host.len(),
                ..part
            });
        }
        for part in rest {
            let offset = part.start - source.start;
            self.steps.push(Step::Copy {
                from: from.wrapping_add(offset),
                to: to.wrapping_add(offset),
                len: part.len(),
            });
        }
    }
}
