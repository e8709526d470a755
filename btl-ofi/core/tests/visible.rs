//! "Complete" means visible at the target, shown over each real provider between two processes.
//!
//! The target stops making progress before it is told that an operation completed, and looks at its
//! memory then: what it sees must be there already. Over shm with cross-memory attach the target
//! makes no progress at all once the two have met.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::ffi::c_void;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::mpsc;
use std::time::Instant;

use btl_ofi::Handle;
use plugin_api::{Access, BtlAtomicOp, ModuleFlags, OpFlags, Status, ThreadLevel};

use common::{PATIENCE, open};

const ROLE: &str = "BTL_OFI_VISIBLE_PROVIDER";
const PASSIVE: &str = "BTL_OFI_VISIBLE_PASSIVE";
const ROUNDS: u64 = 200;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let text = text.trim();
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// The target's side: started again as a process of its own by the tests below, and a test without
/// anything to do otherwise.
#[test]
fn target_process() {
    let Ok(provider) = std::env::var(ROLE) else {
        return;
    };
    // shm exchanges names on first contact, for which both sides must progress once.
    let passive_once_met = std::env::var_os(PASSIVE).is_some();
    let mut met = false;
    let t = open(&provider, ThreadLevel::Single, &[]);
    let mut window = vec![0u64; 16 * 1024];
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    // SAFETY: the window lives to the end of the process.
    let region =
        unsafe { t.register(window.as_mut_ptr().cast(), window.len() * 8, access) }.unwrap();
    // SAFETY: a handle is 32 plain bytes.
    let handle: [u8; 32] = unsafe { std::mem::transmute(region.handle()) };
    let mut lines = BufReader::new(std::io::stdin()).lines();
    let origin = unhex(&lines.next().unwrap().unwrap());
    let _peer = t.connect(&origin, 1).unwrap();
    println!("@{} {}", hex(t.address()), hex(&handle));
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || lines.try_for_each(|l| tell.send(l.unwrap())));
    loop {
        let line = match hear.try_recv() {
            Ok(line) => line,
            Err(mpsc::TryRecvError::Disconnected) => break,
            Err(mpsc::TryRecvError::Empty) => {
                if !(passive_once_met && met) {
                    t.progress();
                }
                std::thread::yield_now();
                continue;
            }
        };
        met = true;
        let (first, last) = line.split_once(' ').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        // No progress since the line arrived: what is seen now was there.
        // SAFETY: the words are in the window; peers may write them, so the reads are volatile.
        let seen = unsafe {
            let w = window.as_ptr();
            (
                ptr::read_volatile(w.add(first)),
                ptr::read_volatile(w.add(last)),
            )
        };
        println!("@{} {}", seen.0, seen.1);
        std::io::stdout().flush().unwrap();
    }
    // The rest of a test process would print its own lines; this one is done.
    std::process::exit(0);
}

fn shows(provider: &str, passive: bool) {
    let t = open(provider, ThreadLevel::Single, &[]);
    if passive {
        let flags = t.capabilities().flags;
        assert!(
            flags.contains(ModuleFlags::RDMA_PASSIVE_TARGET),
            "{provider} says it needs the target"
        );
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "target_process",
        "--nocapture",
        "--test-threads",
        "1",
    ]);
    command
        .env(ROLE, provider)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if passive {
        command.env(PASSIVE, "1");
    }
    let mut child = command.spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let from = child.stdout.take().unwrap();
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from.take(1 << 24)).lines() {
            // The harness prints its own lines before ours, without a newline of their own.
            if let Some((_, answer)) = line.unwrap().split_once('@')
                && tell.send(answer.to_owned()).is_err()
            {
                break;
            }
        }
    });
    let answer = || {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(line) = hear.try_recv() {
                return line;
            }
            // The target may need us to answer it, connecting for instance.
            t.progress();
            assert!(Instant::now() < deadline, "the target does not answer");
            std::thread::yield_now();
        }
    };
    writeln!(to, "{}", hex(t.address())).unwrap();
    let hello = answer();
    let (address, handle) = hello.split_once(' ').unwrap();
    let peer = t.connect(&unhex(address), 0).unwrap();
    let bytes: [u8; 32] = unhex(handle).try_into().unwrap();
    // SAFETY: a handle is 32 plain bytes.
    let h: Handle = unsafe { std::mem::transmute(bytes) };
    let base = h.base();
    let insist = |post: &mut dyn FnMut() -> Status| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match post() {
                Status::SUCCESS => break,
                s => assert!(s.is_again() && Instant::now() < deadline, "{provider}: {s}"),
            }
            t.progress();
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
    };
    let none = ptr::null_mut();
    let mut data = vec![0u64; 8 * 1024];
    for round in 1..=ROUNDS {
        let words = if round % 20 == 0 { data.len() } else { 1 };
        data[0] = round;
        data[words - 1] = round;
        let source = data.as_mut_ptr().cast::<c_void>();
        // SAFETY: buffers live to the end of the test.
        insist(&mut || unsafe { t.put(peer, source, base, none, &h, words * 8, None) });
        writeln!(to, "0 {}", words - 1).unwrap();
        assert_eq!(
            answer(),
            format!("{round} {round}"),
            "{provider}: a put of {words} words"
        );
        if !passive {
            let counter = base + 8 * 10_000;
            // SAFETY: as above.
            insist(&mut || unsafe {
                t.atomic_op(
                    peer,
                    counter,
                    &h,
                    BtlAtomicOp::Add,
                    3,
                    OpFlags::empty(),
                    None,
                )
            });
            writeln!(to, "10000 10000").unwrap();
            let sum = 3 * round;
            assert_eq!(answer(), format!("{sum} {sum}"), "{provider}: an update");
        }
    }
    if !passive {
        // Many at once, of every kind.
        let burst = base + 8 * 10_001;
        let f = OpFlags::empty();
        let mut old = [0u64; 256];
        for i in 0..256u64 {
            let out = (&raw mut old[i as usize]).cast::<c_void>();
            let source = data.as_mut_ptr().cast::<c_void>();
            // SAFETY: as above; each operation has its own place for its result.
            unsafe {
                common::insist(&t, || {
                    t.atomic_fop(peer, out, burst, none, &h, BtlAtomicOp::Add, 1, f, None)
                });
                common::insist(&t, || {
                    t.atomic_op(peer, burst, &h, BtlAtomicOp::Add, 1 << 32, f, None)
                });
                common::insist(&t, || t.put(peer, source, base, none, &h, 8, None));
            }
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
        let mut seen: Vec<u32> = old.iter().map(|&v| v as u32).collect();
        seen.sort_unstable();
        assert_eq!(
            seen,
            (0..256).collect::<Vec<u32>>(),
            "{provider}: each fetch saw its own value"
        );
    }
    drop(to);
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        t.progress();
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the target does not end");
        }
        std::thread::yield_now();
    }
    // SAFETY: connected once.
    unsafe { t.disconnect(peer) };
    t.close().unwrap();
}

#[test]
fn shm() {
    shows("shm", false);
}

#[test]
fn shm_without_any_progress_of_the_target() {
    shows("shm", true);
}

/// libfabric reads its variables once, so this runs in a process of its own.
#[test]
fn shm_without_cross_memory_attach() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shm", "--test-threads", "1"])
        .env("FI_SHM_DISABLE_CMA", "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn tcp_rxm() {
    shows("tcp;ofi_rxm", false);
}

#[test]
fn sockets() {
    shows("sockets", false);
}

#[test]
fn udp_rxd() {
    shows("udp;ofi_rxd", false);
}
