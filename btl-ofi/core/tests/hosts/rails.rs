//! Large transfers over two networks between two hosts.

use plugin_api::Status;

use crate::driver::Rank;
use crate::namespaces::{Host, available, over};
use crate::two_hosts;

const WELL: (Status, Status, bool) = (Status::SUCCESS, Status::SUCCESS, true);
/// The networks of the hosts; the first one is preferred.
const BOTH: &str = "10.99.0.0/24,10.99.1.0/24";
const SIZE: usize = 3 << 20;
/// The sizes of the measured transfers.
const SIZES: [usize; 3] = [256 << 10, 1 << 20, 4 << 20];

/// Two hosts that are joined by two links.
fn twice_joined() -> (Host, Host) {
    let (a, b) = two_hosts();
    a.wire(&b, "veth1", ("10.99.1.", "/24"));
    (a, b)
}

/// A rank on each host; each rank knows the other as process 1.
fn pair<'a>(hosts: &'a (Host, Host), provider: &str, rails: [&str; 2]) -> [Rank<'a>; 2] {
    let start = |host, rails| Rank::start_free(host, provider, &format!("{BOTH} {rails}"));
    let (a, b) = (start(&hosts.0, rails[0]), start(&hosts.1, rails[1]));
    a.connect(1, &b);
    b.connect(1, &a);
    [a, b]
}

/// Bytes go there and back, over both networks.
fn both_networks(provider: &str) {
    if !available() {
        return;
    }
    let hosts = twice_joined();
    let [a, b] = pair(&hosts, provider, ["2", "auto"]);
    let sent = |rank: &Rank<'_>| ["veth0", "veth1"].map(|link| rank.packets(link));
    let before = (sent(&a), sent(&b));
    for (offset, size) in [
        (0, SIZE),
        (4096, SIZE + 1),
        (8, 128 * 1024),
        (1, 200_001),
        (7, 64),
    ] {
        assert_eq!(a.there_and_back(1, offset, size), WELL, "{size}");
        assert_eq!(b.there_and_back(1, offset, size), WELL, "{size}");
    }
    let after = (sent(&a), sent(&b));
    for (before, after) in [(before.0, after.0), (before.1, after.1)] {
        let [first, second] = [0, 1].map(|link| after[link] - before[link]);
        // The number of packets depends on the bytes that the kernel puts into one packet.
        assert!(first > 30 && second > 30, "{provider}: {first}, {second}");
    }
    let posted = a.post_all(1, 40);
    assert_eq!((posted.last, a.flush()), (Status::SUCCESS, Status::SUCCESS));
}

#[test]
fn both_networks_over_rxm() {
    both_networks("tcp;ofi_rxm");
}

#[test]
fn both_networks_over_net() {
    both_networks("net");
}

#[test]
fn both_networks_over_sockets() {
    both_networks("sockets");
}

/// If one side has only one rail, all bytes use that rail.
#[test]
fn one_side_has_one_rail() {
    if !available() {
        return;
    }
    let hosts = twice_joined();
    let [a, b] = pair(&hosts, "tcp;ofi_rxm", ["2", "1"]);
    let before = a.packets("veth1");
    assert_eq!(a.there_and_back(1, 0, SIZE), WELL);
    assert_eq!(b.there_and_back(1, 0, SIZE), WELL);
    // The kernel sends some packets of its own (IPv6); a transfer takes at least 48 packets.
    let sent = a.packets("veth1") - before;
    assert!(sent < 16, "{sent} packets over the other link");
}

/// Measures the bandwidth of two links of 1 Gbit/s against one; `./dev hosts bench` runs this test.
#[test]
#[ignore = "a measurement"]
fn two_links_of_one_gigabit() {
    for provider in over(["tcp;ofi_rxm", "net"]) {
        let speeds = ["1", "2"].map(|rails| {
            let hosts = twice_joined();
            for link in ["veth0", "veth1"] {
                hosts.0.limit_rate(link, 1000);
            }
            let [a, _b] = pair(&hosts, provider, [rails, rails]);
            SIZES.map(|size| a.megabytes_per_second(1, size, (240 << 20) / size))
        });
        for (size, (one, two)) in SIZES.into_iter().zip(speeds[0].into_iter().zip(speeds[1])) {
            println!(
                "{provider}, puts of {} KiB: one link {one:.0} MB/s, two links {two:.0} MB/s, {:.2}",
                size >> 10,
                two / one
            );
        }
    }
}
