//! Puts and gets with keys that may have ended.
//!
//! If a message carries a put or get, the target's processor checks its key, and refuses a key of detached memory before it
//! does anything ([`TransferFlags::CHECKED`]). So the origin need not read the target's regions first: it uses the key that it
//! knows. If the target refuses, the origin reads the regions and repeats the operation. For a repetition the origin keeps
//! only the place of the operation's bytes, because the program leaves its buffer alone until the operation is complete.
//!
//! A refused operation stays counted, so flushes wait for it, and one flush repeats it. A repetition reads the regions first.
//! An operation that is too long for a message reads the regions first, too, because network cards and memory may accept a
//! key that has ended.
//!
//! Accumulates read the regions first, too: to keep their order, a repetition would have to delay all later accumulates to its
//! target.

use std::ptr::NonNull;

use plugin_api::{Status, TransferFlags};

use crate::win::btl::rma;
use crate::win::dynamic::refused::{Attempt, tried};
use crate::win::dynamic::region_cache::{KeyUse, Known};
use crate::win::dynamic::regions::KeyWords;
use crate::win::dynamic::repeats::post;
use crate::win::error::{WinError, WinResult};
use crate::win::table::RmaTable;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// The functions of a dynamic window, based on those of a window over the transport.
pub(in crate::win) fn over(table: RmaTable) -> RmaTable {
    RmaTable {
        put: communicate::<true>,
        get: communicate::<false>,
        ..table
    }
}

/// A put, or a get if not `PUTS`. The call tries a known key if a message can carry the transfer, otherwise it looks the
/// key up.
unsafe fn communicate<const PUTS: bool>(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    let (call, peer, layout) = (transfer.call, transfer.peer, transfer.target_layout);
    let issue = if PUTS { rma::put } else { rma::get };
    if !transfer.handle.is_null() {
        // The caller looked the handle up.
        // SAFETY: the caller vouches for the transfer.
        return unsafe { issue(window, transfer) };
    }
    let (begin, extent) = (layout.begin(), layout.extent() - layout.begin());
    let range = (transfer.address.wrapping_add(begin as u64), extent);
    let key = match window.known_key(peer, range, (PUTS, layout.bytes())) {
        Some(Known::Attached(key)) => key,
        // SAFETY: the caller vouches for the transfer.
        Some(Known::Perhaps(key)) if unsafe { attempt::<PUTS>(window, transfer, &key) }? => {
            return Ok(());
        }
        _ => window.region_key(call, peer, range, KeyUse::UntilComplete)?,
    };
    let handle = key.as_ptr().cast();
    // SAFETY: the caller vouches for the transfer, and the key is of the region that holds its memory.
    unsafe {
        issue(
            window,
            &Transfer {
                handle,
                ..*transfer
            },
        )
    }
}

/// Tries a put or get with a key that may have ended. False: no message carries the transfer, and nothing was done.
///
/// # Safety
/// The caller vouches for the transfer.
unsafe fn attempt<const PUTS: bool>(
    window: &Window,
    transfer: &Transfer<'_>,
    key: &KeyWords,
) -> WinResult<bool> {
    let (call, peer, size) = (transfer.call, transfer.peer, transfer.origin_layout.bytes());
    let attributes = window.link.transport.attributes();
    let limit = match PUTS {
        true => attributes.put_limit,
        false => attributes.get_limit,
    };
    if !transfer.is_contiguous() || size > limit || !transfer.local_handle.is_null() {
        return Ok(false);
    }
    let cell = peer.transfers.begin();
    let attempt = Box::new(Attempt {
        rank: peer.rank,
        puts: PUTS,
        local: transfer.origin,
        remote: transfer.address,
        size,
        cell: NonNull::from(cell),
        refused: NonNull::from(&window.parts.refused),
    });
    let attempt = NonNull::from(Box::leak(attempt));
    let issued = window.issue(call, peer.rank, || {
        let told = (tried as _, attempt.as_ptr().cast());
        let place = (transfer.origin, transfer.address, size);
        // SAFETY: `tried` takes over the attempt; the caller vouches for the buffer.
        unsafe {
            post(
                window,
                peer,
                (PUTS, TransferFlags::CHECKED),
                (place, key),
                told,
            )
        }
    });
    window.note(peer);
    if let Ok(Status::SUCCESS) = issued {
        return Ok(true);
    }
    // No callback will run.
    // SAFETY: leaked above.
    drop(unsafe { Box::from_raw(attempt.as_ptr()) });
    cell.finish(0);
    match issued {
        Ok(_) => Ok(true),
        Err(error) => match *error {
            WinError::Transport { status, .. } if status == Status::NOT_SUPPORTED => {
                // If another thread uses the cache, the next transfer of this size is tried in vain, too.
                if let Some(mut cache) = peer.regions().try_take() {
                    cache.is_too_long(PUTS, size);
                }
                Ok(false)
            }
            // The target is this process.
            WinError::Transport { status, .. } if status == Status::PERM => Ok(false),
            _ => Err(error),
        },
    }
}
