//! The services that a transport's table of functions needs from its host: parameters, the exchange of addresses, log
//! lines. [`select`](super::select) exchanges the addresses; this module keeps them, separately for each transport.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use btl_ofi::Options;
use mca_params::{Kind, Value};
use plugin_api::{
    HostVtable, LogLevel, ParamDecl, ParamKind, ParamValue, ParamValueBits, Status, TableHeader,
    magic,
};

use super::transport::{self, Scope};
use super::{log, params};
use crate::guard::guarded;

/// The parameter that names the providers, and the value for the transport without one.
const PROVIDERS: &str = "btl_ofi_provider_include";
const MEMORY: &str = "memory";

/// The host of one transport.
pub(crate) struct Services {
    scope: Scope,
    table: HostVtable,
    kept: Mutex<Kept>,
}

struct Kept {
    own: Vec<u8>,
    /// Addresses of other processes, by the processes' names.
    others: BTreeMap<u64, Vec<u8>>,
    /// Values of string parameters, which the transport reads until its component is closed.
    strings: Vec<CString>,
}

impl Kept {
    const fn new() -> Kept {
        Kept {
            own: Vec::new(),
            others: BTreeMap::new(),
            strings: Vec::new(),
        }
    }
}

static NODE: Services = Services::new(Scope::Node, &raw const NODE);
static ALL: Services = Services::new(Scope::All, &raw const ALL);

/// The services for the transport of this scope.
pub(crate) fn of(scope: Scope) -> &'static Services {
    match scope {
        Scope::Node => &NODE,
        Scope::All => &ALL,
    }
}

impl Services {
    /// The services at this place.
    const fn new(scope: Scope, at: *const Services) -> Services {
        Services {
            scope,
            table: HostVtable {
                header: TableHeader::of::<HostVtable>(magic::HOST),
                context: at.cast_mut().cast(),
                param_register: Some(param_register),
                modex_put: Some(modex_put),
                modex_get: Some(modex_get),
                log: Some(log_line),
            },
            kept: Mutex::new(Kept::new()),
        }
    }

    /// The services in a table's `context`.
    ///
    /// # Safety
    /// The context belongs to a table made here.
    unsafe fn at<'a>(context: *mut c_void) -> &'a Services {
        // SAFETY: the pointer is the address of `NODE` or `ALL`.
        unsafe { &*context.cast_const().cast() }
    }

    pub(crate) fn table(&'static self) -> &'static HostVtable {
        &self.table
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of this process, once the transport is open.
    pub(crate) fn own_address(&self) -> Vec<u8> {
        self.kept().own.clone()
    }

    /// Keeps the address of another process.
    pub(crate) fn learn(&self, process: u64, address: Vec<u8>) {
        self.kept().others.insert(process, address);
    }

    /// Forgets all addresses.
    pub(crate) fn clear(&self) {
        *self.kept() = Kept::new();
    }
}

unsafe extern "C" fn param_register(
    context: *mut c_void,
    decl: *const ParamDecl,
    value: *mut ParamValue,
) -> Status {
    guarded("param_register", Status::FATAL, || {
        // SAFETY: the transport passes a declaration that lives through the call, with a NUL-terminated name.
        let name = unsafe { CStr::from_ptr((*decl).name) }.to_string_lossy();
        let Some(declared) = Options::declarations().find(|known| known.name == name) else {
            return Status::NOT_FOUND;
        };
        // SAFETY: the transport passes the context of its table.
        let services = unsafe { Services::at(context) };
        let resolved = match params::of_transport(declared) {
            Ok(_) if services.scope == Scope::Node && declared.name == PROVIDERS => {
                Value::str(MEMORY)
            }
            Ok(resolved) => resolved,
            Err(reason) => {
                log::line(&reason);
                return Status::BAD_PARAM;
            }
        };
        let verbose = declared.name == "btl_ofi_verbose";
        let (kind, bits) = match resolved {
            Value::Int(n) => {
                let n = if verbose { n.max(log::verbosity()) } else { n };
                (ParamKind::Int, ParamValueBits { i: i64::from(n) })
            }
            Value::Unsigned(n) => {
                let kind = match declared.kind {
                    Kind::UnsignedInt => ParamKind::UnsignedInt,
                    _ => ParamKind::SizeT,
                };
                (kind, ParamValueBits { u: n })
            }
            Value::Bool(b) => (ParamKind::Bool, ParamValueBits { u: u64::from(b) }),
            Value::String(text) => {
                let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
                // The string's bytes keep their address when the list grows.
                let s = text.as_ptr();
                services.kept().strings.push(text);
                (ParamKind::String, ParamValueBits { s })
            }
        };
        // SAFETY: the transport passes a writable value.
        unsafe {
            value.write(ParamValue {
                kind: kind as u32,
                reserved: 0,
                bits,
            });
        }
        Status::SUCCESS
    })
}

unsafe extern "C" fn modex_put(
    context: *mut c_void,
    _: *const c_char,
    data: *const c_void,
    size: usize,
) -> Status {
    guarded("modex_put", Status::FATAL, || {
        // SAFETY: the transport passes `size` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
        // SAFETY: the transport passes the context of its table.
        unsafe { Services::at(context) }.kept().own = bytes.to_vec();
        Status::SUCCESS
    })
}

unsafe extern "C" fn modex_get(
    context: *mut c_void,
    process: u64,
    _: *const c_char,
    data: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    guarded("modex_get", Status::FATAL, || {
        // SAFETY: the transport passes the context of its table.
        let kept = unsafe { Services::at(context) }.kept();
        let Some(address) = kept.others.get(&process) else {
            return Status::NOT_FOUND;
        };
        let copied = address.len().min(capacity);
        // SAFETY: the transport passes `capacity` writable bytes and a writable size.
        unsafe {
            std::ptr::copy_nonoverlapping(address.as_ptr(), data.cast(), copied);
            size.write(address.len());
        }
        Status::SUCCESS
    })
}

unsafe extern "C" fn log_line(context: *mut c_void, level: u32, text: *const c_char, size: usize) {
    guarded("log", (), || {
        // SAFETY: the transport passes the context of its table.
        let scope = unsafe { Services::at(context) }.scope;
        // If the transport for one node cannot be opened, the other transport serves the node.
        let tries = scope == Scope::Node && !transport::is_open(scope);
        // Without verbosity, only warnings and errors of an open transport are written.
        if (tries || level > LogLevel::Warn as u32) && log::verbosity() < 1 {
            return;
        }
        // SAFETY: the transport passes `size` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), size) };
        log::line(&String::from_utf8_lossy(bytes));
    });
}
