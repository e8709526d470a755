use super::*;
use crate::base::sys::script::Script;

#[test]
fn other_addresses_are_refused() {
    for name in [
        "fi_shm://../etc/passwd\0",
        "fi_shm://\0",
        "fi_shm://..\0",
        "a/b",
        "a\0b",
    ] {
        let refused = open(name.as_bytes()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{name:?}");
    }
}

#[test]
fn trim_frees_zeros_and_keeps_data() {
    let name = format!("btl-ofi-room-{}", std::process::id());
    let path = format!("{FOLDER}/{name}");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.set_len(REGION).unwrap();
    // A header, a table behind a short hole, a name behind a long hole (staging buffers), then zeros.
    let name_at = 8 << 20;
    for at in [0, 256 << 10, name_at] {
        file.write_all_at(b"used", at).unwrap();
    }
    file.write_all_at(&vec![0; (REGION - name_at - 4) as usize], name_at + 4)
        .unwrap();
    let bytes = || file.metadata().unwrap().blocks() * 512;
    let before = bytes();
    trim(name.as_bytes()).unwrap();
    let trimmed = bytes();
    allocate(name.as_bytes()).unwrap();
    let whole = bytes();
    let mut seen = [0u8; 4];
    file.read_exact_at(&mut seen, name_at).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(before > 8 << 20, "{before}");
    assert_eq!(trimmed, (256 << 10) + PAGE + PAGE + MARGIN);
    assert_eq!(whole, name_at + PAGE + MARGIN);
    assert_eq!(&seen, b"used");
}

const MIB: u64 = 1 << 20;

fn with_space(script: Script, free: u64) -> Script {
    let size = 64 * MIB;
    script.answers("statvfs", Space { free, size })
}

/// A folder of 64 MiB, which is docker's default, is a shortage on a machine with many processors.
#[test]
fn a_small_folder_is_a_shortage() {
    let script = Script::new().answers("sysconf", 8u64);
    let _script = with_space(with_space(script, 63 * MIB), 63 * MIB);
    assert_eq!(
        shortage().unwrap(),
        "/dev/shm is too small for it: libfabric asks for 16 MiB for each of 8 processors, 128.0 MiB; \
         63.0 MiB of its 64.0 MiB are free; enlarge it (docker run --shm-size=192m, or mount -o remount,size= \
         /dev/shm), or remove orphaned files from it"
    );
    drop(_script);
    let _script = with_space(Script::new().answers("sysconf", 4u64), 64 * MIB);
    assert_eq!(shortage(), None);
}

#[test]
fn a_folder_that_cannot_be_examined_is_described() {
    let _script = Script::new()
        .fails("sysconf", libc::EINVAL)
        .fails("statvfs", libc::EACCES)
        .fails("statvfs", libc::EACCES)
        .fails("statvfs", libc::EACCES);
    let why = shortage().unwrap();
    assert!(why.contains("for each of 1 processors, 16.0 MiB"), "{why}");
    let part = "it cannot be examined (statvfs returned -13 (Permission denied))";
    assert!(why.contains(part), "{why}");
    assert_eq!(no_room(), None, "libfabric reports it");
}

#[test]
fn a_full_folder_has_no_room() {
    let _script = with_space(with_space(Script::new(), 15 * MIB), 15 * MIB);
    let why = no_room().unwrap();
    assert!(
        why.starts_with("/dev/shm is too full to open an endpoint, which takes 16.0 MiB for a moment; 15.0 MiB of"),
        "{why}"
    );
    drop(_script);
    let _script = with_space(Script::new(), 16 * MIB);
    assert_eq!(no_room(), None);
}

#[test]
fn turns_are_taken_where_space_is_short() {
    let script = with_space(Script::new(), AMPLE);
    assert!(Turn::take(|| ()).is_none(), "with a call of flock");
    drop(script);
    let script = with_space(Script::new(), MIB)
        .fails("flock", libc::EWOULDBLOCK)
        .fails("flock", libc::EWOULDBLOCK)
        .answers("flock", ());
    assert!(Turn::take(|| ()).is_some());
    drop(script);
    let script = with_space(Script::new(), MIB).fails("flock", libc::ENOLCK);
    assert!(Turn::take(|| ()).is_none(), "a folder without locks");
    drop(script);
    let _script = Script::new().fails("statvfs", libc::EACCES);
    assert!(Turn::take(|| ()).is_none());
}

#[test]
fn another_users_lock_is_not_waited_for() {
    let refused = |mut script: Script, times: u32| {
        for _ in 0..times {
            script = script.fails("flock", libc::EWOULDBLOCK);
        }
        script
    };
    let found = std::fs::metadata(FOLDER).unwrap();
    let (major, minor) = sys::device_numbers(&found);
    let locks = format!(
        "1: FLOCK  ADVISORY  WRITE 17 00:00:1 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 19 {major:02x}:{minor:02x}:{ino} 0 EOF\n\
         3: FLOCK  ADVISORY  WRITE 18 {major:02x}:{minor:02x}:{ino} 0 EOF\n",
        ino = found.ino()
    );
    let status = |user: u32| format!("Name:\tx\nUid:\t1\t{user}\t1\t1\n").into_bytes();
    let own = sys::effective_user();
    // A script fails the test if one of its calls is not made.
    let mut script = refused(with_space(Script::new(), MIB), 2 * TRIES);
    for _ in 0..2 {
        script = script
            .answers("/proc/locks", locks.clone().into_bytes())
            .answers("/proc/18/status", status(own + 1));
    }
    assert!(Turn::take(|| ()).is_none(), "of another user");
    drop(script);
    let mut script = refused(with_space(Script::new(), MIB), 3 * TRIES);
    for _ in 0..3 {
        script = script
            .answers("/proc/locks", locks.clone().into_bytes())
            .answers("/proc/18/status", status(own));
    }
    let script = script.answers("flock", ());
    assert!(Turn::take(|| ()).is_some(), "of this user");
    drop(script);
    // Two checks between the turns find no holder of the lock, or a process that has just ended.
    let script = refused(with_space(Script::new(), MIB), 2 * TRIES)
        .answers("/proc/locks", Vec::<u8>::new())
        .answers("/proc/locks", locks.into_bytes())
        .fails("/proc/18/status", libc::ENOENT)
        .answers("flock", ());
    assert!(Turn::take(|| ()).is_some(), "of nobody who is seen");
    drop(script);
}

/// The file of an endpoint, with data behind a short hole. Dropping it removes the file.
struct Endpoint(String);

impl Endpoint {
    fn new(name: &str) -> Endpoint {
        let name = format!("btl-ofi-{name}-{}", std::process::id());
        let file = File::create_new(format!("{FOLDER}/{name}")).unwrap();
        file.write_all_at(b"used", 256 << 10).unwrap();
        Endpoint(name)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        std::fs::remove_file(format!("{FOLDER}/{}", self.0)).unwrap();
    }
}

#[test]
fn an_endpoint_without_pages_is_not_opened() {
    let endpoint = Endpoint::new("trim");
    let _script = Script::new().fails("fallocate", libc::ENOSPC);
    let full = trim(endpoint.0.as_bytes()).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(
        full.to_string(),
        "fallocate returned -28 (No space left on device)"
    );
}

#[test]
fn operations_without_pages_are_refused() {
    let endpoint = Endpoint::new("allocate");
    for errno in [libc::ENOSPC, libc::EDQUOT] {
        let script = Script::new().fails("fallocate", errno);
        let _script = with_space(script, 0);
        assert_eq!(
            allocate(endpoint.0.as_bytes()).unwrap_err(),
            "/dev/shm is too full for operations through the provider: an endpoint takes up to 16.0 MiB for them; \
             0.0 MiB of its 64.0 MiB are free; enlarge it (docker run --shm-size=64m, or mount -o remount,size= \
             /dev/shm), or remove orphaned files from it"
        );
    }
    let _script = Script::new().fails("fallocate", libc::EOPNOTSUPP);
    assert_eq!(
        allocate(endpoint.0.as_bytes()),
        Ok(()),
        "libfabric reports it"
    );
}
