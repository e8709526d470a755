//! The functions that Open MPI calls: each is one guarded call of the module.

use std::ffi::{c_int, c_void};

use super::Module;
use super::accumulate::Update;
use super::requests::Theirs;
use super::rma::{Buffer, Place};
use crate::bindings as ffi;
use crate::guard::guarded;
use crate::osc::calls::{self, Call};
use crate::osc::error::{Code, outcome};
use crate::osc::{progress, request};
use crate::series::{Count, Unit};

type Win = *mut ffi::ompi_win_t;
type Type = *mut ffi::ompi_datatype_t;
type MpiOp = *mut ffi::ompi_op_t;
type MpiRequest = *mut *mut ffi::ompi_request_t;
type MpiGroup = *mut ffi::ompi_group_t;

/// The functions of a window.
pub(super) const TABLE: ffi::ompi_osc_base_module_t = ffi::ompi_osc_base_module_t {
    osc_win_shared_query: Some(shared_query),
    osc_win_attach: Some(attach),
    osc_win_detach: Some(detach),
    osc_free: Some(free),
    osc_put: Some(put),
    osc_get: Some(get),
    osc_accumulate: Some(accumulate),
    osc_compare_and_swap: Some(compare_and_swap),
    osc_fetch_and_op: Some(fetch_and_op),
    osc_get_accumulate: Some(get_accumulate),
    osc_rput: Some(rput),
    osc_rget: Some(rget),
    osc_raccumulate: Some(raccumulate),
    osc_rget_accumulate: Some(rget_accumulate),
    osc_fence: Some(fence),
    osc_start: Some(start),
    osc_complete: Some(complete),
    osc_post: Some(post),
    osc_wait: Some(wait),
    osc_test: Some(test),
    osc_lock: Some(lock),
    osc_unlock: Some(unlock),
    osc_lock_all: Some(lock_all),
    osc_unlock_all: Some(unlock_all),
    osc_sync: Some(sync),
    osc_flush: Some(flush),
    osc_flush_all: Some(flush_all),
    osc_flush_local: Some(flush_local),
    osc_flush_local_all: Some(flush_local_all),
};

/// A call of the module of a window.
#[inline]
fn call(name: &str, win: Win, run: impl FnOnce(&Module) -> Code) -> c_int {
    guarded(name, ffi::OMPI_ERROR, || {
        // SAFETY: Open MPI calls the functions of a module with its window, until `free` has ended it.
        let module = unsafe { Module::of(win) };
        outcome(run(module))
    })
}

/// A call with a target's rank; a call to MPI_PROC_NULL has no effect.
#[inline]
fn to(name: &str, target: c_int, win: Win, run: impl FnOnce(&Module, usize) -> Code) -> c_int {
    match usize::try_from(target) {
        Ok(rank) => call(name, win, |module| run(module, rank)),
        Err(_) if target == ffi::MPI_PROC_NULL => ffi::OMPI_SUCCESS,
        Err(_) => ffi::MPI_ERR_RANK as c_int,
    }
}

/// A call with a request.
#[inline]
fn requested(
    name: &str,
    target: c_int,
    win: Win,
    out: MpiRequest,
    run: impl FnOnce(&Module, usize) -> Theirs,
) -> c_int {
    // SAFETY: Open MPI passes a writable pointer.
    let give = |theirs| unsafe { out.write(theirs) };
    if target == ffi::MPI_PROC_NULL {
        give(request::over());
        return ffi::OMPI_SUCCESS;
    }
    progress::called();
    to(name, target, win, |module, rank| {
        run(module, rank).map(give)
    })
}

macro_rules! of_window {
    ($($name:ident($($argument:ident: $type:ty),*) => $method:ident;)*) => { $(
        unsafe extern "C" fn $name($($argument: $type,)* win: Win) -> c_int {
            progress::called();
            call(stringify!($name), win, |module| module.$method($($argument),*))
        }
    )* };
}

of_window! {
    fence(assert: c_int) => fence;
    complete() => complete;
    wait() => wait;
    lock_all(assert: c_int) => lock_all;
    unlock_all() => unlock_all;
    sync() => sync;
    flush_all() => flush_all;
    flush_local_all() => flush_local_all;
}

macro_rules! of_target {
    ($($name:ident;)*) => { $(
        unsafe extern "C" fn $name(target: c_int, win: Win) -> c_int {
            progress::called();
            to(stringify!($name), target, win, |module, _| module.$name(target))
        }
    )* };
}

of_target! {
    unlock;
    flush;
    flush_local;
}

unsafe extern "C" fn lock(kind: c_int, target: c_int, assert: c_int, win: Win) -> c_int {
    to("lock", target, win, |module, _| {
        module.lock(kind, target, assert)
    })
}

unsafe extern "C" fn start(group: MpiGroup, assert: c_int, win: Win) -> c_int {
    call("start", win, |module| module.start(group, assert, win))
}

unsafe extern "C" fn post(group: MpiGroup, assert: c_int, win: Win) -> c_int {
    call("post", win, |module| module.post(group, assert, win))
}

unsafe extern "C" fn test(win: Win, flag: *mut c_int) -> c_int {
    progress::called();
    call("test", win, |module| {
        let is_over = module.test()?;
        // SAFETY: Open MPI passes a writable int.
        unsafe { flag.write(c_int::from(is_over)) };
        Ok(())
    })
}

unsafe extern "C" fn shared_query(
    win: Win,
    rank: c_int,
    size: *mut usize,
    unit: *mut Unit,
    base: *mut c_void,
) -> c_int {
    call("shared_query", win, |module| {
        let (len, bytes, at) = module.shared(rank)?;
        // SAFETY: Open MPI passes writable pointers; the last is to a pointer.
        unsafe {
            size.write(len);
            unit.write(bytes);
            base.cast::<*mut c_void>().write(at);
        }
        Ok(())
    })
}

unsafe extern "C" fn attach(win: Win, base: *mut c_void, size: usize) -> c_int {
    call("attach", win, |module| module.attach(base, size))
}

unsafe extern "C" fn detach(win: Win, base: *const c_void) -> c_int {
    call("detach", win, |module| module.detach(base))
}

unsafe extern "C" fn free(win: Win) -> c_int {
    guarded("free", ffi::OMPI_ERROR, || {
        // SAFETY: Open MPI passes its window, whose module `leak` made; no other call into it is under way.
        let module = unsafe { ffi::mca_osc_ofi_host_module(win).cast::<Module>() };
        // SAFETY: not NULL, and no other reference exists.
        let freed = unsafe { (*module).free() };
        if freed.is_ok() {
            // SAFETY: `leak` made the box, which is freed once; Open MPI does not use the module
            // again.
            unsafe {
                ffi::mca_osc_ofi_host_set_module(win, std::ptr::null_mut());
                drop(Box::from_raw(module));
            }
        }
        outcome(freed)
    })
}

/// The address of a buffer; functions with a const buffer only read it.
#[inline]
fn mutable(address: *const c_void) -> *mut c_void {
    address.cast_mut()
}

/// The functions that move data between a buffer of the program and a target. `by` makes the call ([`to`] or [`requested`]);
/// the call is counted as one of `kind`. Only some functions have a buffer for the target's old value (`fetching`), an
/// operation, or a place for a request.
macro_rules! of_transfer {
    ($($by:ident $name:ident(
        $origin:ident: $address:ty
        $(, fetching $result:ident)?;
        $place:ident
        $(, $op:ident)?;
        $win:ident
        $(, $out:ident)?
    ) => $kind:ident, |$module:ident| $run:expr;)*) => { $(
        unsafe extern "C" fn $name(
            $origin: $address,
            count: Count,
            datatype: Type,
            $($result: *mut c_void, result_count: Count, result_datatype: Type,)?
            target: c_int,
            displacement: isize,
            target_count: Count,
            target_datatype: Type,
            $($op: MpiOp,)?
            $win: Win,
            $($out: MpiRequest,)?
        ) -> c_int {
            $by(stringify!($name), target, $win, $($out,)? |$module, rank| {
                calls::count(Call::$kind);
                let $origin = Buffer { address: mutable($origin), count, datatype };
                $(let $result = Buffer { address: $result, count: result_count, datatype: result_datatype };)?
                let $place = Place { rank, displacement, count: target_count, datatype: target_datatype };
                $run
            })
        }
    )* };
}

of_transfer! {
    to put(origin: *const c_void; place; win) => Put, |module| module.put(origin, place);
    to get(origin: *mut c_void; place; win) => Get, |module| module.get(origin, place);
    requested rput(origin: *const c_void; place; win, out) => Put, |module| module.rput(origin, place, win);
    requested rget(origin: *mut c_void; place; win, out) => Get, |module| module.rget(origin, place, win);
    to accumulate(origin: *const c_void; place, op; win) => Accumulate,
        |module| module.update(&Update { origin, result: None, place, op });
    requested raccumulate(origin: *const c_void; place, op; win, out) => Accumulate,
        |module| module.request_update(&Update { origin, result: None, place, op }, win);
    to get_accumulate(origin: *const c_void, fetching result; place, op; win) => Accumulate,
        |module| module.update(&Update { origin, result: Some(result), place, op });
    requested rget_accumulate(origin: *const c_void, fetching result; place, op; win, out) => Accumulate,
        |module| module.request_update(&Update { origin, result: Some(result), place, op }, win);
}

unsafe extern "C" fn fetch_and_op(
    origin: *const c_void,
    result: *mut c_void,
    datatype: Type,
    target: c_int,
    displacement: isize,
    op: MpiOp,
    win: Win,
) -> c_int {
    to("fetch_and_op", target, win, |module, rank| {
        calls::count(Call::Accumulate);
        let one = |address| Buffer {
            address,
            count: 1,
            datatype,
        };
        module.update(&Update {
            origin: one(mutable(origin)),
            result: Some(one(result)),
            place: Place {
                rank,
                displacement,
                count: 1,
                datatype,
            },
            op,
        })
    })
}

unsafe extern "C" fn compare_and_swap(
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    datatype: Type,
    target: c_int,
    displacement: isize,
    win: Win,
) -> c_int {
    to("compare_and_swap", target, win, |module, rank| {
        calls::count(Call::Accumulate);
        let place = Place {
            rank,
            displacement,
            count: 1,
            datatype,
        };
        module.compare_and_swap((origin, compare, result), place)
    })
}
