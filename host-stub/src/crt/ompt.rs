//! OpenMP's tool interface (OMPT; OpenMP 5.1, chapter 4): which OpenMP task and thread calls. LLVM's runtime has it, GCC's has
//! not.
//!
//! An OpenMP runtime asks for a tool once, when it starts: it calls the first function `ompt_start_tool` of the process. The
//! C library exports one, which ends in [`start_tool`]. It stays out of the way of other tools: it is no tool unless
//! `host_wait_report` is set in the environment or in a file of parameters. Even then, a tool that comes after it in the
//! process goes first, and so does one that `OMP_TOOL_LIBRARIES` names.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::watch;
use crate::base::params::Params;

/// `ompt_data_t`: a word that belongs to the tool.
#[repr(C)]
struct Data(u64);

type Lookup = unsafe extern "C" fn(*const c_char) -> Option<unsafe extern "C" fn()>;
type SetCallback = unsafe extern "C" fn(c_int, Option<unsafe extern "C" fn()>) -> c_int;
type TaskInfo = unsafe extern "C" fn(
    c_int,
    *mut c_int,
    *mut *mut Data,
    *mut *mut c_void,
    *mut *mut Data,
    *mut c_int,
) -> c_int;
type ParallelInfo = unsafe extern "C" fn(c_int, *mut *mut Data, *mut c_int) -> c_int;

/// `ompt_start_tool_result_t`.
#[repr(C)]
struct Tool {
    initialize: unsafe extern "C" fn(Lookup, c_int, *mut Data) -> c_int,
    finalize: unsafe extern "C" fn(*mut Data),
    data: Data,
}

/// The function by which a process offers a tool.
type StartTool = unsafe extern "C" fn(c_uint, *const c_char) -> *mut c_void;

/// Events (`ompt_callbacks_t`).
const PARALLEL_BEGIN: c_int = 3;
const TASK_CREATE: c_int = 5;
const TASK_SCHEDULE: c_int = 6;
const IMPLICIT_TASK: c_int = 7;
/// `ompt_scope_begin`.
const SCOPE_BEGIN: c_int = 1;
/// Flags of tasks (`ompt_task_flag_t`).
const INITIAL: c_int = 1;
const IMPLICIT: c_int = 2;
const EXPLICIT: c_int = 4;
const UNTIED: c_int = 0x1000_0000;
/// What `ompt_get_task_info` and `ompt_get_parallel_info` return if they have filled in what was asked for.
const AVAILABLE: c_int = 2;

/// The runtime's functions, once it has a tool here.
struct Asked {
    task: TaskInfo,
    parallel: ParallelInfo,
}

static ASKED: OnceLock<Asked> = OnceLock::new();
/// Whether another tool goes first.
static OTHER_TOOL: AtomicBool = AtomicBool::new(false);
/// The last number of a task, and of a parallel region.
static TASKS: AtomicU64 = AtomicU64::new(0);
static REGIONS: AtomicU64 = AtomicU64::new(0);

/// A task of OpenMP, and where it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct OmpTask {
    /// In the order in which the tasks were created.
    pub(super) number: u64,
    flags: c_int,
    /// Number of the thread in its team, and the team's size.
    thread: c_int,
    team: c_int,
    /// In the order in which the regions began; 0 outside of any.
    region: u64,
}

impl fmt::Display for OmpTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.flags {
            flags if flags & EXPLICIT != 0 && flags & UNTIED != 0 => "explicit, untied",
            flags if flags & EXPLICIT != 0 => "explicit, tied",
            flags if flags & IMPLICIT != 0 => "implicit",
            flags if flags & INITIAL != 0 => "initial",
            _ => "of another kind",
        };
        write!(
            f,
            "OpenMP task {} ({kind}), thread {} of {}",
            self.number, self.thread, self.team
        )?;
        match self.region {
            0 => Ok(()),
            region => write!(f, " in parallel region {region}"),
        }
    }
}

/// The OpenMP task that calls; `None` outside of OpenMP, or where it does not tell.
pub(super) fn running() -> Option<OmpTask> {
    let asked = ASKED.get()?;
    let (mut flags, mut thread, mut team) = (0, 0, 0);
    let (mut task, mut region) = (ptr::null_mut::<Data>(), ptr::null_mut::<Data>());
    let mut frame = ptr::null_mut();
    // SAFETY: the runtime's functions, which fill in what the pointers name. Any thread may call them.
    unsafe {
        if (asked.task)(
            0,
            &mut flags,
            &mut task,
            &mut frame,
            &mut region,
            &mut thread,
        ) != AVAILABLE
        {
            return None;
        }
        if (asked.parallel)(0, &mut ptr::null_mut(), &mut team) != AVAILABLE {
            team = 1;
        }
        Some(OmpTask {
            number: task.as_ref()?.0,
            flags,
            thread,
            team,
            region: region.as_ref().map_or(0, |region| region.0),
        })
    }
}

/// Why [`running`] has nothing to say.
pub(super) fn silence() -> &'static str {
    if ASKED.get().is_some() {
        "no thread of OpenMP"
    } else if OTHER_TOOL.load(Ordering::Relaxed) {
        "another tool has OpenMP's tool interface"
    } else {
        "no OpenMP runtime has told its task"
    }
}

/// What `ompt_start_tool` of the C library does.
///
/// # Safety
/// `runtime` is the text that an OpenMP runtime passes.
pub unsafe fn start_tool(version: c_uint, runtime: *const c_char) -> *mut c_void {
    // SAFETY: the caller passes on the runtime's arguments.
    let other = unsafe { next_tool(version, runtime) };
    if !other.is_null() {
        OTHER_TOOL.store(true, Ordering::Relaxed);
        return other;
    }
    if !is_asked() {
        return ptr::null_mut();
    }
    if std::env::var_os("OMP_TOOL_LIBRARIES").is_some_and(|names| !names.is_empty()) {
        OTHER_TOOL.store(true, Ordering::Relaxed);
        return ptr::null_mut();
    }
    keep_loaded();
    // The runtime keeps it for as long as the process lives.
    let tool = Box::leak(Box::new(Tool {
        initialize,
        finalize,
        data: Data(0),
    }));
    ptr::from_mut(tool).cast()
}

/// Keeps this library loaded to the end of the process, because the runtime calls its functions until then.
fn keep_loaded() {
    // SAFETY: the structure is plain pointers, for which zero is valid; dladdr fills it in for an address of this library. The
    // name that it gives is NUL-terminated.
    unsafe {
        let mut here: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(start_tool as *const c_void, &mut here) != 0 && !here.dli_fname.is_null() {
            let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            libc::dlopen(here.dli_fname, flags);
        }
    }
}

/// The tool that comes after this library in the process, if there is one.
///
/// # Safety
/// As for [`start_tool`].
unsafe fn next_tool(version: c_uint, runtime: *const c_char) -> *mut c_void {
    // SAFETY: asks the dynamic loader for a name.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"ompt_start_tool".as_ptr()) };
    if next.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: OpenMP gives a function of this name this shape.
    unsafe { std::mem::transmute::<*mut c_void, StartTool>(next)(version, runtime) }
}

/// Whether the user has waits reported. The runtime may start before the program joins a job.
fn is_asked() -> bool {
    let params = Params::from_system(&[]);
    params.is_ok_and(|params| watch::patience(&params).is_ok_and(|patience| patience.is_some()))
}

/// A function of the runtime.
///
/// # Safety
/// `F` is the type of the function.
unsafe fn entry<F: Copy>(lookup: Lookup, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<unsafe extern "C" fn()>()) };
    // SAFETY: the runtime's function takes a name.
    let found = unsafe { lookup(name.as_ptr()) }?;
    // SAFETY: the caller guarantees the type; both are pointers to functions.
    Some(unsafe { std::mem::transmute_copy(&found) })
}

unsafe extern "C" fn initialize(lookup: Lookup, _: c_int, _: *mut Data) -> c_int {
    // SAFETY: OpenMP gives the functions of these names these types.
    let found = unsafe {
        (
            entry::<SetCallback>(lookup, c"ompt_set_callback"),
            entry::<TaskInfo>(lookup, c"ompt_get_task_info"),
            entry::<ParallelInfo>(lookup, c"ompt_get_parallel_info"),
        )
    };
    let (Some(set), Some(task), Some(parallel)) = found else {
        return 0;
    };
    let callbacks: [(c_int, *const c_void); 4] = [
        (PARALLEL_BEGIN, parallel_begin as *const c_void),
        (TASK_CREATE, task_create as *const c_void),
        (TASK_SCHEDULE, task_schedule as *const c_void),
        (IMPLICIT_TASK, implicit_task as *const c_void),
    ];
    for (event, callback) in callbacks {
        // SAFETY: the callback has the type that OpenMP gives to the event; the runtime takes it as a plain function.
        unsafe {
            set(
                event,
                Some(std::mem::transmute::<*const c_void, unsafe extern "C" fn()>(callback)),
            );
        }
    }
    let _ = ASKED.set(Asked { task, parallel });
    1
}

unsafe extern "C" fn finalize(_: *mut Data) {}

/// Gives a word of the runtime the next number.
///
/// # Safety
/// `data` is NULL, or a word that the runtime leaves to its tool.
unsafe fn number(data: *mut Data, last: &AtomicU64) {
    // SAFETY: the caller guarantees the word; nothing else writes it.
    if let Some(data) = unsafe { data.as_mut() } {
        data.0 = last.fetch_add(1, Ordering::Relaxed) + 1;
    }
}

unsafe extern "C" fn parallel_begin(
    _: *mut Data,
    _: *const c_void,
    region: *mut Data,
    _: c_uint,
    _: c_int,
    _: *const c_void,
) {
    // SAFETY: the runtime passes the new region's word.
    unsafe { number(region, &REGIONS) };
}

unsafe extern "C" fn task_create(
    _: *mut Data,
    _: *const c_void,
    task: *mut Data,
    _: c_int,
    _: c_int,
    _: *const c_void,
) {
    // SAFETY: the runtime passes the new task's word.
    unsafe { number(task, &TASKS) };
}

unsafe extern "C" fn implicit_task(
    endpoint: c_int,
    _: *mut Data,
    task: *mut Data,
    _: c_uint,
    _: c_uint,
    _: c_int,
) {
    if endpoint == SCOPE_BEGIN {
        // SAFETY: the runtime passes the new task's word.
        unsafe { number(task, &TASKS) };
    }
}

unsafe extern "C" fn task_schedule(prior: *mut Data, _: c_int, next: *mut Data) {
    // SAFETY: the runtime passes words of tasks, or NULL.
    if let (Some(prior), false) = (unsafe { prior.as_ref() }, next.is_null()) {
        watch::switched_from(prior.0);
    }
}
