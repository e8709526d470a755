//! Signals that ask the launcher to end.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// The last signal that arrived; 0 for none.
static ARRIVED: AtomicI32 = AtomicI32::new(0);

/// An eventfd that wakes the polling thread; negative until it exists.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Catches SIGINT, SIGTERM and SIGHUP, so they do not end this process.
#[derive(Clone, Debug)]
pub struct Interrupts {
    wake: RawFd,
}

extern "C" fn arrived(signal: libc::c_int) {
    // SAFETY: errno belongs to this thread; the handler restores the value for the interrupted
    // code.
    let errno = unsafe { *libc::__errno_location() };
    ARRIVED.store(signal, Ordering::Release);
    let one = 1_u64;
    // SAFETY: `write` is async-signal-safe and the eight bytes are readable; a descriptor that is
    // not open causes an error without effect.
    unsafe {
        libc::write(
            WAKE.load(Ordering::Acquire),
            (&raw const one).cast(),
            size_of::<u64>(),
        );
        *libc::__errno_location() = errno;
    }
}

impl Interrupts {
    /// Catches the signals from now on, for the whole process.
    pub fn install() -> io::Result<Self> {
        let mut wake = WAKE.load(Ordering::Acquire);
        if wake < 0 {
            // SAFETY: the call takes no pointers.
            wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            if wake < 0 {
                return Err(io::Error::last_os_error());
            }
            WAKE.store(wake, Ordering::Release);
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: an all-zero sigaction is valid, and the next call fills it.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: the call reads the current action into `action`.
            let known = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } == 0;
            if signal == libc::SIGHUP && known && action.sa_sigaction == libc::SIG_IGN {
                // `nohup` started the process, which should survive the end of the terminal.
                continue;
            }
            // SAFETY: an all-zero sigaction is valid, and is filled below.
            action = unsafe { std::mem::zeroed() };
            action.sa_sigaction = arrived as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: `arrived` is async-signal-safe; the structure is initialised.
            if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Interrupts { wake })
    }

    /// A descriptor that becomes readable when a signal arrives.
    pub(super) fn descriptor(&self) -> RawFd {
        self.wake
    }

    /// The signal that arrived since the last call.
    pub(super) fn take(&self) -> Option<i32> {
        let signal = ARRIVED.swap(0, Ordering::AcqRel);
        if signal == 0 {
            return None;
        }
        let mut count = 0_u64;
        // SAFETY: the eventfd is open for the process's life and `count` has eight bytes.
        unsafe {
            libc::read(self.wake, (&raw mut count).cast(), size_of::<u64>());
        }
        Some(signal)
    }
}
