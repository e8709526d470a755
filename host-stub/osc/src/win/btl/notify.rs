//! Puts with notification over the transport. If the transport has no such puts, the put is completed first, and an
//! atomic then raises the counter.

use super::callbacks::done;
use crate::win::error::WinResult;
use crate::win::peer::Peer;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// Whether the transport makes the transfer as one put with notification.
pub(in crate::win) fn is_one_put(window: &Window, transfer: &Transfer<'_>) -> bool {
    let most = window.link.transport.attributes().put_limit;
    window.link.transport.can_notify()
        && transfer.is_contiguous()
        && transfer.origin_layout.bytes() <= most
}

/// Writes to the target, and raises a counter there.
///
/// # Safety
/// The transfer [is one put](is_one_put). The contract of every function of the window's table holds.
pub(in crate::win) unsafe fn put(
    window: &Window,
    transfer: &Transfer<'_>,
    counter: usize,
) -> WinResult<()> {
    let bytes = transfer.origin_layout.bytes();
    // SAFETY: the caller vouches for the transfer.
    unsafe { issue(window, transfer.peer, Some((transfer, bytes)), counter) }
}

/// Raises a counter at a target, after the operations that are complete there.
pub(in crate::win) fn count(window: &Window, peer: &Peer, counter: usize) -> WinResult<()> {
    let is_shared = window.parts.shared.is_some();
    if is_shared || !window.link.transport.can_notify() {
        let word = window.parts.control.plan().notified(counter);
        window.add_word("put_notify", peer, word, 1)?;
        return match is_shared {
            true => window.now_and_then("put_notify"),
            false => Ok(()),
        };
    }
    // SAFETY: without bytes there is no buffer.
    unsafe { issue(window, peer, None, counter) }
}

unsafe fn issue(
    window: &Window,
    peer: &Peer,
    bytes: Option<(&Transfer<'_>, usize)>,
    counter: usize,
) -> WinResult<()> {
    let counter = peer.control(window.parts.control.plan().notified(counter));
    let (local, remote, size) = match bytes {
        Some((transfer, size)) => (
            transfer.origin.cast_const(),
            (transfer.address, transfer.handle),
            size,
        ),
        None => (std::ptr::null(), counter, 0),
    };
    let local = (local, std::ptr::null_mut());
    window.tracked_to(
        "put_notify",
        peer,
        &peer.transfers,
        None,
        |context, data| {
            // SAFETY: the endpoint is the job's; the bytes lie in the origin's buffer and in the memory that the handle
            // covers, as the caller vouches; the counter lies in the peer's control block, which lives until every rank
            // freed the window; `done` takes this context and data, which live while they count this operation.
            unsafe {
                window.link.transport.put_notify(
                    peer.endpoint,
                    local,
                    remote,
                    size,
                    counter,
                    (Some(done), context, data),
                )
            }
        },
    )
}
