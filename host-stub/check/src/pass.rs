//! The parts of a suite: tests with the windows that they run on, and the tests that several suites
//! share.

use super::case::Case;
use super::{
    accumulates, atomicity, customs, edges, epochs, errors, hints, kinds, notified, programs,
    requests, threads, transfers,
};
use host_stub::win::Info;

/// Tests whose windows have the same hints. All these tests share one window, and some make further
/// windows.
pub(super) struct Pass {
    pub(super) info: Info,
    pub(super) cases: Vec<Case>,
    /// Whether the buffers of the tests are on a device.
    pub(super) on_device: bool,
}

impl Pass {
    /// A pass of tests with these hints for windows.
    pub(super) fn new(info: Info, cases: Vec<Case>) -> Pass {
        Pass {
            info,
            cases,
            on_device: false,
        }
    }

    /// The pass, with the buffers of its tests on a device.
    pub(super) fn on_device(mut self) -> Pass {
        self.on_device = true;
        self
    }

    /// The pass, with a word before the names of its tests.
    pub(super) fn named(mut self, word: &str) -> Pass {
        for case in &mut self.cases {
            case.name = format!("{word}/{}", case.name);
        }
        self
    }
}

/// Every test of windows. The list is the same for every provider and every table.
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
