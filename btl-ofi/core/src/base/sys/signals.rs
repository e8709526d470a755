//! Calls that install signal handlers, and that keep the code of a handler mapped.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use super::{checked, failed};
use crate::base::error::CallError;

/// The present action of a signal.
pub(crate) fn action(signal: c_int) -> Result<libc::sigaction, CallError> {
    scripted!("sigaction");
    let mut action = MaybeUninit::uninit();
    // SAFETY: with a NULL action the call changes nothing; `action` is written when the call succeeds.
    unsafe {
        checked(
            "sigaction",
            libc::sigaction(signal, ptr::null(), action.as_mut_ptr()),
        )?;
        Ok(action.assume_init())
    }
}

/// Sets the action of a signal.
///
/// # Safety
/// The handler of the action has the type that its flags select, may run at any instruction of any thread, and stays
/// mapped for as long as it may be called.
pub(crate) unsafe fn set_action(signal: c_int, action: &libc::sigaction) -> Result<(), CallError> {
    scripted!("sigaction");
    // SAFETY: the caller guarantees that the handler may be called; the kernel copies the action.
    let rc = unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
    checked("sigaction", rc).map(drop)
}

/// The program or shared object that holds an address: where it is mapped, and its C string of a name, which lives as
/// long as the object is mapped. `None` if there is none.
pub(crate) fn object_of(code: *const c_void) -> Option<(*const c_void, *const c_char)> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: dladdr only compares the address; `found` is written when the call succeeds.
    unsafe {
        (libc::dladdr(code, found.as_mut_ptr()) != 0).then(|| {
            let found = found.assume_init();
            (found.dli_fbase.cast_const(), found.dli_fname)
        })
    }
}

/// Keeps a shared object that is mapped so until the process ends. dlopen has no error numbers; ENOENT stands for all.
pub(crate) fn keep_mapped(name: &CStr) -> Result<(), CallError> {
    scripted!("dlopen");
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the name is a C string. RTLD_NOLOAD loads no object, so no code of one runs.
    if unsafe { libc::dlopen(name.as_ptr(), flags) }.is_null() {
        return Err(CallError {
            call: "dlopen",
            code: libc::ENOENT,
        });
    }
    Ok(())
}

/// Address of the program's own ELF program headers.
pub(crate) fn program_headers() -> Result<usize, CallError> {
    scripted!("getauxval");
    // SAFETY: getauxval takes a number and no pointer.
    match unsafe { libc::getauxval(libc::AT_PHDR) } {
        0 => Err(failed("getauxval")),
        at => Ok(at as usize),
    }
}
