//! Watching calls of windows.

use crate::win::WinResult;

/// A call under way. Dropping this value ends the call.
pub trait Entered {
    /// Names the process that the call accesses.
    fn about(&mut self, process: u64);
}

/// Watches the calls of windows.
pub trait Watch: Send + Sync {
    /// Begins a call of this thread. `None`: the call is not watched. An error refuses the call:
    /// [`WinError::Level`](crate::win::WinError::Level).
    fn enter(&self, call: &'static str) -> WinResult<Option<Box<dyn Entered + '_>>>;
}
