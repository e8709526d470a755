//! The functions that stand in a window's table where a C layer has an entry: each describes its call as a
//! `host_rma_call_t` and passes it down the layers.

use std::cell::Cell;
use std::ffi::c_int;

use host::win::{
    Assertion, FencePlan, Layout, LockKind, RequestRef, RmaTable, Transfer, WinError, WinResult,
    Window,
};

use crate::base::codes::{op_code, type_code};
use crate::win::layers::{enter, is_set};
use crate::win::sync::{HOST_LOCK_EXCLUSIVE, HOST_LOCK_SHARED};
use crate::win::table::{self as at, host_rma_call_t, host_rma_table_t};

/// A call to no target. The macro sets its entry.
fn local() -> host_rma_call_t {
    host_rma_call_t {
        size: size_of::<host_rma_call_t>(),
        entry: 0,
        target: 0,
        lock: -1,
        assertion: 0,
        done: 0,
        address: 0,
        origin: std::ptr::null_mut(),
        result: std::ptr::null_mut(),
        compare: std::ptr::null(),
        count: 0,
        datatype: 0,
        op: 0,
        group: std::ptr::null(),
        group_count: 0,
    }
}

fn targeted(target: usize) -> host_rma_call_t {
    host_rma_call_t {
        target: target as c_int,
        ..local()
    }
}

fn grouped(group: &[usize], assertion: Assertion) -> host_rma_call_t {
    host_rma_call_t {
        group: group.as_ptr(),
        group_count: group.len(),
        assertion: assertion.bits(),
        ..local()
    }
}

/// A lock's code is negative where no lock was taken.
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

/// Marks the type where a side is not contiguous, so that an entry does not copy the elements itself.
fn moved(transfer: &Transfer<'_>) -> host_rma_call_t {
    let mut layouts = [transfer.origin_layout, transfer.target_layout]
        .into_iter()
        .chain(transfer.result_layout);
    let gaps = match layouts.all(Layout::is_contiguous) {
        true => 0,
        false => at::HOST_WITH_GAPS,
    };
    host_rma_call_t {
        address: transfer.address,
        origin: transfer.origin.cast(),
        result: transfer.result.cast(),
        compare: transfer.compare.cast(),
        count: transfer.target_layout.count(),
        datatype: type_code(transfer.datatype()) | gaps,
        ..targeted(transfer.target)
    }
}

fn updated(transfer: &Transfer<'_>) -> host_rma_call_t {
    host_rma_call_t {
        op: op_code(transfer.op),
        ..moved(transfer)
    }
}

/// A request counts one operation, so a layer continues at most once.
fn once<'r>(request: &Cell<Option<RequestRef<'r>>>) -> WinResult<RequestRef<'r>> {
    request.take().ok_or_else(|| WinError::BadArgument {
        call: "host_rma_previous",
        reason: "called twice for one request".to_owned(),
    })
}

/// Defines one function. `transfer` and `request` are unsafe because of the buffers; `test` answers whether the
/// exposure epoch is over.
macro_rules! entry {
    (transfer $name:ident($transfer:ident: $type:ty) $call:expr) => {
        unsafe fn $name(window: &Window, $transfer: $type) -> WinResult<()> {
            // SAFETY: the caller guarantees the buffers.
            let base = |table: &RmaTable| unsafe { (table.$name)(window, $transfer) }.map(|()| true);
            enter(window, $call, &base).map(drop)
        }
    };
    (request $name:ident($transfer:ident: $type:ty) $call:expr) => {
        unsafe fn $name(
            window: &Window,
            $transfer: $type,
            request: RequestRef<'_>,
        ) -> WinResult<()> {
            let request = Cell::new(Some(request));
            let base = |table: &RmaTable| {
                let request = once(&request)?;
                // SAFETY: the caller guarantees the buffers.
                unsafe { (table.$name)(window, $transfer, request) }.map(|()| true)
            };
            enter(window, $call, &base).map(drop)
        }
    };
    (sync $name:ident($($arg:ident: $type:ty),*) $call:expr) => {
        fn $name(window: &Window, $($arg: $type),*) -> WinResult<()> {
            let base = |table: &RmaTable| (table.$name)(window, $($arg),*).map(|()| true);
            enter(window, $call, &base).map(drop)
        }
    };
    (test $name:ident() $call:expr) => {
        fn $name(window: &Window) -> WinResult<bool> {
            enter(window, $call, &|table: &RmaTable| (table.$name)(window))
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
    HOST_RMA_RPUT: request rput(transfer: &Transfer<'_>) = moved(transfer);
    HOST_RMA_RGET: request rget(transfer: &Transfer<'_>) = moved(transfer);
    HOST_RMA_RACCUMULATE: request raccumulate(transfer: &Transfer<'_>) = updated(transfer);
    HOST_RMA_RGET_ACCUMULATE: request rget_accumulate(transfer: &Transfer<'_>) = updated(transfer);
    HOST_RMA_FENCE: sync fence(plan: FencePlan, assertion: Assertion) = grouped(&[], assertion);
    HOST_RMA_LOCK: sync lock(rank: usize, kind: LockKind) = locked(rank, Some(kind));
    HOST_RMA_UNLOCK: sync unlock(rank: usize, kind: Option<LockKind>) = locked(rank, kind);
    HOST_RMA_LOCK_ALL: sync lock_all() = locked(0, Some(LockKind::Shared));
    HOST_RMA_UNLOCK_ALL: sync unlock_all(held: bool) = locked(0, held.then_some(LockKind::Shared));
    HOST_RMA_FLUSH: sync flush(call: &'static str, rank: usize) = targeted(rank);
    HOST_RMA_FLUSH_ALL: sync flush_all(call: &'static str) = local();
    HOST_RMA_FLUSH_LOCAL: sync flush_local(call: &'static str, rank: usize) = targeted(rank);
    HOST_RMA_FLUSH_LOCAL_ALL: sync flush_local_all(call: &'static str) = local();
    HOST_RMA_START: sync start(group: &[usize], assertion: Assertion) = grouped(group, assertion);
    HOST_RMA_COMPLETE: sync complete(group: &[usize]) = grouped(group, Assertion::empty());
    HOST_RMA_POST: sync post(group: &[usize], assertion: Assertion) = grouped(group, assertion);
    HOST_RMA_WAIT: sync wait() = local();
    HOST_RMA_TEST: test test() = local();
    HOST_RMA_SYNC: sync sync() = local();
    HOST_RMA_FREE: sync free() = local();
}
