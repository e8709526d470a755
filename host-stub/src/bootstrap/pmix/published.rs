//! The items that ranks publish under keys, for all ranks that ask.
//!
//! The items of a rank travel together. At a fence, a rank whose items have changed puts them all
//! under keys that are never written again (reason: [`exchange`](super::exchange)). Then it puts
//! one value of constant length with the keys and the length of the items, under one key, or under
//! a new key at every fence if a key cannot be put again ([`Keys::Once`]). Other ranks read the
//! items at the first request.

use std::collections::{BTreeMap, HashMap};

use super::super::BootstrapError;
use super::client::{Client, Item, Owner};
use super::exchange::malformed;
use super::quirks::Keys;

/// The key of the value that says which keys hold the items: their generation and length.
const DIRECTORY: &str = "hs.directory";
/// Maximum bytes under one key.
const PIECE: usize = 16 << 10;

/// The key of the directory after `fences` fences.
fn directory_key(keys: Keys, fences: u64) -> String {
    match keys {
        Keys::Again => DIRECTORY.to_owned(),
        Keys::Once => format!("{DIRECTORY}{fences}"),
    }
}

fn piece_key(generation: u64, index: usize) -> String {
    format!("hs.items{generation}.{index}")
}

/// This rank's items.
#[derive(Default)]
pub(super) struct Own {
    items: BTreeMap<String, Vec<u8>>,
    changed: bool,
    generation: u64,
    /// Size of the published items in bytes.
    length: u64,
    /// Number of calls of `publish`, including calls that put nothing. The number is the same on every
    /// rank.
    fences: u64,
}

impl Own {
    pub(super) fn insert(&mut self, key: &str, data: &[u8]) {
        self.items.insert(key.to_owned(), data.to_vec());
        self.changed = true;
    }

    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.items.get(key).cloned()
    }

    /// Puts the items if they have changed. Returns true if it put something. The caller must then
    /// commit.
    pub(super) fn publish(&mut self, client: &Client) -> Result<bool, BootstrapError> {
        // The first call puts even without items: a server delays requests for keys of a rank that
        // has never sent anything.
        self.fences += 1;
        let news = self.changed || self.generation == 0;
        if !news && client.keys() == Keys::Again {
            return Ok(false);
        }
        if news {
            self.generation += 1;
            let blob = encode(&self.items);
            for (index, piece) in blob.chunks(PIECE).enumerate() {
                client.put(&piece_key(self.generation, index), piece)?;
            }
            self.length = blob.len() as u64;
        }
        let mut directory = self.generation.to_le_bytes().to_vec();
        directory.extend_from_slice(&self.length.to_le_bytes());
        client.put(&directory_key(client.keys(), self.fences), &directory)?;
        self.changed = false;
        Ok(true)
    }
}

/// Another rank's items, as they were last read.
#[derive(Default)]
struct Known {
    /// Whether they cannot have changed since they were read.
    fresh: bool,
    generation: u64,
    items: HashMap<String, Vec<u8>>,
}

/// The items that were read from other ranks.
#[derive(Default)]
pub(super) struct Others {
    /// Number of fences so far. After the first fence, every rank has sent something.
    fences: u64,
    known: HashMap<u32, Known>,
}

impl Others {
    /// Called after a fence.
    pub(super) fn expire(&mut self) {
        self.fences += 1;
        self.known
            .values_mut()
            .for_each(|known| known.fresh = false);
    }

    pub(super) fn get(
        &mut self,
        client: &Client,
        rank: u32,
        key: &str,
    ) -> Result<Option<Vec<u8>>, BootstrapError> {
        if self.fences == 0 {
            return Ok(None);
        }
        let known = self.known.entry(rank).or_default();
        if !known.fresh {
            refresh(client, rank, self.fences, known)?;
        }
        Ok(known.items.get(key).cloned())
    }
}

fn refresh(
    client: &Client,
    rank: u32,
    fences: u64,
    known: &mut Known,
) -> Result<(), BootstrapError> {
    let bytes = |key: &str, anew| match client.get(Owner::Rank(rank), key, anew)? {
        Some(Item::Bytes(bytes)) => Ok(bytes),
        _ => Err(malformed(rank, key)),
    };
    let directory = bytes(&directory_key(client.keys(), fences), true)?;
    let (generation, length) = directory
        .split_first_chunk::<8>()
        .and_then(|(generation, length)| {
            let length = u64::from_le_bytes(length.try_into().ok()?);
            Some((u64::from_le_bytes(*generation), length as usize))
        })
        .ok_or_else(|| malformed(rank, DIRECTORY))?;
    if generation != known.generation {
        let mut blob = Vec::new();
        for index in 0..length.div_ceil(PIECE) {
            // Read with a refresh, because the node's data of a rank may be older than this key.
            let piece = bytes(&piece_key(generation, index), true)?;
            if piece.is_empty() || piece.len() > PIECE {
                return Err(malformed(rank, &piece_key(generation, index)));
            }
            blob.extend_from_slice(&piece);
        }
        known.items = decode(&blob)
            .filter(|_| blob.len() == length)
            .ok_or_else(|| malformed(rank, &piece_key(generation, 0)))?;
        known.generation = generation;
    }
    known.fresh = true;
    Ok(())
}

fn encode(items: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut blob = Vec::new();
    for (key, data) in items {
        for field in [key.as_bytes(), data] {
            // The limits of keys and items are far below 4 GiB.
            blob.extend_from_slice(&(field.len() as u32).to_le_bytes());
            blob.extend_from_slice(field);
        }
    }
    blob
}

fn decode(mut blob: &[u8]) -> Option<HashMap<String, Vec<u8>>> {
    let mut items = HashMap::new();
    let field = |blob: &mut &[u8]| {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let (field, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *blob = rest;
        Some(field.to_vec())
    };
    while !blob.is_empty() {
        let key = String::from_utf8(field(&mut blob)?).ok()?;
        items.insert(key, field(&mut blob)?);
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back() {
        let items: BTreeMap<String, Vec<u8>> =
            [("a", vec![]), ("key", vec![1; 70_000]), ("é", vec![0])]
                .map(|(key, data)| (key.to_owned(), data))
                .into();
        let blob = encode(&items);
        let found: BTreeMap<_, _> = decode(&blob).expect("items").into_iter().collect();
        assert_eq!(found, items);
        assert_eq!(decode(&[]), Some(HashMap::new()));
        for count in 1..20 {
            assert_eq!(decode(&blob[..count]).is_some(), [9].contains(&count));
        }
    }
}
