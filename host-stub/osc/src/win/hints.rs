//! MPI's hints on how a window is used (MPI 4.1, 12.2.1), and the effect of each hint here.
//!
//! | key | value | effect |
//! | --- | --- | --- |
//! | `no_locks` | true, false | lock and lock_all are refused |
//! | `accumulate_ordering` | `none`, or some of `rar,raw,war,waw` | with `none`, an accumulate does not wait for earlier ones if the transport keeps no order; a partial list has the effect of the whole list |
//! | `accumulate_ops` | `same_op`, `same_op_no_op` | with `same_op`, an operation that the transport serves goes to the transport even if it lacks other operations that `same_op_no_op` needs |
//! | `same_size` | true, false | windows whose ranks give different sizes are refused |
//! | `same_disp_unit` | true, false | windows whose ranks give different displacement units are refused |
//! | `mpi_accumulate_granularity` | bytes, 0 for no choice | accumulates that need the target's lock take it for this many bytes at a time, at least for one element |

use std::sync::atomic::{AtomicU64, Ordering};

use plugin_api::Datatype;

/// The keys.
pub(super) const KEYS: [&str; 6] = [
    "no_locks",
    "accumulate_ordering",
    "accumulate_ops",
    "same_size",
    "same_disp_unit",
    "mpi_accumulate_granularity",
];

/// Hints as given: `None` if the program did not give the hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hints {
    no_locks: Option<bool>,
    unordered: Option<bool>,
    same_op: Option<bool>,
    same_size: Option<bool>,
    same_unit: Option<bool>,
    granularity: Option<u32>,
}

/// Hints in force. A hint that the program did not give has MPI's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InForce {
    pub(super) no_locks: bool,
    pub(super) unordered: bool,
    pub(super) same_op: bool,
    pub(super) same_size: bool,
    pub(super) same_unit: bool,
    granularity: u32,
}

fn truth(value: &str) -> Result<bool, &'static str> {
    value.parse().map_err(|_| "true or false")
}

fn is_unordered(value: &str) -> Result<bool, &'static str> {
    if value == "none" {
        return Ok(true);
    }
    let known = |word: &str| matches!(word, "rar" | "raw" | "war" | "waw");
    match value.split(',').all(known) {
        true => Ok(false),
        false => Err("none, or some of rar,raw,war,waw"),
    }
}

fn is_same_op(value: &str) -> Result<bool, &'static str> {
    match value {
        "same_op" => Ok(true),
        "same_op_no_op" => Ok(false),
        _ => Err("same_op or same_op_no_op"),
    }
}

impl Hints {
    /// Adds a hint. `None`: the key is no key of a hint. The error has the values that the key can
    /// have.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Option<Result<(), &'static str>> {
        let set = |place: &mut Option<bool>, value: Result<bool, &'static str>| {
            value.map(|value| *place = Some(value))
        };
        Some(match key {
            "no_locks" => set(&mut self.no_locks, truth(value)),
            "accumulate_ordering" => set(&mut self.unordered, is_unordered(value)),
            "accumulate_ops" => set(&mut self.same_op, is_same_op(value)),
            "same_size" => set(&mut self.same_size, truth(value)),
            "same_disp_unit" => set(&mut self.same_unit, truth(value)),
            "mpi_accumulate_granularity" => match value.parse() {
                Ok(bytes) => {
                    self.granularity = Some(bytes);
                    Ok(())
                }
                Err(_) => Err("a number of bytes"),
            },
            _ => return None,
        })
    }

    /// The value of a hint that was given.
    pub(super) fn get(&self, key: &str) -> Option<String> {
        let word = |value: Option<bool>, yes: &str, no: &str| {
            value.map(|value| if value { yes } else { no }.to_owned())
        };
        match key {
            "no_locks" => word(self.no_locks, "true", "false"),
            "accumulate_ordering" => word(self.unordered, "none", "rar,raw,war,waw"),
            "accumulate_ops" => word(self.same_op, "same_op", "same_op_no_op"),
            "same_size" => word(self.same_size, "true", "false"),
            "same_disp_unit" => word(self.same_unit, "true", "false"),
            "mpi_accumulate_granularity" => self.granularity.map(|bytes| bytes.to_string()),
            _ => None,
        }
    }

    /// The hints in force after these hints were set; `before` was in force.
    pub(super) fn over(&self, before: InForce) -> InForce {
        InForce {
            no_locks: self.no_locks.unwrap_or(before.no_locks),
            unordered: self.unordered.unwrap_or(before.unordered),
            same_op: self.same_op.unwrap_or(before.same_op),
            same_size: self.same_size.unwrap_or(before.same_size),
            same_unit: self.same_unit.unwrap_or(before.same_unit),
            granularity: self.granularity.unwrap_or(before.granularity),
        }
    }
}

impl InForce {
    /// Whether a key is one of these hints.
    pub(super) fn is_key(key: &str) -> bool {
        KEYS.contains(&key)
    }

    /// A number that is equal for equal hints only.
    pub(super) fn code(self) -> u64 {
        let bits = [
            self.no_locks,
            self.unordered,
            self.same_op,
            self.same_size,
            self.same_unit,
        ];
        let bits = bits
            .into_iter()
            .rev()
            .fold(0, |bits, bit| bits << 1 | u64::from(bit));
        u64::from(self.granularity) << 8 | bits
    }

    /// The hints of a [code](Self::code).
    pub(super) fn of(code: u64) -> InForce {
        let bit = |at: u32| code >> at & 1 != 0;
        InForce {
            no_locks: bit(0),
            unordered: bit(1),
            same_op: bit(2),
            same_size: bit(3),
            same_unit: bit(4),
            granularity: (code >> 8) as u32,
        }
    }

    /// All values as hints.
    pub(super) fn hints(self) -> Hints {
        Hints {
            no_locks: Some(self.no_locks),
            unordered: Some(self.unordered),
            same_op: Some(self.same_op),
            same_size: Some(self.same_size),
            same_unit: Some(self.same_unit),
            granularity: Some(self.granularity),
        }
    }

    /// Bytes that an accumulate updates under one hold of the target's lock: whole elements, and the whole accumulate if the
    /// program did not choose.
    pub(super) fn bytes_of_a_hold(self, datatype: Datatype) -> usize {
        match self.granularity as usize {
            0 => usize::MAX,
            bytes => bytes.next_multiple_of(datatype.size()),
        }
    }

    /// The reason why a window cannot have these sizes and displacement units, if there is one.
    pub(super) fn refusal(
        self,
        ranks: impl Iterator<Item = (u64, u32)>,
    ) -> Option<(usize, String)> {
        let mut ranks = ranks.enumerate();
        let (_, (size, unit)) = ranks.next()?;
        ranks.find_map(|(rank, (other_size, other_unit))| {
            let reason = if self.same_size && other_size != size {
                format!("same_size is true: it has {other_size} B, rank 0 has {size} B")
            } else if self.same_unit && other_unit != unit {
                format!(
                    "same_disp_unit is true: its displacement unit is {other_unit} B, that of rank 0 is \
                     {unit} B"
                )
            } else {
                return None;
            };
            Some((rank, reason))
        })
    }
}

/// The hints in force for a window. Only set_info changes these hints.
#[derive(Default)]
pub(super) struct Rules(AtomicU64);

impl Rules {
    pub(super) fn new(rules: InForce) -> Rules {
        Rules(AtomicU64::new(rules.code()))
    }

    /// The hints in force.
    #[inline]
    pub(super) fn now(&self) -> InForce {
        // Relaxed: set_info is collective, and the program orders it with later calls.
        InForce::of(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn change(&self, rules: InForce) {
        self.0.store(rules.code(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_and_written() {
        for (key, value) in [
            ("no_locks", "true"),
            ("accumulate_ordering", "none"),
            ("accumulate_ordering", "rar,raw,war,waw"),
            ("accumulate_ops", "same_op"),
            ("accumulate_ops", "same_op_no_op"),
            ("same_size", "true"),
            ("same_disp_unit", "false"),
            ("mpi_accumulate_granularity", "4096"),
        ] {
            let mut hints = Hints::default();
            assert_eq!(hints.set(key, value), Some(Ok(())));
            assert_eq!(hints.get(key).as_deref(), Some(value));
            let others = KEYS.iter().filter(|other| **other != key);
            assert!(others.map(|other| hints.get(other)).all(|v| v.is_none()));
            let before = InForce::default();
            assert_eq!(hints.over(before).hints().get(key).as_deref(), Some(value));
        }
        let mut hints = Hints::default();
        assert_eq!(hints.set("accumulate_ordering", "rar"), Some(Ok(())));
        assert_eq!(hints.get("accumulate_ordering").unwrap(), "rar,raw,war,waw");
        assert!(hints.set("no_such_key", "true").is_none());
        for key in KEYS {
            assert!(hints.set(key, "nonsense").unwrap().is_err(), "{key}");
            assert!(hints.set(key, "").unwrap().is_err(), "{key}");
        }
    }

    #[test]
    fn codes_hold_everything() {
        for code in (0..32).chain([4096 << 8, u64::from(u32::MAX) << 8 | 31]) {
            assert_eq!(InForce::of(code).code(), code);
        }
    }

    #[test]
    fn a_hold_is_whole_elements() {
        let bytes = |granularity| {
            let rules = InForce {
                granularity,
                ..InForce::default()
            };
            rules.bytes_of_a_hold(Datatype::Int64)
        };
        assert_eq!(
            [bytes(0), bytes(1), bytes(8), bytes(20)],
            [usize::MAX, 8, 8, 24]
        );
    }

    #[test]
    fn ranks_that_differ_are_named() {
        let ranks = [(8, 1), (8, 1), (16, 1), (8, 2)];
        let refusal = |same_size, same_unit| {
            let rules = InForce {
                same_size,
                same_unit,
                ..InForce::default()
            };
            rules.refusal(ranks.into_iter()).map(|(rank, _)| rank)
        };
        assert_eq!(refusal(false, false), None);
        assert_eq!(refusal(true, false), Some(2));
        assert_eq!(refusal(false, true), Some(3));
    }
}
