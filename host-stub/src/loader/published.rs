//! The items that plugins publish at init: each rank's items under keys, for the plugins of all
//! ranks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::bootstrap::{Bootstrap, BootstrapError, Progress};

/// The items of a rank.
type Items = BTreeMap<String, Vec<u8>>;

/// The items of this process's plugin and, after the exchange, the items of all ranks' plugins.
#[derive(Default)]
pub struct Published {
    own: Mutex<Items>,
    all: OnceLock<Vec<Items>>,
}

impl Published {
    fn own(&self) -> MutexGuard<'_, Items> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an item; a second time, replaces it.
    pub(super) fn put(&self, key: String, data: &[u8]) {
        self.own().insert(key, data.to_vec());
    }

    /// The item that a rank published under a key before the exchange.
    pub(super) fn get(&self, rank: u64, key: &str) -> Option<&[u8]> {
        let items = self.all.get()?.get(usize::try_from(rank).ok()?)?;
        items.get(key).map(Vec::as_slice)
    }

    /// Gives every rank the items of all ranks; collective, once.
    pub(crate) fn exchange(
        &self,
        bootstrap: &dyn Bootstrap,
        progress: Progress<'_>,
    ) -> Result<(), BootstrapError> {
        let own = encode(&self.own());
        let parts = bootstrap.allgather(&own, progress)?;
        let all = (0..)
            .zip(parts)
            .map(|(rank, part)| decode(&part).ok_or(BootstrapError::Malformed { rank }));
        let _ = self.all.set(all.collect::<Result<_, _>>()?);
        Ok(())
    }
}

fn encode(items: &Items) -> Vec<u8> {
    let mut blob = Vec::new();
    for (key, data) in items {
        for field in [key.as_bytes(), data] {
            // An exchange takes far less than 4 GiB.
            blob.extend_from_slice(&(field.len() as u32).to_le_bytes());
            blob.extend_from_slice(field);
        }
    }
    blob
}

fn decode(mut blob: &[u8]) -> Option<Items> {
    let mut items = Items::new();
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
    use crate::bootstrap::Singleton;

    #[test]
    fn items_come_back() {
        let items: Items = [("a", vec![]), ("key", vec![1; 70_000]), ("é", vec![0])]
            .map(|(key, data)| (key.to_owned(), data))
            .into();
        let blob = encode(&items);
        assert_eq!(decode(&blob), Some(items));
        assert_eq!(decode(&[]), Some(Items::new()));
        for count in 1..20 {
            assert_eq!(decode(&blob[..count]).is_some(), [9].contains(&count));
        }
    }

    #[test]
    fn items_are_there_after_the_exchange() {
        let published = Published::default();
        published.put("key".to_owned(), b"old");
        published.put("key".to_owned(), b"new");
        assert_eq!(published.get(0, "key"), None);
        published.exchange(&Singleton::new(), &mut || {}).unwrap();
        assert_eq!(published.get(0, "key"), Some(&b"new"[..]));
        assert_eq!(published.get(0, "absent"), None);
        assert_eq!(published.get(1, "key"), None);
        assert_eq!(published.get(u64::MAX, "key"), None);
    }
}
