//! Whether memory can be used as its owner registers it, or as a caller passes it. The kernel is asked, which changes no
//! memory.

use plugin_api::Access;

use crate::base::error::Error;
use crate::base::sys;

/// Whether a byte can be read now or, if `writing`, written.
#[cold]
pub(crate) fn is_usable(at: u64, writing: bool) -> bool {
    // The aligned word around the address lies in the same page.
    let word = std::ptr::with_exposed_provenance_mut::<u32>(at as usize & !3);
    match writing {
        true => sys::is_writable(word),
        false => sys::is_readable(word),
    }
}

/// Checks that the first and the last word of `length` bytes at `base` permit the accesses of peers. The call allocates
/// memory for pages of these words that have none yet.
///
/// # Errors
/// [`Error::Invalid`] if a word does not permit the accesses.
pub(crate) fn check(base: u64, length: u64, access: Access) -> Result<(), Error> {
    let writing = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    let reading = access.contains(Access::REMOTE_READ);
    // Memory beyond the address space is refused by another check.
    let last = length
        .checked_sub(1)
        .and_then(|rest| base.checked_add(rest));
    let Some(last) = last.filter(|_| writing || reading) else {
        return Ok(());
    };
    // All bytes of a page permit the same accesses.
    let words = match base / SMALLEST_PAGE == last / SMALLEST_PAGE {
        true => &[base][..],
        false => &[base, last],
    };
    let unusable = words.iter().find(|at| !is_usable(**at, writing));
    let Some(&at) = unusable else { return Ok(()) };
    let (wanted, what) = match (writing, is_usable(at, false)) {
        (true, true) => (
            "written",
            "can only be read; map it to be written, or register it for REMOTE_READ alone",
        ),
        (true, false) => ("written", UNMAPPED),
        (false, _) => ("read", UNMAPPED),
    };
    Err(Error::Invalid {
        what: "memory to register",
        reason: format!(
            "{length} bytes at {base:#x} are to be {wanted} by peers ({access:?}), but the memory at {at:#x} {what}"
        ),
    })
}

/// Bytes that lie in one page on every machine.
const SMALLEST_PAGE: u64 = 4096;

/// The reason why memory cannot be read.
const UNMAPPED: &str = "is not mapped, may not be read, or lies behind the end of its file; register memory after it is mapped, and \
                        keep it so until it is deregistered";
