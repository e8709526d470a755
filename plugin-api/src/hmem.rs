//! Device memory: how a user overrides the way it is reached, and what a module makes of it.

use std::ffi::c_void;

use crate::{AbiError, TableHeader, magic};

/// Kinds of memory, with the codes of libfabric's `enum fi_hmem_iface`. Codes cross as plain
/// numbers, because an override may know kinds that neither side of the ABI does.
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

/// A run of memory: `struct iovec` of `<sys/uio.h>`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IoVec {
    /// First byte.
    pub base: *mut c_void,
    /// Bytes.
    pub len: usize,
}

/// Copies from device memory to `size` flat bytes at `dest`: what lies `offset` bytes into the `count`
/// runs of `hmem_iov`, each of the kind that `hmem_iface` says, and kinds may be mixed. Synchronous.
/// Returns the bytes copied, or a negative libfabric errno; -FI_ENOSYS (-38) for a kind it does not
/// know. May run on any thread that calls the module, and on a thread of the plugin; calls nothing of
/// the plugin.
pub type CopyFromFn = unsafe extern "C" fn(
    dest: *mut c_void,
    size: usize,
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
) -> isize;

/// Copies `size` flat bytes at `src` to device memory; otherwise as [`CopyFromFn`].
pub type CopyToFn = unsafe extern "C" fn(
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
    src: *const c_void,
    size: usize,
) -> isize;

/// How the user wants device memory to be reached. An absent function means the plugin's own, a
/// present one is always used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OverrideOps {
    /// [`magic::OVERRIDES`].
    pub header: TableHeader,
    /// Device to host.
    pub copy_from_hmem_iov: Option<CopyFromFn>,
    /// Host to device.
    pub copy_to_hmem_iov: Option<CopyToFn>,
}

impl OverrideOps {
    /// The table's size in ABI 1.1, which brought it.
    pub const MIN_SIZE: usize = size_of::<OverrideOps>();

    /// The table of these two functions.
    pub const fn new(from: Option<CopyFromFn>, to: Option<CopyToFn>) -> Self {
        OverrideOps {
            header: TableHeader::of::<OverrideOps>(magic::OVERRIDES),
            copy_from_hmem_iov: from,
            copy_to_hmem_iov: to,
        }
    }

    /// Checks a table, and copies it.
    ///
    /// # Errors
    /// Its header is not that of such a table.
    ///
    /// # Safety
    /// `table` points to a readable [`TableHeader`] followed by the bytes it declares.
    pub unsafe fn check(table: *const OverrideOps) -> Result<OverrideOps, AbiError> {
        if table.is_null() {
            return Err(AbiError::NullTable { table: "overrides" });
        }
        // SAFETY: the caller vouches for a readable header.
        let header = unsafe { *table.cast::<TableHeader>() };
        header.check("overrides", magic::OVERRIDES, Self::MIN_SIZE)?;
        // SAFETY: the header declares at least this whole type.
        Ok(unsafe { *table })
    }
}

/// What a module makes of one kind of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HmemInfo {
    /// [`magic::HMEM_INFO`]; the caller sets `size`, the plugin writes no further.
    pub header: TableHeader,
    /// Whether the provider can take registrations of this kind (FI_HMEM); whether it takes a
    /// particular one shows when it is made.
    pub provider: u32,
    /// Who uses the overrides: [`HmemInfo::NONE`], [`HmemInfo::TRANSPORT`] or
    /// [`HmemInfo::PROVIDER`].
    pub overrides: u32,
    /// Devices of this kind that can be reached without overrides.
    pub devices: u32,
    /// Written as zero.
    pub reserved: u32,
    /// Registrations of any kind of device that live now and that the provider reaches itself.
    pub direct: u64,
    /// Registrations of any kind of device that live now and are reached by copies.
    pub staged: u64,
}

impl HmemInfo {
    /// No overrides are set.
    pub const NONE: u32 = 0;
    /// Overrides are set, and used by the plugin.
    pub const TRANSPORT: u32 = 1;
    /// Overrides are set, and used by the provider too.
    pub const PROVIDER: u32 = 2;

    /// A zeroed record with its header.
    pub const fn new() -> Self {
        HmemInfo {
            header: TableHeader::of::<HmemInfo>(magic::HMEM_INFO),
            provider: 0,
            overrides: 0,
            devices: 0,
            reserved: 0,
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
