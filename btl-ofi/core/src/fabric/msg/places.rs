//! Places in lists by number, and what is kept for those that are free.

/// Most batches, and answers, for which memory is kept that none uses: more are needed only where many peers are told something
/// at once.
pub(crate) const SPARE: usize = 64;

/// The number of a place that is free, made if there is none.
pub(super) fn vacant<T>(places: &mut Vec<Option<T>>, free: &mut Vec<u32>) -> u32 {
    free.pop().unwrap_or_else(|| {
        places.push(None);
        places.len() as u32 - 1
    })
}
