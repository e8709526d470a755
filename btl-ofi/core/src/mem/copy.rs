//! Copies between host and device memory: by the user's functions if they are set, else by
//! functions of this crate.

use std::ffi::c_void;

use libfabric_sys as ffi;
use plugin_api::{
    CopyFromFn, CopyFromStridedFn, CopyToFn, CopyToStridedFn, IoVec, OverrideOps, hmem_iface,
};

use super::copy_error::{CopyError, judge};
use super::cuda::{self, Copies};
use super::later::Later;

/// The return value of a copy function for an unknown kind of memory.
pub(crate) const UNKNOWN_KIND: isize = -(ffi::FI_ENOSYS as isize);
pub(super) const INVALID: isize = -(ffi::FI_EINVAL as isize);

/// The copy functions for device memory: the user's functions, or this crate's if the user set
/// none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Copier {
    from: Option<CopyFromFn>,
    to: Option<CopyToFn>,
    pub(super) from_strided: Option<CopyFromStridedFn>,
    pub(super) to_strided: Option<CopyToStridedFn>,
    pub(super) later: Option<Later>,
}

impl Copier {
    /// Uses the functions in `ops`, and this crate's function in place of a missing one.
    pub(crate) fn new(ops: &OverrideOps) -> Copier {
        Copier {
            from: ops.copy_from_hmem_iov,
            to: ops.copy_to_hmem_iov,
            from_strided: ops.copy_from_hmem_strided,
            to_strided: ops.copy_to_hmem_strided,
            later: Later::new(ops),
        }
    }

    /// Whether the user set at least one of the two functions for runs.
    pub(crate) fn is_overridden(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Whether the user set both functions for runs.
    pub(crate) fn is_complete(&self) -> bool {
        self.from.is_some() && self.to.is_some()
    }

    /// Whether copies may reach memory of this kind, as far as this is known before a copy.
    pub(crate) fn may_reach(&self, iface: u32) -> bool {
        self.is_overridden() || iface == hmem_iface::SYSTEM || reaches(iface)
    }

    /// Calls the user's `copy_from_hmem_iov`, or this crate's function. Returns the number of bytes, or a
    /// negative errno.
    ///
    /// # Safety
    /// `iov` and `iface` have `count` elements. `dest` is writable for `size` bytes. Every run of `iov` is memory of
    /// kind `iface`.
    pub(crate) unsafe fn copy_from(
        &self,
        dest: *mut c_void,
        size: usize,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
    ) -> isize {
        match self.from {
            // SAFETY: the caller guarantees the conditions of the user's function.
            Some(from) => unsafe { from(dest, size, iov, iface, count, offset) },
            // SAFETY: the caller guarantees the arrays, `dest` and the runs; `finished` waits for the copies.
            None => unsafe {
                let mut copies = Copies::default();
                let n = each_run(iov, iface, count, offset, size, |kind, at, done, n| {
                    copy(&mut copies, kind, at, (dest.wrapping_byte_add(done), at), n)
                });
                finished(copies, n)
            },
        }
    }

    /// Calls the user's `copy_to_hmem_iov`, or this crate's function. Returns the number of bytes, or a
    /// negative errno.
    ///
    /// # Safety
    /// `iov` and `iface` have `count` elements. `src` is readable for `size` bytes. Each run of `iov` is memory of
    /// the kind in `iface`.
    pub(crate) unsafe fn copy_to(
        &self,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
        src: *const c_void,
        size: usize,
    ) -> isize {
        match self.to {
            // SAFETY: the caller guarantees the conditions of the user's function.
            Some(to) => unsafe { to(iov, iface, count, offset, src, size) },
            // SAFETY: the caller guarantees the arrays, `src` and the runs; `finished` waits for the copies.
            None => unsafe {
                let mut copies = Copies::default();
                let n = each_run(iov, iface, count, offset, size, |kind, at, done, n| {
                    let from = src.wrapping_byte_add(done).cast_mut();
                    copy(&mut copies, kind, at, (at, from), n)
                });
                finished(copies, n)
            },
        }
    }

    /// Copies `size` bytes of device memory at `at` to `dest`.
    ///
    /// # Safety
    /// `dest` is writable for `size` bytes, and `at` names `size` bytes of memory of kind `iface`.
    pub(crate) unsafe fn read(
        &self,
        iface: u32,
        at: u64,
        dest: *mut u8,
        size: usize,
    ) -> Result<(), CopyError> {
        let iov = run(at, size);
        // SAFETY: `iov` and `iface` have one element. The caller guarantees `dest` and the run.
        let answer = unsafe { self.copy_from(dest.cast(), size, &iov, &iface, 1, 0) };
        judge("copy_from_hmem_iov", iface, at, size, answer)
    }

    /// Copies `size` bytes at `src` to device memory at `at`.
    ///
    /// # Safety
    /// `src` is readable for `size` bytes, and `at` names `size` bytes of memory of kind `iface`.
    pub(crate) unsafe fn write(
        &self,
        iface: u32,
        at: u64,
        src: *const u8,
        size: usize,
    ) -> Result<(), CopyError> {
        let iov = run(at, size);
        // SAFETY: `iov` and `iface` have one element. The caller guarantees `src` and the run.
        let answer = unsafe { self.copy_to(&iov, &iface, 1, 0, src.cast(), size) };
        judge("copy_to_hmem_iov", iface, at, size, answer)
    }
}

/// Whether this crate's functions reach memory of this kind on this machine.
pub(crate) fn reaches(iface: u32) -> bool {
    iface == hmem_iface::CUDA && cuda::devices() > 0
}

pub(super) fn run(at: u64, size: usize) -> IoVec {
    IoVec {
        base: std::ptr::without_provenance_mut(at as usize),
        len: size,
    }
}

/// Copies `n` bytes from `from` to `to`. `at` is the address of the two that is memory of kind `iface`. A copy of
/// device memory is complete after [`Copies::finish`]. Returns 0 or a negative errno.
///
/// # Safety
/// Until the copy is complete, `from` is readable and `to` writable for `n` bytes, as memory of this process or
/// of kind `iface`.
unsafe fn copy(
    copies: &mut Copies,
    iface: u32,
    at: *mut c_void,
    (to, from): (*mut c_void, *mut c_void),
    n: usize,
) -> isize {
    match iface {
        hmem_iface::SYSTEM => {
            // SAFETY: the caller guarantees that `from` is readable and `to` writable; `ptr::copy` allows overlap.
            unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), n) };
            0
        }
        // SAFETY: the caller guarantees both ranges until `finish`; the driver checks the addresses.
        hmem_iface::CUDA => unsafe { copies.add(at, to, from, n) },
        _ => UNKNOWN_KIND,
    }
}

/// Waits for the copies of all visited runs. Returns the byte count or error of the visit, or the error of the
/// wait.
fn finished(mut copies: Copies, walked: isize) -> isize {
    let rc = copies.finish();
    if walked < 0 || rc == 0 { walked } else { rc }
}

/// Visits at most `size` bytes of the runs, starting `offset` bytes into them. Returns the number of bytes, or
/// the first error. `visit` gets the kind, the address, the number of bytes before it, and the number of bytes
/// to copy.
///
/// # Safety
/// `iov` and `iface` have `count` elements, unless NULL.
unsafe fn each_run(
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    offset: u64,
    size: usize,
    mut visit: impl FnMut(u32, *mut c_void, usize, usize) -> isize,
) -> isize {
    if count == 0 || iov.is_null() || iface.is_null() {
        return if size == 0 { 0 } else { INVALID };
    }
    // SAFETY: both pointers are not NULL, and the caller guarantees `count` elements each.
    let (runs, kinds) = unsafe {
        (
            std::slice::from_raw_parts(iov, count),
            std::slice::from_raw_parts(iface, count),
        )
    };
    let mut skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut done = 0;
    for (run, &kind) in runs.iter().zip(kinds) {
        if skip >= run.len {
            skip -= run.len;
            continue;
        }
        let n = (run.len - skip).min(size - done);
        let rc = visit(kind, run.base.wrapping_byte_add(skip), done, n);
        if rc < 0 {
            return rc;
        }
        done += n;
        skip = 0;
        if done == size {
            break;
        }
    }
    isize::try_from(done).unwrap_or(isize::MAX)
}

#[cfg(test)]
mod tests {
    use plugin_api::Status;

    use super::*;

    fn iov(bytes: &mut [u8]) -> IoVec {
        IoVec {
            base: bytes.as_mut_ptr().cast(),
            len: bytes.len(),
        }
    }

    #[test]
    fn host_runs_are_walked_from_an_offset() {
        let (mut a, mut b) = ([1u8, 2, 3], [4u8, 5, 6, 7]);
        let runs = [iov(&mut a), iov(&mut b)];
        let kinds = [hmem_iface::SYSTEM; 2];
        let mut flat = [0u8; 4];
        let copier = Copier::default();
        // SAFETY: the runs are two live arrays, and the buffers hold at least as many bytes as are copied.
        let (n, m) = unsafe {
            (
                copier.copy_from(
                    flat.as_mut_ptr().cast(),
                    4,
                    runs.as_ptr(),
                    kinds.as_ptr(),
                    2,
                    2,
                ),
                copier.copy_to(
                    runs.as_ptr(),
                    kinds.as_ptr(),
                    2,
                    1,
                    [9u8, 8, 7].as_ptr().cast(),
                    3,
                ),
            )
        };
        assert_eq!((n, flat), (4, [3, 4, 5, 6]));
        assert_eq!((m, a, b), (3, [1, 9, 8], [7, 5, 6, 7]));
    }

    #[test]
    fn past_the_end_there_is_nothing() {
        let mut a = [1u8, 2, 3];
        let (runs, mut flat) = ([iov(&mut a)], [0u8; 8]);
        // SAFETY: the run is a live array, and the buffer holds eight bytes.
        let n = unsafe {
            Copier::default().copy_from(flat.as_mut_ptr().cast(), 8, runs.as_ptr(), &0, 1, 2)
        };
        assert_eq!(n, 1);
    }

    #[test]
    fn unknown_kinds_are_refused_by_name() {
        let mut byte = 0u8;
        // SAFETY: the buffer holds one byte; the kind is refused before the address is used.
        let error = unsafe { Copier::default().read(77, 0x1000, &mut byte, 1) }.unwrap_err();
        assert_eq!(error.status(), Status::NOT_SUPPORTED);
        let text = error.to_string();
        assert!(
            text.contains("copy_from_hmem_iov") && text.contains("interface 77"),
            "{text}"
        );
    }

    #[test]
    fn fewer_and_more_bytes_are_errors() {
        for answer in [3, 5, 0, isize::MIN, isize::MAX] {
            let error = judge("copy_to_hmem_iov", 1, 0, 4, answer).unwrap_err();
            assert_eq!(error.status(), Status::ERROR);
            assert!(error.to_string().contains(&answer.to_string()));
        }
        assert!(judge("copy_to_hmem_iov", 1, 0, 4, 4).is_ok());
        // An error that means "try again" must not make the caller try forever.
        let error = judge("copy_to_hmem_iov", 1, 0, 4, -(ffi::FI_EAGAIN as isize)).unwrap_err();
        assert_eq!(error.status(), Status::ERROR);
    }
}
