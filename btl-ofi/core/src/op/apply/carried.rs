//! The bytes that an apply carries.

use plugin_api::MOST_APPLIED;

use super::HEAD;

/// Bytes that a command carries to the target, and bytes that come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) operands: usize,
    pub(crate) results: usize,
}

impl Carried {
    /// The value of the command's count field for these bytes. [`of`](Self::of) decodes it.
    pub(crate) fn count(self) -> u32 {
        self.operands as u32 | (self.results as u32) << 16
    }

    #[inline]
    pub(crate) fn of(count: u32) -> Carried {
        Carried {
            operands: (count & 0xffff) as usize,
            results: (count >> 16) as usize,
        }
    }

    /// Whether a command with these numbers of bytes can be executed.
    pub(crate) fn is_possible(self) -> bool {
        (8 * (HEAD + 1)..=MOST_APPLIED).contains(&self.operands) && self.results <= MOST_APPLIED
    }
}
