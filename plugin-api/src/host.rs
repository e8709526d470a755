//! What the host offers a plugin.

use std::ffi::{c_char, c_void};

use crate::header::require_entries;
use crate::{AbiError, ParamDecl, ParamValue, Status, TableHeader, magic};

/// How much a log line matters; a host prints lines up to the level its user asked for.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error = 0,
    /// Something is not as the user may believe.
    Warn = 1,
    /// What was chosen, and why.
    Info = 2,
    /// For developers.
    Debug = 3,
}

/// Services of the host. Every function may be called from any thread unless it says otherwise,
/// and none from a signal handler.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostVtable {
    /// [`magic::HOST`].
    pub header: TableHeader,
    /// Passed back as the first argument of each function.
    pub context: *mut c_void,
    /// Declares a parameter and writes its resolved value. Declaring the same parameter again is
    /// allowed and gives the same value. Strings stay valid until the component is closed.
    /// [`Status::BAD_PARAM`]: the user's value does not parse (the host has said so).
    pub param_register: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            decl: *const ParamDecl,
            value: *mut ParamValue,
        ) -> Status,
    >,
    /// Publishes `size` bytes under `key` for the other processes of the job. Copied by the host.
    /// Called from `init` only; visible to peers after the host's next exchange.
    pub modex_put: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            key: *const c_char,
            data: *const c_void,
            size: usize,
        ) -> Status,
    >,
    /// Reads what process `proc` published under `key`: copies at most `capacity` bytes and writes
    /// the full size to `size`. [`Status::NOT_FOUND`]: nothing published there.
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
    /// Prints a line (UTF-8, `size` bytes, no newline) at a [`LogLevel`].
    pub log: Option<
        unsafe extern "C" fn(context: *mut c_void, level: u32, line: *const c_char, size: usize),
    >,
}

// SAFETY: the table is plain data; HostVtable's contract makes its functions callable from any thread.
unsafe impl Send for HostVtable {}
// SAFETY: as for Send.
unsafe impl Sync for HostVtable {}

impl HostVtable {
    /// The table's size in ABI 1.0.
    pub const MIN_SIZE: usize = size_of::<HostVtable>();

    /// Checks a table handed in by a host.
    ///
    /// # Safety
    /// `table` is NULL or points to a readable [`TableHeader`] followed by the bytes it declares.
    pub unsafe fn check<'a>(table: *const HostVtable) -> Result<&'a HostVtable, AbiError> {
        if table.is_null() {
            return Err(AbiError::NullTable { table: "host" });
        }
        // SAFETY: the caller vouches for a readable header at a non-NULL pointer.
        let header = unsafe { *table.cast::<TableHeader>() };
        header.check("host", magic::HOST, Self::MIN_SIZE)?;
        // SAFETY: the header declares at least MIN_SIZE bytes, which is this whole type.
        let table = unsafe { &*table };
        require_entries!(table, "host", param_register, modex_put, modex_get, log);
        Ok(table)
    }
}
