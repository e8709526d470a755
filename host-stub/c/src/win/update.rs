//! Atomic updates of windows: `count` elements of a type that lie together.

use std::ffi::{c_int, c_void};

use crate::base::handles::place;
use crate::win::elements::Given;
use crate::win::handler::guarded_on;
use crate::win::request::{give, give_complete, host_request_t};
use crate::win::window::host_win_t;

/// `target = target op origin`, each element atomically with respect to other accumulates.
///
/// # Safety
/// Nothing else uses the buffers until the operation is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_accumulate(
    origin: *const c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_accumulate";
        let given = Given {
            call,
            buffers: &[(origin, false)],
            count,
            datatype,
            op,
            target,
            displacement,
            win,
        };
        // SAFETY: passed on.
        let Some(update) = unsafe { given.check() }? else {
            return Ok(());
        };
        // SAFETY: the caller guarantees the buffers.
        Ok(unsafe {
            update
                .win
                .window
                .accumulate(origin.cast(), &update.layout, update.target(), update.op)
        }?)
    })
}

/// As host_accumulate, and fetches what was at the target to `result`. `origin` may be NULL with HOST_NO_OP.
///
/// # Safety
/// Nothing else uses the buffers until the operation is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_get_accumulate(
    origin: *const c_void,
    result: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_get_accumulate";
        let given = Given {
            call,
            buffers: &[
                (origin, op == crate::base::codes::HOST_NO_OP),
                (result.cast_const(), false),
            ],
            count,
            datatype,
            op,
            target,
            displacement,
            win,
        };
        // SAFETY: passed on.
        let Some(update) = unsafe { given.check() }? else {
            return Ok(());
        };
        // SAFETY: the caller guarantees the buffers.
        Ok(unsafe {
            update.win.window.get_accumulate(
                origin.cast(),
                &update.layout,
                result.cast(),
                &update.layout,
                update.target(),
                update.op,
            )
        }?)
    })
}

/// As host_get_accumulate, for one element.
///
/// # Safety
/// Nothing else uses the buffers until the operation is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_fetch_and_op(
    origin: *const c_void,
    result: *mut c_void,
    datatype: c_int,
    op: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_fetch_and_op";
        let given = Given {
            call,
            buffers: &[
                (origin, op == crate::base::codes::HOST_NO_OP),
                (result.cast_const(), false),
            ],
            count: 1,
            datatype,
            op,
            target,
            displacement,
            win,
        };
        // SAFETY: passed on.
        let Some(update) = unsafe { given.check() }? else {
            return Ok(());
        };
        // SAFETY: the caller guarantees the buffers.
        Ok(unsafe {
            update.win.window.fetch_and_op(
                origin.cast(),
                result.cast(),
                update.datatype,
                update.rank,
                update.displacement,
                update.op,
            )
        }?)
    })
}

/// Writes the element at `origin` to the target if the one there equals that at `compare`, and fetches what was there. Integers only.
///
/// # Safety
/// Nothing else uses the buffers until the operation is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_compare_and_swap(
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    datatype: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_compare_and_swap";
        let given = Given {
            call,
            buffers: &[
                (origin, false),
                (compare, false),
                (result.cast_const(), false),
            ],
            count: 1,
            datatype,
            op: crate::base::codes::HOST_REPLACE,
            target,
            displacement,
            win,
        };
        // SAFETY: passed on.
        let Some(update) = unsafe { given.check() }? else {
            return Ok(());
        };
        // SAFETY: the caller guarantees the buffers.
        Ok(unsafe {
            update.win.window.compare_and_swap(
                origin.cast(),
                compare.cast(),
                result.cast(),
                update.datatype,
                update.rank,
                update.displacement,
            )
        }?)
    })
}

/// As host_accumulate, with a request. In lock and lock_all epochs only.
///
/// # Safety
/// Nothing else uses the buffers until the operation is complete. `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_raccumulate(
    origin: *const c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
    request: *mut *mut host_request_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_raccumulate";
        // SAFETY: passed on.
        let place = unsafe { place(call, request) }?;
        let given = Given {
            call,
            buffers: &[(origin, false)],
            count,
            datatype,
            op,
            target,
            displacement,
            win,
        };
        // SAFETY: passed on.
        let Some(update) = unsafe { given.check() }? else {
            // SAFETY: passed on.
            return unsafe { give_complete(call, place, win) };
        };
        // SAFETY: the caller guarantees the buffers.
        let made = unsafe {
            update
                .win
                .window
                .raccumulate(origin.cast(), &update.layout, update.target(), update.op)
        }?;
        give(place, made, update.win);
        Ok(())
    })
}

/// As host_get_accumulate, with a request. In lock and lock_all epochs only.
///
/// # Safety
/// Nothing else uses the buffers until the operation is complete. `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_rget_accumulate(
    origin: *const c_void,
    result: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
    request: *mut *mut host_request_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_rget_accumulate";
        // SAFETY: passed on.
        let place = unsafe { place(call, request) }?;
        let given = Given {
            call,
            buffers: &[
                (origin, op == crate::base::codes::HOST_NO_OP),
                (result.cast_const(), false),
            ],
            count,
            datatype,
            op,
            target,
            displacement,
            win,
        };
        // SAFETY: passed on.
        let Some(update) = unsafe { given.check() }? else {
            // SAFETY: passed on.
            return unsafe { give_complete(call, place, win) };
        };
        // SAFETY: the caller guarantees the buffers.
        let made = unsafe {
            update.win.window.rget_accumulate(
                origin.cast(),
                &update.layout,
                result.cast(),
                &update.layout,
                update.target(),
                update.op,
            )
        }?;
        give(place, made, update.win);
        Ok(())
    })
}
