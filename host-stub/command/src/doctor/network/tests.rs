use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use crate::doctor::Verdict;

/// The number of each interface.
const INDEX: u32 = 3;

/// A folder in the place of `/sys/class/net`, removed at its end.
struct Sys(PathBuf);

impl Sys {
    fn new(name: &str) -> Sys {
        let name = format!("host-stub-doctor-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("create");
        Sys(path)
    }

    /// A bridge with ports: the name, the text of `uevent`, and whether there is a device.
    fn bridge(self, name: &str, ports: &[(&str, &str, bool)]) -> Sys {
        let folder = self.0.join(name);
        fs::create_dir_all(folder.join("bridge")).expect("create");
        fs::write(folder.join("bridge/bridge_id"), "8000.0\n").expect("write");
        fs::write(folder.join("ifindex"), format!("{INDEX}\n")).expect("write");
        fs::create_dir_all(folder.join("brif")).expect("create");
        for (port, uevent, device) in ports {
            let of_port = self.0.join(port);
            fs::create_dir_all(&of_port).expect("create");
            fs::write(of_port.join("uevent"), uevent).expect("write");
            if *device {
                symlink("../../devices/card", of_port.join("device")).expect("link");
            }
            symlink(of_port, folder.join("brif").join(port)).expect("link");
        }
        self
    }
}

impl Drop for Sys {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn interface(name: &str, address: &str) -> Interface {
    Interface {
        name: name.to_owned(),
        index: INDEX,
        address: address.parse().expect("an address"),
        running: true,
    }
}

const VETH: (&str, &str, bool) = ("veth1", "INTERFACE=veth1\n", false);
const ALONE: &str = "none leads to other nodes: jobs on this node alone";

/// A bridge over a network card, or over a bond or VLAN, is how its node reaches others.
#[test]
fn a_bridge_with_a_port_that_leaves_the_node_leads_to_others() {
    let ports = [
        ("eth0", "INTERFACE=eth0\n", true),
        ("bond0", "DEVTYPE=bond\nINTERFACE=bond0\n", false),
    ];
    for port in ports {
        let sys = Sys::new(port.0).bridge("br0", &[VETH, port]);
        let found = [interface("lo", "127.0.0.1"), interface("br0", "10.1.0.1")];
        let finding = judge(&found, &sys.0);
        assert_eq!(finding.verdict, Verdict::Ok, "{finding:?}");
        assert_eq!(finding.found, "br0 10.1.0.1");
        assert!(finding.set.is_empty(), "{finding:?}");
    }
}

#[test]
fn bridges_of_this_node_are_named_once() {
    let sys = Sys::new("closed").bridge("br-1", &[VETH]);
    let found = [
        interface("eth0", "10.1.0.1"),
        interface("br-1", "172.18.0.1"),
        interface("br-1", "fd00:1::1"),
        interface("docker0", "172.17.0.1"),
    ];
    let finding = judge(&found, &sys.0);
    assert_eq!(finding.verdict, Verdict::Note);
    let said = "eth0 10.1.0.1; the transport never uses the bridges br-1,docker0,";
    assert!(finding.found.starts_with(said), "{finding:?}");
    let set = "_btl_tcp_if_exclude=lo,br-1,docker0 OMPI_MCA_oob_tcp_if_exclude=lo,br-1,docker0";
    assert!(finding.set[0].ends_with(set), "{finding:?}");
    // Without a network there is nothing to exclude them for.
    let finding = judge(&found[1..], &sys.0);
    assert_eq!(
        (finding.verdict, finding.found.as_str()),
        (Verdict::Note, ALONE)
    );
    assert!(finding.set.is_empty(), "{finding:?}");
}

/// A folder of the same name that belongs to an interface of another namespace says nothing of this one.
#[test]
fn folders_of_another_namespace_do_not_count() {
    let sys = Sys::new("namespace").bridge("br0", &[VETH]);
    let other = Interface {
        index: INDEX + 1,
        ..interface("br0", "10.1.0.1")
    };
    assert_eq!(judge(&[other], &sys.0).found, "br0 10.1.0.1");
    let own = interface("br0", "10.1.0.1");
    assert_eq!(judge(&[own], &sys.0).found, ALONE);
}

#[test]
fn ipv6_leads_to_other_nodes_where_it_is_not_link_local() {
    let sys = Sys::new("ipv6");
    let of_link = ["::1", "fe80::1", "169.254.3.1"].map(|address| interface("eth0", address));
    let finding = judge(&of_link, &sys.0);
    assert_eq!(
        (finding.verdict, finding.found.as_str()),
        (Verdict::Note, ALONE)
    );
    for address in ["fd00::1", "2001:db8::1"] {
        let finding = judge(&[interface("eth0", address)], &sys.0);
        assert_eq!(finding.verdict, Verdict::Ok, "{finding:?}");
        assert_eq!(finding.found, format!("eth0 {address}"));
    }
}

#[test]
fn an_interface_without_a_carrier_leads_nowhere() {
    let sys = Sys::new("carrier");
    let down = Interface {
        running: false,
        ..interface("eth0", "10.1.0.1")
    };
    assert_eq!(judge(&[down], &sys.0).found, ALONE);
}

/// The addresses of this machine: loopback is there, and a port on it is reached.
#[test]
fn this_machine() {
    let found = interfaces().expect("addresses");
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let lo = found.iter().find(|found| found.address == loopback);
    assert!(lo.is_some_and(|lo| lo.running));
    reach(loopback).expect("loopback");
}

#[test]
fn the_names_of_bridges_are_those_of_the_transport() {
    let source = include_str!("../../../../../btl-ofi/core/src/base/interfaces/node_bridge.rs");
    let list = source.split_once("const NAMES").expect("the list").1;
    let list = list.split_once("= [").expect("its start").1;
    let list = list.split_once("];").expect("its end").0;
    let names: Vec<_> = list
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","))
        .collect();
    assert_eq!(names, node_bridge::NAMES);
}
