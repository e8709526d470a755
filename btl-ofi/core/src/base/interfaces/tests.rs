use std::net::Ipv4Addr;

use super::*;
use crate::base::sys::InterfaceAddress;
use crate::base::sys::script::Script;

const UP: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;

fn raw(name: &str, flags: u32, address: &str) -> InterfaceAddress {
    let (address, prefix) = address.split_once('/').unwrap();
    InterfaceAddress {
        name: name.to_owned(),
        flags,
        address: address.parse().unwrap(),
        prefix: prefix.parse().unwrap(),
    }
}

/// The interfaces that are found on a machine with these addresses, if `/sys` has no information
/// about them.
fn found(addresses: Vec<InterfaceAddress>) -> Interfaces {
    let _script = Script::new().answers("getifaddrs", addresses);
    Interfaces::find().unwrap()
}

fn texts(interfaces: &Interfaces) -> Vec<String> {
    let usable = interfaces.usable.iter();
    usable
        .map(|i| format!("{} {}", i.name, i.address))
        .collect()
}

#[test]
fn networks_come_before_bridges_of_the_node_link_local_and_loopback() {
    let loopback = UP | libc::IFF_LOOPBACK as u32;
    let tunnel = UP | libc::IFF_POINTOPOINT as u32;
    let interfaces = found(vec![
        raw("lo", loopback, "127.0.0.1/8"),
        raw("lo", loopback, "::1/128"),
        raw("docker0", UP, "172.17.0.1/16"),
        raw("test-wg0", tunnel, "10.8.0.1/24"),
        raw("test1", UP, "fe80::1/64"),
        raw("test1", UP, "fd00::1/64"),
        raw("test1", UP, "10.2.0.1/16"),
        raw("test0", UP, "169.254.3.1/16"),
        raw("test2", libc::IFF_UP as u32, "10.1.0.1/16"),
        raw("test2", libc::IFF_UP as u32, "fd01::1/64"),
    ]);
    let expected = [
        "test1 10.2.0.1",
        "test1 fd00::1",
        "test-wg0 10.8.0.1",
        "docker0 172.17.0.1",
        "test0 169.254.3.1",
        "test1 fe80::1",
        "lo 127.0.0.1",
        "lo ::1",
    ];
    assert_eq!(texts(&interfaces), expected);
    assert_eq!(interfaces.down, ["test2"]);
    let docker = interfaces.with(Ipv4Addr::new(172, 17, 0, 1).into());
    assert_eq!(
        docker.map(|(place, i)| (place, i.kind)),
        Some((3, Kind::NodeBridge))
    );
}

/// Two nodes that name their interfaces differently choose the same network.
#[test]
fn equal_interfaces_are_ranked_by_network() {
    let first = found(vec![
        raw("testa", UP, "10.2.0.1/24"),
        raw("testb", UP, "10.1.0.1/24"),
    ]);
    let second = found(vec![
        raw("testa", UP, "10.1.0.2/24"),
        raw("testb", UP, "10.2.0.2/24"),
    ]);
    assert_eq!(texts(&first)[0], "testb 10.1.0.1");
    assert_eq!(texts(&second)[0], "testa 10.1.0.2");
}

/// An interface that `/sys` describes: its index, and files of its folder.
fn known(name: &str, files: &[(&str, &str)]) -> Script {
    let mut script = Script::new().answers("getifaddrs", vec![raw(name, UP, "10.0.0.1/8")]);
    for (file, text) in files {
        let path = format!("/sys/class/net/{name}/{file}");
        script = script.answers(&path, text.as_bytes().to_vec());
    }
    script
}

#[test]
fn speeds_are_those_of_the_own_namespace() {
    for (index, speed, expected) in [(7u32, "25000\n", 25000), (7, "-1\n", 0), (8, "25000\n", 0)] {
        let script = known("test0", &[("ifindex", "7\n"), ("ifindex", "7\n")]);
        let script = script
            .answers("if_nametoindex", index)
            .answers("if_nametoindex", index);
        let script = match index {
            7 => script
                .fails("/sys/class/net/test0/bridge/bridge_id", libc::ENOENT)
                .answers("/sys/class/net/test0/speed", speed.as_bytes().to_vec()),
            _ => script,
        };
        assert_eq!(Interfaces::find().unwrap().usable[0].speed, expected);
        drop(script);
    }
}

/// Of two interfaces on one network, the nearer one comes first. The distance has no influence on the
/// order of networks.
#[test]
fn the_nearest_of_one_network_comes_first() {
    let order = |addresses: [&str; 2], processors: &str| {
        let names = ["testa", "testb"];
        let raws = names.iter().zip(addresses);
        let raws: Vec<_> = raws.map(|(name, at)| raw(name, UP, at)).collect();
        let status = format!("Cpus_allowed_list:\t{processors}\n");
        let mut script = Script::new()
            .answers("getifaddrs", raws)
            .answers("/proc/self/status", status.into_bytes());
        for (name, local) in names.iter().zip(["0-3\n", "4-7\n"]) {
            // The kind, the speed and the distance of the interface are read from its folder.
            for _ in 0..3 {
                script = script
                    .answers(&format!("/sys/class/net/{name}/ifindex"), b"7".to_vec())
                    .answers("if_nametoindex", 7u32);
            }
            let file = format!("/sys/class/net/{name}/device/local_cpulist");
            script = script.answers(&file, local.as_bytes().to_vec());
        }
        let found = Interfaces::find().unwrap();
        drop(script);
        found.usable[0].name.clone()
    };
    let (one, two) = (
        ["10.1.0.1/24", "10.1.0.2/24"],
        ["10.1.0.1/24", "10.2.0.1/24"],
    );
    assert_eq!(order(one, "1"), "testa");
    assert_eq!(order(one, "5"), "testb");
    assert_eq!(order(one, "0-7"), "testa", "a process that is not bound");
    assert_eq!(order(two, "5"), "testa");
}

#[test]
fn bridges_are_judged_by_their_ports() {
    let ports = [
        (vec![], Kind::NodeBridge),
        (
            vec![("testv", "INTERFACE=testv\n", false)],
            Kind::NodeBridge,
        ),
        (
            vec![("testv", "", false), ("teste", "", true)],
            Kind::Network,
        ),
        (
            vec![("testb", "DEVTYPE=bond\nINTERFACE=testb\n", false)],
            Kind::Network,
        ),
    ];
    for (ports, expected) in ports {
        let files = [("ifindex", "3"), ("bridge/bridge_id", "8000.0")];
        let mut script = known("test0", &files).answers("if_nametoindex", 3u32);
        let names: Vec<String> = ports.iter().map(|(name, ..)| (*name).to_owned()).collect();
        script = script.answers("/sys/class/net/test0/brif", names);
        for (name, uevent, device) in ports {
            let folder = format!("/sys/class/net/{name}");
            script = script.answers(&format!("{folder}/uevent"), uevent.as_bytes().to_vec());
            let device_path = format!("{folder}/device");
            script = match device {
                true => script.answers(&device_path, std::path::PathBuf::new()),
                false if uevent.contains("DEVTYPE") => script,
                false => script.fails(&device_path, libc::ENOENT),
            };
        }
        assert_eq!(Interfaces::find().unwrap().usable[0].kind, expected);
        drop(script);
    }
}

#[test]
fn lists_take_names_and_networks() {
    let interfaces = found(vec![
        raw("test0", UP, "10.1.0.1/24"),
        raw("test1", UP, "10.2.0.1/24"),
        raw("test1", UP, "fd00::1/64"),
    ]);
    let admitted = |include: &str, exclude: &str| {
        let lists = Lists::parse(include, exclude).unwrap();
        let of = |i: &Interface| u8::from(lists.admits(i).is_ok());
        interfaces.usable.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(admitted("", ""), [1, 1, 1]);
    assert_eq!(admitted("test1", ""), [0, 1, 1]);
    assert_eq!(admitted(" 10.2.0.0/16 , fd00::/8", ""), [0, 1, 1]);
    assert_eq!(admitted("", "test1"), [1, 0, 0]);
    assert_eq!(admitted("", "10.0.0.0/8"), [0, 0, 1]);
    assert_eq!(admitted("0.0.0.0/0", ""), [1, 1, 0]);
    let lists = Lists::parse("test1,10.2.9.9/16", "").unwrap();
    let why = lists.admits(&interfaces.usable[0]).unwrap_err();
    let expected = "test0 10.1.0.1/24 is not in btl_ofi_if_include (test1,10.2.0.0/16)";
    assert_eq!(why, expected);
    assert!(lists.names_network_of("10.2.77.1".parse().unwrap()));
    assert!(!lists.names_network_of("10.1.0.1".parse().unwrap()));
}

/// Compares with the kernel's own addresses and the routes to them.
#[test]
fn this_machine() {
    let interfaces = Interfaces::find().unwrap();
    let loopback = Ipv4Addr::LOCALHOST.into();
    let (_, lo) = interfaces.with(loopback).unwrap();
    assert_eq!((lo.kind, lo.prefix), (Kind::Loopback, 8));
    assert_eq!(sys::find_route(loopback, loopback), Ok(()));
    let _script = Script::new().fails("route", libc::ENETUNREACH);
    let error = sys::find_route(loopback, loopback).unwrap_err();
    assert_eq!(error.code, libc::ENETUNREACH);
}
