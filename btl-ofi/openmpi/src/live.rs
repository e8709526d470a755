//! The modules that Open MPI has: one, or one per interface (`btl_ofi_modules`). What they publish together, and the progress
//! of several.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use btl_ofi::Transport;
use plugin_api::{Stats, Status};

use crate::bindings as ffi;
use crate::log;
use crate::module::Module;

/// Most modules.
const MOST: usize = 4;

/// The live modules, the first one in the first place; NULL elsewhere. `start` and `forget` store with Release, the others load
/// with Acquire, so that `progress` never sees a partly initialised module.
static LIVE: [AtomicPtr<Module>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];

/// Makes modules known that are open.
pub(crate) fn start(modules: &[NonNull<Module>]) {
    for (place, module) in LIVE.iter().zip(modules) {
        // Release: pairs with the Acquire in `at`.
        place.store(module.as_ptr(), Ordering::Release);
    }
}

/// Held while somebody outside of the component's calls uses the modules: MPI_T reads at any time.
static READING: Mutex<()> = Mutex::new(());

/// The sum over all modules of a number of their counters.
pub(crate) fn with_all(number: impl Fn(&Stats) -> u64) -> u64 {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    all()
        .map(|module| number(&module.transport().stats()))
        .sum()
}

/// Forgets a module, before it ends.
pub(crate) fn forget(module: NonNull<Module>) {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    for place in &LIVE {
        // Release: pairs with the Acquire in `at`.
        let _ = place.compare_exchange(
            module.as_ptr(),
            null_mut(),
            Ordering::Release,
            Ordering::Relaxed,
        );
    }
}

#[inline]
fn at<'a>(place: &AtomicPtr<Module>) -> Option<&'a Module> {
    // SAFETY: the pointer is NULL or a module that is live; Open MPI calls no function of the component while it finalises a
    // module. Acquire: pairs with the Release in `start` and `forget`.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// The only live module, or the first.
#[inline]
pub(crate) fn first<'a>() -> Option<&'a Module> {
    at(&LIVE[0])
}

/// The live modules.
pub(crate) fn all<'a>() -> impl Iterator<Item = &'a Module> {
    LIVE.iter().filter_map(at)
}

/// The address of a process to which a module connects, out of what that process published.
pub(crate) fn address_for<'a>(
    module: &Module,
    published: &'a [u8],
) -> Result<Option<&'a [u8]>, String> {
    let modules: Vec<&Module> = all().collect();
    let number = modules.iter().position(|m| std::ptr::eq(*m, module));
    let transports: Vec<&Transport> = modules.iter().map(|m| m.transport()).collect();
    Transport::address_for(&transports, number.unwrap_or_default(), published)
}

/// Publishes the addresses of modules for every process of the job.
pub(crate) fn publish(modules: &[NonNull<Module>]) -> Result<(), String> {
    // SAFETY: `Module::open` has just made them, and nobody ended them.
    let modules: Vec<&Module> = modules.iter().map(|m| unsafe { m.as_ref() }).collect();
    let transports: Vec<&Transport> = modules.iter().map(|m| m.transport()).collect();
    let published = Transport::addresses(&transports);
    let Some(first) = modules.first() else {
        return Ok(());
    };
    // SAFETY: the component is the exported structure, and the modex copies the buffer.
    let rc = unsafe {
        ffi::mca_btl_ofi_host_modex_send(
            first.component(),
            published.as_ptr().cast(),
            published.len(),
        )
    };
    Status(rc)
        .ok()
        .map(|_| ())
        .map_err(|status| format!("the address could not be published: {status}"))
}

/// Puts modules into the order that all nodes share, and has them declare the same bandwidth, the lowest. osc/rdma takes for a
/// window the first module that reaches its processes, in an order by bandwidth and then by this one (bml/r2): each rank must
/// take the same.
pub(crate) fn agree(modules: Vec<NonNull<Module>>) -> Vec<NonNull<Module>> {
    // SAFETY: `Module::open` has just made them, and nobody ended them.
    let opened: Vec<&Module> = modules.iter().map(|m| unsafe { m.as_ref() }).collect();
    let transports: Vec<&Transport> = opened.iter().map(|m| m.transport()).collect();
    let order = Transport::shared_order(&transports);
    let lowest = opened.iter().map(|m| m.bandwidth()).min();
    for module in &modules {
        // SAFETY: as before; Open MPI does not have them yet.
        unsafe { Module::declare_bandwidth(*module, lowest.unwrap_or_default()) };
    }
    order.into_iter().map(|at| modules[at]).collect()
}

/// Opens the further modules that the first one asks for. Goes without those that cannot be opened, and, where peers find
/// modules by number, without those behind.
pub(crate) fn open_further(
    first: NonNull<Module>,
    open: impl Fn(btl_ofi::Options) -> Result<NonNull<Module>, String>,
) -> Vec<NonNull<Module>> {
    let mut modules = vec![first];
    // SAFETY: the caller has just opened it.
    let further = unsafe { first.as_ref() }.transport().further_modules();
    for options in further.iter().take(MOST - 1) {
        match open(options.clone()) {
            Ok(module) => modules.push(module),
            Err(why) => {
                log::line(&format!("a further module is not used: {why}"));
                if options.is_found_by_number() {
                    break;
                }
            }
        }
    }
    modules
}
