//! Numbered entries in lists, and the memory that free entries keep.

/// Maximum number of batches, and of answers, whose unused memory is kept. More memory is needed only while many peers get
/// messages at once.
pub(crate) const SPARE: usize = 64;

/// Returns the number of a free entry. Adds an entry if none is free.
pub(super) fn vacant<T>(places: &mut Vec<Option<T>>, free: &mut Vec<u32>) -> u32 {
    free.pop().unwrap_or_else(|| {
        places.push(None);
        places.len() as u32 - 1
    })
}
