//! The functions in a window's table for entries of C layers: each describes its call as a
//! `host_rma_call_t` and passes it down the layers.

use std::ffi::c_int;

use host::win::{Assertion, FencePlan, Layout, LockKind, RmaTable, Transfer, WinResult, Window};

use crate::base::codes::{HOST_ON_DEVICE, op_code, type_code};
use crate::win::layers::{enter, is_set};
use crate::win::local_entries;
use crate::win::sync::{HOST_LOCK_EXCLUSIVE, HOST_LOCK_SHARED};
use crate::win::table::{self as at, host_rma_call_t, host_rma_table_t};

fn targeted(target: usize) -> host_rma_call_t {
    host_rma_call_t {
        target: target as c_int,
        ..host_rma_call_t::none(0)
    }
}

fn grouped(group: &[usize], assertion: Assertion) -> host_rma_call_t {
    host_rma_call_t {
        group: group.as_ptr(),
        group_count: group.len(),
        assertion: assertion.bits(),
        ..host_rma_call_t::none(0)
    }
}

/// The code of a lock; negative if no lock was taken.
fn locked(target: usize, kind: Option<LockKind>) -> host_rma_call_t {
    host_rma_call_t {
        lock: match kind {
            None => -1,
            Some(LockKind::Shared) => HOST_LOCK_SHARED,
            Some(LockKind::Exclusive) => HOST_LOCK_EXCLUSIVE,
        },
        ..targeted(target)
    }
}

/// Marks the type if a side is not contiguous, or if the origin's buffer is on a device, so that an entry does
/// not copy the elements itself.
fn moved(transfer: &Transfer<'_>) -> host_rma_call_t {
    let mut layouts = [transfer.origin_layout, transfer.target_layout]
        .into_iter()
        .chain(transfer.result_layout);
    let gaps = match layouts.all(Layout::is_contiguous) {
        true => 0,
        false => at::HOST_WITH_GAPS,
    };
    let place = match transfer.local_handle.is_null() {
        true => 0,
        false => HOST_ON_DEVICE,
    };
    host_rma_call_t {
        address: transfer.address,
        origin: transfer.origin.cast(),
        result: transfer.result.cast(),
        compare: transfer.compare.cast(),
        count: transfer.target_layout.count(),
        datatype: type_code(transfer.datatype()) | gaps | place,
        ..targeted(transfer.target)
    }
}

fn updated(transfer: &Transfer<'_>) -> host_rma_call_t {
    host_rma_call_t {
        op: op_code(transfer.op),
        ..moved(transfer)
    }
}

/// Defines one function. `transfer` is unsafe because of the buffers; `test` answers whether the
/// exposure epoch is over.
macro_rules! entry {
    (transfer $name:ident($transfer:ident: $type:ty) $call:expr) => {
        unsafe fn $name(window: &Window, $transfer: $type) -> WinResult<()> {
            // SAFETY: the caller guarantees the buffers.
            let base = |table: &RmaTable, _: &mut _| unsafe { (table.$name)(window, $transfer) };
            enter(window, $call, &base).map(drop)
        }
    };
    (sync $name:ident($($arg:ident: $type:ty),*) $call:expr) => {
        fn $name(window: &Window, $($arg: $type),*) -> WinResult<()> {
            let base = |table: &RmaTable, _: &mut _| (table.$name)(window, $($arg),*);
            enter(window, $call, &base).map(drop)
        }
    };
    (test $name:ident() $call:expr) => {
        fn $name(window: &Window) -> WinResult<bool> {
            let base = |table: &RmaTable, call: &mut host_rma_call_t| {
                call.done = c_int::from((table.$name)(window)?);
                Ok(())
            };
            Ok(enter(window, $call, &base)?.done != 0)
        }
    };
}

/// Defines all functions, and `set`, which puts them into a window's table.
macro_rules! entries {
    ($($place:ident: $kind:ident $name:ident($($arg:ident: $type:ty),*) = $call:expr;)+) => {
        $(entry!($kind $name($($arg: $type),*) host_rma_call_t {
            entry: at::$place,
            ..$call
        });)+

        /// Sets the entries of a window's table that some layer has.
        pub(crate) fn set(table: &mut RmaTable, layers: &[host_rma_table_t]) {
            let has = |entry| layers.iter().any(|layer| is_set(layer, entry));
            local_entries::set(table, has);
            $(if has(at::$place) {
                table.$name = $name;
            })+
        }
    };
}

entries! {
    HOST_RMA_PUT: transfer put(transfer: &Transfer<'_>) = moved(transfer);
    HOST_RMA_GET: transfer get(transfer: &Transfer<'_>) = moved(transfer);
    HOST_RMA_ACCUMULATE: transfer accumulate(transfer: &Transfer<'_>) = updated(transfer);
    HOST_RMA_GET_ACCUMULATE: transfer get_accumulate(transfer: &Transfer<'_>) = updated(transfer);
    HOST_RMA_FETCH_AND_OP: transfer fetch_and_op(transfer: &Transfer<'_>) = updated(transfer);
    HOST_RMA_COMPARE_AND_SWAP: transfer compare_and_swap(transfer: &Transfer<'_>) = updated(transfer);
    HOST_RMA_RPUT: transfer rput(transfer: &Transfer<'_>) = moved(transfer);
    HOST_RMA_RGET: transfer rget(transfer: &Transfer<'_>) = moved(transfer);
    HOST_RMA_RACCUMULATE: transfer raccumulate(transfer: &Transfer<'_>) = updated(transfer);
    HOST_RMA_RGET_ACCUMULATE: transfer rget_accumulate(transfer: &Transfer<'_>) = updated(transfer);
    HOST_RMA_FENCE: sync fence(plan: FencePlan, assertion: Assertion) = grouped(&[], assertion);
    HOST_RMA_LOCK: sync lock(rank: usize, kind: LockKind) = locked(rank, Some(kind));
    HOST_RMA_UNLOCK: sync unlock(rank: usize, kind: Option<LockKind>) = locked(rank, kind);
    HOST_RMA_LOCK_ALL: sync lock_all() = locked(0, Some(LockKind::Shared));
    HOST_RMA_UNLOCK_ALL: sync unlock_all(held: bool) = locked(0, held.then_some(LockKind::Shared));
    HOST_RMA_FLUSH: sync flush(call: &'static str, rank: usize) = targeted(rank);
    HOST_RMA_FLUSH_ALL: sync flush_all(call: &'static str) = host_rma_call_t::none(0);
    HOST_RMA_FLUSH_LOCAL: sync flush_local(call: &'static str, rank: usize) = targeted(rank);
    HOST_RMA_FLUSH_LOCAL_ALL: sync flush_local_all(call: &'static str) = host_rma_call_t::none(0);
    HOST_RMA_START: sync start(group: &[usize], assertion: Assertion) = grouped(group, assertion);
    HOST_RMA_COMPLETE: sync complete(group: &[usize]) = grouped(group, Assertion::empty());
    HOST_RMA_POST: sync post(group: &[usize], assertion: Assertion) = grouped(group, assertion);
    HOST_RMA_WAIT: sync wait() = host_rma_call_t::none(0);
    HOST_RMA_TEST: test test() = host_rma_call_t::none(0);
    HOST_RMA_SYNC: sync sync() = host_rma_call_t::none(0);
    HOST_RMA_FREE: sync free() = host_rma_call_t::none(0);
}
