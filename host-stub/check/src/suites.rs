//! The registry of suites: what `--suite` takes, and the tests of each.

use clap::builder::PossibleValue;

use super::case::Case;
use super::{
    accumulates, atomicity, coll, device, edges, epochs, errors, kinds, notified, programs,
    requests, tables, threads, transfers, waiting,
};
use host_stub::win::{Info, TableChoice};

/// A suite: a name, a line of help, and its tests.
struct Suite {
    name: &'static str,
    about: &'static str,
    /// For a number of ranks.
    passes: fn(usize) -> Vec<Pass>,
}

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

const SUITES: &[Suite] = &[
    Suite {
        name: "rma",
        about: "windows over the transport",
        passes: |_| {
            vec![Pass::new(
                Info::new().with_table(TableChoice::Btl),
                windows(),
            )]
        },
    },
    Suite {
        name: "tables",
        about: "windows with each table of functions, side by side, and layers that replace some",
        passes: tables::passes,
    },
    Suite {
        name: "crt",
        about: "how calls wait, in the mode of OMP_EXTERNAL: conditions, threads, tasks and futures",
        passes: |_| {
            vec![Pass::new(
                Info::new().with_table(TableChoice::Btl),
                waiting::cases(),
            )]
        },
    },
    Suite {
        name: "coll",
        about: "communicators and their collectives, against a model",
        passes: |_| vec![Pass::new(Info::new(), coll::cases())],
    },
    Suite {
        name: "device",
        about: "windows and buffers on a pretended device, whose memory only copies reach",
        passes: device::passes,
    },
];

/// The suite that is run when none is named.
pub(super) const DEFAULT: &str = "rma";

/// What `--suite` takes.
pub(super) fn possible() -> Vec<PossibleValue> {
    SUITES
        .iter()
        .map(|suite| PossibleValue::new(suite.name).help(suite.about))
        .collect()
}

/// The passes of a suite for a number of ranks.
pub(super) fn passes(name: &str, ranks: usize) -> Vec<Pass> {
    SUITES
        .iter()
        .find(|suite| suite.name == name)
        .map_or(Vec::new(), |suite| (suite.passes)(ranks))
}

/// Every test of windows. The list depends on nothing, so it is the same for every provider and
/// every table.
pub(super) fn windows() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(transfers::cases());
    cases.extend(accumulates::cases());
    cases.extend(atomicity::cases());
    cases.extend(edges::cases());
    cases.extend(kinds::cases());
    cases.extend(epochs::cases());
    cases.extend(requests::cases());
    cases.extend(notified::cases());
    cases.extend(programs::cases());
    cases.extend(threads::cases());
    cases.extend(errors::cases());
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for suite in SUITES {
            let mut names: Vec<String> = (suite.passes)(4)
                .into_iter()
                .flat_map(|pass| pass.cases)
                .map(|case| case.name)
                .collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}", suite.name);
            assert!(count > 0, "{}", suite.name);
        }
        assert!(windows().len() > 200);
        assert!(SUITES.iter().any(|suite| suite.name == DEFAULT));
    }
}
