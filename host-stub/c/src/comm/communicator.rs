//! Communicators.

use std::ffi::c_int;

use host::Comm;

use crate::base::codes::{rank, ranks};
use crate::base::error::{Result, guarded};
use crate::base::handles::{Handles, place};
use crate::job::job;

/// A communicator: ranks of the job with a separate context. The handle is never dereferenced.
pub struct host_comm_t {
    _private: [u8; 0],
}

/// The color of a rank that wants no new communicator.
pub const HOST_UNDEFINED: c_int = -1;

static COMMS: Handles<Comm> =
    Handles::new("communicator").hinted("; host_comm_world makes the one of all ranks");

/// The communicator of a handle.
pub(crate) fn comm(call: &str, handle: *mut host_comm_t) -> Result<Comm> {
    COMMS.with(call, handle, Comm::clone)
}

/// The handle of a communicator: the one that it has, or its first. Hooks see communicators before
/// their creation has returned.
pub(crate) fn handle(comm: &Comm) -> *mut host_comm_t {
    COMMS
        .find(|known| known.is_same(comm))
        .unwrap_or_else(|| COMMS.add(comm.clone()))
}

/// Forgets communicators whose creation failed: no call has returned their handles. The call skips a communicator that
/// another thread makes or frees at the moment.
fn forget_failed() {
    let failed = |comm: &Comm| comm.is_freed() && comm.is_sole();
    while let Some(failed) = COMMS.find::<host_comm_t>(failed) {
        // Another thread may have been first.
        let _ = COMMS.take("host_comm_free", failed);
    }
}

/// Forgets all communicators, at the end of the job.
pub(crate) fn forget_all() {
    drop(COMMS.clear());
}

/// Makes a communicator and returns its handle.
///
/// # Safety
/// `made` is NULL or writable.
pub(super) unsafe fn make(
    call: &str,
    made: *mut *mut host_comm_t,
    create: impl FnOnce() -> Result<Option<Comm>>,
) -> Result {
    // SAFETY: passed on.
    let made = unsafe { place(call, made) }?;
    *made = std::ptr::null_mut();
    match create() {
        Ok(Some(comm)) => *made = handle(&comm),
        Ok(None) => {}
        Err(error) => {
            forget_failed();
            return Err(error);
        }
    }
    Ok(())
}

/// Returns the converted arguments of a creation. If arguments are wrong, first tells the other ranks of the parent, which
/// wait in the creation.
pub(super) fn or_refuse<T>(call: &'static str, parent: &Comm, given: Result<T>) -> Result<T> {
    if let Err(error) = &given {
        parent.refuse_creation(call, &error.text)?;
    }
    given
}

/// Returns the communicator of all ranks of the job; the first call is collective. host_finalize
/// ends it.
///
/// # Safety
/// `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_world(made: *mut *mut host_comm_t) -> c_int {
    let call = "host_comm_world";
    // SAFETY: passed on.
    guarded(|| unsafe { make(call, made, || Ok(Some(Comm::world(&job(call)?)?))) })
}

/// Makes a communicator of the same ranks with another context; collective.
///
/// # Safety
/// `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_dup(
    parent: *mut host_comm_t,
    made: *mut *mut host_comm_t,
) -> c_int {
    let call = "host_comm_dup";
    // SAFETY: passed on.
    guarded(|| unsafe { make(call, made, || Ok(Some(comm(call, parent)?.dup()?))) })
}

/// Makes a communicator for each color, with its ranks in the order of their keys; NULL for ranks
/// whose color is negative (HOST_UNDEFINED). Collective.
///
/// # Safety
/// `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_split(
    parent: *mut host_comm_t,
    color: c_int,
    key: c_int,
    made: *mut *mut host_comm_t,
) -> c_int {
    let call = "host_comm_split";
    let split = || {
        let color = u32::try_from(color).ok();
        Ok(comm(call, parent)?.split(color, key.into())?)
    };
    // SAFETY: passed on.
    guarded(|| unsafe { make(call, made, split) })
}

/// Makes a communicator of some of the parent's ranks, in the given order; NULL at the other ranks.
/// Collective over the parent.
///
/// # Safety
/// `members` are `count` ranks of the parent; `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_create(
    parent: *mut host_comm_t,
    members: *const c_int,
    count: usize,
    made: *mut *mut host_comm_t,
) -> c_int {
    let call = "host_comm_create";
    let create = || {
        let parent = comm(call, parent)?;
        // SAFETY: the caller guarantees the ranks.
        let members = unsafe { ranks(call, members, count) };
        Ok(parent.create(&or_refuse(call, &parent, members)?)?)
    };
    // SAFETY: passed on.
    guarded(|| unsafe { make(call, made, create) })
}

/// Ends a communicator and sets the handle to NULL; collective. Waits for collectives under way. The
/// world is refused: host_finalize ends it. If a destroy hook fails, the call reports this, and the
/// communicator has still ended.
///
/// # Safety
/// `comm` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_comm_free(comm: *mut *mut host_comm_t) -> c_int {
    guarded(|| {
        let call = "host_comm_free";
        // SAFETY: passed on.
        let kept = unsafe { place(call, comm) }?;
        let freed = self::comm(call, *kept)?;
        let outcome = freed.clone().free();
        if freed.is_freed() {
            // The handle is removed only now, because destroy hooks see the communicator under it.
            drop(COMMS.take(call, *kept));
            *kept = std::ptr::null_mut();
        }
        Ok(outcome?)
    })
}

pub(super) fn number(
    call: &str,
    handle: *mut host_comm_t,
    of: impl FnOnce(&Comm) -> usize,
) -> c_int {
    let mut found = 0;
    match guarded(|| comm(call, handle).map(|comm| found = of(&comm))) {
        0 => found as c_int,
        code => code,
    }
}

/// This process's rank in a communicator, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_rank(comm: *mut host_comm_t) -> c_int {
    number("host_comm_rank", comm, Comm::rank)
}

/// Ranks of a communicator, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_size(comm: *mut host_comm_t) -> c_int {
    number("host_comm_size", comm, Comm::size)
}

/// The node of a rank of a communicator, or a negative code: ranks with the same number share memory.
#[unsafe(no_mangle)]
pub extern "C" fn host_comm_node(comm: *mut host_comm_t, of: c_int) -> c_int {
    let call = "host_comm_node";
    let mut found = 0;
    let node = || {
        self::comm(call, comm)?
            .node(rank(call, of)?)
            .map_err(Into::into)
    };
    match guarded(|| node().map(|node| found = node)) {
        0 => found as c_int,
        code => code,
    }
}
