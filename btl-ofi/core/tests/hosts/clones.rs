//! Processes that only seem to be on one node: processes of cloned virtual machines with equal node numbers and process
//! ids, and processes of other hosts with a provider for one node. Also processes of one node that seem to be on two
//! nodes, because their container sees the outer `/proc`.

use plugin_api::Status;
use test_skips::{Lacking, skipped};

use crate::driver::{Rank, Seen};
use crate::interfaces::{PROVIDERS, exchange};
use crate::namespaces::{Host, available, over};
use crate::two_hosts;

/// The position of the number of the network namespace in an address as text. The number follows the provider's
/// name and the endpoint's address, whose lengths are at bytes 44 and 50.
fn namespace(address: &str) -> std::ops::Range<usize> {
    let number = |at: usize| {
        let byte = |at: usize| u8::from_str_radix(&address[2 * at..2 * at + 2], 16).unwrap();
        usize::from(u16::from_le_bytes([byte(at), byte(at + 1)]))
    };
    let start = 2 * (52 + number(44) + number(50));
    start..start + 16
}

/// The address that a clone of `target` on the node of `origin` would publish.
fn cloned(origin: &Rank<'_>, target: &Rank<'_>) -> String {
    let mut address = target.address.clone();
    // Bytes 8 to 16 name the node.
    address.replace_range(16..32, &origin.address[16..32]);
    let own = &origin.address[namespace(&origin.address)];
    address.replace_range(namespace(&target.address), own);
    address
}

/// The process id on a cloned machine may belong to another process here, to this process, or to none. The state of the
/// process here does not determine the state of the process there.
#[test]
fn clones() {
    for provider in over(PROVIDERS) {
        let (a, b) = two_hosts();
        let origin = Rank::start_free_after(&a, 500, provider);
        let here = Rank::start_free_after(&a, 600, provider);
        let twin = Rank::start_free_after(&b, 500, provider);
        let other = Rank::start_free_after(&b, 600, provider);
        if (origin.pid, here.pid) != (twin.pid, other.pid) {
            skipped(Lacking::Namespaces, "process ids cannot be chosen");
            return;
        }
        // Bytes 16 to 24 are process id and start time; the test uses the origin's, as if both had started in
        // one tick.
        let mut as_origin = cloned(&origin, &twin);
        as_origin.replace_range(32..48, &origin.address[32..48]);
        let mut as_here = cloned(&origin, &other);
        as_here.replace_range(32..48, &here.address[32..48]);
        let mut expected = 0;
        for (proc, address, target) in [(1, as_origin, &twin), (2, as_here, &other)] {
            origin.connect_to(proc, &address, &target.handle);
            let posted = origin.post_all(proc, 40);
            assert_eq!(posted.last, Status::SUCCESS, "{provider}");
            expected += posted.tracked;
            let flushed = origin.flush();
            assert_eq!(
                flushed,
                Status::SUCCESS,
                "{provider}: {}",
                origin.ask("reports")
            );
            assert_eq!(target.received(), (20, 20), "{provider}");
        }
        here.signal(libc::SIGKILL);
        let more = origin.post_all(2, 40);
        origin.wait_for_checks();
        assert_eq!(origin.flush(), Status::SUCCESS, "{provider}");
        expected += more.tracked;
        let seen = Seen {
            succeeded: expected,
            ..Seen::default()
        };
        assert_eq!(origin.seen(), seen, "{provider}");
        assert_eq!(origin.ask("reports"), "", "{provider}");
    }
}

/// A provider of one node is refused between nodes, and between clones.
#[test]
fn a_provider_of_one_node() {
    if !available() {
        return;
    }
    let (a, b) = two_hosts();
    let origin = Rank::start_free_after(&a, 500, "shm");
    let far = Rank::start_free_after(&b, 500, "shm");
    let other = Rank::start_free_after(&b, 600, "shm");
    let refused = |address: &str, why: &str| {
        let said = origin.ask(&format!("connect 1 {address} {}", far.handle));
        assert!(
            said.contains("connects processes of one node only"),
            "{said}"
        );
        assert!(
            said.contains(why) && said.contains("btl_ofi_provider_include"),
            "{said}"
        );
    };
    refused(&far.address, "this one is on another node");
    refused(
        &cloned(&origin, &other),
        "the file of its endpoint is not in this",
    );
    // The process of the clone has the process id and the file name of this process.
    if origin.pid == far.pid {
        let mut twin = cloned(&origin, &far);
        let until_probe = origin.address[..48].to_owned();
        twin.replace_range(..48, &until_probe);
        let names = 2 * 52..namespace(&origin.address).start;
        if names.len() == namespace(&twin).start - 2 * 52 {
            twin.replace_range(names.clone(), &origin.address[names]);
            refused(&twin, "has its process id is another one");
        }
    }
    let near = Rank::start_free(&a, "shm", "");
    exchange(&near, &{ origin });
}

/// Processes of a container that sees the outer `/proc`, where their process ids belong to unrelated processes. The
/// origin notices a killed peer, and the peer's files in `/dev/shm` are removed.
#[test]
fn outer_proc() {
    for provider in over(["shm", "tcp;ofi_rxm", "sockets"]) {
        let outer = Host::new("a");
        let container = outer.with_outer_proc();
        let [origin, dead] = [(); 2].map(|()| Rank::start_over(&container, provider, "lo"));
        exchange(&origin, &dead);
        // The state of this host's processes with the same ids has no effect.
        origin.wait_for_checks();
        assert_eq!(origin.ask("reports"), "", "{provider}");
        let files = container.files();
        dead.signal(libc::SIGKILL);
        let lost = origin.post_small(1, 40);
        let flushed = origin.flush();
        let reports = origin.ask("reports");
        assert_ne!(flushed, Status::SUCCESS, "{provider}: {reports}");
        assert_eq!(origin.seen().pending, 0, "{provider}: {lost:?} {reports}");
        if provider == "shm" {
            assert!(files >= 2 && container.files() == files / 2, "{files}");
        }
    }
}
