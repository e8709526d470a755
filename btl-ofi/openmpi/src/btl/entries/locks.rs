//! osc/rdma's locks. A window has two exclusive locks on each rank. MPI_LOCK_EXCLUSIVE takes one of the two locks; each
//! accumulate and each fetch-and-op takes the other.
//!
//! A lock is a 64-bit word of its rank. An origin takes the lock by a compare-and-swap of 0 with 2^63, repeated until it
//! succeeds, and releases it by adding 2^63. A shared lock counts its holders, so a release adds a negative number
//! (osc_rdma_lock.h, osc_rdma_types.h).
//!
//! **Releases do not gather.** MPI_Win_unlock does not wait for releases, and the process may make no further call for long
//! while other ranks wait for the lock.
//!
//! **A release is complete when the target has executed it**, like other updates. If the release of an exclusive lock were
//! complete once sent, an accumulate would save one of three round trips. But the origin's next attempt would then travel right
//! behind the release. Other origins would get no lock while this origin repeats accumulates, as a spin lock made of
//! MPI_Fetch_and_op does (`tests/openmpi/swap_lock.c`).

use plugin_api::BtlAtomicOp;

use crate::bindings as ffi;

/// Whether an update may release a lock.
#[inline(always)]
pub(super) fn may_release(op: ffi::mca_btl_base_atomic_op_t, operand: u64) -> bool {
    operand.cast_signed() < 0 && op == BtlAtomicOp::Add as ffi::mca_btl_base_atomic_op_t
}
