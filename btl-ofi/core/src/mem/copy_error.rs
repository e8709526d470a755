//! A copy between host and device memory that failed.

use std::fmt;

use plugin_api::Status;

use crate::base::error::{describe, status_of};

/// A copy that failed or was incomplete, with the answer of its function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyError {
    pub(super) function: &'static str,
    pub(super) iface: u32,
    pub(super) address: u64,
    pub(super) size: usize,
    pub(super) answer: isize,
}

/// The errno if an answer is a negative errno. A user's function may return any number.
fn errno(answer: isize) -> Option<i32> {
    let code = i32::try_from(answer.checked_neg()?).ok()?;
    (code > 0).then_some(code)
}

impl CopyError {
    /// The status of the operation that needed the copy. The status is never success, and never a status that asks the
    /// caller to try again.
    pub(crate) fn status(&self) -> Status {
        match errno(self.answer).map(status_of) {
            Some(status) if !status.is_ok() && !status.is_again() => status,
            _ => Status::ERROR,
        }
    }

    /// Succeeds only if all bytes were copied. An incomplete copy is an error.
    pub(super) fn judge(self) -> Result<(), CopyError> {
        match usize::try_from(self.answer) == Ok(self.size) {
            true => Ok(()),
            false => Err(self),
        }
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CopyError {
            function,
            iface,
            address,
            size,
            answer,
        } = *self;
        write!(
            f,
            "{function} of {size} bytes at {address:#x}, interface {iface}, returned {answer}"
        )?;
        match errno(answer) {
            Some(code) => write!(f, " ({})", describe(code)),
            None => write!(f, " bytes"),
        }
    }
}

/// [Judges](CopyError::judge) the answer of a copy.
pub(super) fn judge(
    function: &'static str,
    iface: u32,
    address: u64,
    size: usize,
    answer: isize,
) -> Result<(), CopyError> {
    let copy = CopyError {
        function,
        iface,
        address,
        size,
        answer,
    };
    copy.judge()
}
