//! Calls that are watched.

use crate::win::WinResult;

/// A call under way. It ends when this is dropped.
pub trait Entered {
    /// Says which process the call is about.
    fn about(&mut self, process: u64);
}

/// Watches the calls of windows.
pub trait Watch: Send + Sync {
    /// A call of this thread begins. `None`: it is not watched. An error refuses the call:
    /// [`WinError::Level`](crate::win::WinError::Level).
    fn enter(&self, call: &'static str) -> WinResult<Option<Box<dyn Entered + '_>>>;
}
