//! The parts of a suite: tests with the windows that they run on. And the tests that several suites have.

use super::case::Case;
use super::{
    accumulates, atomicity, customs, edges, epochs, errors, hints, kinds, notified, programs,
    requests, threads, transfers,
};
use host_stub::win::Info;

/// Tests over windows of one making. One window is made for all of them, and they make further ones.
pub(super) struct Pass {
    pub(super) info: Info,
    pub(super) cases: Vec<Case>,
    /// Whether the buffers of the tests are on a device.
    pub(super) on_device: bool,
}

impl Pass {
    /// Tests for which windows are made this way.
    pub(super) fn new(info: Info, cases: Vec<Case>) -> Pass {
        Pass {
            info,
            cases,
            on_device: false,
        }
    }

    /// The tests with their buffers on a device.
    pub(super) fn on_device(mut self) -> Pass {
        self.on_device = true;
        self
    }

    /// The tests with a word before their names.
    pub(super) fn named(mut self, word: &str) -> Pass {
        for case in &mut self.cases {
            case.name = format!("{word}/{}", case.name);
        }
        self
    }
}

/// Every test of windows. The list depends on nothing, so it is the same for every provider and
/// every table.
pub(super) fn windows() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(transfers::cases());
    cases.extend(accumulates::cases());
    cases.extend(customs::cases());
    cases.extend(atomicity::cases());
    cases.extend(edges::cases());
    cases.extend(kinds::cases());
    cases.extend(epochs::cases());
    cases.extend(requests::cases());
    cases.extend(notified::cases());
    cases.extend(programs::cases());
    cases.extend(threads::cases());
    cases.extend(errors::cases());
    cases.extend(hints::cases());
    cases
}
