//! Info keys: a caller's requests to a window beyond its arguments.

use super::error::{WinError, WinResult};
use super::hints::{self, Hints, InForce};
use crate::door::{Defaults, HOST};

crate::named_enum! {
    /// The functions that a window is to get. Names are the words of info keys and parameters.
    #[derive(Default)]
    pub enum TableChoice {
        /// The fastest functions that its memory and ranks allow.
        #[default]
        Auto = "auto",
        /// All ranks in one segment; creation fails if they cannot share one.
        Shm = "shm",
        /// Puts and gets to ranks on this node by memory, all other calls by the transport.
        Mixed = "mixed",
        /// The transport alone.
        Btl = "btl",
    }
}

impl TableChoice {
    /// The choice of a word.
    pub fn parse(word: &str) -> Option<TableChoice> {
        Self::ALL.into_iter().find(|choice| choice.name() == word)
    }
}

/// Hints of a window's creation (MPI_Info). All hints except `device_num` are the same on every rank of
/// the window.
///
/// | key | value | |
/// | --- | --- | --- |
/// | `alloc_shared_noncontig` | true, false | lets each rank's part of a shared window begin on a page of its own (MPI 4.1, 12.2.3) |
/// | `host_win_table` | auto, shm, mixed, btl | the functions that the window gets; parameter of the same name |
/// | `host_win_huge_pages` | true, false | huge pages for the segment; parameter of the same name |
/// | `device_num` | -1, or a device's number | the place of this rank's memory: the host, or this device; may differ between ranks |
/// | `host_ranks_per_node` | a number | pretends nodes, for this window; parameter of the same name |
/// | `no_locks` | true, false | lock and lock_all are refused |
/// | `accumulate_ordering` | none, or some of rar,raw,war,waw | with none, accumulates of this rank need not take effect in the order of their calls |
/// | `accumulate_ops` | same_op, same_op_no_op | the operations that may meet at one element at the same time |
/// | `same_size`, `same_disp_unit` | true, false | a window is refused if its ranks differ in the value |
/// | `mpi_accumulate_granularity` | bytes | accumulates that need the target's lock take it for this many bytes at a time |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    table: Option<TableChoice>,
    huge_pages: Option<bool>,
    noncontiguous: Option<bool>,
    ranks_per_node: Option<u32>,
    device: Option<i32>,
    hints: Hints,
}

/// The keys that MPI does not define, and alloc_shared_noncontig.
const OWN_KEYS: [&str; 5] = [
    "alloc_shared_noncontig",
    "host_win_table",
    "host_win_huge_pages",
    "device_num",
    "host_ranks_per_node",
];

impl Info {
    /// No hints.
    pub fn new() -> Info {
        Info::default()
    }

    /// Adds a hint. An unknown key is ignored, as MPI requires; [`WinError::BadArgument`] for an
    /// invalid value.
    pub fn set(&mut self, key: &str, value: &str) -> WinResult<()> {
        let bad = |wanted: &str| {
            Box::new(WinError::BadArgument {
                call: "info",
                reason: format!("key {key}: wanted {wanted}, found `{value}`"),
            })
        };
        let truth = || match value {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(bad("true or false")),
        };
        match key {
            "alloc_shared_noncontig" => self.noncontiguous = Some(truth()?),
            "host_win_huge_pages" => self.huge_pages = Some(truth()?),
            "host_win_table" => {
                let choice = TableChoice::parse(value);
                self.table = Some(choice.ok_or_else(|| bad("auto, shm, mixed or btl"))?);
            }
            "device_num" => {
                let number = value.parse().ok().filter(|n| *n >= HOST);
                self.device = Some(number.ok_or_else(|| bad("-1 or a device's number"))?);
            }
            "host_ranks_per_node" => {
                self.ranks_per_node = Some(value.parse().map_err(|_| bad("a number of ranks"))?);
            }
            _ => {
                if let Some(set) = self.hints.set(key, value) {
                    set.map_err(bad)?;
                }
            }
        }
        Ok(())
    }

    /// The value of a key; `None` if it was not set.
    pub fn get(&self, key: &str) -> Option<String> {
        match key {
            "alloc_shared_noncontig" => self.noncontiguous.map(|it| it.to_string()),
            "host_win_table" => self.table.map(|it| it.to_string()),
            "host_win_huge_pages" => self.huge_pages.map(|it| it.to_string()),
            "device_num" => self.device.map(|it| it.to_string()),
            "host_ranks_per_node" => self.ranks_per_node.map(|it| it.to_string()),
            _ => self.hints.get(key),
        }
    }

    /// The keys with a value.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        let keys = OWN_KEYS.into_iter().chain(hints::KEYS);
        keys.filter(|key| self.get(key).is_some())
    }

    /// These hints, and nothing else.
    pub(super) fn of(hints: Hints) -> Info {
        Info {
            hints,
            ..Info::default()
        }
    }

    /// The rules in force after these hints were set; `before` was in force.
    pub(super) fn rules_over(&self, before: InForce) -> InForce {
        self.hints.over(before)
    }

    /// The hints and one more; see [`set`](Self::set).
    pub fn with(mut self, key: &str, value: &str) -> WinResult<Info> {
        self.set(key, value)?;
        Ok(self)
    }

    /// The hints, and the choice of functions.
    pub fn with_table(mut self, table: TableChoice) -> Info {
        self.table = Some(table);
        self
    }

    /// The hints and a pretended number of ranks on each node; 0 for the real nodes.
    pub fn with_ranks_per_node(mut self, ranks: u32) -> Info {
        self.ranks_per_node = Some(ranks);
        self
    }

    /// The hints and the device of this rank's memory, or [`HOST`](crate::door::HOST).
    pub fn with_device(mut self, device: i32) -> Info {
        self.device = Some(device);
        self
    }

    /// The hints, completed by the door's defaults.
    pub(super) fn resolve(&self, defaults: &Defaults) -> Resolved {
        Resolved {
            table: self.table.unwrap_or(defaults.table),
            huge_pages: self.huge_pages.unwrap_or(defaults.huge_pages),
            noncontiguous: self.noncontiguous.unwrap_or(false),
            ranks_per_node: self.ranks_per_node,
            device: self.device.unwrap_or(HOST),
            rules: self.hints.over(InForce::default()),
        }
    }
}

/// The properties of a new window, all decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) table: TableChoice,
    pub(super) huge_pages: bool,
    pub(super) noncontiguous: bool,
    pub(super) ranks_per_node: Option<u32>,
    /// The device of this rank; may differ between ranks.
    pub(super) device: i32,
    pub(super) rules: InForce,
}

impl Resolved {
    /// A number that is equal for equal properties only, to compare between ranks. The rules have a
    /// separate number.
    pub(super) fn code(&self) -> u64 {
        let ranks = self.ranks_per_node.map_or(0, |ranks| u64::from(ranks) + 1);
        ranks << 8
            | (self.table as u64) << 2
            | u64::from(self.huge_pages) << 1
            | u64::from(self.noncontiguous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_understood_refused_or_ignored() {
        let mut info = Info::new();
        for choice in TableChoice::ALL {
            info.set("host_win_table", choice.name()).unwrap();
            assert_eq!(info.table, Some(choice));
        }
        info.set("alloc_shared_noncontig", "true").unwrap();
        assert_eq!(info.noncontiguous, Some(true));
        info.set("no_locks", "true").unwrap();
        let found: Vec<_> = info.keys().collect();
        assert_eq!(
            found,
            ["alloc_shared_noncontig", "host_win_table", "no_locks"]
        );
        assert_eq!(info.get("host_win_table").as_deref(), Some("btl"));
        assert_eq!(info.get("device_num"), None);
        info.set("no_such_key", "anything").unwrap();
        for (key, value) in [
            ("host_win_table", "fast"),
            ("host_win_huge_pages", "1"),
            ("alloc_shared_noncontig", ""),
            ("accumulate_ops", "any"),
            ("host_ranks_per_node", "-1"),
        ] {
            let error = info.set(key, value).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn codes_tell_hints_apart() {
        let mut seen = Vec::new();
        for table in TableChoice::ALL {
            for (huge_pages, noncontiguous) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                for ranks_per_node in [None, Some(0), Some(2)] {
                    let resolved = Resolved {
                        table,
                        huge_pages,
                        noncontiguous,
                        ranks_per_node,
                        device: HOST,
                        rules: InForce::default(),
                    };
                    assert!(!seen.contains(&resolved.code()));
                    seen.push(resolved.code());
                }
            }
        }
    }
}
