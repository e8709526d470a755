//! The names that OpenMP would have for the proposed control variable external-var.

use std::ffi::c_int;

use host::crt::{Mode, external, set_external};

/// Blocking calls occur on the master thread only.
pub const OMP_EXTERNAL_MASTER: c_int = 0;
/// Blocking calls occur on any thread, and block it.
pub const OMP_EXTERNAL_THREAD: c_int = 1;
/// Blocking calls occur in any task, and block it.
pub const OMP_EXTERNAL_TASK: c_int = 2;

/// Selects whether a blocking call blocks the process, the thread or the task; overrides the
/// environment's OMP_EXTERNAL. Call this function before host_init. A later call, or a value other
/// than OMP_EXTERNAL_*, has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn omp_set_external(mode: c_int) {
    if let Some(mode) = Mode::from_code(mode) {
        set_external(mode);
    }
}

/// Returns whether a blocking call blocks the process, the thread or the task: OMP_EXTERNAL_*.
/// After host_init, the value follows the provided level.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_external() -> c_int {
    external() as c_int
}
