//! The host's function for two-sided messages.

use std::ffi::c_void;

use plugin_api::ReceiveFn;

/// The host's function for messages of peers.
#[derive(Clone, Copy)]
pub struct Receive {
    /// The function.
    pub function: ReceiveFn,
    /// The function's last argument.
    pub context: *mut c_void,
}

// SAFETY: only the host's function follows the pointer, and the host allows that function on any progressing thread.
unsafe impl Send for Receive {}
// SAFETY: a shared `Receive` only copies two pointers.
unsafe impl Sync for Receive {}
