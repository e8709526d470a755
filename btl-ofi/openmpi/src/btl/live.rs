//! The module that is given to Open MPI.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use plugin_api::{Stats, Status};

use crate::bindings as ffi;
use crate::btl::module::Module;
use crate::pvars::Counted;

/// NULL without a module. `start` and `forget` store with Release, the others load with Acquire, so that `progress` never sees a
/// partly initialised module.
static LIVE: AtomicPtr<Module> = AtomicPtr::new(null_mut());

/// Makes an open module known.
pub(crate) fn start(module: NonNull<Module>) {
    // Release: pairs with the Acquire in `module`.
    LIVE.store(module.as_ptr(), Ordering::Release);
}

/// Held while code outside of the component's calls uses the module: MPI_T reads at any time.
static READING: Mutex<()> = Mutex::new(());

/// The counters of the module; 0 without one.
pub(crate) struct Live;

impl Counted for Live {
    fn sum(number: impl Fn(&Stats) -> u64) -> u64 {
        let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
        module().map_or(0, |module| number(&module.transport().stats()))
    }
}

/// Forgets the module, before it ends.
pub(crate) fn forget(module: NonNull<Module>) {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    // Release: pairs with the Acquire in `module`.
    let _ = LIVE.compare_exchange(
        module.as_ptr(),
        null_mut(),
        Ordering::Release,
        Ordering::Relaxed,
    );
}

/// The live module.
#[inline]
pub(crate) fn module<'a>() -> Option<&'a Module> {
    // SAFETY: the pointer is NULL or a module that is live; Open MPI calls no function of the component while it finalises a
    // module. Acquire: pairs with the Release in `start` and `forget`.
    unsafe { LIVE.load(Ordering::Acquire).as_ref() }
}

/// Publishes the module's address for every process of the job.
pub(crate) fn publish(module: &Module) -> Result<(), String> {
    let published = module.transport().address();
    // SAFETY: the component is the exported structure, and the modex copies the buffer.
    let rc = unsafe {
        ffi::mca_btl_ofi_host_modex_send(
            module.component(),
            published.as_ptr().cast(),
            published.len(),
        )
    };
    Status(rc)
        .ok()
        .map(|_| ())
        .map_err(|status| format!("the address could not be published: {status}"))
}
