#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::*;

/// Where each registration of the tests was made: which mapping of the pages it belongs to.
struct Made {
    number: u64,
    pages: Range<usize>,
    live: Arc<AtomicUsize>,
}

impl Drop for Made {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Bench {
    cache: Cache<Made>,
    watch: Unmapped,
    made: AtomicU64,
    live: Arc<AtomicUsize>,
}

impl Bench {
    /// None, with the reason printed, where the kernel does not tell of unmapped memory.
    fn new(entries: usize, bytes: usize) -> Option<Bench> {
        let watch = match Unmapped::start() {
            Ok(watch) => watch,
            Err(error) => {
                println!("skipped: userfaultfd: {error}");
                return None;
            }
        };
        Some(Bench {
            cache: Cache::new(Limits { entries, bytes }),
            watch,
            made: AtomicU64::new(0),
            live: Arc::default(),
        })
    }

    fn acquire(&self, base: usize, len: usize) -> Arc<Made> {
        match self.acquire_after(base, len, || Ok::<_, Infallible>(())) {
            Ok(made) => made,
            Err(never) => match never {},
        }
    }

    /// The same. `first` runs in each registration of its pages, and may refuse it.
    fn acquire_after<E>(
        &self,
        base: usize,
        len: usize,
        first: impl Fn() -> Result<(), E>,
    ) -> Result<Arc<Made>, E> {
        let register = |pages: &Range<usize>| {
            first()?;
            self.live.fetch_add(1, Ordering::Relaxed);
            Ok(Made {
                number: self.made.fetch_add(1, Ordering::Relaxed),
                pages: pages.clone(),
                live: Arc::clone(&self.live),
            })
        };
        let pages = pages_of(&(base..base + len));
        self.cache.acquire(&self.watch, &pages, register)
    }

    /// Whether the page is registered anew once something else lies there. `last` was made of it.
    fn tells_of(&self, page: usize, last: u64) -> bool {
        assert_eq!(self.acquire(page, 8).number, last, "it is kept");
        replace(page, page_size());
        self.acquire(page, 8).number > last
    }

    fn counts(&self) -> Counts {
        self.cache.lock().counts
    }
}

fn map(len: usize) -> usize {
    try_map(0, len).unwrap()
}

/// Maps pages at an address; `None` when something else lies there meanwhile.
fn try_map(at: usize, len: usize) -> Option<usize> {
    let fixed = match at {
        0 => 0,
        _ => libc::MAP_FIXED_NOREPLACE,
    };
    // SAFETY: without replacing, a mapping changes no memory in use.
    let base = unsafe {
        libc::mmap(
            at as *mut libc::c_void,
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
            -1,
            0,
        )
    };
    (base != libc::MAP_FAILED && (at == 0 || base as usize == at)).then_some(base as usize)
}

fn unmap(base: usize, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: the tests unmap what they mapped.
    assert_eq!(unsafe { libc::munmap(base as *mut libc::c_void, len) }, 0);
}

/// Has other pages lie there from now on. At once, so that another test's thread cannot take the place.
fn replace(base: usize, len: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the tests replace what they mapped.
    let again = unsafe { libc::mmap(base as *mut libc::c_void, len, rights, flags, -1, 0) };
    assert_eq!(again as usize, base);
}

#[test]
fn what_stays_mapped_is_served_again() {
    let Some(bench) = Bench::new(16, 1 << 20) else {
        return;
    };
    let base = map(64 << 10);
    let first = bench.acquire(base, 64 << 10).number;
    for at in (0..64 << 10).step_by(3000) {
        assert_eq!(bench.acquire(base + at, 17).number, first);
    }
    assert_eq!((bench.counts().hits, bench.counts().kept), (22, 1));
    unmap(base, 64 << 10);
}

#[test]
fn memory_mapped_anew_at_the_same_place_is_registered_anew() {
    let Some(bench) = Bench::new(16, 1 << 20) else {
        return;
    };
    let len = 64 << 10;
    let mut base = map(len);
    let mut last = None;
    for round in 0..500usize {
        let made = bench.acquire(base, len).number;
        assert!(last.is_none_or(|last| made > last), "round {round}: stale");
        assert_eq!(bench.acquire(base + 5000, 100).number, made);
        last = Some(made);
        // All of it, its end, or a hole in it.
        let (from, bytes) = [(0, len), (len / 2, len / 2), (4096, 4096)][round % 3];
        unmap(base + from, bytes);
        if try_map(base + from, bytes).is_none() {
            // Another test's thread was first with the place.
            unmap(base, from);
            unmap(base + from + bytes, len - from - bytes);
            (base, last) = (map(len), None);
        }
    }
    let counts = bench.counts();
    assert_eq!((counts.hits, counts.unmapped), (500, 499));
    drop(bench.acquire(base, len));
    assert_eq!(bench.live.load(Ordering::Relaxed), 1);
    unmap(base, len);
}

#[test]
fn freed_memory_is_never_served_stale() {
    let Some(bench) = Bench::new(16, 64 << 20) else {
        return;
    };
    // Over the C library's own threshold each buffer is a mapping, which free ends and malloc may
    // make again at the same place.
    let mut places = std::collections::HashMap::new();
    for round in 0..200u64 {
        let mut buffer = vec![0u8; 40 << 20];
        buffer[0] = round as u8;
        let base = buffer.as_ptr() as usize;
        let made = bench.acquire(base, buffer.len()).number;
        if let Some(before) = places.insert(base, made) {
            assert!(made > before, "round {round}: stale");
        }
    }
    assert!(places.len() < 200, "no address came twice");
}

#[test]
fn what_is_moved_or_discarded_is_registered_anew() {
    let Some(bench) = Bench::new(16, 1 << 20) else {
        return;
    };
    let len = 64 << 10;
    let base = map(len);
    let first = bench.acquire(base, len).number;
    // SAFETY: pages of the test.
    let rc = unsafe { libc::madvise(base as *mut libc::c_void, 4096, libc::MADV_DONTNEED) };
    assert_eq!(rc, 0);
    let second = bench.acquire(base, len).number;
    assert_ne!(first, second);
    let other = map(len);
    let to = other as *mut libc::c_void;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: pages of the test, moved onto others of it.
    let moved = unsafe { libc::mremap(base as *mut libc::c_void, len, len, flags, to) };
    assert_eq!(moved, to);
    if try_map(base, len).is_some() {
        assert!(bench.acquire(base, len).number > second);
        unmap(base, len);
    }
    unmap(other, len);
}

#[test]
fn bounds_hold_and_what_is_in_use_stays() {
    let Some(bench) = Bench::new(4, 1 << 20) else {
        return;
    };
    let page = page_size();
    let base = map(64 * page);
    let at = |n: usize| base + 2 * n * page;
    let held: Vec<_> = (0..3).map(|n| bench.acquire(at(n), 8)).collect();
    for n in 3..20 {
        drop(bench.acquire(at(n), 8));
    }
    assert_eq!(bench.live.load(Ordering::Relaxed), 4);
    for (n, lease) in held.iter().enumerate() {
        assert_eq!(bench.acquire(at(n), 8).number, lease.number);
    }
    // With all places in use, one more is registered for its use alone.
    let fourth = bench.acquire(at(19), 8);
    drop(bench.acquire(at(20), 8));
    assert_eq!(bench.live.load(Ordering::Relaxed), 4);
    assert_eq!(bench.counts().alone, 1);
    drop((held, fourth));
    // Larger than all bytes together.
    let large = map(2 << 20);
    drop(bench.acquire(large, 2 << 20));
    assert_eq!(bench.counts().alone, 2);
    unmap(large, 2 << 20);
    unmap(base, 64 * page);
}

#[test]
fn a_registration_is_of_its_own_pages_alone() {
    let Some(bench) = Bench::new(16, 1 << 20) else {
        return;
    };
    // Neighbours share a page, and all are in use.
    let page = page_size();
    let base = map(11 * page);
    let acquire = |n: usize| bench.acquire(base + 100 + n * page, page);
    let held: Vec<_> = (0..10).map(acquire).collect();
    for (n, lease) in held.iter().enumerate() {
        assert_eq!(lease.pages, base + n * page..base + (n + 2) * page);
        assert_eq!(acquire(n).number, lease.number);
    }
    assert_eq!((bench.counts().kept, bench.counts().hits), (10, 10));
    unmap(base, 11 * page);
}

#[test]
fn a_kept_registration_stays_watched_when_one_that_overlaps_it_goes() {
    let Some(bench) = Bench::new(2, 1 << 20) else {
        return;
    };
    let page = page_size();
    let base = map(8 * page);
    drop(bench.acquire(base, 2 * page));
    let kept = bench.acquire(base + page, 2 * page).number;
    drop(bench.acquire(base + 6 * page, 8));
    assert_eq!(bench.counts().evicted, 1);
    assert!(bench.tells_of(base + page, kept));
    unmap(base, 8 * page);
}

#[test]
fn a_registration_that_finds_room_at_the_second_try_is_watched() {
    let Some(bench) = Bench::new(16, 1 << 20) else {
        return;
    };
    let page = page_size();
    let base = map(8 * page);
    drop(bench.acquire(base, 2 * page));
    let tries = Cell::new(0);
    let room = || {
        tries.set(tries.get() + 1);
        if tries.get() == 1 { Err(()) } else { Ok(()) }
    };
    // Gives up the one that has its first page, too.
    let made = bench.acquire_after(base + page, 2 * page, room).unwrap();
    assert_eq!((tries.get(), bench.counts().evicted), (2, 1));
    assert!(bench.tells_of(base + page, made.number));
    // Where nothing is idle there is no second try.
    replace(base, 8 * page);
    let _held = bench.acquire(base + 4 * page, 8);
    let failed = bench.acquire_after(base, 8, || {
        tries.set(tries.get() + 1);
        Err(())
    });
    assert!(failed.is_err() && tries.get() == 3);
    unmap(base, 8 * page);
}

#[test]
fn a_registration_is_watched_whatever_goes_while_it_is_made() {
    let Some(bench) = Bench::new(1, 1 << 20) else {
        return;
    };
    let page = page_size();
    let base = map(8 * page);
    let meanwhile = |run: &dyn Fn()| {
        let run = || {
            run();
            Ok::<_, ()>(())
        };
        bench.acquire_after(base + page, 2 * page, run).unwrap()
    };
    // Another thread gives up one that has the first page, too.
    drop(bench.acquire(base, 2 * page));
    let made = meanwhile(&|| drop(bench.acquire(base + 6 * page, 8)));
    assert!(bench.tells_of(base + page, made.number));
    // Another finds no place for one that has it, and then there is one.
    let held = RefCell::new(Some(bench.acquire(base + 6 * page, 8)));
    let made = meanwhile(&|| {
        let alone = bench.counts().alone;
        drop(bench.acquire(base, 2 * page));
        assert_eq!(bench.counts().alone, alone + 1);
        held.take();
    });
    assert!(bench.tells_of(base + page, made.number));
    unmap(base, 8 * page);
}

#[test]
fn threads_map_unmap_and_acquire_beside_each_other() {
    // Fewer than the threads use, so that each gives up those of the others.
    let Some(bench) = Bench::new(4, 1 << 20) else {
        return;
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let len = 32 << 10;
                let base = map(len);
                let mut last = None;
                for round in 0..500 {
                    // Both have the page in the middle.
                    let half = len / 2;
                    let first = bench.acquire(base, half + 8).number;
                    let second = bench.acquire(base + half, half).number;
                    let fresh = |made| last.is_none_or(|last| made > last);
                    assert!(fresh(first) && fresh(second), "round {round}: stale");
                    last = Some(first.max(second));
                    replace(base, len);
                }
                unmap(base, len);
            });
        }
    });
}
