//! The services of the host for a plugin: the functions behind the `HostVtable`.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use mca_params::Value;
use plugin_api::{
    HostVtable, LogLevel, ParamDecl, ParamValue, ParamValueBits, Status, TableHeader, magic,
};

use super::declaration::declaration;
use super::published::Published;
use crate::base::params::Params;
use osc_engine::transport::text;

/// The objects that serve a plugin's calls to the host.
#[derive(Clone)]
pub struct HostServices {
    /// The store where the plugin's parameters are declared and resolved.
    pub params: Arc<Params>,
    /// The items that the plugins publish, such as their addresses.
    pub published: Arc<Published>,
}

/// The services, the table that refers to them, and the strings lent to the plugin.
pub(super) struct Services {
    table: HostVtable,
    // The state is boxed and reached through a pointer, because the table's context points to it.
    state: *mut State,
}

struct State {
    services: HostServices,
    /// Values of string parameters, kept until the plugin is unloaded.
    strings: Mutex<HashMap<String, CString>>,
}

// SAFETY: State is Sync, and the pointer to the state is used only for reading.
unsafe impl Send for Services {}
// SAFETY: State is Sync, and the pointer to it is used only for reading.
unsafe impl Sync for Services {}

impl Services {
    pub(super) fn new(services: HostServices) -> Box<Self> {
        let state = Box::into_raw(Box::new(State {
            services,
            strings: Mutex::new(HashMap::new()),
        }));
        Box::new(Services {
            table: HostVtable {
                header: TableHeader::of::<HostVtable>(magic::HOST),
                context: state.cast(),
                param_register: Some(param_register),
                modex_put: Some(modex_put),
                modex_get: Some(modex_get),
                log: Some(log),
            },
            state,
        })
    }

    pub(super) fn table(&self) -> &HostVtable {
        &self.table
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        // SAFETY: `state` came from Box::into_raw, and its only other user, the plugin, is
        // unloaded.
        drop(unsafe { Box::from_raw(self.state) });
    }
}

/// Runs a service. A panic becomes a log line and the result `otherwise`, so no panic unwinds into
/// the plugin.
fn guarded<R>(service: &'static str, otherwise: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        tracing::error!("the host's {service} panicked");
        otherwise
    })
}

unsafe extern "C" fn param_register(
    context: *mut c_void,
    decl: *const ParamDecl,
    value: *mut ParamValue,
) -> Status {
    guarded("param_register", Status::ERROR, || {
        if context.is_null() || decl.is_null() || value.is_null() {
            return Status::BAD_PARAM;
        }
        // SAFETY: the context is the State behind the table; the other arguments are borrowed for
        // the call.
        let (state, decl) = unsafe { (&*context.cast::<State>(), &*decl) };
        // SAFETY: the contract requires that the strings and arrays of a declaration are
        // terminated.
        let (declaration, unset) = match unsafe { declaration(decl) } {
            Ok(declared) => declared,
            Err(reason) => {
                tracing::error!("a parameter's declaration cannot be used: {reason}");
                return Status::BAD_PARAM;
            }
        };
        let resolved = match state.services.params.declare(&declaration) {
            Ok(value) => value,
            Err(error) => {
                tracing::error!("{error}");
                return Status::BAD_PARAM;
            }
        };
        let bits = match resolved {
            Value::Int(i) => ParamValueBits { i: i64::from(i) },
            Value::Unsigned(u) => ParamValueBits { u },
            Value::Bool(b) => ParamValueBits { u: u64::from(b) },
            Value::String(s) if s.is_empty() && unset => ParamValueBits {
                s: std::ptr::null(),
            },
            Value::String(s) => match state.lend(&declaration.name, &s) {
                Some(s) => ParamValueBits { s },
                None => {
                    tracing::error!("{}: the value has a NUL byte", declaration.name);
                    return Status::BAD_PARAM;
                }
            },
        };
        // SAFETY: `value` is writable for the call.
        unsafe {
            value.write(ParamValue {
                kind: decl.default.kind,
                reserved: 0,
                bits,
            });
        }
        Status::SUCCESS
    })
}

impl State {
    /// Lends a string that does not move. The same name and value return the same pointer.
    fn lend(&self, name: &str, value: &str) -> Option<*const c_char> {
        let mut strings = self.strings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lent) = strings.get(name)
            && lent.as_bytes() == value.as_bytes()
        {
            return Some(lent.as_ptr());
        }
        let lent = CString::new(value).ok()?;
        let pointer = lent.as_ptr();
        // The value has changed; the plugin may still use the old string, so the map keeps it under
        // another key.
        if let Some(old) = strings.insert(name.to_owned(), lent) {
            let aside = format!("{name}\0{}", strings.len());
            strings.insert(aside, old);
        }
        Some(pointer)
    }
}

unsafe extern "C" fn modex_put(
    context: *mut c_void,
    key: *const c_char,
    data: *const c_void,
    size: usize,
) -> Status {
    guarded("modex_put", Status::ERROR, || {
        if context.is_null() || key.is_null() || (data.is_null() && size > 0) {
            return Status::BAD_PARAM;
        }
        // SAFETY: the context is the State behind the table; the key is NUL-terminated.
        let (state, key) = unsafe { (&*context.cast::<State>(), text(key)) };
        let data = if size == 0 {
            &[]
        } else {
            // SAFETY: the contract makes `data` readable for `size` bytes during the call.
            unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
        };
        state.services.published.put(key, data);
        Status::SUCCESS
    })
}

unsafe extern "C" fn modex_get(
    context: *mut c_void,
    proc: u64,
    key: *const c_char,
    data: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    guarded("modex_get", Status::ERROR, || {
        if context.is_null() || key.is_null() || size.is_null() || (data.is_null() && capacity > 0)
        {
            return Status::BAD_PARAM;
        }
        // SAFETY: the context is the State behind the table; the key is NUL-terminated.
        let (state, key) = unsafe { (&*context.cast::<State>(), text(key)) };
        let Some(found) = state.services.published.get(proc, &key) else {
            return Status::NOT_FOUND;
        };
        let count = found.len().min(capacity);
        // SAFETY: `data` is writable for `capacity` bytes and `size` for one number; `found` is memory of the host.
        unsafe {
            std::ptr::copy_nonoverlapping(found.as_ptr(), data.cast::<u8>(), count);
            size.write(found.len());
        }
        Status::SUCCESS
    })
}

unsafe extern "C" fn log(_context: *mut c_void, level: u32, line: *const c_char, size: usize) {
    guarded("log", (), || {
        if line.is_null() {
            return;
        }
        // SAFETY: the contract makes `line` readable for `size` bytes during the call.
        let line = unsafe { std::slice::from_raw_parts(line.cast::<u8>(), size) };
        let line = String::from_utf8_lossy(line);
        const ERROR: u32 = LogLevel::Error as u32;
        const WARN: u32 = LogLevel::Warn as u32;
        const INFO: u32 = LogLevel::Info as u32;
        match level {
            ERROR => tracing::error!(target: "plugin", "{line}"),
            WARN => tracing::warn!(target: "plugin", "{line}"),
            INFO => tracing::info!(target: "plugin", "{line}"),
            _ => tracing::debug!(target: "plugin", "{line}"),
        }
    });
}
