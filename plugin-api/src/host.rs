//! The services that the host offers to a plugin.

use std::ffi::{c_char, c_void};

use crate::header::require_entries;
use crate::{AbiError, ParamDecl, ParamValue, Status, TableHeader, magic};

/// The level of a log line. A host prints lines up to the level that its user asked for.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// An operation or object failed.
    Error = 0,
    /// The state may differ from the user's expectation.
    Warn = 1,
    /// Choices and their reasons.
    Info = 2,
    /// For developers.
    Debug = 3,
}

/// Services of the host. Any thread may call a function, unless its documentation states otherwise; a signal handler
/// must not.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostVtable {
    /// [`magic::HOST`].
    pub header: TableHeader,
    /// Passed back as the first argument of each function.
    pub context: *mut c_void,
    /// Declares a parameter and writes its resolved value. A second declaration of the same parameter is allowed and
    /// gives the same value. Strings stay valid until the component is closed. [`Status::BAD_PARAM`]: the user's value
    /// does not parse; the host has logged this.
    pub param_register: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            decl: *const ParamDecl,
            value: *mut ParamValue,
        ) -> Status,
    >,
    /// Publishes `size` bytes under `key` for the other processes of the job. The host copies the bytes. The plugin
    /// calls this only from `init`. Peers see the bytes after the host's next exchange.
    pub modex_put: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            key: *const c_char,
            data: *const c_void,
            size: usize,
        ) -> Status,
    >,
    /// Reads the bytes that process `proc` published under `key`: copies at most `capacity` bytes and writes the full
    /// size to `size`. [`Status::NOT_FOUND`]: the process published nothing under `key`.
    pub modex_get: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            proc: u64,
            key: *const c_char,
            data: *mut c_void,
            capacity: usize,
            size: *mut usize,
        ) -> Status,
    >,
    /// Prints a line (UTF-8, `size` bytes, no newline) at a [`LogLevel`]. Each host that has a component of the plugin open
    /// may get the lines of all components.
    pub log: Option<
        unsafe extern "C" fn(context: *mut c_void, level: u32, line: *const c_char, size: usize),
    >,
}

// SAFETY: the table is plain data, and any thread may call its functions by the contract of `HostVtable`.
unsafe impl Send for HostVtable {}
// SAFETY: the table never changes, and any thread may call its functions by the contract of `HostVtable`.
unsafe impl Sync for HostVtable {}

impl HostVtable {
    /// The table's size in ABI 1.0.
    pub const MIN_SIZE: usize = size_of::<HostVtable>();

    /// Checks a host's table.
    ///
    /// # Safety
    /// `table` is NULL or points to a readable [`TableHeader`] followed by the bytes it declares.
    pub unsafe fn check<'a>(table: *const HostVtable) -> Result<&'a HostVtable, AbiError> {
        if table.is_null() {
            return Err(AbiError::NullTable { table: "host" });
        }
        // SAFETY: the caller guarantees a readable header, and `table` is not NULL.
        let header = unsafe { *table.cast::<TableHeader>() };
        header.check("host", magic::HOST, Self::MIN_SIZE)?;
        // SAFETY: the header declares at least MIN_SIZE bytes, which is this whole type.
        let table = unsafe { &*table };
        require_entries!(table, "host", param_register, modex_put, modex_get, log);
        Ok(table)
    }
}
