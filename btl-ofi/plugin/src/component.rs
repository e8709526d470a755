//! The component's table: parameters, survey of providers, and the one module. The module's table is in
//! [`module`](crate::module).

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use plugin_api::{
    Component, ComponentVtable, HostVtable, LogLevel, Module, Provider, Status, SurveyFn,
    TableHeader, ThreadLevel, magic,
};
use transport::log::{self, Route};
use transport::{Options, Transport};

use crate::guard::{called, guarded};
use crate::modex;
use crate::module::{OfiModule, Slot};
use crate::params;

const VERSION: &str = concat!("btl-ofi ", env!("CARGO_PKG_VERSION"), " (libfabric)\0");

pub(crate) static TABLE: ComponentVtable = ComponentVtable {
    header: TableHeader::of::<ComponentVtable>(magic::COMPONENT),
    name: c"ofi".as_ptr(),
    version: VERSION.as_ptr().cast(),
    register_params: Some(register_params),
    open: Some(open),
    survey: Some(survey),
    init: Some(init),
    progress: Some(progress),
    close: Some(close),
};

/// The object behind the host's opaque [`Component`].
struct OfiComponent {
    host: &'static HostVtable,
    options: Options,
    /// The lines for this host.
    _log: Route,
    /// The module, while it lives. Like BTL/OFI, the component opens only the first compatible provider.
    module: Slot,
}

/// The component behind the host's pointer.
///
/// # Safety
/// `component` is NULL or came from `open` and was not closed.
unsafe fn component_ref<'a>(component: *mut Component) -> Option<&'a OfiComponent> {
    // SAFETY: the caller guarantees that `component` is NULL or an open `OfiComponent`.
    unsafe { component.cast::<OfiComponent>().as_ref() }
}

/// Checks the host's table.
///
/// # Safety
/// `host` is NULL or a host's table that stays valid until `close`.
unsafe fn check_host(host: *const HostVtable) -> Result<&'static HostVtable, Status> {
    // SAFETY: the caller guarantees that `host` is NULL or a table that stays valid until `close`.
    unsafe { HostVtable::check(host) }.map_err(|_| Status::TYPE_MISMATCH)
}

/// Routes the transport's log lines to the host's `log`.
fn route_log(host: &'static HostVtable, verbose: i32) -> Route {
    let sink = move |level: LogLevel, line: &str| log_line(host, level, line);
    log::route(log::level_of(verbose), Arc::new(sink))
}

fn log_line(host: &HostVtable, level: LogLevel, line: &str) {
    if let Some(log) = host.log {
        // SAFETY: `HostVtable::check` accepted the table; the line lives through the call.
        unsafe { log(host.context, level as u32, line.as_ptr().cast(), line.len()) };
    }
}

/// Tells the host the reason of a failure; returns its status.
fn failed(host: &HostVtable, error: &transport::Error) -> Status {
    log_line(host, LogLevel::Error, &error.to_string());
    error.status()
}

unsafe extern "C" fn register_params(host: *const HostVtable) -> Status {
    guarded("register_params", || {
        // SAFETY: the host passes NULL or a table that it keeps valid until `close`.
        let host = match unsafe { check_host(host) } {
            Ok(host) => host,
            Err(status) => return status,
        };
        match params::resolve(host) {
            Ok(_) => Status::SUCCESS,
            Err(e) => failed(host, &e),
        }
    })
}

unsafe extern "C" fn open(host: *const HostVtable, out: *mut *mut Component) -> Status {
    guarded("open", || {
        // SAFETY: the host passes NULL or a table that it keeps valid until `close`.
        let host = match unsafe { check_host(host) } {
            Ok(host) => host,
            Err(status) => return status,
        };
        if out.is_null() {
            return Status::BAD_PARAM;
        }
        let options = match params::resolve(host) {
            Ok(mut options) => {
                // A host of this ABI may make applies.
                options.need_applies();
                options
            }
            Err(e) => return failed(host, &e),
        };
        let component = OfiComponent {
            host,
            _log: route_log(host, options.verbosity()),
            options,
            module: Slot::default(),
        };
        // SAFETY: `out` is not NULL; the host passes a writable pointer.
        unsafe { *out = Box::into_raw(Box::new(component)).cast() };
        Status::SUCCESS
    })
}

unsafe extern "C" fn survey(
    component: *mut Component,
    visit: Option<SurveyFn>,
    context: *mut c_void,
) -> Status {
    // SAFETY: the host passes NULL or a component that `open` returned and that is not closed.
    called("survey", unsafe { component_ref(component) }, |component| {
        let visit = visit?;
        let candidates = match Transport::survey(&component.options, ThreadLevel::Single) {
            Ok(candidates) => candidates,
            Err(e) => return Some(failed(component.host, &e)),
        };
        let c = |s: &str| CString::new(s.replace('\0', " ")).unwrap_or_default();
        for candidate in candidates {
            let name = c(&candidate.name);
            let domain = c(&candidate.domain);
            let refusal = candidate.refusal.as_deref().map(c);
            let provider = Provider {
                name: name.as_ptr(),
                domain: domain.as_ptr(),
                refusal: refusal
                    .as_ref()
                    .map_or(ptr::null::<c_char>(), |r| r.as_ptr()),
                chosen: u32::from(candidate.chosen),
                reserved: 0,
            };
            // SAFETY: `visit` and `context` come together from the host; the strings live through the call.
            unsafe { visit(context, &provider) };
        }
        Some(Status::SUCCESS)
    })
}

unsafe extern "C" fn init(
    component: *mut Component,
    thread_level: u32,
    modules: *mut *mut Module,
    count: *mut usize,
) -> Status {
    // SAFETY: the host passes NULL or a component that `open` returned and that is not closed.
    called("init", unsafe { component_ref(component) }, |component| {
        if modules.is_null() || count.is_null() {
            return None;
        }
        // SAFETY: `count` is not NULL; the host passes a writable pointer.
        let room = unsafe { std::mem::replace(&mut *count, 0) };
        let level = ThreadLevel::try_from(thread_level).ok()?;
        if room == 0 {
            return None;
        }
        if !component.module.current().is_null() {
            return Some(Status::RESOURCE_BUSY);
        }
        // SAFETY: the host promises the level with its call of `init`.
        let transport = match unsafe { Transport::open_at(&component.options, level) } {
            Ok(transport) => transport,
            Err(e) => return Some(failed(component.host, &e)),
        };
        let status = modex::publish(component.host, transport.address());
        if !status.is_ok() {
            let why = format!("the host failed to publish the address: {status}");
            log_line(component.host, LogLevel::Error, &why);
            return Some(status);
        }
        let module = OfiModule::new(component.host, &component.module, transport);
        // SAFETY: both pointers are not NULL and writable; `room` is at least 1.
        unsafe {
            *modules = module.cast();
            *count = 1;
        }
        Some(Status::SUCCESS)
    })
}

unsafe extern "C" fn progress(component: *mut Component) -> i32 {
    // SAFETY: the host passes NULL or a component that `open` returned and that is not closed.
    let component = unsafe { component_ref(component) };
    let counted = called("progress", component, |component| {
        // SAFETY: the slot holds NULL or a module that is not finalised: `finalize` takes a module out first.
        Some(match unsafe { component.module.current().as_ref() } {
            // A value of 0 or more is a count, not a status.
            Some(module) => Status((module.transport().progress() & i32::MAX as usize) as i32),
            None => Status::SUCCESS,
        })
    });
    counted.0
}

unsafe extern "C" fn close(component: *mut Component) -> Status {
    guarded("close", || {
        if component.is_null() {
            return Status::BAD_PARAM;
        }
        // SAFETY: the host passes a component that `open` made with `Box::into_raw`, and closes it once.
        let component = unsafe { Box::from_raw(component.cast::<OfiComponent>()) };
        match component.module.take() {
            None => Status::SUCCESS,
            // SAFETY: `take` removed the module from the slot, so that it is finished once.
            Some(module) => unsafe { OfiModule::finish(module.as_ptr()) },
        }
    })
}
