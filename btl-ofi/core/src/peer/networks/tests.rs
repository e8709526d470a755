use super::*;
use crate::base::interfaces::Kind;
use crate::base::sys::script::Script;

fn interface(name: &str, address: &str, kind: Kind) -> Interface {
    let (address, prefix) = address.split_once('/').unwrap();
    Interface {
        name: name.to_owned(),
        address: address.parse().unwrap(),
        prefix: prefix.parse().unwrap(),
        kind,
        speed: 0,
    }
}

/// A process whose endpoint has the first of these addresses.
fn with(namespace: u64, addresses: &[&str]) -> Networks {
    let mut interfaces: Vec<_> = addresses
        .iter()
        .enumerate()
        .map(|(i, address)| interface(&format!("eth{i}"), address, Kind::Network))
        .collect();
    for (name, address, kind) in [
        ("docker0", "172.17.0.1/16", Kind::NodeBridge),
        ("lo", "127.0.0.1/8", Kind::Loopback),
    ] {
        interfaces.push(interface(name, address, kind));
    }
    Networks {
        namespace,
        endpoint: Some(interfaces[0].address),
        interfaces,
    }
}

fn at(networks: &Networks, endpoint: &str) -> Networks {
    Networks {
        endpoint: endpoint.parse().ok(),
        ..networks.clone()
    }
}

fn refusal(own: &Networks, peer: &Networks) -> String {
    meet(own, peer, &Lists::default()).unwrap_err()
}

#[test]
fn one_network_is_enough() {
    let (a, b) = (with(1, &["10.1.0.1/24"]), with(2, &["10.1.0.2/24"]));
    assert_eq!(meet(&a, &b, &Lists::default()), Ok(Meeting::Network));
    let none = at(&b, "no address");
    assert_eq!(meet(&a, &none, &Lists::default()), Ok(Meeting::Unknown));
}

#[test]
fn addresses_of_one_node_are_refused_between_nodes() {
    let (a, b) = (with(1, &["10.1.0.1/24"]), with(2, &["10.1.0.2/24"]));
    for (own, peer, expected) in [
        (
            a.clone(),
            at(&b, "127.0.0.1"),
            "its address 127.0.0.1 is a loopback address",
        ),
        (
            at(&a, "127.0.0.1"),
            b.clone(),
            "this process's address 127.0.0.1 is a loopback",
        ),
        (
            a.clone(),
            at(&b, "169.254.1.1"),
            "its address 169.254.1.1 is a link-local address",
        ),
        (
            a.clone(),
            at(&b, "fe80::1"),
            "its address fe80::1 is a link-local address",
        ),
        (
            a.clone(),
            at(&b, "0.0.0.0"),
            "its address 0.0.0.0 is no particular address",
        ),
        (a.clone(), at(&b, "fd00::1"), "different families"),
        (
            a.clone(),
            at(&b, "172.17.0.1"),
            "both nodes have the address 172.17.0.1",
        ),
        (
            at(&a, "172.17.0.1"),
            b.clone(),
            "both nodes have the address 172.17.0.1",
        ),
    ] {
        let why = refusal(&own, &peer);
        assert!(why.contains(expected), "{why}");
        let both = "Its interfaces: eth0 10.1.0.2/24, docker0 172.17.0.1/16, lo 127.0.0.1/8. \
                    This process's: eth0 10.1.0.1/24, docker0 172.17.0.1/16, lo 127.0.0.1/8";
        assert!(why.ends_with(both), "{why}");
        assert!(
            why.contains("set btl_ofi_if_include to 10.1.0.0/24"),
            "{why}"
        );
    }
}

#[test]
fn a_network_in_common_is_to_be_used() {
    let (a, b) = (
        with(1, &["10.2.0.1/24", "10.1.0.1/24"]),
        with(2, &["10.1.0.2/24"]),
    );
    for (own, peer) in [(&a, &b), (&b, &a)] {
        let why = refusal(own, peer);
        assert!(
            why.contains("share no network; set btl_ofi_if_include to 10.1.0.0/24"),
            "{why}"
        );
    }
    // The user states that routers connect the networks.
    let lists = Lists::parse("10.0.0.0/8", "").unwrap();
    assert_eq!(meet(&a, &b, &lists), Ok(Meeting::Network));
    assert_eq!(meet(&b, &a, &lists), Ok(Meeting::Network));
}

#[test]
fn without_one_the_kernel_is_asked_for_a_route() {
    let (a, b) = (with(1, &["10.1.0.1/32"]), with(2, &["10.1.0.2/32"]));
    let script = Script::new().answers("route", ());
    assert_eq!(meet(&a, &b, &Lists::default()), Ok(Meeting::Route));
    drop(script);
    let _script = Script::new().fails("route", libc::ENETUNREACH);
    let why = refusal(&a, &b);
    assert!(
        why.contains("share no network, and there is no route: connect returned"),
        "{why}"
    );
    assert!(why.contains("no network in common"), "{why}");
}

#[test]
fn clones_do_not_share_a_namespace() {
    let (a, b) = (with(1, &["10.1.0.1/24"]), with(1, &["10.1.0.2/24"]));
    assert_eq!(meet(&a, &b, &Lists::default()), Ok(Meeting::Network));
    let why = refusal(&at(&a, "127.0.0.1"), &at(&b, "127.0.0.1"));
    assert!(why.contains("loopback"), "{why}");
    // The namespace is the same, with one more interface.
    let more = with(1, &["10.1.0.1/24", "10.9.0.1/24"]);
    let met = meet(
        &at(&a, "127.0.0.1"),
        &at(&more, "127.0.0.1"),
        &Lists::default(),
    );
    assert_eq!(met, Ok(Meeting::Namespace));
    let nothing = with(1, &[]);
    assert_eq!(
        meet(&nothing, &nothing, &Lists::default()),
        Ok(Meeting::Namespace)
    );
    let unknown = |address| at(&with(0, &[address]), "127.0.0.1");
    let same = meet(
        &unknown("10.1.0.1/8"),
        &unknown("10.1.0.1/8"),
        &Lists::default(),
    );
    assert_eq!(same, Ok(Meeting::Namespace));
    assert!(refusal(&unknown("10.1.0.1/8"), &unknown("10.1.0.2/8")).contains("loopback"));
}

#[test]
fn interfaces_are_paired_by_network() {
    let own = with(1, &["10.1.0.1/24", "10.2.0.1/24", "10.2.0.9/24"]);
    let at = |texts: &[&str]| -> Vec<Option<IpAddr>> {
        texts.iter().map(|text| text.parse().ok()).collect()
    };
    let here = at(&["10.1.0.1", "10.2.0.1", "10.2.0.9"]);
    let peer = |texts: &[&str]| -> Vec<Networks> {
        let alone = |endpoint| Networks {
            endpoint,
            ..Networks::default()
        };
        at(texts).into_iter().map(alone).collect()
    };
    let pairs = |theirs: &[&str]| pair(&own, &here, &peer(theirs));
    let all = pairs(&["10.2.0.2", "10.1.0.2", "10.2.0.3"]);
    assert_eq!(all, [Some(1), Some(0), Some(2)]);
    assert_eq!(pairs(&["10.2.0.2"]), [None, Some(0), None]);
    assert_eq!(pairs(&["10.3.0.2", ""]), [None, None, None]);
    // Addresses that are no IP addresses are paired by their numbers.
    let numbers = pair(&own, &at(&["", "", ""]), &peer(&["", "10.1.0.2", ""]));
    assert_eq!(numbers, [Some(0), None, Some(2)]);
}

#[test]
fn both_sides_pair_alike_with_unequal_masks() {
    let a = with(1, &["10.1.0.1/32", "10.2.0.1/24"]);
    let b = with(2, &["10.2.0.2/24", "10.1.0.2/16"]);
    let ways = |own: &Networks, peer: &Networks| {
        let endpoints: Vec<_> = own.interfaces[..2]
            .iter()
            .map(|i| Some(i.address))
            .collect();
        let each = |i: &Interface| Networks {
            endpoint: Some(i.address),
            ..peer.clone()
        };
        let theirs: Vec<_> = peer.interfaces[..2].iter().map(each).collect();
        pair(own, &endpoints, &theirs)
    };
    assert_eq!(ways(&a, &b), [Some(1), Some(0)]);
    assert_eq!(ways(&b, &a), [Some(1), Some(0)]);
}
