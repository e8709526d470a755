//! Which watched memory the process has given up: by munmap, mremap, or madvise.
//!
//! The kernel tells through a userfaultfd (man userfaultfd, ioctl_userfaultfd: `UFFD_EVENT_UNMAP` and
//! its like), and blocks the unmapping thread until its message was read. A thread reads what it tells.
//! Nothing is write-protected, so nothing else changes for the watched memory. Of the other ways,
//! replacing the C library's functions in memory (what Open MPI does) misses nothing either but
//! rewrites code of the host, and symbols in front of the C library's miss its own calls.
//!
//! The thread must never wait for who gives memory up, for that one waits for it: it takes no lock and
//! allocates nothing. It raises a count before it reads and again when what it read is in a ring; who
//! looks waits while the count is odd. So a look that comes after a munmap returned sees it.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::base::process::with_signals_blocked;

/// Ranges that may wait to be looked at.
const RING: usize = 256;

// linux/userfaultfd.h
const USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xaa;
const FEATURES: u64 = WP | EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP;
const WP: u64 = 1 << 0;
const EVENT_REMAP: u64 = 1 << 2;
const EVENT_REMOVE: u64 = 1 << 3;
const EVENT_UNMAP: u64 = 1 << 6;
const REGISTER_MODE_WP: u64 = 1 << 1;
const MSG_REMAP: u8 = 0x14;
const MSG_REMOVE: u8 = 0x15;
const MSG_UNMAP: u8 = 0x16;

#[repr(C)]
struct ApiArg {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct RangeArg {
    start: u64,
    len: u64,
}

#[repr(C)]
struct RegisterArg {
    range: RangeArg,
    mode: u64,
    ioctls: u64,
}

/// One message: for a removal, its first two words are start and end; for a move, from, to, length.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    words: [u64; 3],
}

const fn request(direction: u32, size: usize, number: u32) -> libc::Ioctl {
    (direction << 30 | (size as u32) << 16 | 0xaa << 8 | number) as libc::Ioctl
}

const UFFDIO_API: libc::Ioctl = request(3, size_of::<ApiArg>(), 0x3f);
const UFFDIO_REGISTER: libc::Ioctl = request(3, size_of::<RegisterArg>(), 0);
const UFFDIO_UNREGISTER: libc::Ioctl = request(2, size_of::<RangeArg>(), 1);

/// What the thread and those who look share. One thread writes; those who look hold a lock of theirs.
#[derive(Default)]
struct Shared {
    /// Odd while something was read and is not in the ring yet.
    count: AtomicU64,
    written: AtomicUsize,
    read: AtomicUsize,
    ring: Box<[(AtomicUsize, AtomicUsize)]>,
    /// The ring was full: anything may have gone.
    overflown: AtomicBool,
}

/// Watches memory of this process.
pub(super) struct Unmapped {
    file: OwnedFd,
    /// Ends the thread by being written to.
    stop: OwnedFd,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

impl Unmapped {
    /// Begins to watch. An error: the kernel has no userfaultfd for this process.
    pub(super) fn start() -> io::Result<Unmapped> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: a call with integers.
        let file = checked(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as libc::c_int)?;
        // SAFETY: just opened, and owned by nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let mut api = ApiArg {
            api: API,
            features: FEATURES,
            ioctls: 0,
        };
        // SAFETY: the argument is what this request takes.
        checked(unsafe { libc::ioctl(file.as_raw_fd(), UFFDIO_API, &raw mut api) })?;
        // SAFETY: a call with integers.
        let stop = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        // SAFETY: as above.
        let stop = unsafe { OwnedFd::from_raw_fd(stop) };
        let shared = Arc::new(Shared {
            ring: (0..RING).map(|_| Default::default()).collect(),
            ..Shared::default()
        });
        let (files, of_thread) = ([file.as_raw_fd(), stop.as_raw_fd()], Arc::clone(&shared));
        // The host's signals are for its own threads: this one begins with all of them blocked.
        let thread = with_signals_blocked(|| {
            std::thread::Builder::new()
                .name(String::from("host-unmapped"))
                .spawn(move || listen(files, &of_thread))
        })?;
        Ok(Unmapped {
            file,
            stop,
            shared,
            thread: Some(thread),
        })
    }

    /// Watches whole pages. An error: memory of a kind that cannot be watched, such as a file's.
    pub(super) fn watch(&self, pages: &Range<usize>) -> io::Result<()> {
        let mut argument = RegisterArg {
            range: range_arg(pages),
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: the argument is what this request takes.
        checked(unsafe { libc::ioctl(self.file.as_raw_fd(), UFFDIO_REGISTER, &raw mut argument) })
            .map(drop)
    }

    /// Stops watching pages that are all still there.
    pub(super) fn forget(&self, pages: &Range<usize>) {
        let mut argument = range_arg(pages);
        // Refused, it goes on telling of memory that nobody asks for.
        // SAFETY: as above.
        unsafe { libc::ioctl(self.file.as_raw_fd(), UFFDIO_UNREGISTER, &raw mut argument) };
    }

    /// Gives `gone` each range that was given up since the last look, or everything when too many
    /// were. Called by one at a time.
    pub(super) fn look(&self, mut gone: impl FnMut(Range<usize>)) {
        // Acquire pairs with the thread's Release: what an even count covers is in the ring. The wait
        // is for a system call that has its answer ready.
        while !self.shared.count.load(Ordering::Acquire).is_multiple_of(2) {
            std::thread::yield_now();
        }
        if self.shared.overflown.swap(false, Ordering::AcqRel) {
            gone(0..usize::MAX);
        }
        let written = self.shared.written.load(Ordering::Acquire);
        let mut read = self.shared.read.load(Ordering::Relaxed);
        while read != written {
            let (start, end) = &self.shared.ring[read % RING];
            gone(start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed));
            read = read.wrapping_add(1);
        }
        // Release pairs with the Acquire of `note`: the places may be written again.
        self.shared.read.store(read, Ordering::Release);
    }
}

impl Drop for Unmapped {
    fn drop(&mut self) {
        let one = 1u64;
        // SAFETY: eight bytes, which an eventfd takes.
        unsafe { libc::write(self.stop.as_raw_fd(), (&raw const one).cast(), 8) };
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

fn range_arg(pages: &Range<usize>) -> RangeArg {
    RangeArg {
        start: pages.start as u64,
        len: (pages.end - pages.start) as u64,
    }
}

/// The thread.
fn listen([file, stop]: [libc::c_int; 2], shared: &Shared) {
    let wanted = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        let mut polled = [wanted(file), wanted(stop)];
        // SAFETY: two entries.
        let n = unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
        if polled[1].revents != 0 || (n > 0 && polled[0].revents & libc::POLLIN == 0) {
            return;
        }
        let mut messages = [Message::default(); 16];
        shared.count.fetch_add(1, Ordering::SeqCst);
        // SAFETY: room for the messages. The unmapping thread goes on when its message was read.
        let bytes =
            unsafe { libc::read(file, messages.as_mut_ptr().cast(), size_of_val(&messages)) };
        let read = usize::try_from(bytes).unwrap_or(0) / size_of::<Message>();
        for message in &messages[..read] {
            shared.note(message);
        }
        // Release pairs with the Acquire of `look`.
        shared.count.fetch_add(1, Ordering::Release);
    }
}

impl Shared {
    fn note(&self, message: &Message) {
        let [first, second, third] = message.words.map(|word| word as usize);
        let gone = match message.event {
            MSG_REMAP => first..first.saturating_add(third),
            MSG_REMOVE | MSG_UNMAP => first..second,
            _ => return,
        };
        let written = self.written.load(Ordering::Relaxed);
        // Acquire pairs with the Release of `look`.
        if written.wrapping_sub(self.read.load(Ordering::Acquire)) == RING {
            self.overflown.store(true, Ordering::Release);
            return;
        }
        let (start, end) = &self.ring[written % RING];
        start.store(gone.start, Ordering::Relaxed);
        end.store(gone.end, Ordering::Relaxed);
        // Release pairs with the Acquire of `look`.
        self.written
            .store(written.wrapping_add(1), Ordering::Release);
    }
}
