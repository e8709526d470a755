//! What the tests of the transport share.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod attending;
mod calls;
pub(crate) use calls::Calls;
pub(crate) mod device;
pub(crate) mod memory;
pub(crate) mod pair;
mod patience;
pub(crate) use patience::{BLOCKED, Patience};
pub(crate) mod reference;
pub(crate) mod reports;
pub(crate) mod seen;
pub(crate) mod shows;
pub(crate) mod tally;

use std::convert::Infallible;
use std::ffi::c_void;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use btl_ofi::{Error, Options, Region, Transport};
use mca_params::Value;
use plugin_api::{Access, Module, Status, ThreadLevel};

/// Makes neighbours reach each other by the provider.
pub(crate) const SAME_NODE_OFF: (&str, Value) = ("btl_ofi_same_node", Value::str("off"));
/// Makes neighbours reach each other by memory, whatever the provider is.
pub(crate) const SAME_NODE: (&str, Value) = ("btl_ofi_same_node", Value::str("auto"));

/// Options with some values in place of the defaults.
pub(crate) fn options(overrides: &[(&str, Value)]) -> Options {
    Options::resolve(|d| {
        let o = overrides.iter().find(|(n, _)| *n == d.name);
        Ok::<_, Infallible>(o.map_or(d.default.clone(), |(_, v)| v.clone()))
    })
    .unwrap()
}

/// Processor time of this thread. Tests decide by it where the wall clock would count what other processes of a busy
/// machine take.
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

/// The provider of tests that are about the ways of one node, which are the same under every provider.
pub(crate) fn near() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| std::env::var(NEAR).unwrap_or_else(|_| "shm".to_owned()))
}

/// Runs the other tests of this program again, over another provider.
pub(crate) fn again_over(provider: &str) {
    if std::env::var_os(NEAR).is_some() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.env(NEAR, provider).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "over {provider}: {said}\n{told}");
}

/// Opens one provider, on the loopback interface. Operations go by the provider, except with [`near`], unless `overrides`
/// says otherwise: most tests are about providers.
pub(crate) fn open(provider: &str, level: ThreadLevel, overrides: &[(&str, Value)]) -> Transport {
    loopback();
    let mut all = vec![(
        "btl_ofi_provider_include",
        Value::String(provider.to_owned().into()),
    )];
    // The provider `memory` has no other way.
    if provider != near() && provider != "memory" {
        all.push(SAME_NODE_OFF);
    }
    all.splice(..0, overrides.iter().cloned());
    let t = try_open(&options(&all), level).unwrap_or_else(|e| panic!("{provider}: {e}"));
    assert_eq!(t.capabilities().provider.to_str(), Ok(provider));
    t
}

/// Opens what the options ask for.
pub(crate) fn try_open(options: &Options, level: ThreadLevel) -> Result<Transport, Error> {
    // SAFETY: tests whose threads call the transport at the same time open it at the level MULTIPLE.
    unsafe { Transport::open_at(options, level) }
}

/// Names the network interface of the providers; loopback if it is not set, and none by force if it is [`ANY`].
pub(crate) const INTERFACE: &str = "BTL_OFI_TEST_INTERFACE";
pub(crate) const ANY: &str = "any";

/// The variables by which libfabric's providers are told their interface.
pub(crate) const IFACE_VARIABLES: [&str; 4] = [
    "FI_TCP_IFACE",
    "FI_NET_IFACE",
    "FI_SOCKETS_IFACE",
    "FI_UDP_IFACE",
];

/// Keeps the providers on one interface. Called before libfabric first looks.
pub(crate) fn loopback() {
    let interface = std::env::var(INTERFACE).unwrap_or_else(|_| String::from("lo"));
    if interface == ANY {
        return;
    }
    for variable in IFACE_VARIABLES {
        // SAFETY: first thing in each test, before the transport starts any thread; all tests of a
        // process set equal values.
        unsafe { std::env::set_var(variable, &interface) };
    }
}

/// Tries until the provider takes the operation.
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

/// Sends a signal to a child that was not waited for. After one that stops it or lets it go on, waits until that is so.
pub(crate) fn signal(child: u32, signal: i32) {
    // SAFETY: our own child, whose number nobody else has before it is waited for.
    assert_eq!(unsafe { libc::kill(child as libc::pid_t, signal) }, 0);
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().trim().starts_with('T')
    };
    while is_stopped() != (signal == libc::SIGSTOP) {
        std::thread::yield_now();
    }
}

/// Registers a window, which the test keeps until the region is closed.
pub(crate) fn register(t: &Transport, window: &mut [u64], access: Access) -> Region {
    let base = window.as_mut_ptr().cast();
    // SAFETY: the tests keep windows until their regions are closed.
    unsafe { t.register(base, size_of_val(window), access) }.unwrap()
}

/// A callback that keeps its status at `context`, and counts at `data` if that is given.
pub(crate) unsafe extern "C" fn tell(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    // SAFETY: the tests pass a number that outlives the operation, and count in `data` if given.
    unsafe {
        (*context.cast::<AtomicI32>()).store(status, Ordering::Relaxed);
        if let Some(count) = data.cast::<AtomicU32>().as_ref() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
