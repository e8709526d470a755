//! Everything a communicator or a collective can refuse or fail with.

use plugin_api::Datatype;

use crate::base::{Op, type_name};

/// Why a communicator's call did not do what was asked. Mistakes of the caller are found before
/// anything is sent.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum CommError {
    /// An argument.
    #[error("{call}: {reason}")]
    BadArgument {
        /// The call.
        call: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The thread level provided does not allow the call to this thread.
    #[error(transparent)]
    Level(#[from] crate::crt::LevelError),
    /// The operation is not defined on the datatype, or not for reductions.
    #[error("{call}: operation {op} is not defined on elements of type {} in a reduction", type_name(*datatype))]
    InvalidOperation {
        /// The call.
        call: &'static str,
        /// The operation.
        op: Op,
        /// The element type.
        datatype: Datatype,
    },
    /// The communicator was freed.
    #[error("{call} on a communicator that was freed")]
    Freed {
        /// The call.
        call: &'static str,
    },
    /// Creation failed at some rank; every rank learns of it.
    #[error("communicator creation failed on rank {rank}: {reason}")]
    Creation {
        /// The rank, in the communicator over which the creation ran.
        rank: usize,
        /// Its reason.
        reason: String,
    },
    /// A rank sent another amount than this one waits for.
    #[error(
        "{call}: rank {rank} sent {sent} B where {wanted} B were due; counts or types of the ranks differ"
    )]
    Length {
        /// The call.
        call: &'static str,
        /// The sender.
        rank: usize,
        /// What it sent, bytes.
        sent: usize,
        /// What was due, bytes.
        wanted: usize,
    },
    /// A rank cannot be reached any more.
    #[error("{call}: rank {rank} is gone or cannot be reached: {reason}")]
    Peer {
        /// The call.
        call: &'static str,
        /// The rank.
        rank: usize,
        /// What the transport says.
        reason: String,
    },
    /// This rank could not register the memory of a message that is too long to be sent in one piece.
    #[error("{call}: {size} B of memory could not be registered for a message: {reason}")]
    Registration {
        /// The call.
        call: &'static str,
        /// The size of the memory, bytes.
        size: usize,
        /// What the transport says.
        reason: String,
    },
    /// The job failed while the call waited.
    #[error("{call} gave up waiting: {reason}")]
    Job {
        /// The call.
        call: &'static str,
        /// What the job reports.
        reason: String,
    },
    /// A failure, earlier or at another rank, made the communicator unusable.
    #[error("{call}: the communicator has failed: {reason}")]
    Broken {
        /// The call.
        call: &'static str,
        /// The failure.
        reason: String,
    },
    /// A layer's hook failed when the communicator was freed; it was freed all the same.
    #[error("freeing a communicator: the destroy hook of layer {layer} failed: {reason}")]
    DestroyHook {
        /// The layer.
        layer: u32,
        /// Its reason.
        reason: String,
    },
    /// A copy between a buffer on a device and host memory failed.
    #[error("{call}: {function} of {size} B of device memory answered {answer}")]
    DeviceCopy {
        /// The call.
        call: &'static str,
        /// The function that was called for it.
        function: &'static str,
        /// What was to be copied, bytes.
        size: usize,
        /// Its answer: bytes, or a negative libfabric errno.
        answer: i64,
    },
    /// A copy of device memory failed at another rank, so what this one was to get from it does not come.
    #[error("{call}: a copy of device memory failed elsewhere; rank {rank} had no data to send")]
    Elsewhere {
        /// The call.
        call: &'static str,
        /// The rank that told this one: the one whose copy failed, or one that was to get data from it.
        rank: usize,
    },
    /// A layer's entry failed with a code of its own.
    #[error("{call}: a layer returned {code}: {reason}")]
    Layer {
        /// The call.
        call: &'static str,
        /// The layer's code.
        code: i32,
        /// What it says.
        reason: String,
    },
}

/// What calls on communicators return.
pub type CommResult<T> = Result<T, CommError>;
