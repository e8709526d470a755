use std::fs;
use std::sync::atomic::Ordering;

use super::*;
use crate::base::log;
use crate::base::sys::script::Script;
use crate::peer::liveness::{ProcessId, Standing, State, standing};

fn scope_of(text: &str) -> Option<u32> {
    let path = std::env::temp_dir().join(format!(
        "btl-ofi-scope-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    fs::write(&path, text).unwrap();
    let scope = scope(path.to_str().unwrap());
    fs::remove_file(&path).unwrap();
    scope
}

#[test]
fn yama_scope_is_read_and_reported() {
    let (none, classic) = (scope("/proc/none/such"), scope_of("0\n"));
    let (restricted, admin, nobody) = (scope_of("1\n"), scope_of("2\n"), scope_of("3\n"));
    assert_eq!((none, classic, restricted), (None, Some(0), Some(1)));
    for scope in [none, classic, admin, nobody] {
        assert!(!asks_for_consent(scope), "{scope:?}");
    }
    assert!(asks_for_consent(restricted));
    for scope in [none, classic, restricted] {
        assert_eq!(obstacle(scope, false, Ok(true)), None, "{scope:?}");
    }
    assert_eq!(obstacle(admin, true, Ok(true)), None);
    let why = obstacle(admin, false, Ok(true)).unwrap();
    assert!(
        why.contains("ptrace_scope is 2") && why.contains("CAP_SYS_PTRACE"),
        "{why}"
    );
    let why = obstacle(nobody, true, Ok(true)).unwrap();
    assert!(why.contains("ptrace_scope is 3"), "{why}");
    let why = obstacle(none, true, Err(Refused(libc::EPERM))).unwrap();
    assert!(
        why.contains("not permitted") && why.contains("seccomp"),
        "{why}"
    );
}

#[test]
fn memory_is_known_by_its_probe() {
    let own = ProcessId::own();
    let word = std::sync::atomic::AtomicU64::new(0x1234_5678_9abc);
    let probe = Probe {
        address: word.as_ptr() as u64,
        value: 0x1234_5678_9abc,
    };
    assert_eq!(probe.reach_own(), Ok(true));
    let runs = Standing::Is(State::Runs);
    assert_eq!(standing(own, Some(probe)), runs);
    assert_eq!(standing(own, None), runs);
    let other = Probe {
        value: probe.value + 1,
        ..probe
    };
    let unmapped = Probe {
        address: 8,
        ..probe
    };
    for changed in [other, unmapped] {
        assert_eq!(standing(own, Some(changed)), Standing::Changed);
    }
    assert_eq!(other.reach_own(), Ok(false));
    assert_eq!(word.load(Ordering::Relaxed), probe.value, "not written to");
    // Another process now has this id.
    let before = ProcessId {
        started: own.started.wrapping_sub(1),
        ..own
    };
    assert_eq!(standing(before, Some(probe)), Standing::Is(State::Gone));
    assert!(standing(before, Some(probe)).end(before).is_some());
}

/// Runs a test with the probe of a word in this process.
fn with_probe(test: impl FnOnce(Probe)) {
    let word = std::sync::atomic::AtomicU64::new(0x1234_5678_9abc);
    test(Probe {
        address: word.as_ptr() as u64,
        value: word.load(Ordering::Relaxed),
    });
}

/// With Yama's scope 1, this process asks Yama to permit peers. If Yama refuses, peers may still
/// have a permission of their own.
#[test]
fn a_refused_consent_is_logged() {
    with_probe(|probe| {
        let script = Script::new()
            .answers(SCOPE, b"1\n".to_vec())
            .answers("prctl", ());
        let said = log::captured(|| assert_eq!(prepare(probe), None));
        assert!(said.is_empty(), "{said:?}");
        drop(script);
        let _script = Script::new()
            .answers(SCOPE, b"1\n".to_vec())
            .fails("prctl", libc::EINVAL);
        let said = log::captured(|| assert_eq!(prepare(probe), None));
        assert_eq!(
            said,
            [
                "PR_SET_PTRACER failed, so peers may not be permitted to copy to this process: \
              prctl returned -22 (Invalid argument)"
            ]
        );
    });
}

#[test]
fn consent_is_asked_for_only_where_it_counts() {
    with_probe(|probe| {
        for scope in ["0\n", "unreadable"] {
            let _script = Script::new()
                .answers(SCOPE, scope.as_bytes().to_vec())
                .answers("/proc/self/status", Vec::<u8>::new());
            let said = log::captured(|| assert_eq!(prepare(probe), None, "{scope}"));
            // A kernel without Yama refuses the request.
            assert!(said.is_empty(), "{said:?}");
        }
    });
}

#[test]
fn only_tracers_pass_yama_at_2() {
    with_probe(|probe| {
        for (mask, reason) in [
            (
                "0000000000000000",
                Some(format!(
                    "{SCOPE} is 2, which allows it only with CAP_SYS_PTRACE; set it to 1 or 0"
                )),
            ),
            ("0000000000080000", None),
        ] {
            // The name of a program may have any bytes.
            let status = [b"Name:\t\xff\nCapEff:\t", mask.as_bytes(), b"\n"].concat();
            let _script = Script::new()
                .answers(SCOPE, b"2\n".to_vec())
                .answers("/proc/self/status", status);
            assert_eq!(prepare(probe), reason, "{mask}");
        }
        let _script = Script::new()
            .answers(SCOPE, b"2\n".to_vec())
            .fails("/proc/self/status", libc::EACCES);
        assert!(prepare(probe).is_some(), "capabilities that are hidden");
    });
}

/// A seccomp filter is visible in copies of this process to itself, even if it filters only one
/// direction.
#[test]
fn a_filter_of_either_direction_is_an_obstacle() {
    with_probe(|probe| {
        for (call, errno, text) in [
            (
                "process_vm_readv",
                libc::EPERM,
                "Operation not permitted (os error 1)",
            ),
            (
                "process_vm_writev",
                libc::ENOSYS,
                "Function not implemented (os error 38)",
            ),
        ] {
            let _script = Script::new().fails(SCOPE, libc::ENOENT).fails(call, errno);
            let expected = format!(
                "process_vm_readv or process_vm_writev of this process's own memory: {text}; a seccomp filter, \
                 as in containers, or a kernel without CONFIG_CROSS_MEMORY_ATTACH"
            );
            assert_eq!(prepare(probe), Some(expected));
        }
    });
}

#[test]
fn a_peer_that_refuses_is_closed_and_lives() {
    let own = ProcessId::own();
    with_probe(|probe| {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let _script = Script::new().fails("process_vm_readv", errno);
            let found = standing(own, Some(probe));
            assert_eq!(found, Standing::Closed(State::Runs, Refused(errno)));
            assert_eq!((found.end(own), found.state()), (None, State::Runs));
        }
        let _script = Script::new().fails("process_vm_readv", libc::EFAULT);
        let found = standing(own, Some(probe));
        assert_eq!(found, Standing::Changed);
        let why = found.end(own).unwrap();
        assert!(
            why.ends_with("it executed another program, or closed the transport"),
            "{why}"
        );
    });
}

/// After the end of the main thread, the kernel finds no memory under the process id, but it finds the memory under
/// the ids of other threads.
#[test]
fn memory_is_looked_for_under_other_threads() {
    let own = ProcessId::own();
    let without_main = || Script::new().fails("process_vm_readv", libc::ESRCH);
    with_probe(|probe| {
        let script = without_main();
        let closed = Standing::Closed(State::Runs, Refused(libc::ESRCH));
        assert_eq!(standing(own, Some(probe)), closed, "this thread has it");
        drop(script);
        let other = Probe {
            value: probe.value + 1,
            ..probe
        };
        let script = without_main();
        assert_eq!(standing(own, Some(other)), Standing::Changed);
        drop(script);
        let script = without_main().answers("getdents", vec![Some(own.pid)]);
        let gone = standing(own, Some(probe));
        assert_eq!(gone, Standing::Is(State::Gone), "no thread is left");
        let why = format!("process id {} on this node no longer runs", own.pid);
        assert_eq!(gone.end(own), Some(why));
        drop(script);
        // `/proc` belongs to an outer namespace, in which another process has this id.
        let outer = || b"NSpid:\t4711\t7\n".to_vec();
        let _script = without_main()
            .answers("/proc/self/status", outer())
            .answers("/proc/self/status", outer());
        assert_eq!(standing(own, Some(probe)), closed, "not known to be gone");
    });
}

#[test]
fn reasons_name_the_scope_of_yama() {
    let _script = Script::new()
        .answers(SCOPE, b"1\n".to_vec())
        .fails(SCOPE, libc::ENOENT);
    let text = |yama: &str| {
        format!(
            "Operation not permitted (os error 1) (another user or user namespace, PR_SET_DUMPABLE, \
             a seccomp filter{yama})"
        )
    };
    let yama = format!(", {SCOPE} is 1");
    assert_eq!(reason(Err(Refused(libc::EPERM))), text(&yama));
    assert_eq!(reason(Err(Refused(libc::EPERM))), text(""));
}
