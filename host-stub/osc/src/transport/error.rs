//! Errors of calls of a transport.

use plugin_api::Status;

/// A function of a module failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transport: {operation}({subject}) returned {status}")]
pub struct TransportError {
    /// The entry of the module's table.
    pub operation: &'static str,
    /// The object that the call was to work on.
    pub subject: Subject,
    /// The status that the call returned.
    pub status: Status,
}

/// The object that a failed call was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// A number of processes.
    Procs(usize),
    /// Memory: address and bytes.
    Memory(usize, usize),
    /// The whole module.
    Module,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Procs(count) => write!(f, "{count} processes"),
            Subject::Memory(base, len) => write!(f, "{len} bytes at {base:#x}"),
            Subject::Module => f.write_str("module"),
        }
    }
}
