//! Signals that are not about windows: what the process had arranged for them before it opened a transport
//! happens, while the transport is open and after.

use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use mca_params::Value;
use plugin_api::ThreadLevel;

use super::common::{near, open};
use super::target::unusable;

const CASE: &str = "BTL_OFI_TEST_FOREIGN";
const SIGNALS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// What a handler that ran in its own convention ends the process with.
const RAN: i32 = 42;

/// How often a handler ran that returns.
static TIMES: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn informed(signal: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's, for a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    let right = signal == libc::SIGSEGV && code > 0;
    // SAFETY: ends the process without anything else of it.
    unsafe { libc::_exit(if right { RAN } else { 1 }) };
}

unsafe extern "C" fn plain(signal: i32) {
    // SAFETY: `_exit` may be called in a signal handler; it ends the process without running anything else of it.
    unsafe { libc::_exit(if signal == libc::SIGSEGV { RAN } else { 1 }) };
}

unsafe extern "C" fn returns(_: i32) {
    TIMES.fetch_add(1, Ordering::Relaxed);
}

fn disposition(signal: i32) -> (usize, i32) {
    // SAFETY: zeros are an action; nothing is changed.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal, ptr::null(), &mut now), 0);
        (now.sa_sigaction, now.sa_flags)
    }
}

fn arrange(handler: usize, flags: i32) {
    for signal in SIGNALS {
        // SAFETY: zeros are an action; the handlers are of the kind that the flags say.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
        }
    }
}

fn stray() {
    // SAFETY: none; the process is to end of it.
    unsafe { unusable().cast::<u8>().write_volatile(1) };
}

fn sent() {
    for signal in SIGNALS {
        // SAFETY: a signal to this thread.
        unsafe { libc::raise(signal) };
    }
}

/// One case, in a process of its own.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn foreign_process() {
    let case = std::env::var(CASE).expect("started by another test, as its child");
    let (how, when) = case.split_once(' ').unwrap();
    let (handler, flags) = match how {
        "default" | "default-sent" => (libc::SIG_DFL, 0),
        "ignored" | "ignored-sent" => (libc::SIG_IGN, 0),
        "informed" => (informed as *const () as usize, libc::SA_SIGINFO),
        "plain" => (plain as *const () as usize, 0),
        "returns" | "again" => (returns as *const () as usize, 0),
        "once" => (returns as *const () as usize, libc::SA_RESETHAND),
        _ => panic!("{how}"),
    };
    // SAFETY: no core is written for what is meant to happen.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
    // Libraries of libfabric's providers put handlers of their own in place when they are loaded.
    open(near(), ThreadLevel::Single, &[]).close().unwrap();
    arrange(handler, flags);
    let before = SIGNALS.map(disposition);
    let t = open(near(), ThreadLevel::Single, &[]);
    let opened = SIGNALS.map(disposition);
    assert!(
        opened[0].0 != before[0].0 && opened[1].0 != before[1].0,
        "the guard is in force"
    );
    let second = open(near(), ThreadLevel::Single, &[]);
    assert_eq!(SIGNALS.map(disposition), opened, "once for all");
    second.close().unwrap();
    assert_eq!(SIGNALS.map(disposition), opened, "as long as any needs it");
    let t = match when {
        "open" => Some(t),
        _ => {
            t.close().unwrap();
            assert_eq!(SIGNALS.map(disposition), before, "what was before");
            None
        }
    };
    match how {
        "default-sent" | "ignored-sent" => sent(),
        "again" => {
            sent();
            sent();
            assert_eq!(TIMES.load(Ordering::Relaxed), 4);
        }
        "returns" => {
            sent();
            assert_eq!(TIMES.load(Ordering::Relaxed), 2);
            // It returns, and the fault comes again, until it does something else.
            arrange(plain as *const () as usize, 0);
            stray();
        }
        "once" => {
            // SAFETY: a signal to this thread.
            unsafe { libc::raise(libc::SIGSEGV) };
            assert_eq!(TIMES.load(Ordering::Relaxed), 1);
            stray();
        }
        _ => stray(),
    }
    if let Some(t) = t {
        t.close().unwrap();
    }
    std::process::exit(0);
}

fn ends(case: &str) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "foreign::foreign_process",
            "--ignored",
            "--nocapture",
        ])
        .env(CASE, case)
        .stdout(Stdio::null())
        .status()
        .unwrap()
}

#[test]
fn other_faults_do_what_they_did() {
    for when in ["open", "closed"] {
        for how in ["default", "default-sent", "ignored", "once"] {
            let status = ends(&format!("{how} {when}"));
            assert_eq!(
                status.signal(),
                Some(libc::SIGSEGV),
                "{how}, {when}: {status}"
            );
        }
        for how in ["informed", "plain", "returns"] {
            let status = ends(&format!("{how} {when}"));
            assert_eq!(status.code(), Some(RAN), "{how}, {when}: {status}");
        }
        for how in ["ignored-sent", "again"] {
            let status = ends(&format!("{how} {when}"));
            assert_eq!(status.code(), Some(0), "{how}, {when}: {status}");
        }
    }
}

/// Who opts out keeps all dispositions as they are.
#[test]
fn without_the_guard_no_disposition_changes() {
    let unguarded_process = "BTL_OFI_TEST_UNGUARDED";
    if std::env::var_os(unguarded_process).is_some() {
        let never = [("btl_ofi_fault_guard", Value::Bool(false))];
        open(near(), ThreadLevel::Single, &never).close().unwrap();
        let before = SIGNALS.map(disposition);
        let t = open(near(), ThreadLevel::Single, &never);
        assert_eq!(SIGNALS.map(disposition), before);
        t.close().unwrap();
        return;
    }
    // In a process of its own, where no other test opens a transport.
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "foreign::without_the_guard_no_disposition_changes",
        ])
        .env(unguarded_process, "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// A handler that is put in place later, and does not pass signals on, costs speed and not the promise.
#[test]
fn a_handler_of_others_put_on_top() {
    let on_top_process = "BTL_OFI_TEST_ON_TOP";
    if std::env::var_os(on_top_process).is_some() {
        let t = open(near(), ThreadLevel::Single, &[]);
        arrange(plain as *const () as usize, 0);
        let on_top = SIGNALS.map(disposition);
        super::reach_bad_windows_of_this_process(&t, true);
        t.close().unwrap();
        assert_eq!(SIGNALS.map(disposition), on_top, "theirs stays");
        // The next transport does without, since nobody knows whom theirs calls.
        let t = open(near(), ThreadLevel::Single, &[]);
        assert_eq!(SIGNALS.map(disposition), on_top);
        super::reach_bad_windows_of_this_process(&t, true);
        t.close().unwrap();
        return;
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "foreign::a_handler_of_others_put_on_top"])
        .env(on_top_process, "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
