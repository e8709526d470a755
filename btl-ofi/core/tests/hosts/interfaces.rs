//! The interfaces that processes use, and the error when two processes have no common network.

use plugin_api::Status;

use crate::driver::Rank;
use crate::namespaces::{Host, available, over};
use crate::two_hosts;

/// The providers whose addresses are IP addresses.
pub(crate) const PROVIDERS: [&str; 3] = ["tcp;ofi_rxm", "net", "sockets"];

/// Operations in both directions arrive.
pub(crate) fn exchange(a: &Rank<'_>, b: &Rank<'_>) {
    a.connect(1, b);
    b.connect(1, a);
    for (origin, target) in [(a, b), (b, a)] {
        let posted = origin.post_all(1, 40);
        assert_eq!(posted.last, Status::SUCCESS, "{}", target.provider());
        let flushed = origin.flush();
        assert_eq!(flushed, Status::SUCCESS, "{}", origin.ask("reports"));
        assert_eq!(target.received(), (20, 20));
    }
}

/// The network is not preferred to a bridge's, except that it leads to other nodes.
fn has_bridges(provider: &str, bridge: &str) {
    let (a, b) = (Host::new("a"), Host::new("b"));
    a.wire(&b, "veth0", ("192.168.7.", "/24"));
    let ranks = [&a, &b].map(|host| {
        host.give_docker(bridge);
        Rank::start_free(host, provider, "")
    });
    exchange(&ranks[0], &ranks[1]);
    assert_eq!(ranks[0].ip(), [192, 168, 7, 1], "{provider}");
}

#[test]
fn bridges_of_a_node_are_not_taken() {
    for provider in over(PROVIDERS) {
        has_bridges(provider, "docker0");
    }
}

/// A bridge with the name of a network interface is recognised by its ports.
#[test]
fn bridges_by_another_name_are_not_taken() {
    if available() {
        has_bridges("tcp;ofi_rxm", "br0");
    }
}

/// The transport refuses an address that both nodes have, if an environment variable of libfabric names it.
#[test]
fn addresses_of_both_nodes_are_refused() {
    for provider in over(PROVIDERS) {
        let (a, b) = two_hosts();
        a.give_docker("docker0");
        b.give_docker("docker0");
        for (interface, expected) in [
            ("docker0", "both nodes have the address 172.17.0.1"),
            ("lo", "127.0.0.1 is a loopback address"),
        ] {
            let ranks = [&a, &b].map(|host| Rank::start_over(host, provider, interface));
            let why = ranks[0].is_refused(1, &ranks[1]);
            assert!(why.contains(expected), "{provider}: {why}");
            assert!(
                why.contains("set btl_ofi_if_include to 10.99.0.0/24"),
                "{provider}: {why}"
            );
        }
    }
}

#[test]
fn six_without_four() {
    for provider in over(PROVIDERS) {
        let (a, b) = (Host::new("a"), Host::new("b"));
        a.wire(&b, "veth0", ("fd99::", "/64 nodad"));
        let ranks = [&a, &b].map(|host| Rank::start_free(host, provider, ""));
        exchange(&ranks[0], &ranks[1]);
    }
}

/// If there are only link-local addresses, the error says so.
#[test]
fn link_local_addresses_are_refused() {
    for provider in over(PROVIDERS) {
        let (a, b) = (Host::new("a"), Host::new("b"));
        a.wire(&b, "veth0", ("169.254.7.", "/16"));
        let ranks = [&a, &b].map(|host| Rank::start_free(host, provider, "veth0"));
        let why = ranks[0].is_refused(1, &ranks[1]);
        assert!(why.contains("is a link-local address"), "{provider}: {why}");
        assert!(why.contains("veth0 169.254.7.2/16"), "{provider}: {why}");
    }
}

/// The better one of two networks is down on one host. Both sides report the common network, and connect when they use
/// it.
#[test]
fn an_interface_that_is_down() {
    for provider in over(PROVIDERS) {
        let (a, b) = two_hosts();
        // Of two equal networks, the lower one comes first.
        a.wire(&b, "veth1", ("10.98.0.", "/24"));
        let ranks = [&a, &b].map(|host| Rank::start_free(host, provider, ""));
        exchange(&ranks[0], &ranks[1]);
        assert_eq!(ranks[0].ip(), [10, 98, 0, 1], "{provider}");

        b.ip("address del 10.98.0.2/24 dev veth1");
        let lone = Rank::start_free(&b, provider, "");
        for (origin, target) in [(&ranks[0], &lone), (&lone, &ranks[0])] {
            let why = origin.is_refused(2, target);
            assert!(
                why.contains("share no network; set btl_ofi_if_include to 10.99.0.0/24"),
                "{provider}: {why}"
            );
            for side in ["veth1 10.98.0.1/24", "veth0 10.99.0.2/24"] {
                assert!(why.contains(side), "{provider}: {why}");
            }
        }
        let named = Rank::start_free(&a, provider, "10.99.0.0/16");
        exchange(&named, &lone);
    }
}
