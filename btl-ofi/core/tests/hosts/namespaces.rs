//! Hosts on one machine, made of Linux namespaces by `scripts/hosts_namespaces.sh`: each has its own network, process ids,
//! mounts with a `/dev/shm`, IPC and host name. All processes of a host end with its [`Host`].

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use test_skips::{Lacking, skipped};

use crate::common::{ANY, IFACE_VARIABLES, INTERFACE};

/// The name of each host's interface, an end of a veth pair.
pub(crate) const LINK: &str = "veth0";

/// A call of a function of the script.
fn script(function: &str) -> Command {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = Command::new(format!("{root}/scripts/hosts_namespaces.sh"));
    command.current_dir(root).arg(function);
    command
}

fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {ran:?}");
}

/// The reason why this machine cannot make hosts; `None` if it can.
fn obstacle() -> Option<(Lacking, String)> {
    let ran = script("obstacle").output().unwrap();
    let why = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
    let lacking = if why.ends_with("is missing") {
        Lacking::Package
    } else {
        Lacking::Namespaces
    };
    (!why.is_empty()).then_some((lacking, why))
}

/// Whether hosts can be made here. If hosts cannot be made, prints the reason.
pub(crate) fn available() -> bool {
    static OBSTACLE: OnceLock<Option<(Lacking, String)>> = OnceLock::new();
    let why = OBSTACLE.get_or_init(obstacle);
    if let Some((lacking, why)) = why {
        skipped(*lacking, why);
    }
    why.is_none()
}

/// The providers, or none where hosts cannot be made.
pub(crate) fn over<const N: usize>(
    providers: [&'static str; N],
) -> impl Iterator<Item = &'static str> {
    available().then_some(providers).into_iter().flatten()
}

/// A host: its namespaces, and its first process.
pub(crate) struct Host {
    /// The process `unshare`, which has the host's namespaces except the pid namespace, and ends with
    /// the host.
    child: Child,
}

impl Host {
    /// A host with its own namespaces of each kind.
    pub(crate) fn new(name: &str) -> Host {
        Host::begin(script("start").args([name, "/dev/shm"]))
    }

    /// A host with its own pid namespace that shares network, IPC and `/dev/shm` with this host.
    pub(crate) fn beside(&self) -> Host {
        Host::begin(script("beside").args([&self.id(), "own"]))
    }

    /// A host like that of [`beside`](Self::beside), except that `/proc` still shows the processes
    /// of this host.
    pub(crate) fn with_outer_proc(&self) -> Host {
        Host::begin(script("beside").args([&self.id(), "outer"]))
    }

    fn begin(command: &mut Command) -> Host {
        let (to, from) = (Stdio::piped(), Stdio::piped());
        let mut child = command.stdin(to).stdout(from).spawn().unwrap();
        let mut said = String::new();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        from.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Host { child }
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }

    /// Joins two hosts by a link. The hosts' addresses on the link are 10.99.0.1 and 10.99.0.2.
    pub(crate) fn join(&self, other: &Host) {
        self.wire(other, LINK, ("10.99.0.", "/24"));
    }

    /// Joins two hosts by a link. The hosts' addresses on the link have 1 and 2 between the two
    /// texts.
    pub(crate) fn wire(&self, other: &Host, link: &str, (start, end): (&str, &str)) {
        run(script("wire").args([&self.id(), link, &other.id(), link]));
        for (host, number) in [(self, 1), (other, 2)] {
            run(script("await").args([&host.id(), link]));
            host.ip(&format!("address add {start}{number}{end} dev {link}"));
        }
    }

    /// Gives the host the bridge of a container engine with a container in it; the bridge has the address that every
    /// host has.
    pub(crate) fn give_docker(&self, bridge: &str) {
        run(script("give_docker").args([&self.id(), bridge]));
    }

    /// Sets the host's end of the link up or down.
    pub(crate) fn link(&self, up: bool) {
        let to = if up { "up" } else { "down" };
        self.ip(&format!("link set {LINK} {to}"));
    }

    pub(crate) fn ip(&self, arguments: &str) {
        run(self.enter("ip").args(arguments.split(' ')));
    }

    /// Limits the send rate of an interface, in Mbit/s.
    pub(crate) fn limit_rate(&self, interface: &str, rate: u32) {
        let bucket = format!("rate {rate}mbit burst 128k latency 50ms");
        let arguments = format!("qdisc add dev {interface} root tbf {bucket}");
        run(self.enter("tc").args(arguments.split(' ')));
    }

    /// The number of files in the host's `/dev/shm`.
    pub(crate) fn files(&self) -> usize {
        let folder = format!("/proc/{}/root/dev/shm", self.id());
        std::fs::read_dir(folder).unwrap().count()
    }

    /// Starts a rank over the interface that an environment variable of libfabric names, or with [`ANY`] over one that the
    /// transport chooses. The process id of the rank in the host is the next one after `before`, if that is given. The child
    /// is `nsenter`, whose child is the rank.
    pub(crate) fn start(&self, interface: &str, before: Option<u32>) -> Child {
        if let Some(before) = before {
            let set = format!("echo {before} >/proc/sys/kernel/ns_last_pid");
            run(self.enter("sh").args(["-c", &set]));
        }
        let mut command = self.enter(std::env::current_exe().unwrap());
        if interface == ANY {
            // Cargo sets these variables for tests.
            for variable in IFACE_VARIABLES {
                command.env_remove(variable);
            }
        }
        command
            .args(["--exact", "rank_process", "--ignored", "--nocapture"])
            .env(INTERFACE, interface)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// A command that runs a program in the host.
    fn enter(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = script("enter");
        command.arg(self.id()).arg(program);
        command
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The first process ends with `unshare`, and all other processes of the host end with the
        // first process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
