//! The handler of SIGSEGV and SIGBUS. It handles faults in the routines of `words` and passes on all other signals.
//!
//! The first transport that needs the handler installs it, once per process, over the handler that it finds. A signal
//! that is passed on goes to that handler, with the mask and on the stack that it asked for. If there was none, the
//! default action is restored and the signal is sent again, so the process ends by it. When the last transport
//! closes, the former handler is restored, unless another handler lies on top by then.
//!
//! A handler that is installed on top keeps a pointer to ours. So the library stays mapped (RTLD_NODELETE), even
//! after dlclose. The handler uses only atomics and system calls.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{io, ptr};

use super::{Reach, words};
use crate::base::error::CallError;
use crate::base::sys;

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The handler that ours replaced, and its flags.
struct Before {
    handler: AtomicUsize,
    flags: AtomicI32,
}

static BEFORE: [Before; 2] = [const {
    Before {
        handler: AtomicUsize::new(libc::SIG_DFL),
        flags: AtomicI32::new(0),
    }
}; 2];

/// Number of transports that need the handler, and whether it is installed, be it on top or below another handler.
struct Users {
    count: usize,
    installed: bool,
}

static USERS: Mutex<Users> = Mutex::new(Users {
    count: 0,
    installed: false,
});

type Informed = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
type Plain = unsafe extern "C" fn(c_int);

/// A transport's reference to the installed handler; dropping it releases the reference.
#[derive(Debug)]
pub(crate) struct Installed(());

impl Installed {
    /// Installs the handler if it is not installed. `None` if that fails, or if the architecture has no routines.
    pub(crate) fn new() -> Option<Installed> {
        if !words::GUARDED {
            return None;
        }
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = stay_mapped().and_then(|()| install(&mut users)) {
            tracing::info!("no handler for faults in windows, so the kernel accesses them: {e}");
            return None;
        }
        users.count += 1;
        Some(Installed(()))
    }

    /// How to access windows from now on: guarded if ours is the top handler of both signals.
    pub(crate) fn reach(&self) -> Reach {
        let ours = |signal| sys::action(signal).is_ok_and(|action| is_ours(&action));
        if SIGNALS.into_iter().all(ours) {
            Reach::Guarded
        } else {
            Reach::Kernel
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        users.count -= 1;
        if users.count == 0 && SIGNALS.iter().all(|signal| is_removable(*signal)) {
            for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
                remove(signal, before);
            }
            users.installed = false;
        }
    }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == on_signal as *const () as usize
}

/// Whether the signal has no handler. Then installing ours hides no handler that may call ours.
fn is_default(signal: c_int) -> bool {
    sys::action(signal)
        .is_ok_and(|action| [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction))
}

/// Whether no handler calls ours once the former handler is restored.
fn is_removable(signal: c_int) -> bool {
    is_default(signal) || sys::action(signal).is_ok_and(|action| is_ours(&action))
}

/// Installs our handler for the signals that do not have it. If ours is installed already, a handler on top of it
/// stays, since that handler may call ours.
fn install(users: &mut Users) -> io::Result<()> {
    let installed_before = users.installed;
    for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
        let found = sys::action(signal)?;
        let unhandled = [libc::SIG_DFL, libc::SIG_IGN].contains(&found.sa_sigaction);
        if is_ours(&found) || (installed_before && !unhandled) {
            continue;
        }
        // Mask and flags of the former handler, so that it finds the conditions that it asked for.
        let mut action = found;
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO
            | if unhandled {
                libc::SA_ONSTACK | libc::SA_RESTART
            } else {
                found.sa_flags & (libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER)
            };
        before.flags.store(found.sa_flags, Ordering::Relaxed);
        // Release pairs with the Acquire in `pass_on` and `remove`: they see the flags that belong to the handler.
        before.handler.store(found.sa_sigaction, Ordering::Release);
        set(signal, &action)?;
        users.installed = true;
    }
    Ok(())
}

/// Restores the former handler if ours is on top.
fn remove(signal: c_int, before: &Before) {
    let Ok(mut action) = sys::action(signal) else {
        return;
    };
    if is_ours(&action) {
        // Acquire pairs with the Release in `install`.
        action.sa_sigaction = before.handler.load(Ordering::Acquire);
        action.sa_flags = before.flags.load(Ordering::Relaxed);
        if let Err(e) = set(signal, &action) {
            tracing::warn!("the former handler of signal {signal} is not restored: {e}");
        }
    }
}

fn set(signal: c_int, action: &libc::sigaction) -> Result<(), CallError> {
    // SAFETY: the action is ours, whose handler stays mapped and takes the arguments of SA_SIGINFO, or one that the
    // kernel returned.
    unsafe { sys::set_action(signal, action) }
}

/// Keeps the shared object with this code mapped until the process ends.
fn stay_mapped() -> io::Result<()> {
    let code = on_signal as *const () as *const c_void;
    let Some((base, name)) = sys::object_of(code) else {
        return Err(io::Error::other("dladdr does not know this library"));
    };
    if is_program(base) {
        return Ok(());
    }
    // SAFETY: dladdr returned this C string, and the object that it names is mapped while its code runs.
    let name = unsafe { CStr::from_ptr(name) };
    sys::keep_mapped(name).map_err(|e| {
        let name = name.to_string_lossy();
        io::Error::other(format!("{name} cannot be kept mapped: {e}"))
    })
}

/// Whether an object is the program itself, which is never unmapped.
fn is_program(base: *const c_void) -> bool {
    let object = base.cast::<libc::Elf64_Ehdr>();
    // SAFETY: the mapping of an object starts with its ELF header.
    let headers = |object: *const libc::Elf64_Ehdr| unsafe { (*object).e_phoff } as usize;
    cfg!(target_pointer_width = "64")
        && sys::program_headers().is_ok_and(|at| base as usize + headers(object) == at)
}

unsafe extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: `info` is valid: the kernel passes it, or a handler that passes the signal on.
    let code = unsafe { (*info).si_code };
    // A signal sent by a process is no fault of this instruction; nor is BUS_MCEERR_AO, a memory error found
    // elsewhere.
    let fault = code > 0 && !(signal == libc::SIGBUS && code == libc::BUS_MCEERR_AO);
    // SAFETY: `info` and `context` are valid: the kernel passes them, or a handler that passes the signal on.
    unsafe {
        if !fault || !words::recover(context) {
            pass_on(signal, info, context, fault);
        }
    }
}

/// Does what the process would do without our handler.
#[cold]
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, fault: bool) {
    let Some(index) = SIGNALS.iter().position(|s| *s == signal) else {
        return;
    };
    let before = &BEFORE[index];
    // Acquire pairs with the Release in `install`.
    let handler = before.handler.load(Ordering::Acquire);
    let flags = before.flags.load(Ordering::Relaxed);
    match handler {
        // The kernel does not ignore a fault, even with SIG_IGN.
        libc::SIG_IGN if !fault => {}
        // SAFETY: `info` is valid: the kernel passes it, or a handler that passes the signal on.
        libc::SIG_DFL | libc::SIG_IGN => unsafe { end(signal, info) },
        _ => {
            if flags & libc::SA_RESETHAND != 0 {
                let (old, new) = (handler, libc::SIG_DFL);
                let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
                if before.handler.compare_exchange(old, new, yes, no).is_err() {
                    // Another thread called the one-shot handler first, so no handler is left.
                    // SAFETY: `info` is valid: the kernel passes it, or a handler that passes the signal on.
                    return unsafe { end(signal, info) };
                }
            }
            // SAFETY: the handler was installed with these flags, so it has the type that SA_SIGINFO selects.
            unsafe {
                if flags & libc::SA_SIGINFO != 0 {
                    std::mem::transmute::<usize, Informed>(handler)(signal, info, context);
                } else {
                    std::mem::transmute::<usize, Plain>(handler)(signal);
                }
            }
        }
    }
}

/// Ends the process by the signal with the default action, and keeps the signal's information. The signal is sent
/// again and arrives when this handler returns, at the instruction that it interrupted.
unsafe fn end(signal: c_int, info: *mut libc::siginfo_t) {
    // SAFETY: the calls set the default action and send a signal to this thread; the kernel copies `info`, which is
    // valid.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &action, ptr::null_mut());
        let (process, thread) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
        let sent = libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            process,
            thread,
            signal,
            info.cast_const(),
        );
        if sent != 0 {
            libc::syscall(libc::SYS_tgkill, process, thread, signal);
        }
        *errno = kept;
    }
}
