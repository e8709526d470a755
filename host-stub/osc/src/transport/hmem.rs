//! A transport's functions for device memory.

use plugin_api::{Access, HmemInfo, IoVec, OverrideOps, Status};

use super::modules::HmemFunctions;
use super::{Registration, Transport, TransportError};

/// The result of a function that the plugin does not have (-ENOSYS).
const NO_FUNCTION: i64 = -38;

/// Blocks of device memory at regular distances: `count[1]` rows of `count[0]` blocks of `block` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Address of the first block.
    pub base: u64,
    /// Bytes of each block.
    pub block: usize,
    /// Bytes from start to start: of the blocks of a row, and of the rows.
    pub stride: [usize; 2],
    /// Blocks of a row, and rows.
    pub count: [usize; 2],
}

impl Transport {
    fn hmem(&self) -> Option<&HmemFunctions> {
        self.functions().hmem.as_ref()
    }

    /// Whether the plugin has functions for device memory.
    pub fn knows_devices(&self) -> bool {
        self.hmem().is_some()
    }

    /// Sets the functions that access device memory, at once for all memory, registered before or later. Operations under way
    /// keep earlier functions for their local buffers. `None` sets the transport's own functions again.
    /// [`Status::NOT_SUPPORTED`]: the plugin has no functions for device memory.
    ///
    /// # Safety
    /// The functions follow [`CopyFromFn`](plugin_api::CopyFromFn) and
    /// [`CopyToFn`](plugin_api::CopyToFn) as long as the transport lives.
    pub unsafe fn set_overrides(&self, ops: Option<&OverrideOps>) -> Status {
        let Some(functions) = self.hmem() else {
            return Status::NOT_SUPPORTED;
        };
        let ops = ops.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: NULL or a whole table; the caller vouches for its functions.
        unsafe { (functions.set_overrides)(self.module(), ops) }
    }

    /// Registers `len` bytes at `base` on device number `device` of kind `iface`.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub unsafe fn register_hmem(
        &self,
        base: *mut u8,
        len: usize,
        access: Access,
        iface: u32,
        device: u64,
    ) -> Result<Registration, TransportError> {
        let mut handle = std::ptr::null_mut();
        let status = match self.hmem() {
            None => Status::NOT_SUPPORTED,
            // SAFETY: the caller vouches for the memory; `handle` is writable.
            Some(functions) => unsafe {
                (functions.register_hmem)(
                    self.module(),
                    std::ptr::null_mut(),
                    base.cast(),
                    len,
                    access.bits(),
                    iface,
                    device,
                    &mut handle,
                )
            },
        };
        self.registration("register_hmem", (base, len), status, handle)
    }

    /// Copies bytes of the runs, from `offset` on, to `into`. Returns the number of copied bytes,
    /// or a negative libfabric errno. `iface` is as long as `iov`; of two different lengths the
    /// shorter counts.
    ///
    /// # Safety
    /// The runs are memory of their kinds.
    pub unsafe fn copy_from_hmem(
        &self,
        into: &mut [u8],
        iov: &[IoVec],
        iface: &[u32],
        offset: u64,
    ) -> i64 {
        let Some(functions) = self.hmem() else {
            return NO_FUNCTION;
        };
        // SAFETY: slices with their lengths; the caller vouches for the runs.
        unsafe {
            (functions.copy_from)(
                self.module(),
                into.as_mut_ptr().cast(),
                into.len(),
                iov.as_ptr(),
                iface.as_ptr(),
                iov.len().min(iface.len()),
                offset,
            )
        }
    }

    /// Copies `from` to the runs, from `offset` on; otherwise as
    /// [`copy_from_hmem`](Self::copy_from_hmem).
    ///
    /// # Safety
    /// As for [`copy_from_hmem`](Self::copy_from_hmem).
    pub unsafe fn copy_to_hmem(
        &self,
        iov: &[IoVec],
        iface: &[u32],
        offset: u64,
        from: &[u8],
    ) -> i64 {
        let Some(functions) = self.hmem() else {
            return NO_FUNCTION;
        };
        // SAFETY: slices with their lengths; the caller vouches for the runs.
        unsafe {
            (functions.copy_to)(
                self.module(),
                iov.as_ptr(),
                iface.as_ptr(),
                iov.len().min(iface.len()),
                offset,
                from.as_ptr().cast(),
                from.len(),
            )
        }
    }

    /// Whether the plugin copies blocks at regular distances in one call.
    pub fn copies_blocks(&self) -> bool {
        self.functions().strided.is_some()
    }

    /// Copies blocks of kind `iface` to `into`, one after the other. Returns the number of copied bytes, or a
    /// negative libfabric errno.
    ///
    /// # Safety
    /// The blocks are memory of that kind.
    pub unsafe fn copy_from_blocks(&self, into: &mut [u8], iface: u32, blocks: &Blocks) -> i64 {
        let Some(functions) = &self.functions().strided else {
            return NO_FUNCTION;
        };
        // SAFETY: the pointer is to a slice with its length, two numbers each; the caller vouches
        // for the blocks.
        unsafe {
            (functions.copy_from)(
                self.module(),
                into.as_mut_ptr().cast(),
                into.len(),
                std::ptr::with_exposed_provenance(blocks.base as usize),
                iface,
                blocks.block,
                blocks.stride.as_ptr(),
                blocks.count.as_ptr(),
            )
        }
    }

    /// Copies `from` to blocks of kind `iface`; otherwise as [`copy_from_blocks`](Self::copy_from_blocks).
    ///
    /// # Safety
    /// As for [`copy_from_blocks`](Self::copy_from_blocks).
    pub unsafe fn copy_to_blocks(&self, iface: u32, blocks: &Blocks, from: &[u8]) -> i64 {
        let Some(functions) = &self.functions().strided else {
            return NO_FUNCTION;
        };
        // SAFETY: the pointer is to a slice with its length, two numbers each; the caller vouches
        // for the blocks.
        unsafe {
            (functions.copy_to)(
                self.module(),
                std::ptr::with_exposed_provenance_mut(blocks.base as usize),
                iface,
                blocks.block,
                blocks.stride.as_ptr(),
                blocks.count.as_ptr(),
                from.as_ptr().cast(),
                from.len(),
            )
        }
    }

    /// The transport's handling of a kind of memory; `None` if the plugin knows of none.
    pub fn query_hmem(&self, iface: u32) -> Option<HmemInfo> {
        let mut info = HmemInfo::new();
        // SAFETY: `info` declares its own size, beyond which nothing is written.
        let status = unsafe { (self.hmem()?.query)(self.module(), iface, &mut info) };
        status.is_ok().then_some(info)
    }
}
