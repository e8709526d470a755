//! Device memory: the user's copy functions, and a module's support of each kind.

use std::ffi::c_void;
use std::ptr;

use crate::{AbiError, TableHeader, magic};

/// Kinds of memory, with the codes of libfabric's `enum fi_hmem_iface`. The codes are plain numbers, because an
/// override may support kinds that neither side of the ABI knows.
pub mod hmem_iface {
    /// Memory of this process (`FI_HMEM_SYSTEM`).
    pub const SYSTEM: u32 = 0;
    /// CUDA devices (`FI_HMEM_CUDA`).
    pub const CUDA: u32 = 1;
    /// ROCm devices (`FI_HMEM_ROCR`).
    pub const ROCR: u32 = 2;
    /// Level Zero devices (`FI_HMEM_ZE`).
    pub const ZE: u32 = 3;
}

/// A range of memory: `struct iovec` of `<sys/uio.h>`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// First byte.
    pub base: *mut c_void,
    /// Bytes.
    pub len: usize,
}

/// Copies `size` bytes from device memory to contiguous memory at `dest`. The source is the `count` ranges of
/// `hmem_iov`, from byte `offset` on. `hmem_iface` holds the kind of each range; kinds may be mixed. The copy is
/// synchronous. Returns the number of bytes copied or a negative libfabric errno: -FI_ENOSYS (-38) for an unknown kind.
/// The function runs on any thread that calls the module and on threads of the plugin. The function must not call the
/// plugin.
pub type CopyFromFn = unsafe extern "C" fn(
    dest: *mut c_void,
    size: usize,
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
) -> isize;

/// Copies `size` contiguous bytes at `src` to device memory; otherwise as [`CopyFromFn`].
pub type CopyToFn = unsafe extern "C" fn(
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
    src: *const c_void,
    size: usize,
) -> isize;

/// Copies blocks of device memory at regular distances to `size` contiguous bytes at `dest`, one after the other:
/// `count[1]` rows of `count[0]` blocks of `block` bytes. Block `i` of row `j` begins `i * stride[0] + j * stride[1]`
/// bytes after `base`. `size` is the number of bytes of all blocks, and all are of kind `iface`. Otherwise as
/// [`CopyFromFn`].
pub type CopyFromStridedFn = unsafe extern "C" fn(
    dest: *mut c_void,
    size: usize,
    base: *const c_void,
    iface: u32,
    block: usize,
    stride: *const usize,
    count: *const usize,
) -> isize;

/// Copies `size` contiguous bytes at `src` to blocks of device memory; otherwise as [`CopyFromStridedFn`].
pub type CopyToStridedFn = unsafe extern "C" fn(
    base: *mut c_void,
    iface: u32,
    block: usize,
    stride: *const usize,
    count: *const usize,
    src: *const c_void,
    size: usize,
) -> isize;

/// Starts the copy of [`CopyFromFn`] on the user's `stream` and returns before it is complete. Writes an event that
/// [`EventQueryFn`] knows, or NULL if the copy is complete already. All memory stays until the event is over. Returns the
/// number of bytes that are being copied, or a negative libfabric errno if no copy began. After -FI_EAGAIN (-11) the
/// plugin uses the synchronous function instead.
pub type CopyFromAsyncFn = unsafe extern "C" fn(
    stream: *mut c_void,
    dest: *mut c_void,
    size: usize,
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
    event: *mut *mut c_void,
) -> isize;

/// Starts the copy of [`CopyToFn`]; otherwise as [`CopyFromAsyncFn`].
pub type CopyToAsyncFn = unsafe extern "C" fn(
    stream: *mut c_void,
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
    src: *const c_void,
    size: usize,
    event: *mut *mut c_void,
) -> isize;

/// The state of a copy: 0 while it is under way, 1 when it is complete, a negative libfabric errno when it failed. The
/// function does not wait. With the last two answers the event is over, and the plugin does not ask again. Any thread may
/// ask.
pub type EventQueryFn = unsafe extern "C" fn(event: *mut c_void) -> i32;

/// The user's own copy functions of device memory. For `None` the plugin uses its own function; it always uses a
/// function that is set.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OverrideOps {
    /// [`magic::OVERRIDES`].
    pub header: TableHeader,
    /// Device to host.
    pub copy_from_hmem_iov: Option<CopyFromFn>,
    /// Host to device.
    pub copy_to_hmem_iov: Option<CopyToFn>,
    /// Blocks at regular distances, device to host. For `None` the plugin calls `copy_from_hmem_iov` with a run for each
    /// block. Since ABI 1.4, like the fields below.
    pub copy_from_hmem_strided: Option<CopyFromStridedFn>,
    /// Blocks at regular distances, host to device, under the same rules.
    pub copy_to_hmem_strided: Option<CopyToStridedFn>,
    /// Asynchronous copies, device to host. The plugin uses the function for large copies of local buffers if
    /// `query_event` is set too; then copies of several fragments overlap each other and transfers.
    pub copy_from_hmem_async: Option<CopyFromAsyncFn>,
    /// Asynchronous copies, host to device, under the same rules.
    pub copy_to_hmem_async: Option<CopyToAsyncFn>,
    /// Asks for the state of such a copy.
    pub query_event: Option<EventQueryFn>,
    /// Passed unchanged to the functions for such copies.
    pub stream: *mut c_void,
}

impl OverrideOps {
    /// The table's size in ABI 1.1, which introduced it.
    pub const MIN_SIZE: usize = std::mem::offset_of!(OverrideOps, copy_from_hmem_strided);

    /// A table of these two functions.
    pub const fn new(from: Option<CopyFromFn>, to: Option<CopyToFn>) -> Self {
        OverrideOps {
            header: TableHeader::of::<OverrideOps>(magic::OVERRIDES),
            copy_from_hmem_iov: from,
            copy_to_hmem_iov: to,
            copy_from_hmem_strided: None,
            copy_to_hmem_strided: None,
            copy_from_hmem_async: None,
            copy_to_hmem_async: None,
            query_event: None,
            stream: ptr::null_mut(),
        }
    }

    /// The same with functions for blocks at regular distances.
    pub const fn with_strided(
        self,
        from: Option<CopyFromStridedFn>,
        to: Option<CopyToStridedFn>,
    ) -> Self {
        OverrideOps {
            copy_from_hmem_strided: from,
            copy_to_hmem_strided: to,
            ..self
        }
    }

    /// The same with functions for copies that are complete later, on `stream`.
    pub const fn with_async(
        self,
        from: Option<CopyFromAsyncFn>,
        to: Option<CopyToAsyncFn>,
        query: Option<EventQueryFn>,
        stream: *mut c_void,
    ) -> Self {
        OverrideOps {
            copy_from_hmem_async: from,
            copy_to_hmem_async: to,
            query_event: query,
            stream,
            ..self
        }
    }

    /// Checks a table and copies the part that both sides know; functions beyond its size are absent.
    ///
    /// # Errors
    /// The header belongs to another table.
    ///
    /// # Safety
    /// `table` points to a readable [`TableHeader`] followed by the bytes it declares.
    pub unsafe fn check(table: *const OverrideOps) -> Result<OverrideOps, AbiError> {
        if table.is_null() {
            return Err(AbiError::NullTable { table: "overrides" });
        }
        // SAFETY: the caller guarantees a readable header.
        let header = unsafe { *table.cast::<TableHeader>() };
        header.check("overrides", magic::OVERRIDES, Self::MIN_SIZE)?;
        let mut copy = OverrideOps::new(None, None);
        let size = (header.size as usize).min(size_of::<OverrideOps>());
        // SAFETY: the caller guarantees the bytes that the header declares; whole entries of them are copied, and no
        // more than the copy holds.
        unsafe {
            ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut copy).cast::<u8>(), size & !7);
        }
        Ok(copy)
    }
}

/// A module's support of one kind of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HmemInfo {
    /// [`magic::HMEM_INFO`]; the caller sets `size`, the plugin writes no further.
    pub header: TableHeader,
    /// 1 if the provider can register this kind (FI_HMEM); a particular registration may still fail.
    pub provider: u32,
    /// The users of the overrides: [`HmemInfo::NONE`], [`HmemInfo::TRANSPORT`] or [`HmemInfo::PROVIDER`].
    pub overrides: u32,
    /// Devices of this kind that are accessible without overrides.
    pub devices: u32,
    /// The provider's answer to the overrides, as a libfabric errno: 0 if it uses them, -FI_ENOSYS (-38) or another
    /// error if only the plugin does, [`HmemInfo::NONE_SET`] if none are set. Plugins before ABI 1.4 write 0.
    pub answer: i32,
    /// Live registrations that the provider accesses itself, of all kinds of device.
    pub direct: u64,
    /// Live registrations that the plugin accesses by copies, of all kinds of device.
    pub staged: u64,
}

impl HmemInfo {
    /// No overrides are set.
    pub const NONE: u32 = 0;
    /// The plugin uses the overrides.
    pub const TRANSPORT: u32 = 1;
    /// The plugin and the provider use the overrides.
    pub const PROVIDER: u32 = 2;

    /// The answer while no overrides are set: -FI_ENODATA.
    pub const NONE_SET: i32 = -61;

    /// Returns [`answer`](Self::answer); if the plugin did not write the field, returns the answer that
    /// `overrides` implies.
    pub fn provider_answer(&self) -> i32 {
        match (self.overrides, self.answer) {
            (HmemInfo::PROVIDER, _) => 0,
            (HmemInfo::TRANSPORT, refused) if refused < 0 => refused,
            // -FI_ENOSYS
            (HmemInfo::TRANSPORT, _) => -38,
            _ => HmemInfo::NONE_SET,
        }
    }

    /// A zeroed record with its header.
    pub const fn new() -> Self {
        HmemInfo {
            header: TableHeader::of::<HmemInfo>(magic::HMEM_INFO),
            provider: 0,
            overrides: 0,
            devices: 0,
            answer: 0,
            direct: 0,
            staged: 0,
        }
    }
}

impl Default for HmemInfo {
    fn default() -> Self {
        Self::new()
    }
}
