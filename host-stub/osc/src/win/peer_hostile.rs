//! Tests with hostile window offers: each gives an error, or an offer that encodes to the same bytes.

use std::fs;

use proptest::prelude::*;

use super::peer::{decode, encode};

const HANDLE: usize = 16;

fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/offers");
    let files = fs::read_dir(folder).expect("the corpus");
    files
        .map(|file| fs::read(file.expect("a file").path()).expect("readable"))
        .collect()
}

/// Checks the properties that hold for any bytes; returns whether the bytes are an offer.
fn holds(bytes: &[u8]) -> Result<bool, TestCaseError> {
    match decode(3, HANDLE, bytes) {
        Ok(offer) => {
            prop_assert_eq!(encode(&Ok(offer)), bytes);
            Ok(true)
        }
        Err(error) => {
            prop_assert!(error.to_string().contains("rank 3"));
            Ok(false)
        }
    }
}

#[test]
fn the_corpus_and_its_parts() {
    let mut good = 0;
    for bytes in corpus() {
        for end in 0..=bytes.len() {
            good += usize::from(holds(&bytes[..end]).expect("holds"));
        }
    }
    assert_eq!(good, 1, "the good one of the corpus is read, whole only");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_offers(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let corpus = corpus();
        let mut bytes = which.get(&corpus).clone();
        bytes.extend(tail);
        for (at, value) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        holds(&bytes)?;
    }

    #[test]
    fn random_offers(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        holds(&bytes)?;
        holds(&[b"WINOFFR4".as_slice(), &bytes].concat())?;
    }
}
