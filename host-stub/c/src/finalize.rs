//! Leaving a job.

use std::ffi::c_int;

use crate::base::error::guarded;
use crate::comm::communicator as comm;
use crate::device::ring;
use crate::job;
use crate::win::hooks as win_hooks;

/// Leaves the job in good order; collective. The program must free its windows and all
/// communicators except the world before.
#[unsafe(no_mangle)]
pub extern "C" fn host_finalize() -> c_int {
    guarded(|| {
        ring::close_all();
        job::leave("host_finalize", || {
            comm::forget_all();
            win_hooks::forget_all();
        })
    })
}
