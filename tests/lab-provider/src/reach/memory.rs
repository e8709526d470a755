//! Access to the memory of a process, this one or another, through the kernel: an unmapped address
//! is an error, not a crash.

use std::ffi::{CStr, c_void};
use std::fs::File;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libfabric_sys as ffi;

type Transfer = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

fn transfer(call: Transfer, pid: u64, remote: u64, local: u64, length: usize) -> Result<(), i32> {
    let mut done = 0;
    while done < length {
        let at = |address: u64| libc::iovec {
            iov_base: (address + done as u64) as *mut c_void,
            iov_len: length - done,
        };
        let (near, far) = (at(local), at(remote));
        let pid = libc::pid_t::try_from(pid).map_err(|_| ffi::FI_EINVAL as i32)?;
        // SAFETY: the kernel checks both sides and fails with EFAULT if a side is not mapped.
        let n = unsafe { call(pid, &near, 1, &far, 1, 0) };
        if n <= 0 {
            return Err(match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::ESRCH) => ffi::FI_EHOSTUNREACH as i32,
                Some(code) => code,
                None => ffi::FI_EIO as i32,
            });
        }
        done += n as usize;
    }
    Ok(())
}

/// Reads words of a process.
pub(crate) fn read(pid: u64, remote: u64, words: &mut [u64]) -> Result<(), i32> {
    get(
        pid,
        remote,
        words.as_mut_ptr() as u64,
        mem::size_of_val(words),
    )
}

/// Copies from a process to `local`.
pub(crate) fn get(pid: u64, remote: u64, local: u64, length: usize) -> Result<(), i32> {
    transfer(libc::process_vm_readv, pid, remote, local, length)
}

/// Copies from `local` to a process.
pub(crate) fn put(pid: u64, remote: u64, local: u64, length: usize) -> Result<(), i32> {
    transfer(libc::process_vm_writev, pid, remote, local, length)
}

/// The lock for one atomic at a time on this node. A mutex excludes threads, and a lock on the
/// library's own file excludes processes; every user of the provider has this file, and no extra
/// file is left behind.
pub(crate) struct Exclusive<'a> {
    _threads: MutexGuard<'a, Option<File>>,
    descriptor: i32,
}

static FILE: Mutex<Option<File>> = Mutex::new(None);

impl Exclusive<'_> {
    pub(crate) fn begin() -> Result<Exclusive<'static>, i32> {
        let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = Some(own_file().ok_or(ffi::FI_EIO as i32)?);
        }
        let descriptor = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: the descriptor stays open while the mutex is held.
        if unsafe { libc::flock(descriptor, libc::LOCK_EX) } != 0 {
            return Err(ffi::FI_EIO as i32);
        }
        Ok(Exclusive {
            _threads: file,
            descriptor,
        })
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor stays open while the mutex is held.
        unsafe { libc::flock(self.descriptor, libc::LOCK_UN) };
    }
}

/// Closes the file again, so that a process without a fabric holds no descriptor of the provider.
pub(crate) fn close_file() {
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn own_file() -> Option<File> {
    // SAFETY: all fields are plain pointers.
    let mut info: libc::Dl_info = unsafe { mem::zeroed() };
    let here = own_file as *const c_void;
    // SAFETY: the argument is the address of a function; the structure receives the answer.
    if unsafe { libc::dladdr(here, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr returns a string that lives as long as the library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    File::open(path.to_str().ok()?).ok()
}
