//! Conditions, and the hooks of a tasking runtime.

use std::ffi::{c_int, c_void};

use host::crt::{self, Cond, Hooks};

use crate::base::error::{Error, HOST_ERR_HOOKS, Result, guarded};
use crate::base::tables::{self, layout};

/// A condition, on which a thread or task sleeps until a completion signals it. A new condition has
/// all bytes zero (CRT_COND_INIT). Wait and signal alternate; one signal that comes before its wait
/// is kept.
#[repr(C)]
pub struct crt_cond_t {
    /// State, attachments and signals.
    word: u32,
    reserved: u32,
    /// The task that waits.
    task: *mut c_void,
}

const _: () = assert!(
    size_of::<crt_cond_t>() == size_of::<Cond>() && align_of::<crt_cond_t>() == align_of::<Cond>()
);

/// The runtime can take a task off its thread and put it back: `running`, `suspend`, `resume`.
pub const CRT_CAN_SUSPEND: u32 = 1;
/// The runtime can run another task meanwhile: `running`, `yield_now`.
pub const CRT_CAN_YIELD: u32 = 2;

const _: () = assert!(CRT_CAN_SUSPEND == crt::CAN_SUSPEND && CRT_CAN_YIELD == crt::CAN_YIELD);

/// The magic number of a crt_hooks_t.
pub const CRT_HOOKS_MAGIC: u64 = 0x314b4f4f48545243;

/// The functions that a tasking runtime lends to the host, so that a task waits without blocking its
/// thread. The structure grows at its end only, and `size` tells its length: functions beyond it are
/// NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crt_hooks_t {
    /// CRT_HOOKS_MAGIC.
    pub magic: u64,
    /// sizeof(crt_hooks_t).
    pub size: usize,
    /// CRT_CAN_SUSPEND, CRT_CAN_YIELD, or both. Each claimed function must be set.
    pub claims: u32,
    /// Zero.
    pub reserved: u32,
    /// Returns the calling task; NULL outside of any task, where a wait blocks the thread.
    pub running: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Takes the calling task `task` off its thread until the task is resumed. The hook may return
    /// early.
    pub suspend: Option<unsafe extern "C" fn(task: *mut c_void)>,
    /// Resumes a task. The host may call this function from any thread, also before `suspend`, which then
    /// returns at once. The function must neither block nor run the task itself. Once the wait has
    /// returned, no call comes or is under way.
    pub resume: Option<unsafe extern "C" fn(task: *mut c_void)>,
    /// Runs another task on this thread, if there is one.
    pub yield_now: Option<unsafe extern "C" fn()>,
}

layout!(crt_hooks_t: 56 bytes {
    magic at 0,
    size at 8,
    claims at 16,
    reserved at 20,
    running at 24,
    suspend at 32,
    resume at 40,
    yield_now at 48,
} magic CRT_HOOKS_MAGIC = b"CRTHOOK1", least 24, by 8);

/// The condition behind a pointer.
///
/// # Safety
/// `cond` is NULL or a condition.
pub(crate) unsafe fn cond<'c>(call: &str, cond: *mut crt_cond_t) -> Result<&'c Cond> {
    // SAFETY: the caller guarantees the condition; the layouts are the same.
    unsafe { cond.cast::<Cond>().as_ref() }
        .ok_or_else(|| Error::argument(call, "the condition is NULL"))
}

/// Turns the condition off, and blocks the calling thread or task (see OMP_EXTERNAL) until
/// crt_signal turns the condition on. Returns at once if the signal came before. HOST_ERR_MISUSE:
/// another thread or task waits already.
///
/// # Safety
/// `condition` is a condition, and stays valid during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crt_wait(condition: *mut crt_cond_t) -> c_int {
    // SAFETY: the caller guarantees the condition.
    guarded(|| Ok(crt::wait(unsafe { cond("crt_wait", condition) }?)?))
}

/// Turns the condition on and wakes its waiter; any thread may call. HOST_ERR_MISUSE: the condition
/// was signalled, and no wait came since.
///
/// # Safety
/// `condition` is a condition.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crt_signal(condition: *mut crt_cond_t) -> c_int {
    // SAFETY: the caller guarantees the condition.
    guarded(|| Ok(crt::signal(unsafe { cond("crt_signal", condition) }?)?))
}

/// Sets the hooks of the tasking runtime; NULL removes the hooks. Call this function before
/// host_init, which provides HOST_TASK_MULTIPLE only if hooks are set. Waits that begin afterwards
/// use the hooks. HOST_ERR_HOOKS, and the earlier hooks stay: a claimed function is missing, a task
/// waits by the present hooks, the hooks only suspend and the job has no progress thread, or
/// host_init has refused the task level because hooks were missing.
///
/// # Safety
/// `hooks` is NULL or a table, whose functions stay callable as long as they are set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crt_set_hooks(hooks: *const crt_hooks_t) -> c_int {
    guarded(|| {
        let call = "crt_set_hooks";
        let hooks = match hooks.is_null() {
            true => None,
            // SAFETY: the caller guarantees the table.
            false => Some(unsafe { tables::read(call, hooks) }?),
        };
        if hooks.is_some_and(|hooks| hooks.reserved != 0) {
            let text = "the reserved room of the crt_hooks_t is not zero";
            return Err(Error::argument(call, text));
        }
        let hooks = hooks.map(|hooks| Hooks {
            claims: hooks.claims,
            running: hooks.running,
            suspend: hooks.suspend,
            resume: hooks.resume,
            yield_now: hooks.yield_now,
        });
        // SAFETY: the caller guarantees the functions.
        Ok(unsafe { crt::set_hooks(hooks.as_ref()) }?)
    })
}

/// Refuses hooks with a text for host_error_text, for headers that test a runtime before they set
/// its hooks. Always returns HOST_ERR_HOOKS.
#[unsafe(no_mangle)]
pub extern "C" fn crt_refuse_hooks() -> c_int {
    guarded(|| {
        Err(Error::new(
            HOST_ERR_HOOKS,
            "hooks: no other task ran at a taskyield when that was tried: GCC's libgomp takes it for a \
             no-op, and a team of one thread runs each task at once; use detached tasks \
             (crt_omp_detach), or LLVM's libomp with two threads or more (OMP_NUM_THREADS)",
        ))
    })
}
