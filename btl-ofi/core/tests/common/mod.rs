//! Code that the tests of the transport share.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod attending;
mod calls;
pub(crate) use calls::Calls;
pub(crate) mod device;
pub(crate) mod given;
pub(crate) mod memory;
pub(crate) mod pair;
mod patience;
pub(crate) mod prelude;
pub(crate) use patience::{BLOCKED, Patience};
pub(crate) mod numbers;
pub(crate) mod reports;
pub(crate) mod seen;
pub(crate) mod shows;
pub(crate) mod tally;
pub(crate) mod there;
pub(crate) mod told;

use std::convert::Infallible;
use std::fmt::Display;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use btl_ofi::{Error, Options, Region, Transport};
use mca_params::Value;
use plugin_api::{Access, Status, ThreadLevel};

/// The setting that makes peers on one node use the provider.
pub(crate) const SAME_NODE_OFF: (&str, Value) = ("btl_ofi_same_node", Value::str("off"));
/// The setting that makes peers on one node use memory with every provider.
pub(crate) const SAME_NODE: (&str, Value) = ("btl_ofi_same_node", Value::str("auto"));

/// Options that override some defaults.
pub(crate) fn options(overrides: &[(&str, Value)]) -> Options {
    Options::resolve(|d| {
        let o = overrides.iter().find(|(n, _)| *n == d.name);
        Ok::<_, Infallible>(o.map_or(d.default.clone(), |(_, v)| v.clone()))
    })
    .unwrap()
}

/// Processor time of this thread. Tests decide by this time, because the wall clock would include the time of other
/// processes on a busy machine.
pub(crate) fn worked() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

const NEAR: &str = "BTL_OFI_TEST_NEAR";

/// The provider for tests of the carriers on one node, which are the same with every provider.
pub(crate) fn near() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| std::env::var(NEAR).unwrap_or_else(|_| "shm".to_owned()))
}

/// A command that runs this program with one test of one of its modules, ignored or not.
pub(crate) fn again(module: &str, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--include-ignored", "--nocapture"]);
    // A test's path does not contain the crate's name.
    let path = module.split_once("::").map(|(_, path)| path);
    command.arg(path.map_or(test.to_owned(), |path| format!("{path}::{test}")));
    command
}

/// Runs the tests of a module of this program again with another provider.
pub(crate) fn again_over(module: &str, provider: &str) {
    if std::env::var_os(NEAR).is_some() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    if let Some((_, path)) = module.split_once("::") {
        command.arg(format!("{path}::"));
    }
    let output = command.env(NEAR, provider).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "over {provider}: {said}\n{told}");
}

/// Opens one provider on the loopback interface. Operations use the provider, except with [`near`], unless `overrides`
/// says otherwise, because most tests are about providers.
pub(crate) fn open(provider: &str, level: ThreadLevel, overrides: &[(&str, Value)]) -> Transport {
    loopback();
    let mut all = vec![(
        "btl_ofi_provider_include",
        Value::String(provider.to_owned().into()),
    )];
    // The provider `memory` can use only memory.
    if provider != near() && provider != "memory" {
        all.push(SAME_NODE_OFF);
    }
    all.splice(..0, overrides.iter().cloned());
    let t = try_open(&options(&all), level).unwrap_or_else(|e| panic!("{provider}: {e}"));
    assert_eq!(t.capabilities().provider.to_str(), Ok(provider));
    t
}

/// Opens a transport with the given options.
pub(crate) fn try_open(options: &Options, level: ThreadLevel) -> Result<Transport, Error> {
    // SAFETY: tests whose threads call the transport at the same time open it at the level MULTIPLE.
    unsafe { Transport::open_at(options, level) }
}

/// Reason for the refusal of one provider with the given options.
pub(crate) fn refusal(provider: &'static str, overrides: &[(&str, Value)]) -> String {
    let include = ("btl_ofi_provider_include", Value::str(provider));
    let options = options(&[&[include], overrides].concat());
    match try_open(&options, ThreadLevel::Single) {
        Ok(_) => panic!("{provider} was opened"),
        Err(error) => error.to_string(),
    }
}

/// The variable that names the network interface of the providers. The default is loopback; with [`ANY`], no
/// interface is forced.
pub(crate) const INTERFACE: &str = "BTL_OFI_TEST_INTERFACE";
pub(crate) const ANY: &str = "any";

/// The variables that tell libfabric's providers their interface.
pub(crate) const IFACE_VARIABLES: [&str; 4] = [
    "FI_TCP_IFACE",
    "FI_NET_IFACE",
    "FI_SOCKETS_IFACE",
    "FI_UDP_IFACE",
];

/// Restricts the providers to one interface. The call must precede libfabric's first use.
pub(crate) fn loopback() {
    let interface = std::env::var(INTERFACE).unwrap_or_else(|_| String::from("lo"));
    if interface == ANY {
        return;
    }
    for variable in IFACE_VARIABLES {
        // SAFETY: each test calls this first, before the transport starts a thread; all tests of a
        // process set equal values.
        unsafe { std::env::set_var(variable, &interface) };
    }
}

/// Tries until the provider accepts the operation.
pub(crate) fn insist(t: &Transport, mut post: impl FnMut() -> Status) {
    let patience = Patience::new();
    loop {
        let status = post();
        if status == Status::SUCCESS {
            return;
        }
        assert!(status.is_again(), "{status}");
        assert!(patience.lasts(), "the provider takes nothing");
        t.progress();
    }
}

/// Makes progress of all transports until `done` returns true.
pub(crate) fn until(ts: &[&Transport], what: impl Display, mut done: impl FnMut() -> bool) {
    let patience = Patience::new();
    while !done() {
        assert!(patience.lasts(), "{what}");
        ts.iter().for_each(|t| _ = t.progress());
        std::thread::yield_now();
    }
}

/// Closes the regions, then the transports.
pub(crate) fn close<const R: usize, const T: usize>(
    regions: [Region; R],
    transports: [Transport; T],
) {
    for region in regions {
        region.close().unwrap();
    }
    for t in transports {
        t.close().unwrap();
    }
}

/// Sends a signal to a child that was not waited for, or to a child's child.
pub(crate) fn kill(child: u32, signal: i32) {
    // SAFETY: the process is this test's, and its number is unique until its parent has waited for it.
    assert_eq!(unsafe { libc::kill(child as libc::pid_t, signal) }, 0);
}

/// Whether a process is stopped by a signal.
pub(crate) fn is_stopped(child: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim().starts_with('T')
}

/// Sends a signal to a child that was not waited for. After SIGSTOP or SIGCONT, waits until the child is stopped or
/// running.
pub(crate) fn signal(child: u32, signal: i32) {
    kill(child, signal);
    while is_stopped(child) != (signal == libc::SIGSTOP) {
        std::thread::yield_now();
    }
}

/// Registers a window; the test keeps the window until the region is closed.
pub(crate) fn register(t: &Transport, window: &mut [u64], access: Access) -> Region {
    let base = window.as_mut_ptr().cast();
    // SAFETY: the tests keep windows until their regions are closed.
    unsafe { t.register(base, size_of_val(window), access) }.unwrap()
}
