//! Memory for windows: private, and shared.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr::{self, NonNull};

use btl_ofi::{Error, Region, SharedMemory, Transport};
use plugin_api::Access;
use test_skips::{Lacking, skipped};

/// The location of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Heap,
    /// A memfd that cannot shrink.
    Memfd,
    /// A memfd that can shrink.
    Unsealed,
    /// A named file: in /dev/shm, or on a disk.
    Shm,
    Disk,
    /// Anonymous shared memory.
    Anonymous,
    /// A memfd of huge pages that cannot shrink.
    Huge,
}

/// The size of a huge page on x86, bytes.
const HUGE: usize = 2 << 20;

impl Memory {
    /// Whether this machine has the memory; prints a line if not. Few machines reserve huge pages.
    pub(crate) fn is_there(self) -> bool {
        let free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
        let free = || fs::read_to_string(free).is_ok_and(|free| free.trim() != "0");
        let is_there = self != Memory::Huge || free();
        if !is_there {
            skipped(
                Lacking::HugePages,
                "no huge pages (/proc/sys/vm/nr_hugepages)",
            );
        }
        is_there
    }

    pub(crate) fn of(name: &str) -> Memory {
        use Memory::{Anonymous, Disk, Heap, Huge, Memfd, Shm, Unsealed};
        let all = [Heap, Memfd, Unsealed, Shm, Disk, Anonymous, Huge];
        let found = all.into_iter().find(|memory| format!("{memory:?}") == name);
        found.unwrap()
    }
}

/// A window, which stays mapped.
pub(crate) struct Window {
    base: NonNull<u64>,
    words: usize,
    file: Option<File>,
}

/// The name of a window's file; the name ends with the process id of its maker.
fn path(memory: Memory, pid: u32) -> PathBuf {
    let folder = match memory {
        Memory::Disk => std::env::temp_dir(),
        _ => PathBuf::from("/dev/shm"),
    };
    folder.join(format!("btl-ofi-test-window-{pid}"))
}

/// Removes the files of a process that may have been killed.
pub(crate) fn remove_files(pid: u32) {
    for memory in [Memory::Disk, Memory::Shm] {
        let _ = fs::remove_file(path(memory, pid));
    }
}

/// Makes a memfd.
fn memfd(kind: libc::c_uint) -> File {
    let kind = kind | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string, and the descriptor is new.
    unsafe { File::from_raw_fd(libc::memfd_create(c"test-window".as_ptr(), kind)) }
}

fn map(file: Option<&File>, at: *mut u64, size: usize, rights: i32, flags: i32) -> NonNull<u64> {
    let file = file.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: the mapping is new, or replaces an unused mapping.
    let base = unsafe { libc::mmap(at.cast(), size, rights, flags, file, 0) };
    assert_ne!(
        base,
        libc::MAP_FAILED,
        "{}",
        std::io::Error::last_os_error()
    );
    NonNull::new(base.cast()).unwrap()
}

impl Window {
    /// A window of zeros; a mapped window has whole pages.
    pub(crate) fn new(memory: Memory, words: usize) -> Window {
        let (mut size, none) = (words * 8, ptr::null_mut());
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let named = || {
            let path = path(memory, std::process::id());
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            options.open(path).unwrap()
        };
        let file = match memory {
            Memory::Heap | Memory::Anonymous => None,
            Memory::Shm | Memory::Disk => Some(named()),
            Memory::Huge => {
                size = size.next_multiple_of(HUGE);
                Some(memfd(libc::MFD_HUGETLB))
            }
            Memory::Memfd | Memory::Unsealed => Some(memfd(0)),
        };
        if let Some(file) = &file {
            file.set_len(size as u64).unwrap();
        }
        if let (Memory::Memfd | Memory::Huge, Some(file)) = (memory, &file) {
            let (descriptor, seal) = (file.as_raw_fd(), libc::F_SEAL_SHRINK);
            // SAFETY: the arguments are numbers.
            let sealed = unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, seal) };
            assert_eq!(sealed, 0);
        }
        let shared = libc::MAP_SHARED;
        let base = match memory {
            Memory::Heap => NonNull::from(vec![0u64; words].leak()).cast(),
            Memory::Anonymous => map(None, none, size, both, shared | libc::MAP_ANONYMOUS),
            _ => map(file.as_ref(), none, size, both, shared),
        };
        Window { base, words, file }
    }

    /// Registers the window, with its file if it has one.
    pub(crate) fn register(&self, t: &Transport, access: Access) -> Result<Region, Error> {
        let base = self.base().cast();
        // SAFETY: the tests unmap no registered window, and the file is mapped from its first byte on.
        unsafe {
            match self.file {
                Some(_) => t.register_shared(base, self.size(), access, self.part(0)),
                None => t.register(base, self.size(), access),
            }
        }
    }

    /// The window's file from an offset on.
    pub(crate) fn part(&self, offset: u64) -> SharedMemory<'_> {
        let file = self.file.as_ref().unwrap().as_fd();
        SharedMemory { file, offset }
    }

    /// Closes the window's file; the window stays mapped.
    pub(crate) fn close_file(&mut self) {
        self.file = None;
    }

    pub(crate) fn base(&self) -> *mut u64 {
        self.base.as_ptr()
    }

    pub(crate) fn size(&self) -> usize {
        self.words * 8
    }

    /// A word, which peers may change.
    pub(crate) fn word(&self, index: usize) -> u64 {
        assert!(index < self.words);
        // SAFETY: the index is inside the window.
        unsafe { self.base.add(index).read_volatile() }
    }

    pub(crate) fn set(&self, index: usize, value: u64) {
        assert!(index < self.words);
        // SAFETY: the index is inside the window.
        unsafe { self.base.add(index).write_volatile(value) }
    }

    /// The inode number of the window's file.
    pub(crate) fn file(&self) -> u64 {
        self.file.as_ref().unwrap().metadata().unwrap().ino()
    }

    /// Unmaps a window; no region uses it.
    pub(crate) fn unmap(self) {
        // SAFETY: the range is one mapping of the window, and no code uses the mapping any longer.
        let unmapped = unsafe { libc::munmap(self.base.as_ptr().cast(), self.size()) };
        assert_eq!(unmapped, 0);
    }
}

/// The inode number of the file that a process maps as its window; the file has no name.
pub(crate) fn file_of(pid: u32) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.contains("memfd:test-window"));
    line.unwrap()
        .split_whitespace()
        .nth(4)
        .unwrap()
        .parse()
        .unwrap()
}

/// The number of mappings of a file in this process; `file` is an inode number.
pub(crate) fn mappings(file: u64) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let windows = maps
        .lines()
        .filter(|line| line.contains("memfd:test-window"));
    let number = |line: &str| line.split_whitespace().nth(4).unwrap().parse() == Ok(file);
    windows.filter(|line| number(line)).count()
}

/// The number of descriptors of a file in this process; `file` is an inode number.
pub(crate) fn descriptors(file: u64) -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap();
    let numbers = all.filter_map(|one| Some(fs::metadata(one.ok()?.path()).ok()?.ino()));
    numbers.filter(|number| *number == file).count()
}
