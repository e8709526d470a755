use super::*;
use crate::base::log;
use crate::base::sys::script::Script;

#[test]
fn growth_beyond_the_limit_is_an_error() {
    let file = sys::memory_file(c"test").unwrap();
    let _script = Script::new().answers("getrlimit", 8191u64);
    let refused = allocate(&file, 4096, 4096).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
    assert_eq!(
        refused.to_string(),
        "the limit of the size of files (RLIMIT_FSIZE, ulimit -f) is 8191 bytes"
    );
    allocate(&file, 4096, 4096).unwrap();
}

#[test]
fn pages_that_do_not_exist_are_an_error() {
    let file = sys::memory_file(c"test").unwrap();
    let _script = Script::new().fails("fallocate", libc::ENOSPC);
    let refused = allocate(&file, 0, 4096).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
}

#[test]
fn a_mapping_that_stays_is_logged() {
    let file = sys::memory_file(c"test").unwrap();
    allocate(&file, 0, 4096).unwrap();
    let mapped = Mapped::<[u64; 4]>::new(&file, 0).unwrap();
    let _script = Script::new().fails("munmap", libc::EINVAL);
    let said = log::captured(|| drop(mapped));
    assert_eq!(
        said,
        ["32 bytes of shared memory stay mapped: munmap returned -22 (Invalid argument)"]
    );
}

/// With pages of 64 KiB, a mapping cannot begin at an arbitrary multiple of 4096.
#[test]
fn a_mapping_may_begin_within_a_page() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let file = sys::memory_file(c"within-a-page").unwrap();
    allocate(&file, 0, 1 << 17).unwrap();
    let offset = (1 << 16) + 4096;
    let small = Mapped::<AtomicU64>::new(&file, offset).unwrap();
    let script = Script::new().answers("sysconf", 1usize << 16);
    let large = Mapped::<AtomicU64>::new(&file, offset).unwrap();
    assert_eq!((small.before, large.before), (0, 4096));
    drop(script);
    large.store(7, Ordering::Relaxed);
    assert_eq!(small.load(Ordering::Relaxed), 7);
    let mappings = || {
        let all = std::fs::read_to_string("/proc/self/maps").unwrap();
        all.matches("within-a-page").count()
    };
    assert_eq!(mappings(), 2);
    drop((small, large));
    assert_eq!(mappings(), 0);
}
