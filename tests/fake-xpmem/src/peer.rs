//! The side of a peer: permits and attachments.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Error, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::owner::{address, process_of};

#[derive(Default)]
struct Own {
    last: i64,
    /// The offers of the permits.
    permits: HashMap<i64, i64>,
    /// Size and permit of each attachment, by its address.
    attached: HashMap<usize, (usize, i64)>,
}

fn own() -> MutexGuard<'static, Own> {
    static OWN: LazyLock<Mutex<Own>> = LazyLock::new(Mutex::default);
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn permit(segment: i64) -> Option<i64> {
    let process = process_of(segment);
    // Only an offer of a process that lives has a thread.
    UnixStream::connect_addr(&address(process).ok()?).ok()?;
    let mut own = own();
    own.last += 1;
    let permit = own.last;
    own.permits.insert(permit, segment);
    Some(permit)
}

pub(crate) fn give_back(permit: i64) -> bool {
    let mut own = own();
    let is_used = own.attached.values().any(|(_, by)| *by == permit);
    !is_used && own.permits.remove(&permit).is_some()
}

pub(crate) fn attach(permit: i64, offset: u64, size: usize) -> io::Result<*mut c_void> {
    let refused = |code| Error::from_raw_os_error(code);
    let mut own = own();
    let segment = *own.permits.get(&permit).ok_or(refused(libc::EINVAL))?;
    let process = process_of(segment);
    let mut owner = UnixStream::connect_addr(&address(process)?)?;
    writeln!(owner, "{segment} {offset} {size}")?;
    let mut line = String::new();
    BufReader::new(&owner).read_line(&mut line)?;
    let descriptor: u32 = line.trim().parse().map_err(|_| refused(libc::EFAULT))?;
    let path = format!("/proc/{process}/fd/{descriptor}");
    let file = File::options().read(true).write(true).open(path)?;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let (none, file) = (ptr::null_mut(), file.as_raw_fd());
    // SAFETY: the kernel chooses the place of the new mapping.
    let at = unsafe { libc::mmap(none, size, rights, libc::MAP_SHARED, file, offset as i64) };
    if at == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    own.attached.insert(at.addr(), (size, permit));
    Ok(at)
}

pub(crate) fn detach(at: usize) -> bool {
    let Some((size, _)) = own().attached.remove(&at) else {
        return false;
    };
    // SAFETY: what `attach` mapped at this address; the caller uses it no more.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(at), size) == 0 }
}

pub(crate) fn in_use() -> usize {
    let own = own();
    own.attached.len() + own.permits.len()
}
