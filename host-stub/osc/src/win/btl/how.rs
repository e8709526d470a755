//! The effect of a command on each element at the target ([`super::apply`]).

use plugin_api::{APPLY_BYTES, APPLY_OTHER, ApplyRequest, AtomicOp, MOST_APPLIED};

use super::runs::Runs;
use crate::base::apply_code;
use crate::win::transfer::Transfer;

/// Maximum bytes of a command that is a put or get. Four such commands fill a message of the transport (16,000 bytes) better
/// than one command of [`MOST_APPLIED`] bytes.
const MOST_OF_BYTES: usize = 3952;

/// The effect of commands on an element, in terms of [`ApplyRequest`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::win) struct How {
    pub(super) size: u32,
    datatype: u32,
    pub(super) op: u32,
    code: u32,
    /// Whether the transport's atomics have the type and the address is aligned. Only commands for such elements may be
    /// refused.
    has_atomics: bool,
}

impl How {
    /// See the field.
    pub(super) fn has_atomics(&self) -> bool {
        self.has_atomics
    }

    /// For a type that the engine knows.
    pub(super) fn of(transfer: &Transfer<'_>) -> How {
        let (datatype, op) = (transfer.datatype(), transfer.op.atomic());
        How {
            size: datatype.size() as u32,
            datatype: datatype as u32,
            op: op as u32,
            code: apply_code(datatype, op),
            has_atomics: transfer.address.is_multiple_of(datatype.size() as u64),
        }
    }

    /// For an operation that needs no type.
    pub(in crate::win) fn without_type(size: usize, op: AtomicOp) -> How {
        How {
            op: op as u32,
            ..How::by_code(size, 0)
        }
    }

    /// For the bytes of a put or get.
    pub(super) fn bytes(op: AtomicOp) -> How {
        How {
            datatype: APPLY_BYTES,
            ..How::without_type(1, op)
        }
    }

    /// Maximum bytes of a command.
    pub(super) fn most(&self) -> usize {
        match self.datatype {
            APPLY_BYTES => MOST_OF_BYTES,
            _ => MOST_APPLIED,
        }
    }

    /// The request for a command that fetches nothing.
    pub(super) fn request(&self, runs: &Runs, operands: *const u8) -> ApplyRequest {
        ApplyRequest {
            runs: runs.all().as_ptr(),
            run_count: runs.all().len(),
            operands: operands.cast(),
            results: std::ptr::null_mut(),
            size: self.size,
            datatype: self.datatype,
            op: self.op,
            code: self.code,
        }
    }

    /// For an operation that the target's function executes by `code`.
    pub(in crate::win) fn by_code(size: usize, code: u32) -> How {
        How {
            size: size as u32,
            datatype: APPLY_OTHER,
            op: APPLY_OTHER,
            code,
            has_atomics: false,
        }
    }
}
