//! Tests of the routines on memory that is mapped, that is not, and that ends in the middle.

use std::ptr;

use super::*;
use crate::base::sys::script::Script;

/// Eight pages of which the last cannot be accessed.
struct Pages(*mut u8);

const ALL: usize = 8 * PAGE;
const GOOD: usize = 7 * PAGE;

impl Pages {
    fn new() -> Pages {
        let (rights, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the kernel places a new mapping, whose last page then loses all rights.
        unsafe {
            let at = libc::mmap(ptr::null_mut(), ALL, rights, kind, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let last = at.wrapping_byte_add(GOOD);
            assert_eq!(libc::mprotect(last, PAGE, libc::PROT_NONE), 0);
            Pages(at.cast())
        }
    }

    fn protect(&self, rights: i32) {
        // SAFETY: the pages belong to this test.
        assert_eq!(unsafe { libc::mprotect(self.0.cast(), GOOD, rights) }, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the pages, and this is their last use.
        unsafe { libc::munmap(self.0.cast(), ALL) };
    }
}

fn numbered(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// All sizes at which the copy takes another branch, with several alignments.
#[test]
fn copies_of_all_sizes() {
    let _installed = Installed::new();
    let pages = Pages::new();
    let sizes = (0..200).chain([255, 256, 257, 1000, 2047, 2048, 2049, 8192, 20_000]);
    for size in sizes {
        for (skew, other) in [(0, 0), (1, 0), (0, 3), (5, 8), (7, 7)] {
            let from = numbered(size + other);
            let mut to = vec![0xeeu8; size + other + 1];
            let window = pages.0.wrapping_add(skew);
            for reach in [Reach::Guarded, Reach::Kernel] {
                // SAFETY: the pages belong to this test, and the vectors hold `size` bytes behind the offset.
                unsafe {
                    window.write_bytes(0xdd, size + 1);
                    reach.put(from[other..].as_ptr(), window, size).unwrap();
                    assert_eq!(window.add(size).read(), 0xdd, "{size}");
                    to.fill(0xee);
                    reach.get(window, to[other..].as_mut_ptr(), size).unwrap();
                }
                assert_eq!(to[other..size + other], from[other..], "{size}");
                assert_eq!(to[size + other], 0xee, "{size}");
            }
        }
    }
}

#[test]
fn copies_onto_themselves() {
    let _installed = Installed::new();
    let pages = Pages::new();
    for reach in [Reach::Guarded, Reach::Kernel] {
        for (from, to) in [(100, 90), (90, 100), (50, 50), (0, 20_001)] {
            let bytes = numbered(GOOD);
            // SAFETY: the pages belong to this test.
            let seen = unsafe {
                pages.0.copy_from(bytes.as_ptr(), GOOD);
                let (from, to) = (pages.0.add(from), pages.0.add(to));
                reach.copy(from, to, 8_000).unwrap();
                std::slice::from_raw_parts(to, 8_000).to_vec()
            };
            assert!(
                seen == bytes[from..from + 8_000],
                "{from} to {to}, {reach:?}"
            );
        }
    }
}

/// A fault anywhere in a copy is returned, in both directions.
#[test]
fn copies_that_fault() {
    let _installed = Installed::new();
    let pages = Pages::new();
    let mut local = numbered(20_000);
    for reach in [Reach::Guarded, Reach::Kernel] {
        for size in [
            1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65, 200, 2048, 5000, 20_000,
        ] {
            for inside in [0, 1, size / 2, size - 1].into_iter().filter(|n| *n < size) {
                let window = pages.0.wrapping_add(GOOD - inside);
                // SAFETY: the pages belong to this test; a copy returns the fault in the last page.
                let (put, got) = unsafe {
                    (
                        reach.put(local.as_ptr(), window, size),
                        reach.get(window, local.as_mut_ptr(), size),
                    )
                };
                assert_eq!(put, Err(Status::PERM), "{size}, {inside}, {reach:?}");
                assert_eq!(got, Err(Status::PERM), "{size}, {inside}, {reach:?}");
            }
        }
        // A copy may reach the end of the usable pages.
        // SAFETY: the pages belong to this test, and the 8 bytes lie in a usable page.
        unsafe {
            let window = pages.0.add(GOOD - 8);
            reach.put(local.as_ptr(), window, 8).unwrap();
            reach.get(window, local.as_mut_ptr(), 8).unwrap();
        }
    }
}

fn words<W: Word + Copy + PartialEq + std::fmt::Debug + From<u8>>(pages: &Pages) {
    let n = |n: u8| W::from(n);
    let at = pages.0.cast::<W>();
    // SAFETY: the words belong to this test; the guarded access returns the fault in the last page.
    unsafe {
        pages.protect(libc::PROT_READ | libc::PROT_WRITE);
        W::store(at, n(5)).unwrap();
        assert_eq!(W::load(at), Ok(n(5)));
        assert_eq!(W::add(at, n(250)), Ok(n(5)));
        assert_eq!(W::swap(at, n(7)), Ok(n(255)));
        assert_eq!(W::cswap(at, n(8), n(9)), Ok(n(7)));
        assert_eq!(W::cswap(at, n(7), n(9)), Ok(n(7)));
        assert_eq!(W::load(at), Ok(n(9)));
        assert_eq!(at.add(1).read(), n(0), "the next word stays");
        let away = pages.0.add(GOOD).cast::<W>();
        pages.protect(libc::PROT_READ);
        for at in [at, away] {
            assert_eq!(W::store(at, n(1)), Err(Fault));
            assert_eq!(W::add(at, n(1)), Err(Fault));
            assert_eq!(W::swap(at, n(1)), Err(Fault));
            assert_eq!(W::cswap(at, n(9), n(1)), Err(Fault));
            assert_eq!(W::cswap(at, n(1), n(1)), Err(Fault));
        }
        assert_eq!(W::load(away), Err(Fault));
        assert_eq!(W::load(at), Ok(n(9)));
    }
}

#[test]
fn words_of_every_size() {
    let _installed = Installed::new();
    let pages = Pages::new();
    words::<u8>(&pages);
    words::<u16>(&pages);
    words::<u32>(&pages);
    words::<u64>(&pages);
}

/// Bits above the word neither change memory nor enter the result.
#[test]
fn high_bits_of_words() {
    let mut word = u64::MAX;
    let at = &raw mut word;
    // SAFETY: all are aligned parts of a local word.
    unsafe {
        assert_eq!(u8::add(at.cast(), 1), Ok(u8::MAX));
        assert_eq!(word, u64::MAX << 8);
        assert_eq!(u16::cswap(at.cast(), 0xff00, 0x1234), Ok(0xff00));
        assert_eq!(u32::swap(at.cast(), 0x8000_0001), Ok(0xffff_1234));
        assert_eq!(word, 0xffff_ffff_8000_0001);
    }
}

#[test]
fn pages_are_probed() {
    let pages = Pages::new();
    assert_eq!(probe(pages.0, GOOD, true), Ok(()));
    assert_eq!(probe(pages.0, GOOD + 1, true), Err(Fault));
    assert_eq!(probe(pages.0, GOOD + 1, false), Err(Fault));
    // SAFETY: the page belongs to this test.
    unsafe { pages.0.add(PAGE).cast::<u32>().write(0x9e37_79b9) };
    assert_eq!(probe(pages.0.wrapping_add(PAGE), 4, false), Ok(()));
    pages.protect(libc::PROT_READ);
    assert_eq!(probe(pages.0.wrapping_add(GOOD - 1), 1, true), Err(Fault));
    assert_eq!(probe(pages.0.wrapping_add(GOOD - 1), 1, false), Ok(()));
    assert_eq!(probe(pages.0, 0, true), Ok(()));
    // SAFETY: the page belongs to this test.
    let word = unsafe { pages.0.add(PAGE).cast::<u32>().read() };
    assert_eq!(word, 0x9e37_79b9, "probing changes nothing");
}

/// A copy between two windows, as a process makes one from its own: a fault of either side is an error.
#[test]
fn either_side_of_a_copy_may_fault() {
    let _installed = Installed::new();
    let pages = Pages::new();
    let bad = pages.0.wrapping_add(GOOD);
    let mut good = [0u64; 2];
    for size in [1, 4, 8, 16] {
        let here: *mut u8 = good.as_mut_ptr().cast();
        for reach in [Reach::Guarded, Reach::Kernel] {
            // SAFETY: the array holds `size` bytes; the page belongs to this test.
            let (out, into) = unsafe { (reach.copy(bad, here, size), reach.copy(here, bad, size)) };
            assert!(out.is_err() && into.is_err(), "{size}, {reach:?}");
        }
    }
}

/// The child of a fork reaches its own memory, not that of its parent at the same address.
#[test]
fn the_child_of_a_fork_reaches_itself() {
    let (pages, reach) = (Pages::new(), Reach::Kernel);
    let word = pages.0.cast::<u64>();
    // SAFETY: the pages belong to this test.
    let put = |value: u64| unsafe { reach.put((&raw const value).cast(), pages.0, 8) };
    put(1).unwrap();
    // SAFETY: the child makes system calls, and ends without any code of the test harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (done, mut seen) = (put(2), 0u64);
        // SAFETY: the pages belong to this test, whose child ends here.
        unsafe {
            let got = reach.get(pages.0, (&raw mut seen).cast(), 8);
            let right = done.is_ok() && got.is_ok() && (word.read_volatile(), seen) == (2, 2);
            libc::_exit(i32::from(!right));
        }
    }
    let mut status = -1;
    // SAFETY: the child is this test's own, and the word lies in its pages.
    unsafe {
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!((status, word.read_volatile()), (0, 1));
    }
}

/// Where the kernel forbids copies to the own process, pages are probed and then accessed.
#[test]
fn forbidden_copies_become_probed_accesses() {
    let pages = Pages::new();
    let (good, bad) = (pages.0, pages.0.wrapping_add(GOOD));
    let mut word = 7u64.to_ne_bytes();
    for errno in [libc::EPERM, libc::ENOSYS] {
        let _script = Script::new()
            .fails("process_vm_writev", errno)
            .fails("process_vm_writev", errno)
            .fails("process_vm_readv", errno)
            .fails("process_vm_readv", errno);
        // SAFETY: the word has eight bytes; the pages belong to this test.
        unsafe {
            assert_eq!(Reach::Kernel.put(word.as_ptr(), good, 8), Ok(()));
            assert_eq!(*good, word[0]);
            assert_eq!(Reach::Kernel.put(word.as_ptr(), bad, 8), Err(Status::PERM));
            *good = 9;
            assert_eq!(Reach::Kernel.get(good, word.as_mut_ptr(), 8), Ok(()));
            assert_eq!(word[0], 9);
            assert_eq!(
                Reach::Kernel.get(bad, word.as_mut_ptr(), 8),
                Err(Status::PERM)
            );
        }
    }
}

/// A filter that refuses futex too leaves no way to ask for the right to write.
#[test]
fn a_probe_that_is_refused_grants_no_write() {
    let mut word = 0u32;
    let at = (&raw mut word).cast();
    let _script = Script::new()
        .fails("futex", libc::ENOSYS)
        .fails("futex", libc::ENOSYS)
        .fails("futex", libc::EFAULT);
    assert_eq!(probe(at, 4, true), Err(Fault));
    assert_eq!(probe(at, 4, false), Ok(()));
    assert_eq!(probe(at, 4, false), Err(Fault));
}

/// Windows are then accessed by the kernel, and a later transport tries again.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn a_refused_handler_is_installed_later() {
    let refused = |script: Script, why: &str| {
        let said = crate::base::log::captured(|| assert!(Installed::new().is_none()));
        drop(script);
        assert_eq!(
            said,
            [format!(
                "no handler for faults in windows, so the kernel accesses them: {why}"
            )]
        );
    };
    let script = Script::new().fails("sigaction", libc::EPERM);
    refused(script, "sigaction returned -1 (Operation not permitted)");
    let script = Script::new()
        .answers("getauxval", 0usize)
        .fails("dlopen", libc::ENOENT);
    let program = std::env::args().next().unwrap();
    let why = "cannot be kept mapped: dlopen returned -2 (No such file or directory)";
    refused(script, &format!("{program} {why}"));
    let installed = Installed::new().unwrap();
    assert_eq!(installed.reach(), Reach::Guarded);
    let script = Script::new().fails("sigaction", libc::EPERM);
    assert_eq!(installed.reach(), Reach::Kernel, "not known to be ours");
    drop(script);
}
