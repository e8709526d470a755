//! What a transport says of itself, and whom it tells of failures.

use std::ffi::{CString, c_void};

use plugin_api::{AtomicFlags, ErrorFn, ModuleFlags};

/// What a module offers; constant for its life.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Abilities, after the user's mask.
    pub flags: ModuleFlags,
    /// Atomics, as the BTL counts them.
    pub atomic_flags: AtomicFlags,
    /// Largest put, bytes.
    pub put_limit: usize,
    /// Largest get, bytes.
    pub get_limit: usize,
    /// Preference among transports.
    pub exclusivity: u32,
    /// Microseconds.
    pub latency: u32,
    /// Mbit/s; 0 when unknown.
    pub bandwidth: u32,
    /// Transmit contexts.
    pub contexts: usize,
    /// Whether a registration stands for the pages that its memory has when it is made (FI_MR_ALLOCATED), so that it
    /// must end before the memory goes back to the system. Otherwise it stands for the addresses alone.
    pub registers_pages: bool,
    /// Provider, as `fi_info` prints it.
    pub provider: CString,
    /// Domain (device).
    pub domain: CString,
    /// How completions come to be visible at the target.
    pub completion: CString,
    /// Providers that were passed over on the way, with reasons.
    pub passed_over: Vec<(String, String)>,
}

/// The function that learns of failures no callback reports.
#[derive(Clone, Copy)]
pub struct ErrorReport {
    /// The function.
    pub function: ErrorFn,
    /// Its last argument.
    pub context: *mut c_void,
}

// SAFETY: the host passes the pointer for its own function, which it allows on any progressing thread.
unsafe impl Send for ErrorReport {}
// SAFETY: as for Send.
unsafe impl Sync for ErrorReport {}
