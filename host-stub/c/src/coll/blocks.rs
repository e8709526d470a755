//! Lists of blocks between C and the host.

use std::ffi::c_int;

use host::coll::{BlockList, CollArgs, Collective, ElementType};
use host::comm::Comm;

use crate::base::codes::{element, element_code};
use crate::base::error::{Error, Result};
use crate::coll::table::host_blocks_t;

/// No lists.
pub(crate) const NO_BLOCKS: host_blocks_t = host_blocks_t {
    counts: std::ptr::null(),
    displacements: std::ptr::null(),
    types: std::ptr::null(),
};

/// A list of C as the host knows it; the types are kept here.
struct Listed<'a> {
    counts: &'a [usize],
    displacements: &'a [usize],
    types: Vec<ElementType>,
}

/// # Safety
/// `list` is NULL or `ranks` values.
pub(crate) unsafe fn values<'a, T>(list: *const T, ranks: usize) -> &'a [T] {
    match list.is_null() {
        true => &[],
        // SAFETY: the caller guarantees it.
        false => unsafe { std::slice::from_raw_parts(list, ranks) },
    }
}

/// The type of one block; what all buffers of a call are is said by the call's own type.
fn block_type(call: &str, code: c_int) -> Result<ElementType> {
    match element(call, code)? {
        (element, false) => Ok(element),
        (_, true) => Err(Error::argument(
            call,
            "HOST_ON_DEVICE is added to a block's type; it is added to the call's",
        )),
    }
}

impl<'a> Listed<'a> {
    /// # Safety
    /// Each list is NULL or has a value for each of so many ranks.
    unsafe fn read(call: &str, blocks: &host_blocks_t, ranks: usize) -> Result<Self> {
        // SAFETY: passed on.
        let types = unsafe { values(blocks.types, ranks) };
        let types = types.iter().map(|code| block_type(call, *code));
        Ok(Listed {
            // SAFETY: passed on.
            counts: unsafe { values(blocks.counts, ranks) },
            // SAFETY: passed on.
            displacements: unsafe { values(blocks.displacements, ranks) },
            types: types.collect::<Result<_>>()?,
        })
    }

    fn list(&self) -> BlockList<'_> {
        BlockList {
            counts: self.counts,
            displacements: self.displacements,
            types: &self.types,
        }
    }
}

/// The lists of both buffers.
pub(crate) struct Lists<'a> {
    given: Listed<'a>,
    taken: Listed<'a>,
}

impl<'a> Lists<'a> {
    /// Those of a call by a rank, which mean nothing of a rooted one outside of the root.
    ///
    /// # Safety
    /// Each list that means something is NULL or has a value for each block.
    pub(crate) unsafe fn read(
        call: &str,
        (given, taken): (&host_blocks_t, &host_blocks_t),
        (collective, root): (Collective, usize),
        comm: &Comm,
    ) -> Result<Self> {
        let (given, taken) = match collective.is_rooted() && !comm.is_root(root) {
            true => (&NO_BLOCKS, &NO_BLOCKS),
            false => (given, taken),
        };
        let ranks = comm.size();
        // SAFETY: passed on.
        unsafe {
            Ok(Lists {
                given: Listed::read(call, given, ranks)?,
                taken: Listed::read(call, taken, ranks)?,
            })
        }
    }

    /// Adds the lists to the arguments of a call.
    pub(crate) fn with<'b>(&'b self, args: CollArgs<'b>) -> CollArgs<'b> {
        CollArgs {
            send_blocks: self.given.list(),
            recv_blocks: self.taken.list(),
            ..args
        }
    }
}

/// The lists for C, with the codes of the types, which live as long as somebody reads them.
pub(crate) fn to_c(list: &BlockList<'_>, codes: &mut Vec<c_int>) -> host_blocks_t {
    fn first<T>(list: &[T]) -> *const T {
        match list {
            [] => std::ptr::null(),
            list => list.as_ptr(),
        }
    }
    codes.extend(list.types.iter().map(|datatype| element_code(*datatype)));
    host_blocks_t {
        counts: first(list.counts),
        displacements: first(list.displacements),
        types: first(&codes[..]),
    }
}
