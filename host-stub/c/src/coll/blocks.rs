//! Lists of blocks between C and the host.

use host::coll::BlockList;

use crate::coll::table::host_blocks_t;

/// # Safety
/// `list` is NULL or `ranks` values.
pub(crate) unsafe fn values<'a>(list: *const usize, ranks: usize) -> &'a [usize] {
    match list.is_null() {
        true => &[],
        // SAFETY: the caller guarantees the list.
        false => unsafe { std::slice::from_raw_parts(list, ranks) },
    }
}

/// Converts lists of C to lists of the host.
///
/// # Safety
/// Each list is NULL or has a value for each of `ranks` ranks.
pub(crate) unsafe fn read<'a>(blocks: &host_blocks_t, ranks: usize) -> BlockList<'a> {
    // SAFETY: the caller guarantees the lists.
    unsafe {
        BlockList {
            counts: values(blocks.counts, ranks),
            displacements: values(blocks.displacements, ranks),
        }
    }
}

/// Converts lists of the host to lists of C.
pub(crate) fn to_c(list: &BlockList<'_>) -> host_blocks_t {
    let first = |list: &[usize]| match list {
        [] => std::ptr::null(),
        list => list.as_ptr(),
    };
    host_blocks_t {
        counts: first(list.counts),
        displacements: first(list.displacements),
    }
}
