use std::fs;
use std::sync::atomic::Ordering;

use super::*;

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
    assert_eq!(probe.reach(own.pid), Ok(true));
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
    assert_eq!(other.reach(own.pid), Ok(false));
    assert_eq!(word.load(Ordering::Relaxed), probe.value, "not written to");
    // The id now belongs to another process.
    let before = ProcessId {
        started: own.started.wrapping_sub(1),
        ..own
    };
    assert_eq!(standing(before, Some(probe)), Standing::Is(State::Gone));
    assert!(standing(before, Some(probe)).end(before).is_some());
}
