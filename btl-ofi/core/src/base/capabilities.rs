//! The capabilities that a transport offers to its host, and the host's function for failures that no
//! callback reports.

use std::ffi::{CString, c_void};

use plugin_api::{AtomicFlags, ErrorFn, ModuleFlags};

/// The capabilities of a module; they stay the same for the module's life.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Abilities, after `btl_ofi_flags` masks them.
    pub flags: ModuleFlags,
    /// Atomics, in the BTL's flags.
    pub atomic_flags: AtomicFlags,
    /// Largest put, bytes.
    pub put_limit: usize,
    /// Largest get, bytes.
    pub get_limit: usize,
    /// Largest send, bytes; 0 if the host cannot send (`btl_ofi_mode`).
    pub send_limit: usize,
    /// Preference among the transports to a peer; the transport with the highest value is used.
    pub exclusivity: u32,
    /// Latency in microseconds.
    pub latency: u32,
    /// Bandwidth in Mbit/s; 0 when unknown.
    pub bandwidth: u32,
    /// Number of transmit contexts.
    pub contexts: usize,
    /// Whether a registration covers the physical pages that its memory has at the time of the registration
    /// (FI_MR_ALLOCATED). If this is true, the host must deregister before the memory returns to the system.
    /// Otherwise a registration covers addresses only.
    pub registers_pages: bool,
    /// Provider name, as `fi_info` prints it.
    pub provider: CString,
    /// Domain name (device).
    pub domain: CString,
    /// The policy by which a completion implies visibility at the target.
    pub completion: CString,
    /// Providers that the selection rejected, with reasons.
    pub passed_over: Vec<(String, String)>,
}

/// The host's function for failures that no callback reports.
#[derive(Clone, Copy)]
pub struct ErrorReport {
    /// The function.
    pub function: ErrorFn,
    /// The function's last argument.
    pub context: *mut c_void,
}

// SAFETY: only the host's function follows the pointer, and the host allows that function on any progressing thread.
unsafe impl Send for ErrorReport {}
// SAFETY: a shared `ErrorReport` only copies two pointers; only the host's function follows `context`.
unsafe impl Sync for ErrorReport {}
