//! A peer's registration handle, kept here.

use plugin_api::Handle;

/// A copy of a peer's registration handle, at an 8-byte aligned address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleCopy(Box<[u64]>);

impl HandleCopy {
    /// A copy of these bytes.
    pub fn new(bytes: &[u8]) -> HandleCopy {
        HandleCopy(
            bytes
                .chunks(8)
                .map(|chunk| {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    u64::from_ne_bytes(word)
                })
                .collect(),
        )
    }

    /// The copy, as the remote handle of operations.
    #[inline]
    pub fn as_ptr(&self) -> *const Handle {
        self.0.as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_copies_are_aligned() {
        let copy = HandleCopy::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(copy.as_ptr() as usize % 8, 0);
        assert_eq!(copy.0.len(), 2);
    }
}
