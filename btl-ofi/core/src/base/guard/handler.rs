//! The handler of SIGSEGV and SIGBUS: for faults in our routines, and nothing else.
//!
//! It is installed when a transport first needs it, once for all of the process, over whatever was there.
//! Any other signal is passed on: a handler that was there is called as it asked to be, with the mask and on
//! the stack that it asked for; where there was none, the default is restored and the signal sent again, so
//! the process ends by it. When the last transport closes, what was there before is put back, unless
//! another handler lies on top by then.
//!
//! Whoever put a handler on top keeps a pointer to ours, so the library stays mapped from then on
//! (RTLD_NODELETE), also after dlclose. The handler uses atomics and calls of the kernel only.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Reach, words};

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What was there before ours.
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

/// Transports that need the handler, and whether it is installed, or lies below one of others.
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

/// A transport's share in the handler, which it gives back when dropped.
#[derive(Debug)]
pub(crate) struct Installed(());

impl Installed {
    /// Sees to it that the handler is installed. `None` where that cannot be done.
    pub(crate) fn new() -> Option<Installed> {
        if !words::GUARDED {
            return None;
        }
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = stay_mapped().and_then(|()| install(&mut users)) {
            tracing::info!("no handler for faults in windows, the kernel accesses them: {e}");
            return None;
        }
        users.count += 1;
        Some(Installed(()))
    }

    /// How windows are to be accessed from now on.
    pub(crate) fn reach(&self) -> Reach {
        let ours = |signal| now(signal).is_ok_and(|action| is_ours(&action));
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

fn now(signal: c_int) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: nothing is changed; the action is written when the call succeeds.
    unsafe {
        if libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(action.assume_init())
    }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == on_signal as *const () as usize
}

/// Whether nobody handles the signal, so that taking it over hides no handler that calls ours.
fn is_default(signal: c_int) -> bool {
    now(signal).is_ok_and(|action| [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction))
}

/// Whether nothing calls ours once the signal has its former handler back.
fn is_removable(signal: c_int) -> bool {
    is_default(signal) || now(signal).is_ok_and(|action| is_ours(&action))
}

/// Takes over the signals that are not ours yet, but from no handler that may call ours.
fn install(users: &mut Users) -> io::Result<()> {
    let below = users.installed;
    users.installed = true;
    for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
        let found = now(signal)?;
        let nobody = [libc::SIG_DFL, libc::SIG_IGN].contains(&found.sa_sigaction);
        if is_ours(&found) || (below && !nobody) {
            continue;
        }
        // As the one before asked for it, so that it finds what it expects when it is called.
        let mut action = found;
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO
            | if nobody {
                libc::SA_ONSTACK | libc::SA_RESTART
            } else {
                found.sa_flags & (libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER)
            };
        before.flags.store(found.sa_flags, Ordering::Relaxed);
        // Release pairs with the Acquire in `pass_on`.
        before.handler.store(found.sa_sigaction, Ordering::Release);
        set(signal, &action)?;
    }
    Ok(())
}

/// Puts back what was there before.
fn remove(signal: c_int, before: &Before) {
    let Ok(mut action) = now(signal) else { return };
    if is_ours(&action) {
        action.sa_sigaction = before.handler.load(Ordering::Acquire);
        action.sa_flags = before.flags.load(Ordering::Relaxed);
        if let Err(e) = set(signal, &action) {
            tracing::warn!("sigaction refused what was there before for signal {signal}: {e}");
        }
    }
}

fn set(signal: c_int, action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: an action of ours, whose handler stays mapped, or one that the kernel gave.
    match unsafe { libc::sigaction(signal, action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps the object that holds this code mapped for good.
fn stay_mapped() -> io::Result<()> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    let code = on_signal as *const () as *const c_void;
    // SAFETY: an address of this code; what is found is written when the call succeeds, and its name lives
    // as long as the object is mapped.
    let (base, name) = unsafe {
        if libc::dladdr(code, found.as_mut_ptr()) == 0 {
            return Err(io::Error::other("dladdr does not know this library"));
        }
        let found = found.assume_init();
        (found.dli_fbase, found.dli_fname)
    };
    if is_program(base) {
        return Ok(());
    }
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: a C string that dladdr gave.
    if unsafe { libc::dlopen(name, flags) }.is_null() {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        return Err(io::Error::other(format!(
            "{name} cannot be kept mapped (dlopen with RTLD_NODELETE)"
        )));
    }
    Ok(())
}

/// Whether an object is the program itself, which is never unmapped.
fn is_program(base: *const c_void) -> bool {
    // SAFETY: no pointers are passed.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    let object = base.cast::<libc::Elf64_Ehdr>();
    // SAFETY: objects are mapped from their ELF header on.
    cfg!(target_pointer_width = "64")
        && base as usize + unsafe { (*object).e_phoff } as usize == headers
}

unsafe extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's, or those of a handler that passes a signal on.
    let code = unsafe { (*info).si_code };
    // Neither what a process sent nor a memory error that may be acted upon is about this instruction.
    let fault = code > 0 && !(signal == libc::SIGBUS && code == libc::BUS_MCEERR_AO);
    // SAFETY: as above.
    unsafe {
        if !fault || !words::recover(context) {
            pass_on(signal, info, context, fault);
        }
    }
}

/// Does what would have been done without us.
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
        // The kernel ignores no fault, whatever was asked for.
        libc::SIG_IGN if !fault => {}
        // SAFETY: the kernel's, or those of a handler that passes a signal on.
        libc::SIG_DFL | libc::SIG_IGN => unsafe { end(signal, info) },
        _ => {
            if flags & libc::SA_RESETHAND != 0 {
                let (old, new) = (handler, libc::SIG_DFL);
                let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
                if before.handler.compare_exchange(old, new, yes, no).is_err() {
                    // Another thread was first, and by that nobody is left to handle it.
                    // SAFETY: the kernel's, or those of a handler that passes a signal on.
                    return unsafe { end(signal, info) };
                }
            }
            // SAFETY: a handler that was installed with these flags, called as they say.
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

/// Ends the process by the signal, as the default does, with what is known of it: sent again, the signal
/// arrives when this handler returns, at the instruction that it interrupted.
unsafe fn end(signal: c_int, info: *mut libc::siginfo_t) {
    // SAFETY: the default action, and a signal to this thread. The kernel copies what is known.
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
