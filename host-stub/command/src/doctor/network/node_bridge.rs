//! Bridges that lead to no other node, by the transport's rule (`base/interfaces/node_bridge.rs` of the core): the doctor
//! reaches the transport through its table of functions, which does not tell of interfaces.

use std::fs;
use std::path::Path;

/// The transport's list of beginnings of names; a test compares both.
pub(super) const NAMES: [&str; 14] = [
    "docker",
    "virbr",
    "podman",
    "cni",
    "lxcbr",
    "lxdbr",
    "incusbr",
    "vboxnet",
    "vmnet",
    "flannel",
    "cilium_",
    "kube-",
    "nodelocaldns",
    "dummy",
];

/// Whether an interface is a bridge without a port that leaves the node, or named like one. `sys` has a folder for each
/// interface.
pub(super) fn is(sys: &Path, name: &str, index: u32) -> bool {
    NAMES.iter().any(|start| name.starts_with(start))
        || is_closed(sys, name, index).unwrap_or(false)
}

/// Whether an interface is a bridge whose ports all lead to containers or virtual machines. `None` if it is no bridge, or
/// nothing is known of it.
fn is_closed(sys: &Path, name: &str, index: u32) -> Option<bool> {
    let folder = sys.join(name);
    // `/sys` shows the interfaces of the namespace in which it was mounted.
    let shown = fs::read_to_string(folder.join("ifindex")).ok()?;
    if shown.trim().parse() != Ok(index) {
        return None;
    }
    fs::read(folder.join("bridge/bridge_id")).ok()?;
    let ports = fs::read_dir(folder.join("brif")).ok()?;
    let mut names = ports.filter_map(|port| port.ok()?.file_name().into_string().ok());
    Some(!names.any(|port| leaves_node(sys, &port)))
}

/// Whether a port is a network card, or made of some (bond, VLAN).
fn leaves_node(sys: &Path, port: &str) -> bool {
    let folder = sys.join(port);
    let uevent = fs::read(folder.join("uevent")).unwrap_or_default();
    let typed = String::from_utf8_lossy(&uevent).contains("DEVTYPE=");
    typed || fs::read_link(folder.join("device")).is_ok()
}
