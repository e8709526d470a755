//! Everything a communicator or a collective can refuse or fail with.

use plugin_api::Datatype;

use crate::base::{Op, type_name};

/// The reason why a communicator's call failed. The call finds errors of the caller before it sends
/// anything.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum CommError {
    /// An invalid argument.
    #[error("{call}: {reason}")]
    BadArgument {
        /// The call.
        call: &'static str,
        /// The error in the argument.
        reason: String,
    },
    /// The provided thread level does not allow this thread to call.
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
    /// The creation failed at some rank; every rank returns this error.
    #[error("communicator creation failed on rank {rank}: {reason}")]
    Creation {
        /// The rank, in the communicator over which the creation ran.
        rank: usize,
        /// The rank's reason.
        reason: String,
    },
    /// The length of a rank's message differs from the length that this rank waits for.
    #[error(
        "{call}: rank {rank} sent {sent} B where {wanted} B were due; counts or types of the ranks differ"
    )]
    Length {
        /// The call.
        call: &'static str,
        /// The sender.
        rank: usize,
        /// The length of the message, bytes.
        sent: usize,
        /// The expected length, bytes.
        wanted: usize,
    },
    /// A rank can no longer be reached.
    #[error("{call}: rank {rank} is gone or cannot be reached: {reason}")]
    Peer {
        /// The call.
        call: &'static str,
        /// The rank.
        rank: usize,
        /// The transport's error.
        reason: String,
    },
    /// This rank could not register the memory of a message that is too long to be sent without a
    /// rendezvous.
    #[error("{call}: {size} B of memory could not be registered for a message: {reason}")]
    Registration {
        /// The call.
        call: &'static str,
        /// The size of the memory, bytes.
        size: usize,
        /// The transport's error.
        reason: String,
    },
    /// The job failed while the call waited.
    #[error("{call} gave up waiting: {reason}")]
    Job {
        /// The call.
        call: &'static str,
        /// The job's failure.
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
    /// A layer's hook failed when the communicator was freed; the communicator was freed
    /// nevertheless.
    #[error("freeing a communicator: the destroy hook of layer {layer} failed: {reason}")]
    DestroyHook {
        /// The layer.
        layer: u32,
        /// The layer's reason.
        reason: String,
    },
    /// A copy between a buffer on a device and host memory failed.
    #[error("{call}: {function} of {size} B of device memory answered {answer}")]
    DeviceCopy {
        /// The call.
        call: &'static str,
        /// The copy function.
        function: &'static str,
        /// The length of the copy, bytes.
        size: usize,
        /// The return value of the copy function: bytes, or a negative libfabric errno.
        answer: i64,
    },
    /// A copy of device memory failed at another rank, so its data does not come to this rank.
    #[error("{call}: a copy of device memory failed elsewhere; rank {rank} had no data to send")]
    Elsewhere {
        /// The call.
        call: &'static str,
        /// The rank that reported the failure: the rank whose copy failed, or a rank that was to receive
        /// its data.
        rank: usize,
    },
    /// The entry of a layer failed with the layer's own code.
    #[error("{call}: a layer returned {code}: {reason}")]
    Layer {
        /// The call.
        call: &'static str,
        /// The layer's code.
        code: i32,
        /// The layer's message.
        reason: String,
    },
}

/// The result of calls on communicators.
pub type CommResult<T> = Result<T, CommError>;
