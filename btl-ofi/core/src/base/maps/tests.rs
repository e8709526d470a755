use std::ffi::c_void;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use test_skips::{Lacking, skipped};

use super::*;
use crate::base::sys::script::Script;

const MAPS: &str = "\
55e0c8a00000-55e0c8a21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000002000 rw-s 00001000 00:1a 77                         /dev/shm/a b
7f0000002000-7f0000003000 rw-s 00003000 00:1a 77                         /dev/shm/a b
7f0000003000-7f0000004000 rw-s 00009000 00:1a 77                         /dev/shm/a b
7f0000004000-7f0000005000 r--s 00000000 00:1a 78                         /dev/shm/c
7f0000005000-7f0000006000 rw-p 00000000 00:1a 79                         /dev/shm/d
7f0000006000-7f0000007000 rw-s 00000000 00:01 80                         /memfd:e (deleted)
7f0000008000-7f0000009000 rw-s 00000000 fd:02 81                         /f
7f0000009000-7f000000a000 rw-s 00001000 fd:02 82                         /g
";

#[test]
fn memory_in_one_object() {
    let of = |base, length| in_text(MAPS, base, length);
    let object = of(0x7f00_0000_0010, 0x20).unwrap();
    assert_eq!((object.offset, object.inode), (0x1010, 77));
    assert_eq!(object.name, "/dev/shm/a b");
    assert_eq!(object.range, "7f0000000000-7f0000002000");
    assert_eq!(object.device, sys::device_number(0, 0x1a));
    let across = of(0x7f00_0000_1ff8, 0x1008).unwrap();
    assert_eq!(across.offset, 0x2ff8, "up to the end of the second mapping");
    assert_eq!(
        of(0x7f00_0000_1ff8, 0x1009),
        None,
        "another place of the object"
    );
    assert_eq!(of(0x7f00_0000_6ff8, 9), None, "a gap follows");
    assert_eq!(of(0x7f00_0000_8ff8, 9), None, "another object follows");
    assert_eq!(of(0x7f00_0000_6ff8, 8).unwrap().name, "/memfd:e (deleted)");
    for other in [0x7f00_0000_4000, 0x7f00_0000_5000, 0x55e0_c8a0_0000, 0x1000] {
        assert_eq!(of(other, 1), None, "{other:#x}");
    }
    for (base, length) in [(0x7f00_0000_0000, 0), (u64::MAX, 2), (u64::MAX, 1)] {
        assert_eq!(of(base, length), None);
    }
    assert_eq!(in_text("not a list of mappings\n", 0, 1), None);
}

#[test]
fn memory_of_this_process() {
    let file = sys::memory_file(c"test").unwrap();
    sys::allocate(&file, 0, 8192).unwrap();
    let shared = sys::map_shared(&file, 0, 8192).unwrap();
    static WORDS: [u64; 2] = [1, 2];
    let word = 7u64;
    let old_kernel = || Script::new().fails("ioctl", libc::ENOTTY);
    for old in [false, true] {
        let own = Own::new();
        let ask = |address| {
            let _script = old.then(old_kernel);
            own.is_shared(address)
        };
        assert!(ask(shared.as_ptr() as u64 + 4096), "{old}");
        assert!(!ask(&raw const word as u64), "{old}");
        assert!(!ask(WORDS.as_ptr() as u64), "read only, {old}");
        assert!(!ask(16), "{old}");
    }
    let pid = std::process::id().to_string();
    let object = shared_object(&pid, shared.as_ptr() as u64 + 4000, 200).unwrap();
    assert_eq!(object.offset, 4000);
    assert_eq!(
        own_mapping(&object, 200),
        Some(shared.as_ptr() as u64 + 4000)
    );
    assert_eq!(own_mapping(&object, 4193), None, "beyond the end");
    assert!(object.is(&File::from(file).metadata().unwrap()));
    // SAFETY: mapped above, and not used again.
    unsafe { sys::unmap(shared, 8192) }.unwrap();
    assert_eq!(shared_object(&pid, shared.as_ptr() as u64, 1), None);
}

/// Pages of the mappings of the tests below.
const PAGES: u64 = 4;

/// A mapping, and its pages, removed on drop.
struct Area(NonNull<c_void>, u64);

impl Area {
    fn page() -> u64 {
        sys::page_size().unwrap() as u64
    }

    fn of(file: &File) -> Area {
        file.set_len(PAGES * Area::page()).unwrap();
        let size = (PAGES * Area::page()) as usize;
        Area(sys::map_shared(file, 0, size).unwrap(), PAGES)
    }

    fn anonymous(kind: i32) -> Area {
        let (rights, size) = (libc::PROT_READ | libc::PROT_WRITE, PAGES * Area::page());
        let kind = kind | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the place of the new mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), size as usize, rights, kind, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Area(NonNull::new(at).unwrap(), PAGES)
    }

    /// The address of a page.
    fn at(&self, page: u64) -> u64 {
        self.0.as_ptr().expose_provenance() as u64 + page * Area::page()
    }

    /// Maps a page of a file in place of a page of this mapping.
    fn replace(&self, page: u64, file: &File, from: u64, rights: i32) {
        let at = ptr::with_exposed_provenance_mut(self.at(page) as usize);
        let (kind, size) = (libc::MAP_SHARED | libc::MAP_FIXED, Area::page() as usize);
        let offset = (from * Area::page()) as libc::off_t;
        // SAFETY: the page belongs to this mapping, and nothing refers to its memory.
        let new = unsafe { libc::mmap(at, size, rights, kind, file.as_raw_fd(), offset) };
        assert_eq!(new, at);
    }

    /// Makes a page and those behind it a mapping of its own of the same file: it is not inherited.
    fn split(&self, page: u64) {
        let at = ptr::with_exposed_provenance_mut(self.at(page) as usize);
        let size = ((PAGES - page) * Area::page()) as usize;
        // SAFETY: the pages belong to this mapping; what they hold does not change.
        let rc = unsafe { libc::madvise(at, size, libc::MADV_DONTFORK) };
        assert_eq!(rc, 0);
    }

    fn remove_last(&mut self) {
        self.1 -= 1;
        let last = ptr::with_exposed_provenance_mut(self.at(self.1) as usize);
        // SAFETY: the page was this mapping's, and nothing refers to its memory.
        unsafe { sys::unmap(NonNull::new(last).unwrap(), Area::page() as usize) }.unwrap();
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the pages are this mapping's, and nothing refers to them.
        unsafe { sys::unmap(self.0, (self.1 * Area::page()) as usize) }.unwrap();
    }
}

/// A folder for a test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("btl-ofi-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(path: impl AsRef<Path>) -> File {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        options.open(path).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Whether the kernel answers questions about single mappings; says so if not.
fn kernel_answers() -> bool {
    let maps = File::open(OWN).unwrap();
    let answer = sys::mapping_at(&maps, &raw const maps as u64, &mut []);
    let old = answer.is_err_and(|error| error.code == libc::ENOTTY);
    if old {
        skipped(Lacking::MappingQueries, "the kernel has no PROCMAP_QUERY");
    }
    !old
}

/// What both sources and the fallback say of this process's memory, which must be the same.
fn found(base: u64, length: u64) -> Option<Object> {
    let answer = asked(&File::open(OWN).unwrap(), base, length).unwrap();
    assert_eq!(answer, listed(OWN, base, length), "{base:#x}, {length}");
    let old_kernel = Script::new().fails("ioctl", libc::ENOTTY);
    assert_eq!(shared_object("self", base, length), answer, "without");
    drop(old_kernel);
    let unread = Script::new().fails(OWN, libc::EIO);
    assert_eq!(shared_object("self", base, length), answer, "by questions");
    // The list was not read.
    assert_eq!(sys::read(OWN).unwrap_err().code, libc::EIO);
    drop(unread);
    answer
}

#[test]
fn both_sources_name_an_object_alike() {
    if !kernel_answers() {
        return;
    }
    let (folder, page) = (Folder::new("names"), Area::page());
    let name = |file: &File| {
        let area = Area::of(file);
        let object = found(area.at(0), PAGES * page).unwrap();
        assert_eq!(object.offset, 0);
        assert_eq!(object.range, format!("{:x}-{:x}", area.at(0), area.at(4)));
        assert!(object.is(&file.metadata().unwrap()));
        let inside = found(area.at(1) + 24, 2 * page).unwrap();
        assert_eq!((inside.offset, &inside.range), (page + 24, &object.range));
        let deleted = object.name.ends_with(" (deleted)");
        let own = deleted.then_some(area.at(1) + 24);
        assert_eq!(own_mapping(&inside, 2 * page), own);
        object.name
    };
    let path = folder.0.join("a file");
    let file = Folder::file(&path);
    assert_eq!(name(&file), path.to_str().unwrap());
    fs::remove_file(&path).unwrap();
    assert_eq!(name(&file), format!("{} (deleted)", path.display()));
    let file = Folder::file(folder.0.join("two\nlines\\\r"));
    let lines = folder.0.join("two\\012lines\\\r");
    assert_eq!(name(&file), lines.to_str().unwrap());
    let memory = File::from(sys::memory_file(c"a name").unwrap());
    assert_eq!(name(&memory), "/memfd:a name (deleted)");
    let anonymous = Area::anonymous(libc::MAP_SHARED);
    let object = found(anonymous.at(1), page).unwrap();
    assert_eq!(object.name, "/dev/zero (deleted)");
    let private = Area::anonymous(libc::MAP_PRIVATE);
    assert_eq!(found(private.at(1), page), None);
}

#[test]
fn both_sources_join_alike() {
    if !kernel_answers() {
        return;
    }
    let page = Area::page();
    let (file, other) = (
        File::from(sys::memory_file(c"one").unwrap()),
        File::from(sys::memory_file(c"other").unwrap()),
    );
    other.set_len(page).unwrap();
    let (mut area, all) = (Area::of(&file), PAGES * page);
    area.split(2);
    let object = found(area.at(0), all).unwrap();
    assert_eq!(object.range, format!("{:x}-{:x}", area.at(0), area.at(2)));
    let across = found(area.at(1) + 8, 2 * page).unwrap();
    assert_eq!((across.offset, &across.range), (page + 8, &object.range));
    let second = found(area.at(2), 2 * page).unwrap();
    assert_eq!(second.range, format!("{:x}-{:x}", area.at(2), area.at(4)));
    // Another place of the file, another file, and rights that do not suffice.
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let others = [
        (&file, 3, both),
        (&other, 0, both),
        (&file, 1, libc::PROT_READ),
        (&file, 1, libc::PROT_WRITE),
    ];
    for (file, from, rights) in others {
        area.replace(1, file, from, rights);
        assert_eq!(found(area.at(0), all), None);
        assert_eq!(found(area.at(0) + 8, page), None);
        assert_eq!(found(area.at(1), page).is_some(), rights == both);
        assert_eq!(found(area.at(0), page).unwrap().offset, 0);
    }
    area.replace(1, &file, 1, both);
    assert_eq!(found(area.at(0), all).unwrap().offset, 0);
    area.remove_last();
    assert_eq!(found(area.at(0), all), None);
    assert_eq!(found(area.at(0), 3 * page).unwrap().offset, 0);
    assert_eq!(found(16, 8), None);
    for (base, length) in [(area.at(0), 0), (u64::MAX, 2)] {
        assert_eq!(shared_object("self", base, length), None);
    }
}

/// The kernel answers with PATH_MAX bytes at most.
#[test]
fn a_name_may_be_longer_than_the_answer() {
    let folder = Folder::new("long");
    let mut deep = File::open(&folder.0).unwrap();
    for _ in 0..20 {
        let inner = format!("/proc/self/fd/{}/{}", deep.as_raw_fd(), "d".repeat(250));
        fs::create_dir(&inner).unwrap();
        deep = File::open(&inner).unwrap();
    }
    let file = Folder::file(format!("/proc/self/fd/{}/file", deep.as_raw_fd()));
    let area = Area::of(&file);
    if kernel_answers() {
        let answer = asked(&File::open(OWN).unwrap(), area.at(1), 8);
        assert_eq!(answer.unwrap_err().code, libc::ENAMETOOLONG);
    }
    let object = shared_object("self", area.at(1), 8).unwrap();
    assert_eq!(object.offset, Area::page());
    assert!(object.name.len() > 5000 && object.name.ends_with("/file"));
    assert!(Own::new().is_shared(area.at(1)), "asks for no name");
}

#[test]
fn a_process_may_be_gone_or_closed_to_us() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let maps = File::open(format!("/proc/{}/maps", child.id())).unwrap();
    child.wait().unwrap();
    assert_eq!(shared_object(&child.id().to_string(), 4096, 8), None);
    assert!(asked(&maps, 4096, 8).is_err());
    // Whatever else the kernel answers, the list decides.
    let area = Area::of(&File::from(sys::memory_file(c"test").unwrap()));
    for code in [libc::EPERM, libc::EACCES, libc::ESRCH, libc::EINVAL] {
        let _script = Script::new().fails("ioctl", code);
        assert!(shared_object("self", area.at(0), 8).is_some(), "{code}");
    }
    let _script = Script::new()
        .fails("ioctl", libc::EPERM)
        .fails(OWN, libc::EPERM);
    assert_eq!(shared_object("self", area.at(0), 8), None);
}
