//! What a process with several modules publishes: the addresses of all as one sequence of bytes. A process with one module
//! publishes its address as it is.

/// What several addresses begin with; no single address begins so.
const MAGIC: [u8; 4] = *b"BTLS";

/// Joins addresses. A single one stays as it is.
pub(crate) fn join(addresses: &[&[u8]]) -> Vec<u8> {
    if let [one] = addresses {
        return one.to_vec();
    }
    let mut all = MAGIC.to_vec();
    for address in addresses {
        all.extend((address.len() as u32).to_ne_bytes());
        all.extend_from_slice(address);
    }
    all
}

/// The addresses in what a process published.
pub(crate) fn split(published: &[u8]) -> Result<Vec<&[u8]>, String> {
    let Some(mut rest) = published.strip_prefix(&MAGIC) else {
        return Ok(vec![published]);
    };
    let mut addresses = Vec::new();
    while !rest.is_empty() {
        let cut = || String::from("one of its addresses is cut off");
        let (length, after) = rest.split_first_chunk().ok_or_else(cut)?;
        let length = u32::from_ne_bytes(*length) as usize;
        let (address, after) = after.split_at_checked(length).ok_or_else(cut)?;
        addresses.push(address);
        rest = after;
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_addresses_are_found_again() {
        for addresses in [vec![&b"BTLO one"[..]], vec![b"one", b"", b"three"]] {
            let joined = join(&addresses);
            assert_eq!(split(&joined), Ok(addresses));
        }
        assert_eq!(join(&[b"BTLO one"]), b"BTLO one");
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let joined = join(&[b"first", b"second"]);
        for length in MAGIC.len()..joined.len() {
            // The end of an address is also the end of a shorter sequence.
            let expected = [4, 13].contains(&length);
            assert_eq!(split(&joined[..length]).is_ok(), expected, "{length}");
        }
        let mut long = MAGIC.to_vec();
        long.extend(u32::MAX.to_ne_bytes());
        assert!(split(&long).is_err());
    }
}
