//! Hosts on one machine, made of Linux namespaces: each has its own network, process ids, mounts with a `/dev/shm`, IPC
//! and host name. The first process of a host is this program again, which starts the host's ranks. All processes of a
//! host end with its first process, which ends when the test closes its input.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, Sender};

use test_skips::{Lacking, skipped};

use crate::common::{ANY, BLOCKED, IFACE_VARIABLES, INTERFACE};

const NAME: &str = "BTL_OFI_TEST_HOST";
const SHARED: &str = "BTL_OFI_TEST_HOST_SHARED";
/// The name of each host's interface, an end of a veth pair.
const LINK: &str = "veth0";
/// The maximum number of ranks of a host.
const RANKS: usize = 3;

/// The reason why this machine cannot make hosts; `None` if it can.
fn obstacle() -> Option<(Lacking, String)> {
    // SAFETY: the call has no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return Some((Lacking::Namespaces, String::from("not root")));
    }
    for program in ["ip", "unshare", "nsenter"] {
        let found = Command::new(program).arg("--version").output();
        // `ip` accepts only `-V`, but any run shows that the program exists.
        if let Err(error) = found {
            return Some((Lacking::Package, format!("{program}: {error}")));
        }
    }
    let tried = Command::new("unshare")
        .args(["-nmiup", "--fork", "--mount-proc"])
        .args([
            "ip", "link", "add", LINK, "type", "veth", "peer", "name", "peer0",
        ])
        .output();
    match tried {
        Err(error) => Some((Lacking::Package, error.to_string())),
        Ok(o) if o.status.success() => None,
        Ok(o) => {
            let why = String::from_utf8_lossy(&o.stderr).trim().to_owned();
            Some((Lacking::Namespaces, why))
        }
    }
}

/// Whether hosts can be made here. If not, prints the reason.
pub(crate) fn available() -> bool {
    static OBSTACLE: OnceLock<Option<(Lacking, String)>> = OnceLock::new();
    let why = OBSTACLE.get_or_init(obstacle);
    if let Some((lacking, why)) = why {
        skipped(*lacking, why);
    }
    why.is_none()
}

/// A host: its namespaces, and its first process.
pub(crate) struct Host {
    /// The process `unshare`, which has the host's namespaces except the pid namespace, and ends with
    /// the host.
    child: Child,
    to: ChildStdin,
    /// The answers of the first process, and the output of each rank.
    said: Vec<Receiver<String>>,
}

impl Host {
    /// A host with its own namespaces of each kind.
    pub(crate) fn new(name: &str) -> Host {
        let mut command = Command::new("unshare");
        command.args(["--net", "--ipc", "--uts"]).env(NAME, name);
        Host::begin(command, true)
    }

    /// A host with its own pid namespace that shares network, IPC and `/dev/shm` with this host.
    pub(crate) fn beside(&self, name: &str) -> Host {
        self.container(name, true)
    }

    /// A host like that of [`beside`](Self::beside), except that `/proc` still shows the processes
    /// of this host.
    pub(crate) fn with_outer_proc(&self, name: &str) -> Host {
        self.container(name, false)
    }

    fn container(&self, name: &str, own_proc: bool) -> Host {
        let mut command = Command::new("nsenter");
        let id = self.child.id().to_string();
        command.args(["--target", &id, "--net", "--ipc", "--uts", "--mount"]);
        if !own_proc {
            // The `/proc` of the host shows the container's processes too, with other ids.
            command.arg(format!("--pid=/proc/{id}/ns/pid_for_children"));
        }
        command.arg("unshare").env(NAME, name).env(SHARED, "1");
        Host::begin(command, own_proc)
    }

    fn begin(mut command: Command, own_proc: bool) -> Host {
        command
            .args(["--mount", "--pid"])
            .args(own_proc.then_some("--mount-proc"))
            .args(["--fork", "--kill-child=KILL"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "host_process", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (tell, said): (Vec<_>, Vec<_>) = (0..=RANKS).map(|_| mpsc::channel()).unzip();
        std::thread::spawn(move || deliver(from, &tell));
        let host = Host { child, to, said };
        assert_eq!(host.answer(0), "ready");
        host
    }

    /// Joins two hosts by a link. The hosts' addresses on the link are 10.99.0.1 and 10.99.0.2.
    pub(crate) fn join(&self, other: &Host) {
        self.wire(other, LINK);
        for (host, number) in [(self, 1), (other, 2)] {
            host.ip(&format!("address add 10.99.0.{number}/24 dev {LINK}"));
        }
    }

    /// Joins two hosts by a link that has only link-local addresses.
    pub(crate) fn wire(&self, other: &Host, link: &str) {
        let (a, b) = (self.child.id().to_string(), other.child.id().to_string());
        let made = Command::new("ip")
            .args(["link", "add", "name", link, "netns", &a, "type", "veth"])
            .args(["peer", "name", link, "netns", &b])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        for host in [self, other] {
            host.ip(&format!("link set {link} up"));
        }
        // libfabric ignores an interface that is not running yet, even if the user names it.
        for host in [self, other] {
            host.wait_for(link);
        }
    }

    /// Waits until an interface is running.
    pub(crate) fn wait_for(&self, interface: &str) {
        self.say(&format!("wait {interface}"));
        assert_eq!(self.answer(0), "done");
    }

    /// Sets the host's end of the link up or down.
    pub(crate) fn link(&self, up: bool) {
        self.ip(&format!(
            "link set {LINK} {}",
            if up { "up" } else { "down" }
        ));
    }

    pub(crate) fn ip(&self, arguments: &str) {
        self.say(&format!("ip {arguments}"));
        assert_eq!(self.answer(0), "", "ip {arguments}");
    }

    /// Limits the send rate of an interface, in Mbit/s.
    pub(crate) fn limit_rate(&self, interface: &str, rate: u32) {
        let bucket = format!("rate {rate}mbit burst 128k latency 50ms");
        self.say(&format!("tc qdisc add dev {interface} root tbf {bucket}"));
        assert_eq!(self.answer(0), "");
    }

    /// Starts a rank, and returns its process id in the host. `before`, if given, is the process id that the host
    /// gave last.
    pub(crate) fn start(&self, rank: usize, before: Option<u32>) -> u32 {
        let interface = if before.is_some() { "lo" } else { LINK };
        self.start_over(rank, before, interface)
    }

    /// Starts a rank over an interface that the transport chooses.
    pub(crate) fn start_free(&self, rank: usize, before: Option<u32>) -> u32 {
        self.start_over(rank, before, ANY)
    }

    /// Starts a rank over the interface that an environment variable of libfabric names.
    pub(crate) fn start_over(&self, rank: usize, before: Option<u32>, interface: &str) -> u32 {
        assert!((1..=RANKS).contains(&rank));
        self.say(&format!("start {interface} {}", before.unwrap_or(0)));
        self.answer(0).parse().unwrap()
    }

    /// The number of files in the host's `/dev/shm`.
    pub(crate) fn files(&self) -> u32 {
        self.say("files ");
        self.answer(0).parse().unwrap()
    }

    /// Sends a signal to a rank. Waits until the rank has stopped after SIGSTOP, or ended after
    /// SIGKILL.
    pub(crate) fn signal(&self, rank: usize, signal: i32) {
        self.say(&format!("signal {rank} {signal}"));
        assert_eq!(self.answer(0), "done", "signal {signal} to rank {rank}");
    }

    /// Sends a line to a rank.
    pub(crate) fn tell(&self, rank: usize, line: &str) {
        self.say(&format!("tell {rank} {line}"));
    }

    fn say(&self, line: &str) {
        writeln!(&self.to, "{line}").unwrap();
    }

    /// The next line of a rank, or of the first process for 0. A transfer may wait for the timeout of a
    /// rail meanwhile.
    pub(crate) fn answer(&self, rank: usize) -> String {
        let line = self.said[rank].recv_timeout(BLOCKED);
        line.unwrap_or_else(|e| panic!("rank {rank} (0 is the host): {e}"))
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

/// Delivers the lines of a host; a line consists of the number of a rank, or 0, and text.
fn deliver(from: impl std::io::Read, tell: &[Sender<String>]) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        // The harness prints text before the host's lines, without a newline.
        let line = line.split_once('@').map(|(_, line)| line);
        if let Some((number, text)) = line.and_then(|line| line.split_once(' '))
            && let Some(tell) = number.parse::<usize>().ok().and_then(|n| tell.get(n))
        {
            let _ = tell.send(text.to_owned());
        }
    }
}

/// The program of a host's first process. This function does not return.
pub(crate) fn serve_as_host() {
    let name = std::env::var(NAME).expect("started by a test, as its host");
    if std::env::var_os(SHARED).is_none() {
        // SAFETY: the name is readable for its length.
        let named = unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) };
        assert_eq!(named, 0);
        let (kind, at) = (c"tmpfs".as_ptr(), c"/dev/shm".as_ptr());
        // SAFETY: the arguments are C strings; a tmpfs needs no data.
        let mounted = unsafe { libc::mount(kind, at, kind, 0, std::ptr::null()) };
        assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
        let (kind, at) = (c"sysfs".as_ptr(), c"/sys".as_ptr());
        // SAFETY: the arguments are C strings; a sysfs needs no data.
        let mounted = unsafe { libc::mount(kind, at, kind, 0, std::ptr::null()) };
        assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
        assert_eq!(run_ip("link set lo up"), "");
    }
    println!("@0 ready");
    let mut ranks: Vec<Child> = Vec::new();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (verb, rest) = line.split_once(' ').unwrap();
        let two = || rest.split_once(' ').unwrap();
        match verb {
            "ip" | "tc" => println!("@0 {}", run(verb, rest)),
            "wait" => {
                while !run_ip(&format!("-oneline link show dev {rest} up")).contains("state UP") {
                    std::thread::yield_now();
                }
                println!("@0 done");
            }
            "files" => {
                let files = std::fs::read_dir("/dev/shm").unwrap();
                println!("@0 {}", files.count());
            }
            "start" => {
                let (interface, before) = two();
                let child = start(ranks.len() + 1, interface, before);
                println!("@0 {}", child.id());
                ranks.push(child);
            }
            "signal" => {
                let (rank, signal) = two();
                let child = &mut ranks[rank.parse::<usize>().unwrap() - 1];
                send(child, signal.parse().unwrap());
                println!("@0 done");
            }
            _ => {
                let (rank, text) = two();
                let child = &mut ranks[rank.parse::<usize>().unwrap() - 1];
                // A failed rank reports its failure itself.
                let _ = writeln!(child.stdin.as_mut().unwrap(), "{text}");
            }
        }
    }
    // The kernel ends the ranks with the first process.
    std::process::exit(0);
}

fn run_ip(arguments: &str) -> String {
    run("ip", arguments)
}

/// The output of a program on one line.
fn run(program: &str, arguments: &str) -> String {
    let ran = Command::new(program).args(arguments.split(' ')).output();
    let ran = ran.unwrap();
    let said = [&ran.stdout[..], &ran.stderr].concat();
    String::from_utf8_lossy(&said).replace('\n', " ")
}

/// Starts a rank. If `before` is not 0, the rank's process id is the next one after `before`.
fn start(number: usize, interface: &str, before: &str) -> Child {
    if before != "0" {
        std::fs::write(Path::new("/proc/sys/kernel/ns_last_pid"), before).unwrap();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    if interface == ANY {
        // Cargo sets these variables for tests.
        for variable in IFACE_VARIABLES {
            command.env_remove(variable);
        }
    }
    let mut child = command
        .args(["--exact", "rank_process", "--ignored", "--nocapture"])
        .env(INTERFACE, interface)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let from = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if let Some((_, text)) = line.split_once('@') {
                println!("@{number} {text}");
            }
        }
    });
    child
}

fn send(child: &mut Child, signal: i32) {
    let pid = child.id() as libc::pid_t;
    // SAFETY: the process is this test's child and has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    match signal {
        libc::SIGKILL => drop(child.wait().unwrap()),
        libc::SIGSTOP => {
            let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            while !stat().rsplit(')').next().unwrap().trim().starts_with('T') {
                std::thread::yield_now();
            }
        }
        _ => {}
    }
}
