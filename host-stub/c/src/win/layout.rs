//! Strided, indexed and absolute layouts of one side of a transfer.

use std::ffi::{c_int, c_void};

use host::win::{Block, Layout, Run};

use crate::base::codes::marked;
use crate::base::error::{Error, Result};
use crate::base::tables::{self, layout};

/// The magic number of a host_layout_t.
pub const HOST_LAYOUT_MAGIC: u64 = 0x3159414c54534f48;

/// A run of elements in an indexed layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_block_t {
    /// Elements from the start of the buffer to the run.
    pub displacement: usize,
    /// Elements in the run.
    pub length: usize,
}

layout!(host_block_t: 16 bytes {
    displacement at 0,
    length at 8,
});

/// A run of elements with its own address.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_run_t {
    /// The run's first element, on the host or on a device, given like any buffer.
    pub address: *mut c_void,
    /// Elements in the run.
    pub length: usize,
}

layout!(host_run_t: 16 bytes {
    address at 0,
    length at 8,
});

/// The layout of the elements of one side of a transfer, relative to the start of its buffer. Strided: `blocks` is
/// NULL, and there are `count` runs of `length` elements whose starts are `stride` elements apart; runs must
/// not overlap. Indexed: `blocks` points to `count` runs, and `length` and `stride` are zero. Absolute: `runs` points to
/// `count` runs, each with its own address, and all other fields are zero; the buffer of the call is NULL. Only origins
/// have absolute layouts. A call copies the layout before it returns. The structure grows at its end only.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_layout_t {
    /// HOST_LAYOUT_MAGIC.
    pub magic: u64,
    /// sizeof(host_layout_t).
    pub size: usize,
    /// The runs of an indexed layout; NULL for a strided one.
    pub blocks: *const host_block_t,
    /// Number of runs.
    pub count: usize,
    /// Elements in each run of a strided layout.
    pub length: usize,
    /// Elements from the start of a run to the start of the next.
    pub stride: usize,
    /// The element type. With HOST_ON_DEVICE in an origin's layout, a buffer in host memory is refused;
    /// the flag has no effect in a target's layout.
    pub datatype: c_int,
    /// Zero.
    pub reserved: c_int,
    /// The runs of an absolute layout; NULL for others.
    pub runs: *const host_run_t,
}

layout!(host_layout_t: 64 bytes {
    magic at 0,
    size at 8,
    blocks at 16,
    count at 24,
    length at 32,
    stride at 40,
    datatype at 48,
    reserved at 52,
    runs at 56,
} magic HOST_LAYOUT_MAGIC = b"HOSTLAY1", least 56, by 8);

/// Reads the layout that a program describes.
///
/// # Safety
/// `given` is NULL or a table. The table's blocks are NULL or `count` blocks, and its runs are NULL
/// or `count` runs.
pub(crate) unsafe fn read(call: &str, given: *const host_layout_t) -> Result<Layout> {
    // SAFETY: the caller guarantees a table.
    let given = unsafe { tables::read(call, given) }?;
    if given.reserved != 0 {
        let text = "the reserved room of the host_layout_t is not zero";
        return Err(Error::argument(call, text));
    }
    let (datatype, on_device) = marked(call, given.datatype)?;
    let place = |layout: Layout| match on_device {
        true => layout.on_device(),
        false => layout,
    };
    let most = isize::MAX as usize / size_of::<host_block_t>();
    if given.count > most && !(given.blocks.is_null() && given.runs.is_null()) {
        let text = format!(
            "the host_layout_t has {} blocks, more than memory holds",
            given.count
        );
        return Err(Error::argument(call, &text));
    }
    if !given.runs.is_null() {
        if !given.blocks.is_null() || given.length != 0 || given.stride != 0 {
            let text = "the host_layout_t has runs, and also blocks, a length or a stride: set one of them";
            return Err(Error::argument(call, text));
        }
        // SAFETY: the caller guarantees `count` runs, which the check above found to fit the address space.
        let runs = unsafe { std::slice::from_raw_parts(given.runs, given.count) };
        let runs = runs.iter().map(|run| Run {
            pointer: run.address.cast(),
            length: run.length,
        });
        let runs: Vec<Run> = runs.collect();
        return Ok(place(Layout::absolute(datatype, &runs)?));
    }
    if given.blocks.is_null() {
        let strided = Layout::strided(datatype, given.count, given.length, given.stride);
        return Ok(place(strided?));
    }
    if given.length != 0 || given.stride != 0 {
        let text =
            "the host_layout_t has blocks, and also a length or a stride: set one or the other";
        return Err(Error::argument(call, text));
    }
    // SAFETY: the caller guarantees `count` blocks, which the check above found to fit the address space.
    let blocks = unsafe { std::slice::from_raw_parts(given.blocks, given.count) };
    let blocks = blocks.iter().map(|block| Block {
        displacement: block.displacement,
        length: block.length,
    });
    Ok(place(Layout::indexed(
        datatype,
        &blocks.collect::<Vec<_>>(),
    )?))
}
