//! What the transport's table of functions asks of its host: parameters, the exchange of addresses, log lines. The addresses
//! are exchanged by [`select`](super::select); this keeps them.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use btl_ofi::Options;
use mca_params::{Kind, Value};
use plugin_api::{
    HostVtable, LogLevel, ParamDecl, ParamKind, ParamValue, ParamValueBits, Status, TableHeader,
    magic,
};

use super::{log, params};
use crate::guard::guarded;

pub(crate) static TABLE: HostVtable = HostVtable {
    header: TableHeader::of::<HostVtable>(magic::HOST),
    context: null_mut(),
    param_register: Some(param_register),
    modex_put: Some(modex_put),
    modex_get: Some(modex_get),
    log: Some(log_line),
};

#[derive(Default)]
struct Addresses {
    own: Vec<u8>,
    /// Those of other processes, by the processes' names.
    others: HashMap<u64, Vec<u8>>,
    /// Values of string parameters, which the transport reads until its component is closed.
    strings: Vec<CString>,
}

static ADDRESSES: Mutex<Option<Addresses>> = Mutex::new(None);

/// Locks the addresses.
fn with<T>(work: impl FnOnce(&mut Addresses) -> T) -> T {
    let mut addresses: MutexGuard<'_, Option<Addresses>> =
        ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
    work(addresses.get_or_insert_default())
}

/// The address of this process, once the transport is open.
pub(crate) fn own_address() -> Vec<u8> {
    with(|addresses| addresses.own.clone())
}

/// Keeps the address of another process.
pub(crate) fn learn(process: u64, address: Vec<u8>) {
    with(|addresses| addresses.others.insert(process, address));
}

/// Forgets all.
pub(crate) fn clear() {
    *ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

unsafe extern "C" fn param_register(
    _: *mut c_void,
    decl: *const ParamDecl,
    value: *mut ParamValue,
) -> Status {
    guarded("param_register", Status::FATAL, || {
        // SAFETY: the transport passes a declaration that lives through the call, with a NUL-terminated name.
        let name = unsafe { CStr::from_ptr((*decl).name) }.to_string_lossy();
        let Some(declared) = Options::declarations().find(|known| known.name == name) else {
            return Status::NOT_FOUND;
        };
        let resolved = match params::of_transport(declared) {
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
                    Kind::UnsignedLong => ParamKind::UnsignedLong,
                    _ => ParamKind::SizeT,
                };
                (kind, ParamValueBits { u: n })
            }
            Value::Bool(b) => (ParamKind::Bool, ParamValueBits { u: u64::from(b) }),
            Value::Double(d) => (ParamKind::Double, ParamValueBits { d }),
            Value::String(text) => {
                let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
                // The string's bytes stay where they are when the list grows.
                let s = text.as_ptr();
                with(|addresses| addresses.strings.push(text));
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
    _: *mut c_void,
    _: *const c_char,
    data: *const c_void,
    size: usize,
) -> Status {
    guarded("modex_put", Status::FATAL, || {
        // SAFETY: the transport passes `size` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
        with(|addresses| addresses.own = bytes.to_vec());
        Status::SUCCESS
    })
}

unsafe extern "C" fn modex_get(
    _: *mut c_void,
    process: u64,
    _: *const c_char,
    data: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    guarded("modex_get", Status::FATAL, || {
        with(|addresses| {
            let Some(address) = addresses.others.get(&process) else {
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
    })
}

unsafe extern "C" fn log_line(_: *mut c_void, level: u32, text: *const c_char, size: usize) {
    guarded("log", (), || {
        // Chosen by verbosity: a transport that is opened quietly still warns.
        if level > LogLevel::Warn as u32 && log::verbosity() < 1 {
            return;
        }
        // SAFETY: the transport passes `size` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), size) };
        log::line(&String::from_utf8_lossy(bytes));
    });
}
