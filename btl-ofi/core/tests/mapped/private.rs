//! Private memory of neighbours, attached by XPMEM: over a fake of its library (`tests/fake-xpmem`), which nothing here
//! distinguishes from the library and its kernel module.

use libloading::os::unix::Library;
use mca_params::Value;

use super::*;
use crate::common::Patience;

/// Runs a test of this file in a process of its own in which the loader finds the fake.
fn over_the_fake(test: &str) {
    let this = std::env::current_exe().unwrap();
    let built = this.parent().unwrap().join("libfake_xpmem.so");
    assert!(built.exists(), "{} was not built", built.display());
    let folder = std::env::temp_dir().join(format!("btl-ofi-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(built, folder.join("libxpmem.so.0")).unwrap();
    let mut places = folder.clone().into_os_string();
    if let Some(more) = std::env::var_os("LD_LIBRARY_PATH") {
        places.push(":");
        places.push(more);
    }
    let mut command = std::process::Command::new(this);
    command.args(["--exact", &format!("private::{test}"), "--ignored"]);
    let output = command.env("LD_LIBRARY_PATH", places).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{told}");
    assert!(said.contains("1 passed"), "{said}\n{told}");
}

/// Attachments and permits of this process.
fn in_use() -> usize {
    // SAFETY: the library is loaded already, and the function is one of the fake.
    unsafe {
        let fake = Library::new("libxpmem.so.0").unwrap();
        let in_use = fake.get::<extern "C" fn() -> usize>(b"fake_xpmem_in_use\0");
        in_use.unwrap()()
    }
}

/// Once it is attached, memory is reached without the target.
#[test]
#[ignore = "a child process of another test, which starts it"]
fn private_memory_of_a_stopped_target() {
    for memory in [Memory::Heap, Memory::Private] {
        let t = open(near(), ThreadLevel::Single, &[]);
        let mut target = Target::start_in(&t, near(), memory);
        let (peer, h) = (target.peer, target.handle);
        let there = There { t: &t, peer, h };
        // The fake needs the target for the first one.
        assert_eq!(there.put_word(9, 5), Status::SUCCESS);
        assert_eq!((there.carried(), in_use()), ([1, 0, 0], 2), "{memory:?}");
        signal(&target, libc::SIGSTOP);
        let operations = every_operation(&there);
        assert_eq!(there.carried(), [operations + 1, 0, 0], "{memory:?}");
        signal(&target, libc::SIGCONT);
        assert_eq!(target.sees(0, 1), (20, 10), "{memory:?}");
        assert_eq!(target.sees(5, 9), (42, 5));
        target.end();
        t.close().unwrap();
        assert_eq!(in_use(), 0, "{memory:?}");
    }
}

#[test]
fn a_stopped_target_with_private_memory() {
    over_the_fake("private_memory_of_a_stopped_target");
}

/// A region that was deregistered is refused, and detached by a check of the peers.
#[test]
#[ignore = "a child process of another test, which starts it"]
fn private_memory_that_is_deregistered() {
    let often = ("btl_ofi_peer_check_interval", Value::Unsigned(1));
    let t = open(near(), ThreadLevel::Single, &[often]);
    let mut target = Target::start_in(&t, near(), Memory::Private);
    let (peer, h) = (target.peer, target.handle);
    let there = There { t: &t, peer, h };
    assert_eq!(there.put_word(3, 5), Status::SUCCESS);
    assert_eq!(in_use(), 2);
    target.act("deregister");
    assert_eq!(there.put(3, &[1; 8], None), Status::PERM);
    let deadline = Patience::new();
    while in_use() > 0 {
        t.progress();
        assert!(deadline.lasts(), "the memory stays attached");
    }
    assert_eq!(there.put(3, &[1; 8], None), Status::PERM);
    assert_eq!(target.sees(3, 4), (5, 0));
    target.end();
    t.close().unwrap();
}

#[test]
fn a_deregistered_region_in_private_memory() {
    over_the_fake("private_memory_that_is_deregistered");
}

/// What its owner does not offer is not attached, and what a transport offered ends with it.
#[test]
#[ignore = "a child process of another test, which starts it"]
fn private_memory_that_is_not_offered() {
    let off = [("btl_ofi_xpmem", Value::Bool(false))];
    let a = open(near(), ThreadLevel::Single, &[]);
    for (parameters, attached) in [(&off[..], 0), (&[], 1)] {
        let b = open(near(), ThreadLevel::Single, parameters);
        let window = Window::new(Memory::Private, 512);
        let region = register_window(&b, &window, Access::all());
        let peer = a.connect(b.address(), 0).unwrap();
        let (h, before) = (
            region.handle(),
            a.stats().operations[Carrier::Copy as usize],
        );
        let there = There { t: &a, peer, h };
        insist(&a, || there.put(1, &7u64.to_ne_bytes(), None));
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        assert_eq!(window.word(1), 7);
        assert_eq!(there.carried()[0] - before, attached);
        assert_eq!(in_use(), 2 * attached as usize);
        // SAFETY: connected once, and used no more.
        assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
        region.close().unwrap();
        b.close().unwrap();
        assert_eq!(in_use(), 0);
    }
    a.close().unwrap();
}

#[test]
fn memory_that_is_not_offered() {
    over_the_fake("private_memory_that_is_not_offered");
}
