//! The ranks that share a node, as reported by the launcher.

use std::sync::OnceLock;

use super::super::BootstrapError;
use super::abi;
use super::client::{Client, Item, Owner};
use super::exchange::{Exchange, malformed};

/// Returns a node number for each rank. Numbers are assigned in rank order, so they are the same on
/// every rank. If the launcher does not provide enough data, all ranks take part in an exchange.
pub(super) fn find(
    client: &Client,
    size: u32,
    exchange: &mut Exchange,
) -> Result<Vec<u32>, BootstrapError> {
    // Some launchers provide only one of the two: Open MPI 4.1 provides the numbers only for ranks
    // of its own node.
    for key in [abi::HOSTNAME, abi::NODEID] {
        let names = (0..size)
            .map(|rank| client.get(Owner::Rank(rank), key, false))
            .collect::<Result<Option<Vec<Item>>, _>>()?;
        if let Some(names) = names {
            return Ok(number(&names));
        }
    }
    let peers = match client.get(Owner::Job, abi::LOCAL_PEERS, false)? {
        Some(Item::Text(list)) => list,
        _ => String::new(),
    };
    // A node only has its own list, so each rank sends the number of its node to the others.
    let own = lowest(&peers, client.rank()).to_le_bytes();
    let parts = exchange.run(client, size, &own, own.len(), &mut || {}, &OnceLock::new())?;
    let names = (0..size)
        .zip(&parts)
        .map(|(rank, part)| match <[u8; 4]>::try_from(part.as_slice()) {
            Ok(lowest) => Ok(Item::Number(u32::from_le_bytes(lowest))),
            Err(_) => Err(malformed(rank, "hs.x")),
        })
        .collect::<Result<Vec<Item>, _>>()?;
    Ok(number(&names))
}

/// Assigns equal numbers to equal names.
fn number(names: &[Item]) -> Vec<u32> {
    let mut seen: Vec<&Item> = Vec::new();
    let index = |name| {
        let found = seen.iter().position(|other| *other == name);
        found.unwrap_or_else(|| {
            seen.push(name);
            seen.len() - 1
        }) as u32
    };
    names.iter().map(index).collect()
}

/// A number that identifies a node: the lowest rank on it. A rank that is in no list is on a node of
/// its own.
fn lowest(list: &str, own: u32) -> u32 {
    list.split(',')
        .filter_map(|rank| rank.trim().parse().ok())
        .fold(own, u32::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_one_node() {
        let names = ["a", "b", "a", "c", "b"].map(|name| Item::Text(name.to_owned()));
        assert_eq!(number(&names), [0, 1, 0, 2, 1]);
        assert_eq!(number(&[Item::Number(7), Item::Number(7)]), [0, 0]);
    }

    #[test]
    fn a_node_is_named_by_the_lowest_rank_on_it() {
        assert_eq!(lowest("1, 3,5", 3), 1);
        assert_eq!(lowest("4,2", 2), 2);
        assert_eq!(lowest("5", 2), 2);
        assert_eq!(lowest("", 7), 7);
    }
}
