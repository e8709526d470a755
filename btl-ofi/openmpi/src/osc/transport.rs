//! The transports of this process's windows. Each transport is opened with the first window that needs it, and closed when Open
//! MPI ends. One transport has no provider and serves windows whose ranks it reaches by memory, so a program on one node never
//! opens libfabric. The other transport serves all other windows. Both are made by the table of functions of `btl-ofi`, which
//! is linked into this file.

use std::any::Any;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use osc_engine::door::Context;
use osc_engine::transport::{EndpointRef, Failures, Transport};
use plugin_api::counters::CARRIERS;
use plugin_api::{Component, ComponentVtable, ModuleFlags, Stats, Status, ThreadLevel};

use crate::osc::devices::{self, Known, Overrides};
use crate::osc::reached::Directory;
use crate::osc::services::{self, Services};
use crate::osc::{component, log, ops, progress};
use crate::pvars::Counted;

/// A transport, by the processes that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Processes of this node whose memory is reached. The transport has the provider `memory`,
    /// which transfers nothing.
    Node,
    /// All processes, by libfabric.
    All,
}

const SCOPES: [Scope; 2] = [Scope::Node, Scope::All];

/// Modules that one `init` may make.
const MODULES: usize = 32;

/// The open transport and the processes that it reaches.
pub(crate) struct Opened {
    services: &'static Services,
    pub(crate) transport: Transport,
    pub(crate) context: Arc<Context>,
    pub(crate) devices: Known,
    reached: Mutex<Directory<EndpointRef>>,
}

/// A transport, or the reason why there is none; `None` before the first use. A failed open is not repeated for each
/// window.
type Outcome = Option<Result<Arc<Opened>, String>>;

/// The transports, by their scopes.
static OPENED: [Mutex<Outcome>; 2] = [const { Mutex::new(None) }; 2];

/// The transports of [`OPENED`], for callers that must not wait; NULL without a transport. `open` stores with Release,
/// `progress` loads with Acquire.
static CURRENT: [AtomicPtr<Opened>; 2] = [const { AtomicPtr::new(null_mut()) }; 2];

/// Set when memory did not reach a rank that Open MPI places on this node: containers may share a node's name. Relaxed accesses
/// suffice, because no other data depends on the flag.
static HIDDEN: AtomicBool = AtomicBool::new(false);

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

fn lock(scope: Scope) -> MutexGuard<'static, Outcome> {
    OPENED[scope as usize]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// The transport of this scope, opened at the first call; or the reason why it cannot be opened.
pub(crate) fn open(scope: Scope) -> Result<Arc<Opened>, String> {
    let mut opened = lock(scope);
    let opened = opened.get_or_insert_with(|| {
        let opened = open_now(scope).map(Arc::new);
        if let Ok(opened) = &opened {
            // Release: pairs with the Acquire in `progress`.
            let current = Arc::as_ptr(opened).cast_mut();
            CURRENT[scope as usize].store(current, Ordering::Release);
        }
        opened
    });
    opened.clone()
}

/// The scope of a window among these ranks, as far as this process knows without the others.
pub(crate) fn scope(on_one_node: bool) -> Scope {
    let by_memory = on_one_node && !HIDDEN.load(Ordering::Relaxed) && open(Scope::Node).is_ok();
    match by_memory {
        true => Scope::Node,
        false => Scope::All,
    }
}

/// Whether the transport of this scope is open.
pub(crate) fn is_open(scope: Scope) -> bool {
    !CURRENT[scope as usize].load(Ordering::Relaxed).is_null()
}

/// Notes that memory does not reach a process of this node.
pub(crate) fn is_hidden() {
    HIDDEN.store(true, Ordering::Relaxed);
}

/// Makes progress of the open transports. Returns the number of completions; below 0 if the transport of this scope failed.
/// Windows of the other transport still work then.
#[inline]
pub(crate) fn progress(of: Scope) -> i32 {
    let (mut done, mut failed) = (0, None);
    for (scope, current) in SCOPES.iter().zip(&CURRENT) {
        // SAFETY: NULL or a transport that `OPENED` holds; `close` runs when Open MPI makes no other call of
        // this component.
        if let Some(opened) = unsafe { current.load(Ordering::Acquire).as_ref() } {
            match opened.transport.progress() {
                count if count >= 0 => done += count,
                code if *scope == of => failed = Some(code),
                _ => {}
            }
        }
    }
    failed.unwrap_or(done)
}

/// Makes the open transports look for devices.
pub(crate) fn look_for_devices() {
    for current in &CURRENT {
        // SAFETY: as in `progress`.
        if let Some(opened) = unsafe { current.load(Ordering::Acquire).as_ref() } {
            opened.devices.look();
        }
    }
}

/// Sets the functions by which all transports copy memory of devices, also transports that are opened later; `None`
/// stands for their own.
pub(crate) fn set_overrides(overrides: Option<Overrides>) -> Status {
    // A transport that another thread is opening either takes the functions before it frees its lock,
    // or is found here.
    let opened = SCOPES.map(lock);
    let mut kept = devices::overrides();
    *kept = overrides;
    let mut result = Status::SUCCESS;
    for opened in opened
        .iter()
        .filter_map(|opened| opened.as_ref()?.as_ref().ok())
    {
        let status = opened.devices.set_overrides(kept.as_ref());
        if !status.is_ok() {
            result = status;
        }
    }
    result
}

/// Closes the transports. No window may use the transports any longer.
pub(crate) fn close() {
    for scope in SCOPES {
        // Release as in `open`: pairs with the Acquire in `progress`.
        CURRENT[scope as usize].store(null_mut(), Ordering::Release);
        let mut opened = lock(scope);
        if let Some(stats) = stats(&opened) {
            add(&mut ended(), &stats);
        }
        drop(opened.take());
        drop(opened);
        services::of(scope).clear();
    }
    HIDDEN.store(false, Ordering::Relaxed);
}

/// The counters of the transports of windows, including closed transports, so that sums never fall.
pub(crate) struct Windows;

impl Counted for Windows {
    fn sum(number: impl Fn(&Stats) -> u64) -> u64 {
        let open = SCOPES.map(|scope| stats(&lock(scope)).map_or(0, |stats| number(&stats)));
        open.iter().sum::<u64>() + number(&ended())
    }
}

fn stats(opened: &Outcome) -> Option<Stats> {
    let opened = opened.as_ref()?.as_ref().ok()?;
    opened.transport.stats().ok()
}

/// The counts of the closed transports.
fn ended() -> MutexGuard<'static, Stats> {
    static ENDED: Mutex<Stats> = Mutex::new(Stats::new());
    ENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(sum: &mut Stats, stats: &Stats) {
    for carrier in 0..CARRIERS {
        sum.operations[carrier] += stats.operations[carrier];
        sum.bytes[carrier] += stats.bytes[carrier];
    }
    sum.again += stats.again;
    sum.revoked += stats.revoked;
    sum.messages += stats.messages;
    sum.waits += stats.waits;
    sum.waited += stats.waited;
    sum.polls += stats.polls;
}

fn open_now(scope: Scope) -> Result<Opened, String> {
    let failed = |what: &str, status: Status| {
        Err(format!(
            "the transport could not be opened ({what}: {status})"
        ))
    };
    let services = services::of(scope);
    let host = services.table();
    let mut table: *const ComponentVtable = null();
    // SAFETY: the host's table is a static; `table` is writable.
    let status = unsafe { btl_ofi_vtable::entry(host, &mut table) };
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
    let status = unsafe { open(host, &mut raw) };
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
    let waiter = Box::new(progress::Turns(scope));
    let devices = Known::new(&transport);
    let context = Context::new(transport.clone(), failures, level, waiter)
        .with_arithmetic(ops::combine)
        .with_devices(Box::new(devices.of_windows()));
    Ok(Opened {
        services,
        transport,
        context: Arc::new(context),
        devices,
        reached: Mutex::default(),
    })
}

impl Opened {
    /// Whether processors of targets execute small puts, as over TCP, and no network card does.
    pub(crate) fn is_by_processors(&self) -> bool {
        let flags = self.transport.attributes().flags;
        flags.contains(ModuleFlags::SCATTERS)
    }

    /// The address of this process.
    pub(crate) fn address(&self) -> Vec<u8> {
        self.services.own_address()
    }

    fn reached(&self) -> MutexGuard<'_, Directory<EndpointRef>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoints of these processes, if all know this process and this one knows all.
    pub(crate) fn endpoints_of(&self, processes: &[u64]) -> Option<Box<[EndpointRef]>> {
        self.reached().known(processes)
    }

    /// Notes that these processes are connected to this one.
    pub(crate) fn confirm(&self, processes: &[u64]) {
        self.reached().confirm(processes);
    }

    /// Connects the processes that are not connected yet, by their addresses. The error is the reason why one cannot be
    /// reached.
    pub(crate) fn connect(
        &self,
        processes: &[u64],
        addresses: &[&[u8]],
    ) -> Result<Box<[EndpointRef]>, String> {
        let mut reached = self.reached();
        // All, so that a later window needs no address whose connection fails now.
        for (process, address) in processes.iter().zip(addresses) {
            if !address.is_empty() {
                self.services.learn(*process, address.to_vec());
            }
        }
        let one = |(rank, process): (usize, &u64)| {
            if let Some(endpoint) = reached.endpoint(*process) {
                return Ok(endpoint);
            }
            let connected = self.transport.connect(&[*process]);
            let connected = connected.map_err(|error| error.to_string());
            let endpoint = connected.and_then(|connected| {
                connected.first().copied().flatten().ok_or_else(|| {
                    let provider = &self.transport.attributes().provider;
                    format!("the transport does not reach it over {provider}")
                })
            });
            let endpoint =
                endpoint.map_err(|reason| format!("rank {rank} is not reached: {reason}"))?;
            reached.add(*process, endpoint);
            Ok(endpoint)
        };
        processes.iter().enumerate().map(one).collect()
    }
}
