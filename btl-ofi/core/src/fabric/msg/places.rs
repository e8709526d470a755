//! Numbered places in lists, and the memory that free places keep.

/// Maximum batches, and answers, whose unused memory is kept. More are needed only when many peers are sent messages at once.
pub(crate) const SPARE: usize = 64;

/// Returns the number of a free place; makes a place if none is free.
pub(super) fn vacant<T>(places: &mut Vec<Option<T>>, free: &mut Vec<u32>) -> u32 {
    free.pop().unwrap_or_else(|| {
        places.push(None);
        places.len() as u32 - 1
    })
}
