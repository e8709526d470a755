//! The transport of this process's windows: opened with the first of them, closed when Open MPI ends. It is the transport's table
//! of functions, linked into this file.

use std::any::Any;
use std::collections::HashMap;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use osc_engine::door::Context;
use osc_engine::transport::{EndpointRef, Failures, Transport};
use plugin_api::{Component, ComponentVtable, Status, ThreadLevel};

use crate::osc::{component, log, ops, progress, services};

/// Modules that one `init` may make.
const MODULES: usize = 32;

/// The open transport and the processes that it reaches.
pub(crate) struct Opened {
    pub(crate) transport: Transport,
    pub(crate) context: Arc<Context>,
    /// The ways to the processes that were connected, by their names.
    endpoints: Mutex<HashMap<u64, EndpointRef>>,
}

/// The transport, or why there is none. What could not be opened once is not tried again for each window.
static OPENED: Mutex<Option<Result<Arc<Opened>, String>>> = Mutex::new(None);

/// What is in [`OPENED`], for those who must not wait; NULL without a transport. `open` stores with Release, `current` loads with
/// Acquire.
static CURRENT: AtomicPtr<Opened> = AtomicPtr::new(null_mut());

/// An open component of the transport; closed when dropped, after its modules.
struct Table {
    component: NonNull<Component>,
    close: unsafe extern "C" fn(*mut Component) -> Status,
}

// SAFETY: the table's contract lets any thread call.
unsafe impl Send for Table {}
// SAFETY: as for Send.
unsafe impl Sync for Table {}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: every module was finalised, and the component is not used again.
        let status = unsafe { (self.close)(self.component.as_ptr()) };
        if !status.is_ok() {
            log::line(&format!("closing the transport failed: {status}"));
        }
    }
}

/// The transport, opened if it is not yet; or why it cannot be.
pub(crate) fn open() -> Result<Arc<Opened>, String> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = opened.get_or_insert_with(|| {
        let opened = open_now().map(Arc::new);
        if let Ok(opened) = &opened {
            // Release: pairs with the Acquire in `current`.
            CURRENT.store(Arc::as_ptr(opened).cast_mut(), Ordering::Release);
        }
        opened
    });
    opened.clone()
}

/// The transport, if it is open.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a Opened> {
    // SAFETY: NULL or what `OPENED` holds; `close` runs when Open MPI calls nothing else of this component.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Closes the transport, of which no window is left.
pub(crate) fn close() {
    // Release as in `open`, for the next one.
    CURRENT.store(null_mut(), Ordering::Release);
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(opened);
    services::clear();
}

fn open_now() -> Result<Opened, String> {
    let failed = |what: &str, status: Status| {
        Err(format!(
            "the transport could not be opened ({what}: {status})"
        ))
    };
    let mut table: *const ComponentVtable = null();
    // SAFETY: the host's table is a static; `table` is writable.
    let status = unsafe { btl_ofi_vtable::entry(&services::TABLE, &mut table) };
    // SAFETY: NULL or the table, a static of this image.
    let Some(table) = (unsafe { table.as_ref() }).filter(|_| status.is_ok()) else {
        return failed("entry", status);
    };
    let (Some(open), Some(init), Some(progress), Some(close)) =
        (table.open, table.init, table.progress, table.close)
    else {
        return failed("entry", Status::TYPE_MISMATCH);
    };
    let mut raw = null_mut();
    // SAFETY: the host's table is a static; `raw` is writable.
    let status = unsafe { open(&services::TABLE, &mut raw) };
    let Some(raw) = NonNull::new(raw).filter(|_| status.is_ok()) else {
        return failed("parameters", status);
    };
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(Table {
        component: raw,
        close,
    });
    let level = match component::has_threads() {
        true => ThreadLevel::Multiple,
        false => ThreadLevel::Serialized,
    };
    let mut modules = [null_mut(); MODULES];
    let mut count = MODULES;
    // SAFETY: the component is open; there is room for `count` modules.
    let status = unsafe { init(raw.as_ptr(), level as u32, modules.as_mut_ptr(), &mut count) };
    if !status.is_ok() {
        return failed("no provider can be used", status);
    }
    let modules = modules.get(..count).unwrap_or_default();
    // SAFETY: the modules are of this component, whose tables are statics of this image, and `owner` closes it. Without
    // MPI_THREAD_MULTIPLE no two calls of Open MPI overlap.
    let transports = unsafe { Transport::adopt(raw, progress, modules, owner) };
    let transport = transports
        .map_err(|error| error.to_string())?
        .into_iter()
        .next();
    let Some(transport) = transport else {
        return failed("init", Status::ERROR);
    };
    let failures = Failures::of(&transport).map_err(|error| error.to_string())?;
    let attributes = transport.attributes();
    log::verbose(1, || {
        format!(
            "windows use {} on {}; calls {}",
            attributes.provider,
            attributes.domain,
            match component::has_threads() {
                true => "may overlap",
                false => "do not overlap",
            }
        )
    });
    let waiter = Box::new(progress::Turns);
    let context =
        Context::new(transport.clone(), failures, level, waiter).with_arithmetic(ops::combine);
    Ok(Opened {
        transport,
        context: Arc::new(context),
        endpoints: Mutex::default(),
    })
}

impl Opened {
    fn endpoints(&self) -> MutexGuard<'_, HashMap<u64, EndpointRef>> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all of these processes are connected.
    pub(crate) fn knows(&self, processes: &[u64]) -> bool {
        let endpoints = self.endpoints();
        processes
            .iter()
            .all(|process| endpoints.contains_key(process))
    }

    /// The way to a process that is connected.
    pub(crate) fn endpoint(&self, process: u64) -> Option<EndpointRef> {
        self.endpoints().get(&process).copied()
    }

    /// Connects a process, once. The error is the reason why it cannot be reached.
    pub(crate) fn connect(&self, process: u64, address: Vec<u8>) -> Result<(), String> {
        let mut endpoints = self.endpoints();
        if endpoints.contains_key(&process) {
            return Ok(());
        }
        services::learn(process, address);
        let connected = self
            .transport
            .connect(&[process])
            .map_err(|error| error.to_string())?;
        match connected.first().copied().flatten() {
            Some(endpoint) => {
                endpoints.insert(process, endpoint);
                Ok(())
            }
            None => Err(format!(
                "the transport does not reach it over {}",
                self.transport.attributes().provider
            )),
        }
    }
}
