//! A small `/dev/shm`: features that need little of it work, and features that cannot work report the reason.
//!
//! Each test runs in its own process with its own folder there, which requires the right to mount.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::Child;
use test_skips::{Lacking, skipped};

use common::prelude::*;

const MIB: u64 = 1 << 20;
const INSIDE: &str = "BTL_OFI_TEST_INSIDE";

/// The number of processors; libfabric asks for 16 MiB for each.
fn processors() -> u64 {
    // SAFETY: the call only returns a number.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) as u64 }
}

/// Runs the test of this name in this program again, with `room` bytes in its `/dev/shm`; returns true in
/// that process.
fn inside(name: &str, room: u64) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = again(module_path!(), name);
    command.arg("--test-threads=1");
    command.env(INSIDE, "1");
    let size = std::ffi::CString::new(format!("size={room}")).unwrap();
    let mount = move || {
        let (none, shm) = (c"none".as_ptr(), c"/dev/shm".as_ptr());
        // SAFETY: the arguments are C strings; a child may make these calls before it executes a
        // program.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    none,
                    c"/".as_ptr(),
                    ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    ptr::null(),
                ) == 0
                && libc::mount(none, shm, c"tmpfs".as_ptr(), 0, size.as_ptr().cast()) == 0
        };
        if mounted {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: the function makes only system calls.
    unsafe { command.pre_exec(mount) };
    match command.status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            skipped(
                Lacking::Namespaces,
                format!("no right to mount a /dev/shm of its own ({e}); run as root"),
            );
        }
        Err(e) => panic!("{name}: {e}"),
    }
    false
}

/// The free bytes and the used bytes of `/dev/shm`.
fn folder() -> (u64, u64) {
    // SAFETY: the structure consists of numbers.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the arguments are a C string and a writable structure.
    let rc = unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &mut stat) };
    assert_eq!(rc, 0);
    let used = stat.f_blocks - stat.f_bavail;
    (stat.f_bavail * stat.f_frsize, used * stat.f_frsize)
}

/// Fills `/dev/shm` and leaves `but` bytes free.
fn fill(but: u64) {
    let file = std::fs::File::create("/dev/shm/filler").unwrap();
    let (free, _) = folder();
    // SAFETY: the arguments are numbers.
    let rc = unsafe {
        libc::fallocate(
            std::os::fd::AsRawFd::as_raw_fd(&file),
            0,
            0,
            (free - but) as libc::off_t,
        )
    };
    assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
}

const ORDERS: &str = "BTL_OFI_TEST_ORDERS";

/// One of many origins: puts to its own word, adds to a common word, and stays open until the test ends it.
#[test]
#[ignore = "started by many_processes_in_a_small_folder"]
fn origin() {
    let Some(orders) = std::env::var_os(ORDERS) else {
        return;
    };
    let orders = orders.into_string().unwrap();
    let [blob, handle, at] = orders.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{orders}");
    };
    let h = handle_of(handle);
    let at: u64 = at.parse().unwrap();
    let t = open("shm", ThreadLevel::Single, &[]);
    let peer = t.connect(&unhex(blob), 0).unwrap();
    let (word, mut old) = (at, 0u64);
    let local = ptr::from_ref(&word).cast_mut().cast();
    insist(&t, || t.put(peer, local, h.base() + 8 * at, &h, 8, None));
    let out = (&raw mut old).cast();
    insist(&t, || {
        t.atomic_fop(peer, out, h.base(), &h, BtlAtomicOp::Add, 1, None)
    });
    assert_eq!(t.flush(None), Status::SUCCESS);
    println!("@done");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    t.close().unwrap();
}

fn start(t: &Transport, h: Handle, at: usize) -> Child {
    let mut command = again(module_path!(), "origin");
    command
        .env(
            ORDERS,
            format!("{} {} {at}", hex(t.address()), handle_text(h)),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// The room in megabytes is half the number of processes, plus the room that libfabric requires. An earlier
/// version used 3.8 MiB for each process.
#[test]
fn many_processes_in_a_small_folder() {
    const PROCESSES: usize = 48;
    let room = processors() * 16 * MIB + PROCESSES as u64 * MIB / 2;
    if !inside("many_processes_in_a_small_folder", room) {
        return;
    }
    let t = open("shm", ThreadLevel::Single, &[]);
    let mut window = vec![0u64; PROCESSES + 1];
    let region = register(&t, &mut window, Access::all());
    let mut origins: Vec<Child> = (1..=PROCESSES)
        .map(|at| start(&t, region.handle(), at))
        .collect();
    attended(&t, || {
        for origin in &mut origins {
            let out = BufReader::new(origin.stdout.as_mut().unwrap());
            let done = out.lines().any(|l| l.unwrap().contains("@done"));
            assert!(done, "an origin failed");
        }
    });
    // All processes have an open transport now.
    let (_, used) = folder();
    assert!(used < PROCESSES as u64 * MIB / 2, "{used} bytes in use");
    for mut origin in origins {
        drop(origin.stdin.take());
        // The origin's test harness prints more lines.
        let mut rest = origin.stdout.take().unwrap();
        std::io::copy(&mut rest, &mut std::io::sink()).unwrap();
        assert!(origin.wait().unwrap().success());
    }
    let expected: Vec<u64> = (1..=PROCESSES as u64).collect();
    assert_eq!(window[0], PROCESSES as u64);
    assert_eq!(window[1..], expected[..]);
    close([region], [t]);
}

fn shm_alone() -> btl_ofi::Options {
    let shm = mca_params::Value::String("shm".to_owned().into());
    options(&[("btl_ofi_provider_include", shm)])
}

/// The refusal states the free bytes, the needed bytes and the remedy.
#[test]
fn too_small_a_folder_is_named() {
    if !inside("too_small_a_folder_is_named", 8 * MIB) {
        return;
    }
    loopback();
    let candidates = Transport::survey(&shm_alone(), ThreadLevel::Single).unwrap();
    let shm = candidates.iter().find(|c| c.name == "shm").unwrap();
    let opened = try_open(&shm_alone(), ThreadLevel::Single);
    let opened = opened.err().expect("there is no room").to_string();
    for text in [shm.refusal.as_ref().unwrap(), &opened] {
        let needed = format!("{}.0 MiB", 16 * processors());
        for part in ["/dev/shm", &needed, "8.0 MiB are free", "--shm-size"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

/// If `/dev/shm` is full, operations through the provider are refused, and the process does not
/// end.
#[test]
fn a_full_folder_is_an_error_of_connecting() {
    if !inside(
        "a_full_folder_is_an_error_of_connecting",
        processors() * 16 * MIB + 8 * MIB,
    ) {
        return;
    }
    loopback();
    // SAFETY: this is the first call in this process, and no other thread reads the environment.
    unsafe { std::env::set_var("FI_SHM_DISABLE_CMA", "1") };
    let [a, b] = [(); 2].map(|()| open("shm", ThreadLevel::Single, &[]));
    fill(MIB);
    let refused = a.connect(b.address(), 0).unwrap_err().to_string();
    for part in ["/dev/shm", "too full", "--shm-size"] {
        assert!(refused.contains(part), "{part} in {refused}");
    }
    std::fs::remove_file("/dev/shm/filler").unwrap();
    let peer = a.connect(b.address(), 0).unwrap();
    let mut window = vec![0u64; 8192];
    let region = register(&b, &mut window, Access::all());
    let (h, data) = (region.handle(), vec![7u64; 8192]);
    let local = data.as_ptr().cast_mut().cast();
    fill(0);
    attended(&b, || {
        insist(&a, || a.put(peer, local, h.base(), &h, 8 * 8192, None));
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    assert_eq!(window, data);
    close([region], [a, b]);
}
