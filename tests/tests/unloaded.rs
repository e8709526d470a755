//! The plugin's handler of faults outlives the plugin: a handler that others put on top of it still calls it
//! after dlclose, and what was there before the plugin is reached through both.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking, in its helpers too"
)]

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use integration_tests::fixtures::ofi_plugin;
use integration_tests::host::TestHost;
use integration_tests::session::Session;

const CHILD: &str = "BTL_OFI_TEST_UNLOADED";
const REACHED: i32 = 42;

/// The plugin's handler, as the one on top found it.
static BELOW: AtomicUsize = AtomicUsize::new(0);

type Informed = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

unsafe extern "C" fn first(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: ends the process without anything else of it.
    unsafe { libc::_exit(REACHED) };
}

unsafe extern "C" fn on_top(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let below = BELOW.load(Ordering::Relaxed);
    // SAFETY: a handler with SA_SIGINFO, which the plugin promises to keep.
    unsafe { std::mem::transmute::<usize, Informed>(below)(signal, info, context) };
}

fn arrange(handler: Informed) -> libc::sigaction {
    // SAFETY: zeros are an action; the handlers are of the kind that the flag says.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, &mut before), 0);
        before
    }
}

fn is_mapped() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains("libbtl_ofi.so")
}

#[test]
#[ignore = "a child process of other tests, which start it"]
fn unloading_process() {
    assert!(
        std::env::var_os(CHILD).is_some(),
        "started by the test below"
    );
    let host = TestHost::with_provider("shm");
    // Libraries of libfabric's providers put handlers of their own in place when they are loaded.
    drop(Session::new(ofi_plugin(), &host));
    arrange(first);
    let session = Session::new(ofi_plugin(), &host);
    let before = arrange(on_top);
    assert_ne!(
        before.sa_sigaction, first as *const () as usize,
        "the plugin's"
    );
    BELOW.store(before.sa_sigaction, Ordering::Relaxed);
    drop(session);
    let path = CString::new(ofi_plugin().as_os_str().as_bytes()).unwrap();
    // SAFETY: gives up the two references that sessions leave, and the one taken here.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        assert!(!library.is_null());
        for _ in 0..3 {
            libc::dlclose(library);
        }
    }
    assert!(is_mapped());
    // SAFETY: none; the process is to end of it, by the first handler.
    unsafe { ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
    panic!("the fault was not passed on");
}

#[test]
fn the_handler_outlives_the_plugin() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "unloading_process", "--ignored", "--nocapture"])
        .env(CHILD, "1")
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(REACHED), "{status}");
}
