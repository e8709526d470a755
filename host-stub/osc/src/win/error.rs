//! The errors of window calls.

use plugin_api::{Datatype, Status};

use crate::base::Op;

/// The reason why a window call failed. The caller's mistakes are found before anything is sent.
/// [`WinError::Transport`] and [`WinError::Job`] report failures after sending,
/// [`WinError::Registration`] that the transport had no room for memory.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum WinError {
    /// The target range does not lie inside the target's window.
    #[error(
        "{call} to rank {rank}: {size} B at displacement {displacement} (unit {unit} B) do not fit \
         the {limit} B of that rank's window; nothing was sent"
    )]
    OutOfBounds {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
        /// Displacement as given, in units.
        displacement: u64,
        /// The target's displacement unit, bytes.
        unit: u32,
        /// Bytes from the displacement to the end of the layout.
        size: usize,
        /// Bytes of the target's window.
        limit: u64,
    },
    /// No region that the target has attached holds the range.
    #[error(
        "{call} to rank {rank}: {size} B at address {address:#x} lie in no memory attached there \
         (never attached, or detached); nothing was sent"
    )]
    NotAttached {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
        /// Address of the layout's first element, in the target's process.
        address: u64,
        /// Bytes from this address to the end of the layout.
        size: usize,
    },
    /// A copy function copied too few bytes, or failed.
    #[error("{call}: {function} of {size} B answered {answer}")]
    DeviceCopy {
        /// The call.
        call: &'static str,
        /// The function.
        function: &'static str,
        /// The number of bytes to copy.
        size: usize,
        /// The number of copied bytes, or a negative libfabric errno.
        answer: i64,
    },
    /// The target rank does not exist.
    #[error("{call}: no rank {rank} in a window of {size} ranks")]
    NoSuchRank {
        /// The call.
        call: &'static str,
        /// The requested rank.
        rank: usize,
        /// Ranks of the window.
        size: usize,
    },
    /// A communication call outside any access epoch.
    #[error("{call} to rank {rank} outside an access epoch; open one with fence, start or lock")]
    OutsideEpoch {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
    },
    /// The open access epoch does not include the target.
    #[error("{call} to rank {rank}, which the open {epoch} epoch does not include")]
    WrongTarget {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
        /// The open epoch.
        epoch: &'static str,
    },
    /// The synchronisation call does not fit the window's state.
    #[error("{call} while the window's state is: {state}")]
    EpochMisuse {
        /// The call.
        call: &'static str,
        /// The epoch that is open now.
        state: &'static str,
    },
    /// A request form outside a passive-target epoch.
    #[error("{call} to rank {rank}: request forms need a lock or lock_all epoch")]
    NotPassive {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
    },
    /// The lock of that target is not in the state the call needs.
    #[error("{call} of rank {rank}: {reason}")]
    LockState {
        /// The call.
        call: &'static str,
        /// The target.
        rank: usize,
        /// The mistake in the argument.
        reason: &'static str,
    },
    /// The provided thread level does not allow this thread the call; the text comes from the door.
    #[error("{0}")]
    Level(String),
    /// The request already signals its completion.
    #[error("the request has a condition or an event already; it signals one")]
    Taken,
    /// The operation is not defined on the datatype, or not for the call.
    #[error("{call}: operation {op} is not defined {why} (datatype {datatype:?})")]
    InvalidOperation {
        /// The call.
        call: &'static str,
        /// The operation.
        op: Op,
        /// The element type.
        datatype: Datatype,
        /// The reason why the operation is not defined.
        why: &'static str,
    },
    /// Two layouts of one call differ in type or amount.
    #[error(
        "{call}: the {first} layout holds {first_count} elements of {first_type:?}, the {second} layout \
         {second_count} of {second_type:?}; type and count must match"
    )]
    LayoutMismatch {
        /// The call.
        call: &'static str,
        /// The name of the first layout.
        first: &'static str,
        /// Its elements.
        first_count: usize,
        /// Its type.
        first_type: Datatype,
        /// The name of the second layout.
        second: &'static str,
        /// Its elements.
        second_count: usize,
        /// Its type.
        second_type: Datatype,
    },
    /// A layout that no address space can hold, or whose parts are inconsistent.
    #[error("layout: {reason}")]
    InvalidLayout {
        /// The mistake in the argument.
        reason: &'static str,
    },
    /// An argument of a creation, attach or synchronisation call.
    #[error("{call}: {reason}")]
    BadArgument {
        /// The call.
        call: &'static str,
        /// The mistake in the argument.
        reason: String,
    },
    /// Creation was refused by some rank; every rank learns of it.
    #[error("window creation failed on rank {rank}: {reason}")]
    Creation {
        /// The rank that could not take part.
        rank: usize,
        /// Its reason.
        reason: String,
    },
    /// The transport refused or failed an operation.
    #[error(
        "{call} to rank {rank}: the transport answered {status}; the window's contents there are undefined"
    )]
    Transport {
        /// The call of the transport.
        call: &'static str,
        /// The target.
        rank: usize,
        /// Its answer.
        status: Status,
    },
    /// The transport did not register memory that a call was to expose; nothing is changed. The call may
    /// be repeated: the transport may have room later.
    #[error("{call}: the memory was not registered: {reason}")]
    Registration {
        /// The call.
        call: &'static str,
        /// The transport's reason.
        reason: String,
    },
    /// The job failed while the call waited.
    #[error("{call} gave up waiting: {reason}")]
    Job {
        /// The call.
        call: &'static str,
        /// The job's reason.
        reason: String,
    },
    /// A layer's entry failed with a code of its own.
    #[error("{call}: a layer returned {code}: {reason}")]
    Layer {
        /// The call.
        call: &'static str,
        /// The layer's code.
        code: i32,
        /// The reason that the peer gives.
        reason: String,
    },
}

/// The result of a window call. The error is boxed, so that a result travels in a register and a call allocates only
/// when it fails.
pub type WinResult<T> = Result<T, Box<WinError>>;

/// A result to match on, with its error out of its box.
pub fn unboxed<T>(result: &WinResult<T>) -> Result<&T, &WinError> {
    result.as_ref().map_err(|error| &**error)
}

/// The error of a window that could not be made because of a rank.
pub(super) fn refused(rank: usize, reason: impl Into<String>) -> Box<WinError> {
    Box::new(WinError::Creation {
        rank,
        reason: reason.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::WinResult;

    #[test]
    fn a_result_fits_a_register() {
        assert_eq!(size_of::<WinResult<()>>(), size_of::<usize>());
    }
}
