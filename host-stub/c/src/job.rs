//! The job of this process. `host_finalize` lives in `finalize`, above the handles that it releases.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use host::crt::Level;
use host::{Job, JobOptions};

use crate::base::error::{Error, HOST_ERR_STATE, HOST_ERR_TRANSPORT, Result, guarded};

/// One thread.
pub const HOST_THREAD_SINGLE: c_int = 0;
/// Only the thread that called host_init makes calls.
pub const HOST_THREAD_FUNNELED: c_int = 1;
/// Any thread makes calls, one at a time.
pub const HOST_THREAD_SERIALIZED: c_int = 2;
/// Several threads make calls at the same time.
pub const HOST_THREAD_MULTIPLE: c_int = 3;
/// Several tasks make calls at the same time, and a blocking call blocks its task only.
pub const HOST_TASK_MULTIPLE: c_int = 4;

static JOB: RwLock<Option<Arc<Job>>> = RwLock::new(None);

/// The job of this process.
pub(crate) fn job(call: &str) -> Result<Arc<Job>> {
    JOB.read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
        .ok_or_else(|| {
            Error::new(
                HOST_ERR_STATE,
                format!(
                    "{call} outside a job: call host_init before, and nothing after host_finalize"
                ),
            )
        })
}

/// Whether this process is leaving the job.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// Marks the end of leaving the job, also after a panic: from here on this process has no job.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        *JOB.write().unwrap_or_else(PoisonError::into_inner) = None;
        LEAVING.store(false, Ordering::Release);
    }
}

/// Leaves the job. Hooks and layers that this calls can still use the job. `forget` then releases the handles that hold the
/// job.
pub(crate) fn leave(call: &str, forget: impl FnOnce()) -> Result {
    let job = job(call)?;
    if LEAVING.swap(true, Ordering::AcqRel) {
        let reason = format!("{call}: the job is being left already");
        return Err(Error::new(HOST_ERR_STATE, reason));
    }
    let left = {
        let _left = Left;
        job.finalize()
    };
    forget();
    Ok(left?)
}

/// Joins the job in which `host-stub launch`, mpirun or srun started this process, or makes a job of
/// one process, for a thread level HOST_THREAD_*. `provided`, unless NULL, gets the level that the
/// program must keep to; OMP_EXTERNAL or omp_set_external can make this level differ from the
/// requested level. HOST_TASK_MULTIPLE is provided only if a tasking runtime's hooks are set
/// (crt_set_hooks, crt_omp_yield_in_waits), else HOST_THREAD_MULTIPLE with a warning.
///
/// # Safety
/// The program keeps to the level provided. `provided` is writable or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    guarded(|| {
        let call = "host_init_thread";
        let level = Level::from_code(required).ok_or_else(|| {
            Error::argument(
                call,
                &format!("no thread level {required}; they are 0 to 4"),
            )
        })?;
        let mut kept = JOB.write().unwrap_or_else(PoisonError::into_inner);
        if kept.is_some() {
            return Err(Error::new(
                HOST_ERR_STATE,
                format!("{call}: this process has joined its job already"),
            ));
        }
        // SAFETY: the caller guarantees the level.
        let job = Job::init(unsafe { JobOptions::default().assume_level(level) })?;
        if !provided.is_null() {
            // SAFETY: the caller guarantees the pointer.
            unsafe { *provided = job.runtime().provided() as c_int };
        }
        *kept = Some(job);
        Ok(())
    })
}

/// This process's rank, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_rank() -> c_int {
    let mut rank = 0;
    match guarded(|| job("host_rank").map(|job| rank = job.rank())) {
        0 => rank as c_int,
        code => code,
    }
}

/// Ranks of the job, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn host_size() -> c_int {
    let mut size = 0;
    match guarded(|| job("host_size").map(|job| size = job.size())) {
        0 => size as c_int,
        code => code,
    }
}

/// Waits until every rank is here; collective.
#[unsafe(no_mangle)]
pub extern "C" fn host_barrier() -> c_int {
    guarded(|| {
        let job = job("host_barrier")?;
        let _entered = job.runtime().enter("host_barrier")?;
        Ok(job.barrier()?)
    })
}

/// Makes progress once: completes operations that can be completed, and calls their callbacks.
#[unsafe(no_mangle)]
pub extern "C" fn host_progress() -> c_int {
    guarded(|| {
        let call = "host_progress";
        let job = job(call)?;
        let _entered = job.runtime().enter(call)?;
        let code = job.runtime().engine().progress();
        if code < 0 {
            return Err(Error::new(
                HOST_ERR_TRANSPORT,
                format!("host_progress: the transport returned {code}"),
            ));
        }
        Ok(())
    })
}
