//! Puts and gets with keys that may have ended.
//!
//! Where a message carries a put or get, the target's processor looks at its key, and refuses one of memory that was detached before it
//! does anything ([`TransferFlags::CHECKED`]). So the origin need not look at the target's regions first: it uses the key that it
//! knows. When it meets the refusal, it reads the regions and repeats the operation. Nothing is kept for that but where the operation's
//! bytes are: until it is complete, the program leaves its buffer alone.
//!
//! A refused operation stays counted, so flushes wait for it, and one of them repeats it. A repetition looks first, as do operations of
//! which no message carries so many bytes: network cards and memory may serve a key that ended.
//!
//! Accumulates look first, too: a repetition would have to hold back all later ones to its target, for their order.

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

/// The functions of a dynamic window, of those that a window over the transport has.
pub(in crate::win) fn over(table: RmaTable) -> RmaTable {
    RmaTable {
        put: communicate::<true>,
        get: communicate::<false>,
        ..table
    }
}

/// A put, or a get if not `PUTS`: tried with a key that is known, if a message can carry it, else with one that was looked at.
unsafe fn communicate<const PUTS: bool>(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    let (call, peer, layout) = (transfer.call, transfer.peer, transfer.target_layout);
    let issue = if PUTS { rma::put } else { rma::get };
    if !transfer.handle.is_null() {
        // It was looked at.
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

/// Tries a put or get with a key that may have ended. False: no message carries it, and nothing was done.
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
        // SAFETY: `tried` takes the attempt; the caller vouches for the buffer.
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
        Err(WinError::Transport { status, .. }) if status == Status::NOT_SUPPORTED => {
            // If another thread uses it, the next one is tried in vain, too.
            if let Some(mut cache) = peer.regions().try_take() {
                cache.is_too_long(PUTS, size);
            }
            Ok(false)
        }
        // The target is this process.
        Err(WinError::Transport { status, .. }) if status == Status::PERM => Ok(false),
        Err(error) => Err(error),
    }
}
