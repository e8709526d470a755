//! osc/rdma's locks. A window has two exclusive ones on each rank: for MPI_LOCK_EXCLUSIVE, and for accumulates and fetch-and-ops,
//! each of which takes one.
//!
//! A lock is a 64-bit word of its rank. An origin takes it by a compare-and-swap of 0 with [`EXCLUSIVE`], repeated until it
//! succeeds, and releases it by adding `EXCLUSIVE`. A shared lock counts its holders, so a release adds a negative number
//! (osc_rdma_lock.h, osc_rdma_types.h).
//!
//! **Releases do not gather.** MPI_Win_unlock does not wait for them, and the process may make no further call for long while
//! others wait for the lock.
//!
//! **The release of an exclusive lock by message is complete once it is sent.** A flush would wait for it, but
//! nothing needs the answer: what the lock protected is complete before, the origin's next attempt travels
//! behind the release, and other origins repeat theirs until it has arrived. That saves an accumulate one of three round
//! trips. The release is sent before the call returns, because the process may make no further call for long.
//!
//! **It may arrive after MPI_Win_free**, before which osc/rdma neither flushes nor waits for more than the operations that it
//! knows, and a barrier orders nothing between two other processes. Then its region is no longer registered, so the target
//! refuses it, and nobody needs it. Where registrations stay in Open MPI's cache, the target would execute it in memory that
//! the program may have reused; there releases are waited for like other updates.
//!
//! A program may add the same number to a word of its own, so only a word that was taken like a lock counts as one.

use plugin_api::{BtlAtomicOp, OpFlags};

use super::call::Call;
use crate::bindings as ffi;
use crate::last_lock::Word;

/// osc/rdma's OMPI_OSC_RDMA_LOCK_EXCLUSIVE. It is its own negative, which a release adds.
pub(super) const EXCLUSIVE: u64 = 1 << 63;

/// Whether an update may release a lock.
#[inline(always)]
pub(super) fn may_release(op: ffi::mca_btl_base_atomic_op_t, operand: u64) -> bool {
    operand.cast_signed() < 0 && op == BtlAtomicOp::Add as ffi::mca_btl_base_atomic_op_t
}

fn word(call: &Call<'_>, address: u64) -> Word {
    (call.endpoint.as_ptr().addr(), address)
}

/// Notes a compare-and-swap, which may be an attempt to take a lock.
pub(super) fn attempt(call: &Call<'_>, flags: OpFlags, (address, compare, value): (u64, u64, u64)) {
    if value == EXCLUSIVE && compare == 0 && flags.is_empty() {
        call.module.last_lock().set(word(call, address));
    }
}

/// Makes an update that releases a lock, so that it is complete. Returns false, having done nothing, for any other update, and
/// where releases are made as other updates are.
pub(super) fn release(
    call: &Call<'_>,
    (op, flags): (BtlAtomicOp, OpFlags),
    (address, operand): (u64, u64),
) -> bool {
    if operand != EXCLUSIVE || op != BtlAtomicOp::Add || !flags.is_empty() {
        return false;
    }
    // SAFETY: `add_procs` returned the endpoint, and it is live until `del_procs`.
    let peer = unsafe { call.endpoint.as_ref() };
    let transport = call.module.transport();
    // The target has the same provider, so it caches registrations if this process would.
    !transport.capabilities().registers_pages
        && call.module.last_lock().release(word(call, address))
        && transport
            .add_unreported(peer, call.handle, address, operand)
            .is_some()
}
