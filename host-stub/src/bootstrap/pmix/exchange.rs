//! An exchange among all ranks through published keys.
//!
//! A rank sends its bytes in fragments, one in each round: put, commit, fence, read the other
//! ranks' fragments. If a key may be put again ([`Keys::Again`]), two measured facts shape the
//! rounds:
//! - A commit sends everything that the process ever put. So the keys are few and reused: two of each
//!   size, alternately. A key is written again two rounds later, after a fence that every reader
//!   entered after its read.
//! - A server (4.2, store `ds21`) loses a key whose value changes its length. So every value of a key
//!   is padded to the length of the first.
//!
//! Otherwise ([`Keys::Once`]) every round has a key of its own.

use super::super::{BootstrapError, Lost, Progress};
use super::client::{Client, Item, Owner};
use super::quirks::Keys;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Bytes for the round, and for the length of the whole contribution.
const HEADER: usize = 16;
/// Length of most values, because hosts exchange short data.
const SHORT: usize = 512;
/// Length of the values that carry long contributions.
const LONG: usize = 16 << 10;
/// Up to this many rounds use short values; longer remainders use long values. A long value is part
/// of every commit after its put.
const SHORT_ROUNDS: usize = 4;

/// Maximum time that a server may return a value of an earlier round. After a fence, a server
/// should never return such a value.
const STALE_LIMIT: Duration = Duration::from_secs(10);

/// Encodes a value. The encoded length is at least the length that its key requires.
fn encode(round: u64, total: usize, piece: &[u8], length: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(length);
    value.extend_from_slice(&round.to_le_bytes());
    value.extend_from_slice(&(total as u64).to_le_bytes());
    value.extend_from_slice(piece);
    value.resize(length.max(value.len()), 0);
    value
}

/// Decodes a value: round, length of the whole contribution, and the bytes with their padding.
fn decode(value: &[u8]) -> Option<(u64, usize, &[u8])> {
    let (round, rest) = value.split_first_chunk::<8>()?;
    let (total, piece) = rest.split_first_chunk::<8>()?;
    let total = usize::try_from(u64::from_le_bytes(*total)).ok()?;
    Some((u64::from_le_bytes(*round), total, piece))
}

/// The length of a published value if `left` bytes remain.
fn length(left: usize) -> usize {
    if left <= SHORT_ROUNDS * (SHORT - HEADER) {
        SHORT
    } else {
        LONG
    }
}

/// The state of exchanges: the number of rounds so far.
#[derive(Default)]
pub(super) struct Exchange {
    round: u64,
}

impl Exchange {
    /// Gives every rank the contributions of all ranks. `limit` is the maximum size of one
    /// contribution.
    pub(super) fn run(
        &mut self,
        client: &Client,
        size: u32,
        data: &[u8],
        limit: usize,
        progress: Progress<'_>,
        lost: &OnceLock<Lost>,
    ) -> Result<Vec<Vec<u8>>, BootstrapError> {
        let mut parts = vec![Vec::new(); size as usize];
        let mut totals = vec![0; size as usize];
        let mut offset = 0;
        // The first round also determines the number of rounds. All ranks compute the same number.
        let mut longest = 0;
        while offset == 0 || offset < longest {
            self.round += 1;
            let length = if offset == 0 {
                SHORT
            } else {
                length(longest - offset)
            };
            let step = length - HEADER;
            let (key, length) = match client.keys() {
                Keys::Again => (format!("hs.x{length}.{}", self.round % 2), length),
                Keys::Once => (format!("hs.x.{}", self.round), 0),
            };
            let piece = rest(data, offset, step);
            if offset == 0 || !piece.is_empty() {
                client.put(&key, &encode(self.round, data.len(), piece, length))?;
            }
            client.commit()?;
            client.fence(progress, lost)?;
            for (rank, (part, total)) in parts.iter_mut().zip(&mut totals).enumerate() {
                if offset > 0 && *total <= offset {
                    continue;
                }
                let rank = rank as u32;
                if rank == client.rank() {
                    *total = data.len();
                    part.extend_from_slice(piece);
                    continue;
                }
                let value = read(client, rank, &key, self.round, progress)?;
                let Some((_, whole, piece)) = decode(&value).filter(|found| found.1 <= limit)
                else {
                    return Err(malformed(rank, &key));
                };
                *total = whole;
                part.extend_from_slice(rest(piece, 0, step.min(whole - offset.min(whole))));
                progress();
            }
            longest = totals.iter().copied().max().unwrap_or(0);
            offset += step;
        }
        match parts
            .iter()
            .zip(&totals)
            .position(|(part, total)| part.len() != *total)
        {
            Some(rank) => Err(malformed(rank as u32, "hs.x")),
            None => Ok(parts),
        }
    }
}

/// At most `count` bytes, beginning at an offset.
fn rest(data: &[u8], offset: usize, count: usize) -> &[u8] {
    let data = data.get(offset..).unwrap_or_default();
    data.get(..count).unwrap_or(data)
}

pub(super) fn malformed(rank: u32, key: &str) -> BootstrapError {
    BootstrapError::PmixValue {
        rank,
        key: key.to_owned(),
        reason: "not what this version of host-stub publishes; use one build on all nodes",
    }
}

/// Reads a rank's value of this round.
fn read(
    client: &Client,
    rank: u32,
    key: &str,
    round: u64,
    progress: Progress<'_>,
) -> Result<Vec<u8>, BootstrapError> {
    let started = Instant::now();
    loop {
        match client.get(Owner::Rank(rank), key, true)? {
            Some(Item::Bytes(value)) => match decode(&value) {
                Some((found, _, _)) if found == round => return Ok(value),
                // A later round cannot have begun, because it needs this rank.
                Some((found, _, _)) if found < round => {}
                _ => return Err(malformed(rank, key)),
            },
            Some(_) => return Err(malformed(rank, key)),
            None => {}
        }
        if started.elapsed() > STALE_LIMIT {
            return Err(BootstrapError::PmixValue {
                rank,
                key: key.to_owned(),
                reason: "still that of an earlier exchange, after a fence: the launcher's PMIx \
                         server does not serve values that change (wanted: 4.0 or later)",
            });
        }
        progress();
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_length() {
        for count in [0, 1, SHORT - HEADER] {
            let piece = vec![7; count];
            let value = encode(3, 99, &piece, SHORT);
            assert_eq!(value.len(), SHORT);
            let (round, total, found) = decode(&value).expect("a value");
            assert_eq!((round, total, &found[..count]), (3, 99, &piece[..]));
        }
        for count in 0..HEADER {
            assert_eq!(decode(&vec![1; count]), None);
        }
    }

    #[test]
    fn rests_end_with_the_data() {
        let data = [1, 2, 3];
        assert_eq!(rest(&data, 0, 2), [1, 2]);
        assert_eq!(rest(&data, 2, 2), [3]);
        assert_eq!(rest(&data, 3, 2), [0_u8; 0]);
        assert_eq!(rest(&data, 9, 2), [0_u8; 0]);
    }

    #[test]
    fn short_contributions_stay_in_short_values() {
        assert_eq!(length(1), SHORT);
        assert_eq!(length(SHORT_ROUNDS * (SHORT - HEADER)), SHORT);
        assert_eq!(length(SHORT_ROUNDS * (SHORT - HEADER) + 1), LONG);
    }
}
