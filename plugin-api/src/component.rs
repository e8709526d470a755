//! The component's table, which a plugin's entry returns.

use std::ffi::{c_char, c_void};

use crate::header::require_entries;
use crate::{AbiError, Component, HostVtable, Module, Status, TableHeader, UnknownCode, magic};

/// The exported function of a plugin, which the host calls once per load. The function checks `host`, writes the
/// component's table to `out` and changes nothing else. [`Status::TYPE_MISMATCH`]: the host's table cannot be
/// used.
pub type EntryFn =
    unsafe extern "C" fn(host: *const HostVtable, out: *mut *const ComponentVtable) -> Status;

/// Receives one provider of a survey. `provider` is borrowed for the call.
pub type SurveyFn = unsafe extern "C" fn(context: *mut c_void, provider: *const Provider);

/// One provider that a survey found.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Provider {
    /// Name, as `fi_info` prints it.
    pub name: *const c_char,
    /// Domain (device).
    pub domain: *const c_char,
    /// The reason against it, or NULL if it can be used.
    pub refusal: *const c_char,
    /// 1 for the provider that `init` would select, else 0.
    pub chosen: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// MPI's thread levels.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// One thread.
    Single = 0,
    /// Only the thread that called `init` makes calls.
    Funneled = 1,
    /// Any thread makes calls, one at a time.
    Serialized = 2,
    /// Several threads make calls at the same time.
    Multiple = 3,
}

impl TryFrom<u32> for ThreadLevel {
    type Error = UnknownCode;

    fn try_from(code: u32) -> Result<Self, Self::Error> {
        Ok(match code {
            0 => ThreadLevel::Single,
            1 => ThreadLevel::Funneled,
            2 => ThreadLevel::Serialized,
            3 => ThreadLevel::Multiple,
            _ => {
                return Err(UnknownCode {
                    what: "thread level",
                    code,
                });
            }
        })
    }
}

/// The functions of a component. The host calls `register_params`, `open` and `init` in this order, then `progress` and
/// the modules' functions, then `finalize` of each module, then `close`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ComponentVtable {
    /// [`magic::COMPONENT`].
    pub header: TableHeader,
    /// The component's name, e.g. `ofi`.
    pub name: *const c_char,
    /// Version and libraries of the build, as text.
    pub version: *const c_char,
    /// Declares every parameter with the host. No component needs to be open.
    pub register_params: Option<unsafe extern "C" fn(host: *const HostVtable) -> Status>,
    /// Reads the parameters and makes a component. `host` stays valid until `close`.
    pub open:
        Option<unsafe extern "C" fn(host: *const HostVtable, out: *mut *mut Component) -> Status>,
    /// Calls `visit` for every provider, usable or not.
    pub survey: Option<
        unsafe extern "C" fn(
            component: *mut Component,
            visit: Option<SurveyFn>,
            context: *mut c_void,
        ) -> Status,
    >,
    /// Makes the modules: writes at most `*count` pointers to `modules` and their number to
    /// `count`. Publishes their addresses with the host's `modex_put`. `thread_level` is a
    /// [`ThreadLevel`]. [`Status::NOT_AVAILABLE`]: no provider can be used; the plugin has logged the reasons.
    pub init: Option<
        unsafe extern "C" fn(
            component: *mut Component,
            thread_level: u32,
            modules: *mut *mut Module,
            count: *mut usize,
        ) -> Status,
    >,
    /// Makes progress on every module; returns the number of completions, or more if it served peers, or a negative
    /// [`Status`]. A callback may call this function.
    pub progress: Option<unsafe extern "C" fn(component: *mut Component) -> i32>,
    /// Ends the component: finalises its live modules and frees it.
    pub close: Option<unsafe extern "C" fn(component: *mut Component) -> Status>,
}

// SAFETY: plain data and functions; the strings are static in the plugin.
unsafe impl Send for ComponentVtable {}
// SAFETY: plain data and functions that never change; the strings are static in the plugin.
unsafe impl Sync for ComponentVtable {}

impl ComponentVtable {
    /// The table's size in ABI 1.0.
    pub const MIN_SIZE: usize = size_of::<ComponentVtable>();

    /// Checks a plugin's table.
    ///
    /// # Safety
    /// `table` is NULL or points to a readable [`TableHeader`] followed by the bytes it declares.
    pub unsafe fn check<'a>(table: *const ComponentVtable) -> Result<&'a Self, AbiError> {
        if table.is_null() {
            return Err(AbiError::NullTable { table: "component" });
        }
        // SAFETY: the caller guarantees a readable header, and `table` is not NULL.
        let header = unsafe { *table.cast::<TableHeader>() };
        header.check("component", magic::COMPONENT, Self::MIN_SIZE)?;
        // SAFETY: the header declares at least MIN_SIZE bytes, which is this whole type.
        let table = unsafe { &*table };
        require_entries!(
            table,
            "component",
            register_params,
            open,
            survey,
            init,
            progress,
            close
        );
        Ok(table)
    }
}
