//! How the calls of a window come to the entries that C programs have set.
//!
//! All hooks of C programs are one hook of the job. For every window it keeps the layers that replaced
//! something, and the functions that were there before; the functions here, set only where a layer has
//! an entry, call the highest layer that has one, and each goes on to the next.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use host::win::{
    Assertion, CompareSwap, FencePlan, LockKind, Op, RequestRef, RmaTable, Transfer, WinError,
    WinResult, Window,
};

use crate::codes::{op_code, type_code};
use crate::error::last_text;
use crate::sync::{HOST_LOCK_EXCLUSIVE, HOST_LOCK_SHARED};
use crate::win_table::{
    HOST_RMA_ENTRIES, HOST_RMA_ROOM, HOST_RMA_TABLE_MAGIC, host_rma_call_t, host_rma_previous,
    host_rma_table_t,
};
use crate::{win_hooks::Hook, win_table as at};

/// What a window keeps: its layers, the lowest first.
pub(crate) struct Layers {
    pub(crate) below: RmaTable,
    pub(crate) tables: Vec<host_rma_table_t>,
    /// The hooks that ran, to be told of the end.
    pub(crate) ran: Vec<Hook>,
}

/// Does what was there before all layers; gives whether a test is over.
type Base<'f> = &'f dyn Fn(&RmaTable) -> WinResult<bool>;

/// One call through the layers, behind `host_rma_layer_t`. It lies on the caller's stack and travels with the call,
/// so tasks that share a thread have one each.
pub(crate) struct Frame<'f> {
    layers: &'f Layers,
    entry: usize,
    /// Layers below the one that is being called.
    left: usize,
    base: Base<'f>,
}

impl Frame<'_> {
    /// Goes on with the next layer.
    pub(crate) fn previous(&self, call: &mut host_rma_call_t) -> WinResult<()> {
        down(self.layers, self.left, self.entry, self.base, call)
    }
}

/// Whether a layer has an entry of its own at a place.
fn is_set(table: &host_rma_table_t, entry: usize) -> bool {
    let inherited = host_rma_previous as *const () as usize;
    table.entries[entry].is_some_and(|entry| entry as usize != inherited)
}

/// Calls the highest of the lowest `left` layers that has the entry, or the base.
fn down(
    layers: &Layers,
    left: usize,
    entry: usize,
    base: Base<'_>,
    call: &mut host_rma_call_t,
) -> WinResult<()> {
    let mut tables = layers.tables.iter().enumerate().take(left).rev();
    let found = tables.find(|(_, table)| is_set(table, entry));
    let Some((left, table)) = found else {
        call.done = c_int::from(base(&layers.below)?);
        return Ok(());
    };
    let Some(function) = table.entries[entry] else {
        return Ok(());
    };
    let frame = Frame {
        layers,
        entry,
        left,
        base,
    };
    // SAFETY: the layer that set the table guarantees that the function is callable; frame and call live until it returns.
    let code = unsafe { function(table.data, (&raw const frame).cast(), call) };
    if code == 0 {
        return Ok(());
    }
    Err(WinError::Layer {
        call: "a window's entry",
        code: code.min(-1),
        reason: last_text(),
    })
}

/// Comes in from the window's table. `call` has the arguments.
fn enter(window: &Window, mut call: host_rma_call_t, base: Base<'_>) -> WinResult<bool> {
    let Some(layers) = window.kept::<Layers>() else {
        return Err(WinError::BadArgument {
            call: "a window's entry",
            reason: "the window keeps no layers".to_owned(),
        });
    };
    let entry = call.entry;
    down(layers, layers.tables.len(), entry, base, &mut call)?;
    Ok(call.done != 0)
}

fn call(entry: usize) -> host_rma_call_t {
    host_rma_call_t {
        size: size_of::<host_rma_call_t>(),
        entry,
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

fn targeted(entry: usize, target: usize) -> host_rma_call_t {
    host_rma_call_t {
        target: target as c_int,
        ..call(entry)
    }
}

fn grouped(entry: usize, group: &[usize], assertion: Assertion) -> host_rma_call_t {
    host_rma_call_t {
        group: group.as_ptr(),
        group_count: group.len(),
        assertion: assertion.bits(),
        ..call(entry)
    }
}

/// C programs' transfers lie together at both ends.
fn moved(entry: usize, transfer: &Transfer<'_>) -> host_rma_call_t {
    host_rma_call_t {
        address: transfer.address,
        origin: transfer.origin.cast(),
        result: transfer.result.cast(),
        count: transfer.target_layout.count(),
        datatype: type_code(transfer.datatype()),
        ..targeted(entry, transfer.target)
    }
}

fn updated(entry: usize, transfer: &Transfer<'_>, op: Op) -> host_rma_call_t {
    host_rma_call_t {
        op: op_code(op),
        ..moved(entry, transfer)
    }
}

/// A request is counted with once.
fn once<'r>(request: &Cell<Option<RequestRef<'r>>>) -> WinResult<RequestRef<'r>> {
    request.take().ok_or_else(|| WinError::BadArgument {
        call: "host_rma_previous",
        reason: "called twice for one request".to_owned(),
    })
}

unsafe fn put(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the buffers.
    let base = |table: &RmaTable| unsafe { (table.put)(window, transfer) }.map(|()| true);
    enter(window, moved(at::HOST_RMA_PUT, transfer), &base).map(drop)
}

unsafe fn get(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the buffers.
    let base = |table: &RmaTable| unsafe { (table.get)(window, transfer) }.map(|()| true);
    enter(window, moved(at::HOST_RMA_GET, transfer), &base).map(drop)
}

unsafe fn accumulate(window: &Window, transfer: &Transfer<'_>, op: Op) -> WinResult<()> {
    // SAFETY: the caller vouches for the buffers.
    let base =
        |table: &RmaTable| unsafe { (table.accumulate)(window, transfer, op) }.map(|()| true);
    enter(
        window,
        updated(at::HOST_RMA_ACCUMULATE, transfer, op),
        &base,
    )
    .map(drop)
}

unsafe fn get_accumulate(window: &Window, transfer: &Transfer<'_>, op: Op) -> WinResult<()> {
    // SAFETY: the caller vouches for the buffers.
    let base =
        |table: &RmaTable| unsafe { (table.get_accumulate)(window, transfer, op) }.map(|()| true);
    enter(
        window,
        updated(at::HOST_RMA_GET_ACCUMULATE, transfer, op),
        &base,
    )
    .map(drop)
}

unsafe fn fetch_and_op(window: &Window, transfer: &Transfer<'_>, op: Op) -> WinResult<()> {
    // SAFETY: the caller vouches for the buffers.
    let base =
        |table: &RmaTable| unsafe { (table.fetch_and_op)(window, transfer, op) }.map(|()| true);
    enter(
        window,
        updated(at::HOST_RMA_FETCH_AND_OP, transfer, op),
        &base,
    )
    .map(drop)
}

unsafe fn compare_and_swap(window: &Window, swap: &CompareSwap) -> WinResult<()> {
    // SAFETY: the caller vouches for the buffers.
    let base = |table: &RmaTable| unsafe { (table.compare_and_swap)(window, swap) }.map(|()| true);
    let call = host_rma_call_t {
        address: swap.address,
        origin: swap.origin.cast_mut().cast(),
        result: swap.result.cast(),
        compare: swap.compare.cast(),
        count: 1,
        datatype: type_code(swap.datatype),
        op: op_code(Op::Replace),
        ..targeted(at::HOST_RMA_COMPARE_AND_SWAP, swap.target)
    };
    enter(window, call, &base).map(drop)
}

unsafe fn rput(window: &Window, transfer: &Transfer<'_>, request: RequestRef<'_>) -> WinResult<()> {
    let request = Cell::new(Some(request));
    let base = |table: &RmaTable| {
        // SAFETY: the caller vouches for the buffers.
        unsafe { (table.rput)(window, transfer, once(&request)?) }.map(|()| true)
    };
    enter(window, moved(at::HOST_RMA_RPUT, transfer), &base).map(drop)
}

unsafe fn rget(window: &Window, transfer: &Transfer<'_>, request: RequestRef<'_>) -> WinResult<()> {
    let request = Cell::new(Some(request));
    let base = |table: &RmaTable| {
        // SAFETY: the caller vouches for the buffers.
        unsafe { (table.rget)(window, transfer, once(&request)?) }.map(|()| true)
    };
    enter(window, moved(at::HOST_RMA_RGET, transfer), &base).map(drop)
}

unsafe fn raccumulate(
    window: &Window,
    transfer: &Transfer<'_>,
    op: Op,
    request: RequestRef<'_>,
) -> WinResult<()> {
    let request = Cell::new(Some(request));
    let base = |table: &RmaTable| {
        // SAFETY: the caller vouches for the buffers.
        unsafe { (table.raccumulate)(window, transfer, op, once(&request)?) }.map(|()| true)
    };
    enter(
        window,
        updated(at::HOST_RMA_RACCUMULATE, transfer, op),
        &base,
    )
    .map(drop)
}

unsafe fn rget_accumulate(
    window: &Window,
    transfer: &Transfer<'_>,
    op: Op,
    request: RequestRef<'_>,
) -> WinResult<()> {
    let request = Cell::new(Some(request));
    let base = |table: &RmaTable| {
        // SAFETY: the caller vouches for the buffers.
        unsafe { (table.rget_accumulate)(window, transfer, op, once(&request)?) }.map(|()| true)
    };
    enter(
        window,
        updated(at::HOST_RMA_RGET_ACCUMULATE, transfer, op),
        &base,
    )
    .map(drop)
}

fn fence(window: &Window, plan: FencePlan, assertion: Assertion) -> WinResult<()> {
    let base = |table: &RmaTable| (table.fence)(window, plan, assertion).map(|()| true);
    enter(window, grouped(at::HOST_RMA_FENCE, &[], assertion), &base).map(drop)
}

/// A lock's code; negative for none.
fn kind_code(kind: Option<LockKind>) -> c_int {
    match kind {
        None => -1,
        Some(LockKind::Shared) => HOST_LOCK_SHARED,
        Some(LockKind::Exclusive) => HOST_LOCK_EXCLUSIVE,
    }
}

fn locked(entry: usize, target: usize, kind: Option<LockKind>) -> host_rma_call_t {
    host_rma_call_t {
        lock: kind_code(kind),
        ..targeted(entry, target)
    }
}

fn lock(window: &Window, rank: usize, kind: LockKind) -> WinResult<()> {
    let base = |table: &RmaTable| (table.lock)(window, rank, kind).map(|()| true);
    enter(window, locked(at::HOST_RMA_LOCK, rank, Some(kind)), &base).map(drop)
}

fn unlock(window: &Window, rank: usize, kind: Option<LockKind>) -> WinResult<()> {
    let base = |table: &RmaTable| (table.unlock)(window, rank, kind).map(|()| true);
    enter(window, locked(at::HOST_RMA_UNLOCK, rank, kind), &base).map(drop)
}

fn lock_all(window: &Window) -> WinResult<()> {
    let base = |table: &RmaTable| (table.lock_all)(window).map(|()| true);
    enter(
        window,
        locked(at::HOST_RMA_LOCK_ALL, 0, Some(LockKind::Shared)),
        &base,
    )
    .map(drop)
}

fn unlock_all(window: &Window, held: bool) -> WinResult<()> {
    let base = |table: &RmaTable| (table.unlock_all)(window, held).map(|()| true);
    let kind = held.then_some(LockKind::Shared);
    enter(window, locked(at::HOST_RMA_UNLOCK_ALL, 0, kind), &base).map(drop)
}

fn flush(window: &Window, call: &'static str, rank: usize) -> WinResult<()> {
    let base = |table: &RmaTable| (table.flush)(window, call, rank).map(|()| true);
    enter(window, targeted(at::HOST_RMA_FLUSH, rank), &base).map(drop)
}

fn flush_local(window: &Window, call: &'static str, rank: usize) -> WinResult<()> {
    let base = |table: &RmaTable| (table.flush_local)(window, call, rank).map(|()| true);
    enter(window, targeted(at::HOST_RMA_FLUSH_LOCAL, rank), &base).map(drop)
}

fn flush_all(window: &Window, name: &'static str) -> WinResult<()> {
    let base = |table: &RmaTable| (table.flush_all)(window, name).map(|()| true);
    enter(window, call(at::HOST_RMA_FLUSH_ALL), &base).map(drop)
}

fn flush_local_all(window: &Window, name: &'static str) -> WinResult<()> {
    let base = |table: &RmaTable| (table.flush_local_all)(window, name).map(|()| true);
    enter(window, call(at::HOST_RMA_FLUSH_LOCAL_ALL), &base).map(drop)
}

fn start(window: &Window, group: &[usize], assertion: Assertion) -> WinResult<()> {
    let base = |table: &RmaTable| (table.start)(window, group, assertion).map(|()| true);
    enter(window, grouped(at::HOST_RMA_START, group, assertion), &base).map(drop)
}

fn complete(window: &Window, group: &[usize]) -> WinResult<()> {
    let base = |table: &RmaTable| (table.complete)(window, group).map(|()| true);
    enter(
        window,
        grouped(at::HOST_RMA_COMPLETE, group, Assertion::empty()),
        &base,
    )
    .map(drop)
}

fn post(window: &Window, group: &[usize], assertion: Assertion) -> WinResult<()> {
    let base = |table: &RmaTable| (table.post)(window, group, assertion).map(|()| true);
    enter(window, grouped(at::HOST_RMA_POST, group, assertion), &base).map(drop)
}

fn wait(window: &Window) -> WinResult<()> {
    let base = |table: &RmaTable| (table.wait)(window).map(|()| true);
    enter(window, call(at::HOST_RMA_WAIT), &base).map(drop)
}

fn test(window: &Window) -> WinResult<bool> {
    let base = |table: &RmaTable| (table.test)(window);
    enter(window, call(at::HOST_RMA_TEST), &base)
}

fn sync(window: &Window) -> WinResult<()> {
    let base = |table: &RmaTable| (table.sync)(window).map(|()| true);
    enter(window, call(at::HOST_RMA_SYNC), &base).map(drop)
}

fn free(window: &Window) -> WinResult<()> {
    let base = |table: &RmaTable| (table.free)(window).map(|()| true);
    enter(window, call(at::HOST_RMA_FREE), &base).map(drop)
}

/// Sets the entries of a window's table that some layer has.
pub(crate) fn set(table: &mut RmaTable, layers: &[host_rma_table_t]) {
    let has = |entry| layers.iter().any(|layer| is_set(layer, entry));
    if has(at::HOST_RMA_PUT) {
        table.put = put;
    }
    if has(at::HOST_RMA_GET) {
        table.get = get;
    }
    if has(at::HOST_RMA_ACCUMULATE) {
        table.accumulate = accumulate;
    }
    if has(at::HOST_RMA_GET_ACCUMULATE) {
        table.get_accumulate = get_accumulate;
    }
    if has(at::HOST_RMA_FETCH_AND_OP) {
        table.fetch_and_op = fetch_and_op;
    }
    if has(at::HOST_RMA_COMPARE_AND_SWAP) {
        table.compare_and_swap = compare_and_swap;
    }
    if has(at::HOST_RMA_RPUT) {
        table.rput = rput;
    }
    if has(at::HOST_RMA_RGET) {
        table.rget = rget;
    }
    if has(at::HOST_RMA_RACCUMULATE) {
        table.raccumulate = raccumulate;
    }
    if has(at::HOST_RMA_RGET_ACCUMULATE) {
        table.rget_accumulate = rget_accumulate;
    }
    if has(at::HOST_RMA_FENCE) {
        table.fence = fence;
    }
    if has(at::HOST_RMA_LOCK) {
        table.lock = lock;
    }
    if has(at::HOST_RMA_UNLOCK) {
        table.unlock = unlock;
    }
    if has(at::HOST_RMA_LOCK_ALL) {
        table.lock_all = lock_all;
    }
    if has(at::HOST_RMA_UNLOCK_ALL) {
        table.unlock_all = unlock_all;
    }
    if has(at::HOST_RMA_FLUSH) {
        table.flush = flush;
    }
    if has(at::HOST_RMA_FLUSH_ALL) {
        table.flush_all = flush_all;
    }
    if has(at::HOST_RMA_FLUSH_LOCAL) {
        table.flush_local = flush_local;
    }
    if has(at::HOST_RMA_FLUSH_LOCAL_ALL) {
        table.flush_local_all = flush_local_all;
    }
    if has(at::HOST_RMA_START) {
        table.start = start;
    }
    if has(at::HOST_RMA_COMPLETE) {
        table.complete = complete;
    }
    if has(at::HOST_RMA_POST) {
        table.post = post;
    }
    if has(at::HOST_RMA_WAIT) {
        table.wait = wait;
    }
    if has(at::HOST_RMA_TEST) {
        table.test = test;
    }
    if has(at::HOST_RMA_SYNC) {
        table.sync = sync;
    }
    if has(at::HOST_RMA_FREE) {
        table.free = free;
    }
}

/// A table as a hook gets it.
pub(crate) fn inherited() -> host_rma_table_t {
    let mut entries = [None; HOST_RMA_ROOM];
    entries[..HOST_RMA_ENTRIES].fill(Some(host_rma_previous as _));
    host_rma_table_t {
        magic: HOST_RMA_TABLE_MAGIC,
        size: size_of::<host_rma_table_t>(),
        data: std::ptr::null_mut::<c_void>(),
        entries,
    }
}
