//! Which ranks share a node, as far as the launcher says.

use super::super::BootstrapError;
use super::abi;
use super::client::{Client, Item, Owner};

/// A node's number for each rank, counted in the order of the ranks.
pub(super) fn find(client: &Client, size: u32) -> Result<Vec<u32>, BootstrapError> {
    // Not every launcher gives both: Open MPI 4.1 gives the numbers of its own node's ranks alone.
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
    Ok(from_peers(&peers, size))
}

/// The same number for the same name.
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

/// The ranks of the list on node 0, every other on one of its own: nothing says that it is not.
fn from_peers(list: &str, size: u32) -> Vec<u32> {
    let here: Vec<u32> = list
        .split(',')
        .filter_map(|rank| rank.trim().parse().ok())
        .collect();
    (0..size)
        .map(|rank| if here.contains(&rank) { 0 } else { rank + 1 })
        .collect()
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
    fn who_is_not_said_to_be_near_is_far() {
        assert_eq!(from_peers("0,2", 4), [0, 2, 0, 4]);
        assert_eq!(from_peers("", 2), [1, 2]);
    }
}
