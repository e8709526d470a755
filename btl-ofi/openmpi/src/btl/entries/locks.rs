//! osc/rdma's locks. A window has two exclusive ones on each rank: for MPI_LOCK_EXCLUSIVE, and for accumulates and fetch-and-ops,
//! each of which takes one.
//!
//! A lock is a 64-bit word of its rank. An origin takes it by a compare-and-swap of 0 with 2^63, repeated until it succeeds, and
//! releases it by adding 2^63. A shared lock counts its holders, so a release adds a negative number (osc_rdma_lock.h,
//! osc_rdma_types.h).
//!
//! **Releases do not gather.** MPI_Win_unlock does not wait for them, and the process may make no further call for long while
//! others wait for the lock.
//!
//! **Releases are complete when the target has executed them**, like other updates. If the release of an exclusive lock were
//! complete once it is sent, an accumulate would save one of three round trips; but the origin's next attempt would travel right
//! behind the release, and no other origin would get the lock while this one repeats accumulates, as a spin lock made of
//! MPI_Fetch_and_op does (`tests/openmpi/swap_lock.c`).

use plugin_api::BtlAtomicOp;

use crate::bindings as ffi;

/// Whether an update may release a lock.
#[inline(always)]
pub(super) fn may_release(op: ffi::mca_btl_base_atomic_op_t, operand: u64) -> bool {
    operand.cast_signed() < 0 && op == BtlAtomicOp::Add as ffi::mca_btl_base_atomic_op_t
}
