//! The registry of suites: the values of `--suite`, and the tests of each suite.

use clap::builder::PossibleValue;

use super::pass::{Pass, windows};
use super::{coll, device, tables, waiting};
use host_stub::win::{Info, TableChoice};

/// A suite: a name, a line of help, and its tests.
struct Suite {
    name: &'static str,
    about: &'static str,
    /// The passes for a number of ranks.
    passes: fn(usize) -> Vec<Pass>,
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
        about: "how calls wait, in the mode of OMP_EXTERNAL: conditions, threads and tasks",
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
        about: "windows and buffers on the first device, or a pretended one where there is none",
        passes: device::passes,
    },
];

/// The suite that runs by default.
pub(super) const DEFAULT: &str = "rma";

/// The values of `--suite`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

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
        assert_eq!(rows::of("shm/errors/layouts"), ["003.1", "003.6"]);
        assert_eq!(
            rows::of("device/paths"),
            ["000.4", "004.35", "004.41", "004.47", "004.57"]
        );
        assert!(rows::of("put/u8").is_empty());
        assert!(SUITES.iter().any(|suite| suite.name == DEFAULT));
    }
}
