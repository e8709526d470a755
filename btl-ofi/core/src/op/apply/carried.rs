//! The bytes that an apply carries.

use plugin_api::MOST_APPLIED;

use super::HEAD;

/// Bytes that a command carries: to the target, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) operands: usize,
    pub(crate) results: usize,
}

impl Carried {
    /// The count of a command with these bytes, and the other way round.
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

    /// Whether such a command can be executed, as far as its bytes tell.
    pub(crate) fn is_possible(self) -> bool {
        (8 * (HEAD + 1)..=MOST_APPLIED).contains(&self.operands) && self.results <= MOST_APPLIED
    }
}
