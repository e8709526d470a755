//! The intents that the ranks of a new window exchange first, and the ranks that share memory.

use std::collections::HashMap;

use crate::base::process::Process;
use crate::win::error::{WinResult, refused};
use crate::win::kind::WindowKind;

/// A rank's wishes for a new window, and the rank's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::win) struct Intent {
    pub(in crate::win) kind: WindowKind,
    /// Bytes of the rank's memory.
    pub(in crate::win) len: u64,
    /// Bytes of a displacement unit.
    pub(in crate::win) unit: u32,
    /// The info of the window, as a number to compare.
    pub(in crate::win) info: u64,
    /// The rules that the info sets, as a number to compare.
    pub(in crate::win) rules: u64,
    /// Number of hooks of the rank's job.
    pub(in crate::win) hooks: u32,
    /// The device of the rank's memory, or -1.
    pub(in crate::win) device: i32,
    /// The first rank with which this rank may share memory: the rank itself, or an earlier rank of
    /// its node.
    pub(in crate::win) node: u32,
    /// The number of the segment that this rank offers from a freed window, or 0.
    pub(in crate::win) spare: u64,
    pub(in crate::win) process: Process,
}

const MAGIC: u64 = u64::from_le_bytes(*b"WININTN4");
const REFUSED: u64 = 0;
pub(in crate::win) const WORDS: usize = 10;

impl Intent {
    /// The bytes to send: the intent, or the reason why this rank cannot take part.
    pub(in crate::win) fn encode(intent: &Result<Intent, String>) -> Vec<u8> {
        let bytes = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        match intent {
            Ok(intent) => bytes(&[
                MAGIC,
                pair(intent.kind as u32, intent.unit),
                intent.len,
                intent.info,
                intent.rules,
                pair(intent.hooks, intent.device as u32),
                pair(intent.node, intent.process.pid),
                intent.process.started,
                intent.process.space,
                intent.spare,
            ]),
            Err(reason) => {
                let mut bytes = bytes(&[MAGIC, REFUSED]);
                bytes.extend_from_slice(reason.as_bytes());
                bytes
            }
        }
    }

    /// The bytes of an intent or of a refusal, and the bytes behind them.
    pub(in crate::win) fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
        match bytes.get(8..16) == Some(&REFUSED.to_ne_bytes()) {
            true => (bytes, &[]),
            false => bytes.split_at(bytes.len().min(WORDS * 8)),
        }
    }

    /// Reads the intent of `rank`, and compares it with the intent of this rank.
    pub(in crate::win) fn decode(
        rank: usize,
        mine: Option<&Intent>,
        bytes: &[u8],
    ) -> WinResult<Intent> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| words.get(index).map(|word| u64::from_ne_bytes(*word));
        if word(0) != Some(MAGIC) {
            return Err(refused(
                rank,
                "it sent something that is no window's intent",
            ));
        }
        if word(1) == Some(REFUSED) {
            let reason = bytes.get(16..).unwrap_or_default();
            return Err(refused(rank, String::from_utf8_lossy(reason)));
        }
        let numbers: Vec<u64> = (0..WORDS).filter_map(word).collect();
        let [
            _,
            kind_and_unit,
            len,
            info,
            rules,
            hooks_and_device,
            node_and_pid,
            started,
            space,
            spare,
        ] = numbers[..]
        else {
            return Err(refused(rank, format!("its intent has {} B", bytes.len())));
        };
        let (kind, unit) = parts(kind_and_unit);
        let (hooks, device) = parts(hooks_and_device);
        let (node, pid) = parts(node_and_pid);
        let kind = WindowKind::of(kind).filter(|_| bytes.len() == WORDS * 8);
        let Some(kind) = kind else {
            return Err(refused(rank, "its intent makes no sense"));
        };
        if let Some(mine) = mine {
            if mine.kind != kind {
                let reason = format!("it makes a window of kind {kind:?}, here {:?}", mine.kind);
                return Err(refused(rank, reason));
            }
            if mine.info != info || mine.rules != rules {
                return Err(refused(rank, "its info differs from that of other ranks"));
            }
        }
        Ok(Intent {
            kind,
            len,
            unit,
            info,
            rules,
            hooks,
            device: device as i32,
            node,
            spare,
            process: Process {
                pid,
                started,
                space,
            },
        })
    }
}

/// Two numbers in one word.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The numbers of a [`pair`].
fn parts(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// For each rank, the first rank with which it shares memory. Ranks share memory if the launcher or
/// a parameter places them on one node, and if they have one space of process ids, which containers
/// on a node do not have. A rank that `is_apart` shares no memory.
pub(in crate::win) fn classes(intents: &[Intent], is_apart: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut first = HashMap::new();
    let of = intents.iter().enumerate();
    of.map(|(rank, intent)| match intent.process.space {
        // The node is unknown, so no rank shares it.
        0 => rank,
        space if !is_apart(rank) => *first.entry((intent.node, space)).or_insert(rank),
        _ => rank,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(space: u64) -> Intent {
        Intent {
            kind: WindowKind::Allocate,
            len: 100,
            unit: 4,
            info: 9,
            rules: 5,
            hooks: 2,
            device: -1,
            node: 6,
            spare: 10,
            process: Process {
                pid: 7,
                started: 8,
                space,
            },
        }
    }

    #[test]
    fn an_intent_travels_and_is_compared() {
        let bytes = Intent::encode(&Ok(intent(3)));
        let mine = intent(5);
        assert_eq!(Intent::decode(1, Some(&mine), &bytes).unwrap(), intent(3));
        for other in [
            Intent {
                info: 8,
                ..mine.clone()
            },
            Intent {
                rules: 4,
                ..mine.clone()
            },
        ] {
            assert!(Intent::decode(1, Some(&other), &bytes).is_err());
        }
        let other = Intent {
            kind: WindowKind::Dynamic,
            ..mine
        };
        assert!(Intent::decode(1, Some(&other), &bytes).is_err());
        let refusal = Intent::encode(&Err("no room".to_owned()));
        let error = Intent::decode(3, None, &refusal).unwrap_err();
        assert_eq!(
            error.to_string(),
            "window creation failed on rank 3: no room"
        );
    }

    #[test]
    fn what_follows_an_intent_is_split_off() {
        let bytes = Intent::encode(&Ok(intent(3)));
        assert_eq!(Intent::split(&bytes), (&bytes[..], &[][..]));
        let longer = [bytes.as_slice(), b"offer"].concat();
        assert_eq!(Intent::split(&longer), (&bytes[..], &b"offer"[..]));
        assert_eq!(Intent::split(&bytes[..20]), (&bytes[..20], &[][..]));
        let reason = "a long reason ".repeat(9);
        let refusal = Intent::encode(&Err(reason));
        assert_eq!(Intent::split(&refusal), (&refusal[..], &[][..]));
    }

    #[test]
    fn malformed_intents_are_errors() {
        let bytes = Intent::encode(&Ok(intent(3)));
        for len in 0..bytes.len() {
            assert!(Intent::decode(0, None, &bytes[..len]).is_err());
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(Intent::decode(0, None, &longer).is_err());
    }

    #[test]
    fn memory_is_shared_within_a_node_and_a_space() {
        let on = |node, space| Intent {
            node,
            ..intent(space)
        };
        let one_node = [1, 1, 2, 1, 0].map(|space| on(0, space));
        assert_eq!(classes(&one_node, |_| false), [0, 0, 2, 0, 4]);
        let nodes = [on(0, 1), on(1, 1), on(1, 2), on(1, 1), on(0, 0)];
        assert_eq!(classes(&nodes, |_| false), [0, 1, 2, 1, 4]);
        let unknown = [on(0, 0), on(0, 0)];
        assert_eq!(classes(&unknown, |_| false), [0, 1]);
        assert_eq!(classes(&one_node, |rank| rank == 0), [0, 1, 2, 1, 4]);
    }
}
