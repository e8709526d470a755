//! Memory that peers cannot use as it is registered: read-only memory, memory behind the end of its file, unmapped memory.
//! The registration refuses such memory. No transport changes a signal handler of its process.

use btl_ofi::SharedMemory;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::common::prelude::*;

/// The size of a page, and of the memory of these tests, in bytes.
const PAGE: usize = 4096;
const BYTES: usize = 4 * PAGE;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Pages of a file, or private pages; the drop unmaps them.
struct Pages {
    at: *mut c_void,
    file: Option<OwnedFd>,
}

impl Pages {
    fn new(rights: i32, file: Option<OwnedFd>) -> Pages {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let (kind, number) = match &file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (private, -1),
        };
        // SAFETY: the kernel places the new mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), BYTES, rights, kind, number, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Pages { at, file }
    }

    /// Pages of a file of `bytes` bytes.
    fn of_file(bytes: usize, rights: i32) -> Pages {
        // SAFETY: the arguments are a C string and numbers; the descriptor is new.
        let file = unsafe {
            let file = libc::memfd_create(c"unusable".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(file, bytes as libc::off_t), 0);
            OwnedFd::from_raw_fd(file)
        };
        Pages::new(rights, Some(file))
    }

    /// Registers bytes of the pages.
    fn register(
        &self,
        t: &Transport,
        (offset, size): (usize, usize),
        access: Access,
    ) -> Result<Region, btl_ofi::Error> {
        let base = self.at.wrapping_byte_add(offset);
        // SAFETY: the pages outlive the region. The registration refuses unusable memory.
        unsafe { t.register(base, size, access) }
    }

    fn protect(&self, rights: i32) {
        // SAFETY: the pages belong to this value.
        assert_eq!(unsafe { libc::mprotect(self.at, BYTES, rights) }, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the pages, which are no longer used.
        unsafe { libc::munmap(self.at, BYTES) };
    }
}

const WRITES: [Access; 3] = [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC, Access::all()];

/// Asserts that the registration was refused with the reason `why`.
fn refused(registered: Result<Region, btl_ofi::Error>, why: &str) {
    let error = registered.map(drop).unwrap_err();
    assert_eq!(error.status(), Status::BAD_PARAM);
    let said = error.to_string();
    assert!(said.starts_with("memory to register: "), "{said}");
    assert!(said.contains(why), "{said}");
}

const READ_ONLY: &str = "can only be read; map it to be written, or register it for REMOTE_READ";
const MISSING: &str = "is not mapped, may not be read, or lies behind the end of its file";

#[test]
fn memory_that_cannot_be_written() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let pages = [
        Pages::new(libc::PROT_READ, None),
        Pages::of_file(BYTES, libc::PROT_READ),
    ];
    for pages in &pages {
        for access in WRITES {
            for range in [(0, BYTES), (5, 3), (PAGE - 8, 16)] {
                refused(pages.register(&t, range, access), READ_ONLY);
            }
        }
        // These accesses let no peer write the memory.
        for access in [Access::REMOTE_READ, Access::LOCAL_WRITE, Access::empty()] {
            let region = pages.register(&t, (0, BYTES), access);
            region.unwrap().close().unwrap();
        }
    }
    // The same holds for a registration with the file.
    let [_, Pages { at, file }] = &pages;
    let file = file.as_ref().unwrap().as_fd();
    let memory = SharedMemory { file, offset: 0 };
    // SAFETY: the pages outlive the region; the registration refuses unusable memory.
    let shared = unsafe { t.register_shared(*at, BYTES, Access::all(), memory) };
    refused(shared, READ_ONLY);
    // Only the last word is unusable.
    let mixed = Pages::new(BOTH, None);
    // SAFETY: the last page belongs to the mapping.
    unsafe {
        let last = mixed.at.byte_add(BYTES - PAGE);
        assert_eq!(libc::mprotect(last, PAGE, libc::PROT_READ), 0);
    }
    refused(mixed.register(&t, (0, BYTES), Access::all()), READ_ONLY);
    let before = (0, BYTES - PAGE);
    drop(mixed.register(&t, before, Access::all()).unwrap());
    t.close().unwrap();
}

#[test]
fn memory_that_is_not_there() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let (none, half) = (Pages::of_file(0, BOTH), Pages::of_file(BYTES / 2, BOTH));
    let unmapped = Pages::new(libc::PROT_NONE, None);
    for access in [Access::REMOTE_READ].into_iter().chain(WRITES) {
        for pages in [&none, &half, &unmapped] {
            refused(pages.register(&t, (0, BYTES), access), MISSING);
            refused(pages.register(&t, (BYTES - 1, 1), access), MISSING);
        }
        let first = half.register(&t, (0, BYTES / 2), access);
        first.unwrap().close().unwrap();
        // The pages at address 0 belong to no mapping. SAFETY: the registration refuses unusable
        // memory.
        refused(unsafe { t.register(ptr::null_mut(), 8, access) }, MISSING);
    }
    // An empty region has no memory. SAFETY: the region has no bytes.
    let empty = unsafe { t.register(ptr::null_mut(), 0, Access::all()) };
    empty.unwrap().close().unwrap();
    t.close().unwrap();
}

/// The registration's test of the memory does not change the memory.
#[test]
fn what_is_registered_keeps_its_content() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let pages = Pages::new(BOTH, None);
    let bytes: Vec<u8> = (0..BYTES).map(|i| (i * 7 + i / 251) as u8).collect();
    // SAFETY: the pages have this number of bytes.
    let mine = unsafe { std::slice::from_raw_parts_mut(pages.at.cast::<u8>(), BYTES) };
    mine.copy_from_slice(&bytes);
    for range in [(0, BYTES), (3, 5), (7, BYTES - 8)] {
        let region = pages.register(&t, range, Access::all()).unwrap();
        region.close().unwrap();
    }
    assert_eq!(mine, bytes);
    t.close().unwrap();
}

/// Peers read memory that its owner can only read, through the ring and through the kernel.
#[test]
fn read_only_memory_serves_gets() {
    let open = || open(near(), ThreadLevel::Single, &[]);
    let [a, b] = [(); 2].map(|()| open());
    let pages = Pages::new(BOTH, None);
    // SAFETY: the pages have this number of bytes.
    unsafe { pages.at.write_bytes(7, BYTES) };
    pages.protect(libc::PROT_READ);
    let region = pages.register(&b, (0, BYTES), Access::REMOTE_READ).unwrap();
    let there = There::of(&a, 0, &b, &region);
    for size in [8, 100, BYTES] {
        let mut back = vec![0u8; size];
        attended(&b, || {
            there.insist(|there| there.get(0, &mut back, None));
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        assert!(back.iter().all(|byte| *byte == 7), "{size}");
    }
    assert_eq!(there.put(0, &[1u8; 8], None), Status::PERM);
    close([region], [a, b]);
}

/// The origin gets an error for its own buffer if the kernel cannot copy from or to it.
#[test]
fn bad_buffers_are_the_callers() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let target = Target::start_in(&t, near(), Memory::Heap);
    let (peer, h) = (target.peer, target.handle);
    let bad = Pages::new(libc::PROT_NONE, None);
    // The put is too large for the ring.
    let put = t.put(peer, bad.at, h.base(), &h, BYTES, None);
    assert_eq!(put, Status::BAD_PARAM);
    target.end();
    t.close().unwrap();
}

/// The process's signal handlers.
fn arranged() -> Vec<(i32, usize, i32)> {
    let of = |signal| {
        // SAFETY: a zeroed sigaction is valid; the call changes nothing.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            let found = libc::sigaction(signal, ptr::null(), &mut now) == 0;
            found.then_some((signal, now.sa_sigaction, now.sa_flags))
        }
    };
    (1..65).filter_map(of).collect()
}

extern "C" fn ours(_: libc::c_int) {}

#[test]
#[ignore = "a child process of another test, which starts it"]
fn process_with_handlers() {
    let opened = || open("tcp;ofi_rxm", ThreadLevel::Single, &[SAME_NODE]);
    // Libraries of libfabric's providers install handlers when they are loaded.
    opened().close().unwrap();
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        let ours: extern "C" fn(libc::c_int) = ours;
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(signal, ours as usize) };
    }
    let before = arranged();
    let (a, b) = (opened(), opened());
    let pages = Pages::new(BOTH, None);
    let region = pages.register(&b, (0, BYTES), Access::all()).unwrap();
    let there = There::of(&a, 0, &b, &region);
    attended(&b, || {
        there.insist(|there| there.put(0, &[1u8; 8], None));
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    assert_eq!(arranged(), before);
    close([region], [a, b]);
    assert_eq!(arranged(), before);
}

#[test]
fn signals_stay_the_processs() {
    let output = again(module_path!(), "process_with_handlers")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
