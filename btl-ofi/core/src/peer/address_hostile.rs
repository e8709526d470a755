//! Tests with hostile address blobs: blobs of the corpus, changed blobs and random bytes. Each blob is refused, or
//! decodes to a value that encodes to the same bytes.

use std::fs;

use libfabric_sys as ffi;
use proptest::prelude::*;

use crate::base::interfaces::{Interface, Kind};
use crate::mem::handle::Target;
use crate::peer::address::{Blob, socket_ip};
use crate::peer::liveness::ProcessId;
use crate::peer::networks::{Networks, meet};

/// Valid blobs of the current version, with several address formats.
fn good() -> Vec<Vec<u8>> {
    let interface = |address: &str, kind| Interface {
        name: String::from("eth0"),
        address: address.parse().unwrap(),
        prefix: 16,
        kind,
        speed: 1000,
    };
    let of = |provider: &str, segment: Option<u32>, format, address: &[u8]| {
        Blob {
            virtual_addresses: segment == Some(3),
            same_node: segment.is_some(),
            messages: segment.is_none(),
            two_sided: segment.is_some(),
            node: 42,
            process: ProcessId { pid: 7, started: 9 },
            probe_address: 0xdead_0000,
            probe_value: 0x1234,
            key: 0x5678,
            segment,
            provider: provider.to_owned(),
            format,
            address: address.to_vec(),
            networks: Networks {
                namespace: 3,
                endpoint: socket_ip(format, address),
                interfaces: match segment {
                    Some(_) => Vec::new(),
                    None => vec![
                        interface("10.1.0.1", Kind::Network),
                        interface("fe80::1", Kind::LinkLocal),
                    ],
                },
            },
            word: segment.is_none().then_some(Target {
                address: 0xdead_0000,
                key: 1,
            }),
            rails: match segment {
                Some(_) => Vec::new(),
                None => vec![address.to_vec(); 2],
            },
        }
        .encode()
    };
    vec![
        of("shm", Some(3), ffi::FI_ADDR_STR, b"fi_shm://7:0:1\0"),
        of("tcp;ofi_rxm", None, ffi::FI_SOCKADDR_IN, &[2; 16]),
        of("sockets", None, ffi::FI_SOCKADDR_IN6, &[10; 28]),
    ]
}

/// The files of the corpus, and valid blobs.
fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/modex");
    let files = fs::read_dir(folder).unwrap();
    let files = files.map(|file| fs::read(file.unwrap().path()).unwrap());
    files.chain(good()).collect()
}

/// Checks the invariants that any bytes must satisfy.
fn holds(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(blob) = Blob::decode(bytes) else {
        return Ok(());
    };
    prop_assert_eq!(blob.encode(), bytes, "a blob has one encoding");
    prop_assert!(!blob.address.is_empty());
    // Any two networks may be compared, in both directions.
    let other = Blob::decode(&good()[1]).unwrap().networks;
    let _ = meet(&blob.networks, &other, &Default::default());
    let _ = meet(&other, &blob.networks, &Default::default());
    for own in [&b"fi_shm://7\0"[..], &[2, 0, 1, 1, 127, 0, 0, 1], &[]] {
        // An address that passes the check has the length of `own`, or ends with its only NUL.
        if blob.check_form(own).is_ok() {
            let ends = blob.address.iter().position(|b| *b == 0) == Some(blob.address.len() - 1);
            prop_assert!(ends || blob.address.len() == own.len());
        }
    }
    Ok(())
}

#[test]
fn the_corpus_and_its_parts() {
    for bytes in good() {
        assert!(Blob::decode(&bytes).is_ok());
    }
    for bytes in corpus() {
        for end in 0..=bytes.len() {
            holds(&bytes[..end]).unwrap();
        }
    }
}

/// A blob must not announce messages for applies alone together with messages for other uses.
#[test]
fn flags_that_contradict_each_other_are_refused() {
    for mut bytes in good() {
        bytes[6] |= 32;
        let both = bytes[6] & (4 | 8) != 0;
        assert_eq!(Blob::decode(&bytes).is_err(), both);
        holds(&bytes).unwrap();
    }
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
        holds(&[&good()[0][..6], &bytes].concat())?;
    }
}
