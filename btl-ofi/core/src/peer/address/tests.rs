use super::*;

fn sample() -> Blob {
    Blob {
        virtual_addresses: true,
        same_node: true,
        messages: true,
        two_sided: false,
        node: 42,
        process: ProcessId { pid: 7, started: 9 },
        probe_address: 0xdead_0000,
        probe_value: 0x1234_5678_9abc_def0,
        key: 0xfedc_ba98_7654_3210,
        segment: Some(11),
        provider: String::from("tcp;ofi_rxm"),
        format: 3,
        address: vec![1, 2, 3, 4],
        networks: Networks {
            namespace: 77,
            endpoint: None,
            interfaces: vec![interface("10.1.0.1", 24), interface("fd00::1", 64)],
        },
        word: None,
        rails: Vec::new(),
    }
}

fn sample_with_word() -> Blob {
    Blob {
        word: Some(Target {
            address: 0xdead_0000,
            key: u64::MAX,
        }),
        rails: vec![sample().encode(), vec![7]],
        ..sample()
    }
}

fn interface(address: &str, prefix: u8) -> Interface {
    Interface {
        name: String::from("eth0"),
        address: address.parse().unwrap(),
        prefix,
        kind: Kind::Network,
        speed: 10_000,
    }
}

/// Interfaces that no machine can have are refused.
#[test]
fn impossible_interfaces_are_refused() {
    let refused = |interfaces: Vec<Interface>, change: fn(&mut Vec<u8>), why: &str| {
        let networks = Networks {
            interfaces,
            ..sample().networks
        };
        let mut bytes = Blob {
            networks,
            ..sample()
        }
        .encode();
        change(&mut bytes);
        let error = Blob::decode(&bytes).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    // The last bytes of an interface are: kind, prefix, speed, two lengths, 4 bytes of address, and 4 bytes of its name.
    // The number of rails follows the name.
    let one = || vec![interface("10.1.0.1", 24)];
    fn at(bytes: &mut [u8], from_end: usize, value: u8) {
        let place = bytes.len() - from_end - 1;
        bytes[place] = value;
    }
    refused(vec![interface("10.1.0.1", 33)], |_| {}, "prefix of 33");
    refused(vec![interface("fd00::1", 129)], |_| {}, "prefix of 129");
    refused(one(), |b| at(b, 16, 5), "kind 5");
    refused(one(), |b| at(b, 10, 5), "address of 5 bytes");
    refused(one(), |b| at(b, 9, 0), "cannot have the name");
    refused(one(), |b| at(b, 1, b'\n'), "cannot have the name");
    refused(one(), |b| at(b, 17, 17), "17 interfaces");
    refused(one(), |b| at(b, 17, 2), "ends at byte");
}

#[test]
fn no_more_interfaces_are_sent_than_are_taken() {
    let networks = Networks {
        interfaces: vec![interface("10.1.0.1", 24); 2 * MAX_INTERFACES],
        ..sample().networks
    };
    let blob = Blob {
        networks,
        ..sample()
    };
    let taken = Blob::decode(&blob.encode()).unwrap();
    assert_eq!(taken.networks.interfaces.len(), MAX_INTERFACES);
}

#[test]
fn there_and_back() {
    let without = Blob {
        same_node: false,
        segment: None,
        ..sample()
    };
    for blob in [sample(), without, sample_with_word()] {
        assert_eq!(Blob::decode(&blob.encode()), Ok(blob));
    }
}

/// A blob has a key that is not 0 exactly if its sender accepts messages.
#[test]
fn a_key_goes_with_messages() {
    // With a key, messages are open although the provider executes atomics; without a key, they are
    // not open.
    for key in [0, 5] {
        let without = Blob {
            messages: false,
            key,
            ..sample()
        };
        assert_eq!(Blob::decode(&without.encode()), Ok(without));
    }
    let guessed = Blob { key: 0, ..sample() };
    let error = Blob::decode(&guessed.encode()).unwrap_err();
    assert!(error.contains("key of messages is 0"), "{error}");
}

#[test]
fn every_truncation_is_refused() {
    let whole = sample_with_word().encode();
    for n in 0..whole.len() {
        assert!(
            Blob::decode(&whole[..n]).is_err(),
            "{n} bytes were accepted"
        );
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(Blob::decode(&longer).is_err());
}

#[test]
fn addresses_of_another_form_are_refused() {
    let of = |format, address: &[u8]| Blob {
        format,
        address: address.to_vec(),
        ..sample()
    };
    let own = [2, 0, 31, 32, 127, 0, 0, 1];
    for format in [ffi::FI_SOCKADDR, ffi::FI_SOCKADDR_IN] {
        assert!(
            of(format, &[2, 0, 1, 1, 9, 9, 9, 9])
                .check_form(&own)
                .is_ok()
        );
        assert!(
            of(format, &[10, 0, 1, 1, 9, 9, 9, 9])
                .check_form(&own)
                .is_err()
        );
        assert!(of(format, &own[..7]).check_form(&own).is_err());
        assert!(of(format, &own[..1]).check_form(&own).is_err());
    }
    let name = |bytes| of(ffi::FI_ADDR_STR, bytes).check_form(b"fi_shm://7\0");
    assert!(name(b"fi_shm://12345\0").is_ok());
    assert!(name(b"fi_shm://12345").is_err());
    assert!(name(b"fi\0shm://12345\0").is_err());
    let opaque = ffi::FI_ADDR_STR + 1;
    assert!(of(opaque, &[1; 8]).check_form(&own).is_ok());
    assert!(of(opaque, &[1; 9]).check_form(&own).is_err());
}

#[test]
fn random_bytes_do_no_harm() {
    // A small linear congruential generator (constants of Knuth's MMIX) keeps the test
    // reproducible without a dependency.
    let mut seed = 1u64;
    let mut next = || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) as usize
    };
    for _ in 0..20_000 {
        let mut bytes = sample().encode();
        for _ in 0..1 + next() % 4 {
            let at = next() % bytes.len();
            bytes[at] = next() as u8;
        }
        bytes.truncate(next() % (bytes.len() + 1));
        let _ = Blob::decode(&bytes);
    }
}

#[test]
fn impossible_rails_are_refused() {
    let rails = vec![vec![1]; MAX_RAILS];
    let said = Blob::decode(&Blob { rails, ..sample() }.encode()).unwrap_err();
    assert!(said.contains("4 further rails"), "{said}");
    let mut bytes = sample_with_word().encode();
    let place = bytes.len() - 3;
    bytes[place] = 9;
    let said = Blob::decode(&bytes).unwrap_err();
    assert!(said.contains("inside the blob of a rail"), "{said}");
}
