//! Collectives that a C program starts again and again with the same arguments.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use host::coll::{Collective, Persistent};
use host::comm::{Comm, CommResult};

use crate::base::error::{Error, Result, guarded};
use crate::base::handles::{Handles, place};
use crate::coll::layers::with_args;
use crate::coll::table::host_coll_args_t;
use crate::comm::communicator::{comm, host_comm_t};

/// A persistent collective. Freed by host_coll_free. Never read through.
pub struct host_persistent_t {
    _private: [u8; 0],
}

// A mutex, since a handle may be passed among threads.
static ALL: Handles<Mutex<Persistent>> = Handles::new("persistent collective");

/// Makes a persistent collective of `collective`, one of HOST_COLL_*, with these arguments, of which the lists are copied.
/// Every rank makes the persistent collectives of a communicator in the same order; it may start them in any order.
/// HOST_ON_DEVICE is added to the type of buffers on a device.
///
/// # Safety
/// The buffers are good for the collective until it is freed, and are left alone from each start until its end. Lists
/// are NULL or have a value for each rank. `persistent` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_init(
    over: *mut host_comm_t,
    collective: c_int,
    args: *const host_coll_args_t,
    persistent: *mut *mut host_persistent_t,
) -> c_int {
    guarded(|| {
        let call = "host_coll_init";
        // SAFETY: passed on.
        let persistent = unsafe { place(call, persistent) }?;
        let comm = comm(call, over)?;
        let mut is_counted = false;
        // SAFETY: the caller guarantees arguments and buffers.
        let made = unsafe { init(call, &comm, collective, args, &mut is_counted) };
        if !is_counted {
            comm.refuse_persistent();
        }
        *persistent = ALL.add(Mutex::new(made?));
        Ok(())
    })
}

/// # Safety
/// As for [`host_coll_init`].
unsafe fn init(
    call: &'static str,
    comm: &Comm,
    collective: c_int,
    args: *const host_coll_args_t,
    is_counted: &mut bool,
) -> Result<Persistent> {
    let found = usize::try_from(collective).ok();
    let found = found.and_then(|at| Collective::ALL.get(at).copied());
    let collective = found.ok_or_else(|| {
        let last = Collective::ALL.len() - 1;
        Error::argument(
            call,
            &format!("no collective {collective}; they are 0 to {last}"),
        )
    })?;
    // SAFETY: the caller guarantees arguments and buffers.
    unsafe {
        with_args(call, args, (collective, comm), |args| {
            *is_counted = true;
            Ok(comm.init_collective(collective, args)?)
        })
    }
}

/// Runs `then` on a persistent collective, which one thread at a time uses.
fn with<R>(
    call: &'static str,
    handle: *mut host_persistent_t,
    then: impl FnOnce(&mut Persistent) -> CommResult<R>,
) -> Result<R> {
    let job = crate::job::job(call)?;
    // Before the handle goes, so that a refused call leaves it.
    let _entered = job.runtime().enter(call)?;
    let mut taken = take(call, handle)?;
    let outcome = then(&mut taken);
    ALL.put_back(handle, Mutex::new(taken));
    Ok(outcome?)
}

/// Ends those that the program left behind.
pub(crate) fn forget_all() {
    drop(ALL.clear());
}

fn take(call: &str, handle: *mut host_persistent_t) -> Result<Persistent> {
    let taken = ALL.take(call, handle)?;
    Ok(taken.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Starts a persistent collective; refused while it is under way.
///
/// # Safety
/// The buffers are the collective's until it is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_start(persistent: *mut host_persistent_t) -> c_int {
    guarded(|| with("host_coll_start", persistent, Persistent::start))
}

/// Waits until what was started is done; returns at once where nothing was.
///
/// # Safety
/// Any thread that may wait calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_finish(persistent: *mut host_persistent_t) -> c_int {
    guarded(|| with("host_coll_finish", persistent, Persistent::wait))
}

/// Makes progress; sets `done` to whether nothing is under way.
///
/// # Safety
/// `done` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_poll(
    persistent: *mut host_persistent_t,
    done: *mut c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: passed on.
        let done = unsafe { place("host_coll_poll", done) }?;
        *done = c_int::from(with("host_coll_poll", persistent, Persistent::test)?);
        Ok(())
    })
}

/// Frees a persistent collective, after what was started, and sets the handle to NULL.
///
/// # Safety
/// `persistent` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_free(persistent: *mut *mut host_persistent_t) -> c_int {
    guarded(|| {
        let call = "host_coll_free";
        // SAFETY: passed on.
        let kept = unsafe { place(call, persistent) }?;
        let job = crate::job::job(call)?;
        let _entered = job.runtime().enter(call)?;
        drop(take(call, *kept)?);
        *kept = std::ptr::null_mut();
        Ok(())
    })
}
