//! Hostile address blobs: those of the corpus, changed ones and random ones make an error or an address
//! that says the same again.

use std::fs;

use proptest::prelude::*;

use crate::modex::Blob;

fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/modex");
    let files = fs::read_dir(folder).unwrap();
    files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect()
}

/// What must hold for any bytes.
fn holds(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(blob) = Blob::decode(bytes) else {
        return Ok(());
    };
    prop_assert_eq!(blob.encode(), bytes, "nothing is read in two ways");
    prop_assert!(!blob.address.is_empty());
    for own in [&b"fi_shm://7\0"[..], &[2, 0, 1, 1, 127, 0, 0, 1], &[]] {
        // Whatever the form, what passes has its length, or ends with its only NUL.
        if blob.check_form(own).is_ok() {
            let ends = blob.address.iter().position(|b| *b == 0) == Some(blob.address.len() - 1);
            prop_assert!(ends || blob.address.len() == own.len());
        }
    }
    Ok(())
}

#[test]
fn the_corpus_and_its_parts() {
    let mut good = 0;
    for bytes in corpus() {
        good += usize::from(Blob::decode(&bytes).is_ok());
        for end in 0..=bytes.len() {
            holds(&bytes[..end]).unwrap();
        }
    }
    assert_eq!(good, 3, "the good ones of the corpus are read");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_blobs(
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
    fn random_blobs(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        holds(&bytes)?;
        holds(&[b"BTLO\x01\0".as_slice(), &bytes].concat())?;
    }
}
