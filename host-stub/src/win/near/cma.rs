//! Copies between processes by the kernel (cross-memory attach: `process_vm_readv(2)`,
//! `process_vm_writev(2)`). The kernel allows them to processes that may trace the other one, so they
//! are tried when a window is made ([`reads`]) and given up where they are refused later.

use std::io;

use plugin_api::Status;

use crate::win::error::{WinError, WinResult};
use crate::win::pieces::Pieces;
use crate::win::table::Transfer;

/// Pieces of one system call.
const BATCH: usize = 32;

/// Whether a word of another process can be read, and is what it should be.
pub(in crate::win) fn reads(pid: libc::pid_t, address: u64, wanted: u64) -> bool {
    let mut found = 0u64;
    let local = [vector((&raw mut found).cast(), size_of::<u64>())];
    let remote = [vector(address as *mut u8, size_of::<u64>())];
    // SAFETY: the local word lives; the kernel checks the remote address.
    let copied = unsafe { copy::<false>(pid, &local, &remote) };
    matches!(copied, Ok(size) if size == size_of::<u64>()) && found == wanted
}

fn vector(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: base.cast(),
        iov_len: len,
    }
}

/// One system call; bytes copied.
///
/// # Safety
/// The local vectors name memory of this process that may be read, or written to by a read.
unsafe fn copy<const PUT: bool>(
    pid: libc::pid_t,
    local: &[libc::iovec],
    remote: &[libc::iovec],
) -> io::Result<usize> {
    let call = if PUT {
        libc::process_vm_writev
    } else {
        libc::process_vm_readv
    };
    // SAFETY: both lists are as long as said; the caller vouches for local memory.
    let copied = unsafe {
        call(
            pid,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

/// Moves a transfer's elements. False when the kernel does not let this process do so and nothing
/// was moved: the transport can.
///
/// # Safety
/// The origin's buffer is valid for its layout.
pub(super) unsafe fn transfer<const PUT: bool>(
    transfer: &Transfer<'_>,
    pid: libc::pid_t,
) -> WinResult<bool> {
    let empty = vector(std::ptr::null_mut(), 0);
    let (mut local, mut remote) = ([empty; BATCH], [empty; BATCH]);
    let mut pieces = Pieces::new(
        transfer.origin_layout,
        None,
        transfer.target_layout,
        usize::MAX,
    );
    let mut first = true;
    loop {
        let mut count = 0;
        for (piece, (local, remote)) in pieces
            .by_ref()
            .take(BATCH)
            .zip(local.iter_mut().zip(&mut remote))
        {
            *local = vector(transfer.origin.wrapping_add(piece.origin), piece.len);
            let address = transfer.address.wrapping_add(piece.target as u64);
            *remote = vector(address as *mut u8, piece.len);
            count += 1;
        }
        if count == 0 {
            return Ok(true);
        }
        // SAFETY: pieces lie in the origin's buffer, for which the caller vouches.
        let moved = unsafe { all::<PUT>(pid, &mut local[..count], &mut remote[..count]) };
        match moved {
            Ok(()) => first = false,
            Err(error) if first && is_refusal(&error) => return Ok(false),
            Err(error) => return Err(failed(transfer, pid, &error)),
        }
    }
}

/// Copies all of the vectors, which have equal lengths pair by pair.
unsafe fn all<const PUT: bool>(
    pid: libc::pid_t,
    mut local: &mut [libc::iovec],
    mut remote: &mut [libc::iovec],
) -> io::Result<()> {
    loop {
        // SAFETY: the caller's contract.
        let mut copied = unsafe { copy::<PUT>(pid, local, remote) }?;
        if copied == 0 && !local.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        // One call moves at most 2 GiB less a page, and may stop at any byte.
        let whole = local
            .iter()
            .take_while(|vector| {
                let fits = vector.iov_len <= copied;
                copied -= if fits { vector.iov_len } else { 0 };
                fits
            })
            .count();
        local = &mut local[whole..];
        remote = &mut remote[whole..];
        let (Some(here), Some(there)) = (local.first_mut(), remote.first_mut()) else {
            return Ok(());
        };
        for vector in [here, there] {
            vector.iov_base = vector.iov_base.wrapping_byte_add(copied);
            vector.iov_len -= copied;
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

#[cold]
fn failed(transfer: &Transfer<'_>, pid: libc::pid_t, error: &io::Error) -> WinError {
    let status = match error.raw_os_error() {
        Some(libc::ESRCH) => Status::UNREACH,
        Some(libc::EPERM) => Status::PERM,
        Some(libc::EFAULT) => Status::BAD_PARAM,
        _ => Status::ERROR,
    };
    tracing::error!(
        "{} to rank {} by copying to process {pid}: {error}",
        transfer.call,
        transfer.target
    );
    WinError::Transport {
        call: transfer.call,
        rank: transfer.target,
        status,
    }
}

#[cfg(test)]
mod tests {
    use test_skips::{Lacking, skipped};

    use super::*;

    #[test]
    fn a_word_is_read_and_compared() {
        let own = std::process::id() as libc::pid_t;
        let word = 0x1234_5678_9abc_u64;
        let address = std::ptr::from_ref(&word) as u64;
        if !reads(own, address, word) {
            skipped(
                Lacking::ProcessCopies,
                "the kernel does not copy between processes",
            );
            return;
        }
        assert!(!reads(own, address, word + 1));
        assert!(!reads(own, 8, word));
        // No process has the largest id.
        assert!(!reads(libc::pid_t::MAX, address, word));
    }

    #[test]
    fn vectors_are_copied_whole() {
        let own = std::process::id() as libc::pid_t;
        let from: Vec<u8> = (0..200).collect();
        let mut to = vec![0u8; 200];
        let mut local = Vec::new();
        let mut remote = Vec::new();
        for at in (0..200).step_by(20) {
            local.push(vector(from.as_ptr().wrapping_add(at).cast_mut(), 20));
            remote.push(vector(to.as_mut_ptr().wrapping_add(at), 20));
        }
        // SAFETY: the vectors lie in the two buffers.
        let moved = unsafe { all::<true>(own, &mut local, &mut remote) };
        if moved.as_ref().is_err_and(is_refusal) {
            skipped(
                Lacking::ProcessCopies,
                "the kernel does not copy between processes",
            );
            return;
        }
        moved.unwrap();
        assert_eq!(from, to);
    }
}
