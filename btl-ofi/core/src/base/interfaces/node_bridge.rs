//! Bridges that lead to no other node: those of container engines and of virtual machines.

use crate::base::sys;

/// Beginnings of the names of interfaces that container engines, overlay networks and virtual machine monitors create,
/// with equal addresses on every node.
const NAMES: [&str; 14] = [
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

/// Whether an interface is a bridge whose ports all stay within the node, or has the name of such a bridge.
pub(super) fn is(name: &str) -> bool {
    NAMES.iter().any(|start| name.starts_with(start)) || is_closed(name).unwrap_or(false)
}

/// The interface's folder in `/sys`. `None` if `/sys` shows the interfaces of another namespace, the one in which it was
/// mounted.
pub(super) fn folder(name: &str) -> Option<String> {
    let folder = format!("/sys/class/net/{name}");
    let text = String::from_utf8(sys::read(&format!("{folder}/ifindex")).ok()?).ok()?;
    let shown: u32 = text.trim().parse().ok()?;
    (sys::interface_index(name) == Ok(shown)).then_some(folder)
}

/// Whether an interface is a bridge whose ports all lead to containers or virtual machines. `None` if the interface is no
/// bridge, or if `/sys` has no information about it.
fn is_closed(name: &str) -> Option<bool> {
    let folder = folder(name)?;
    sys::read(&format!("{folder}/bridge/bridge_id")).ok()?;
    let ports = sys::names(&format!("{folder}/brif")).ok()?;
    Some(!ports.iter().any(|port| leaves_node(port)))
}

/// Whether a port is a network card, or consists of network cards (bond, VLAN). The ends of containers (veth) and of
/// virtual machines (tap) have neither a device nor a type.
fn leaves_node(port: &str) -> bool {
    let folder = format!("/sys/class/net/{port}");
    let uevent = sys::read(&format!("{folder}/uevent")).unwrap_or_default();
    let typed = String::from_utf8_lossy(&uevent).contains("DEVTYPE=");
    typed || sys::read_link(&format!("{folder}/device")).is_ok()
}
