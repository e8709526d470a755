//! Devices that the program adds: their memory, and the functions that copy it.

use std::ffi::{c_char, c_int, c_void};

use host::device::Device;
use plugin_api::{IoVec, OverrideOps};

use crate::base::error::{Error, HOST_ERR_TRANSPORT, Result, guarded};
use crate::base::handles::text;
use crate::base::tables::{self, layout};
use crate::job::job;

/// Kinds of device memory, by libfabric's numbers (enum fi_hmem_iface): host memory.
pub const HOST_HMEM_SYSTEM: u32 = 0;
/// CUDA.
pub const HOST_HMEM_CUDA: u32 = 1;
/// ROCm.
pub const HOST_HMEM_ROCR: u32 = 2;
/// Level Zero.
pub const HOST_HMEM_ZE: u32 = 3;

/// Copies device memory to `size` contiguous bytes at `dest`. The source is the `count` runs of `iov`,
/// from byte `offset` on; `iface` holds the kind (HOST_HMEM_*) of each run, and kinds may be mixed. The
/// copy is synchronous. Returns the number of bytes copied or a negative libfabric errno: -FI_ENOSYS
/// (-38) for an unknown kind. Several threads of the process may call it at the same time; it must not
/// call the host.
pub type host_copy_from_hmem_fn = Option<
    unsafe extern "C" fn(
        dest: *mut c_void,
        size: usize,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
    ) -> isize,
>;

/// Copies `size` contiguous bytes at `src` to device memory; otherwise as host_copy_from_hmem_fn.
pub type host_copy_to_hmem_fn = Option<
    unsafe extern "C" fn(
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
        src: *const c_void,
        size: usize,
    ) -> isize,
>;

/// Copies blocks of device memory of kind `iface` at regular distances to `size` contiguous bytes at
/// `dest`, one after the other: count[1] rows of count[0] blocks of `block` bytes. Block i of row j begins
/// i * stride[0] + j * stride[1] bytes after `base`. Otherwise as host_copy_from_hmem_fn.
pub type host_copy_from_strided_fn = Option<
    unsafe extern "C" fn(
        dest: *mut c_void,
        size: usize,
        base: *const c_void,
        iface: u32,
        block: usize,
        stride: *const usize,
        count: *const usize,
    ) -> isize,
>;

/// Copies `size` contiguous bytes at `src` to blocks of device memory; otherwise as
/// host_copy_from_strided_fn.
pub type host_copy_to_strided_fn = Option<
    unsafe extern "C" fn(
        base: *mut c_void,
        iface: u32,
        block: usize,
        stride: *const usize,
        count: *const usize,
        src: *const c_void,
        size: usize,
    ) -> isize,
>;

/// Starts the copy of host_copy_from_hmem_fn on the program's `stream` and returns before it is complete.
/// Writes an event for host_event_query_fn, or NULL if the copy is complete already. All memory stays until
/// the event is over. Returns the number of bytes that are being copied, or a negative libfabric errno if no
/// copy began. After -FI_EAGAIN (-11) the host calls the synchronous function instead.
pub type host_copy_from_async_fn = Option<
    unsafe extern "C" fn(
        stream: *mut c_void,
        dest: *mut c_void,
        size: usize,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
        event: *mut *mut c_void,
    ) -> isize,
>;

/// Starts the copy of host_copy_to_hmem_fn; otherwise as host_copy_from_async_fn.
pub type host_copy_to_async_fn = Option<
    unsafe extern "C" fn(
        stream: *mut c_void,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
        src: *const c_void,
        size: usize,
        event: *mut *mut c_void,
    ) -> isize,
>;

/// The state of an asynchronous copy, without waiting: 0 while it is under way, 1 if it is complete, a
/// negative libfabric errno if it failed. With the last two answers the event is over, and the host does
/// not ask again. Several threads of the process may call it at the same time; it must not call the host.
pub type host_event_query_fn = Option<unsafe extern "C" fn(event: *mut c_void) -> i32>;

/// The magic number of a host_overrides_t.
pub const HOST_OVERRIDES_MAGIC: u64 = 0x3152564f54534f48;

/// A program's copy functions for device memory. The structure grows at its end only, and `size`
/// tells its length: functions beyond it are NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_overrides_t {
    /// HOST_OVERRIDES_MAGIC.
    pub magic: u64,
    /// sizeof(host_overrides_t).
    pub size: usize,
    /// Device to host.
    pub copy_from_hmem_iov: host_copy_from_hmem_fn,
    /// Host to device.
    pub copy_to_hmem_iov: host_copy_to_hmem_fn,
    /// Blocks at regular distances, device to host: called once for a strided buffer, and for an indexed
    /// buffer that consists of rows of equal blocks. If this function is NULL, the host calls the functions
    /// above, with up to 256 runs at a time.
    pub copy_from_hmem_strided: host_copy_from_strided_fn,
    /// The same, host to device.
    pub copy_to_hmem_strided: host_copy_to_strided_fn,
    /// Asynchronous copies, device to host: called for large transfers of a buffer that the transport takes
    /// unpacked, if query_event is set too. Copies then overlap each other and the network.
    pub copy_from_hmem_async: host_copy_from_async_fn,
    /// The same, host to device.
    pub copy_to_hmem_async: host_copy_to_async_fn,
    /// Returns the state of asynchronous copies.
    pub query_event: host_event_query_fn,
    /// Passed unchanged to the functions for asynchronous copies.
    pub stream: *mut c_void,
}

layout!(host_overrides_t: 80 bytes {
    magic at 0,
    size at 8,
    copy_from_hmem_iov at 16,
    copy_to_hmem_iov at 24,
    copy_from_hmem_strided at 32,
    copy_to_hmem_strided at 40,
    copy_from_hmem_async at 48,
    copy_to_hmem_async at 56,
    query_event at 64,
    stream at 72,
} magic HOST_OVERRIDES_MAGIC = b"HOSTOVR1", least 16, by 8);

/// Sets the copy functions for device memory of all kinds. The functions apply at once, also to existing
/// windows and buffers. Operations under way keep the earlier functions for their local buffers. If a function
/// is NULL, the transport uses its own, which knows CUDA only; NULL instead of a table removes all functions.
/// The provider is offered the functions too: host_query_overrides has its answer. A single function is offered
/// only if CUDA is the only kind of memory that the provider reaches.
///
/// # Safety
/// `overrides` is NULL or a table. All functions that were ever set follow the rules of their types until host_finalize has
/// returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_set_overrides(overrides: *const host_overrides_t) -> c_int {
    guarded(|| {
        let call = "host_set_overrides";
        let job = job(call)?;
        let given = match overrides.is_null() {
            true => None,
            false => {
                // SAFETY: the caller guarantees the table.
                let given = unsafe { tables::read(call, overrides) }?;
                let ops = OverrideOps::new(given.copy_from_hmem_iov, given.copy_to_hmem_iov);
                let (from, to) = (given.copy_from_hmem_async, given.copy_to_hmem_async);
                Some(
                    ops.with_strided(given.copy_from_hmem_strided, given.copy_to_hmem_strided)
                        .with_async(from, to, given.query_event, given.stream),
                )
            }
        };
        // SAFETY: the caller guarantees the functions.
        match unsafe { job.devices().set_overrides(given.as_ref()) } {
            status if status.is_ok() => Ok(()),
            status => Err(Error::new(
                HOST_ERR_TRANSPORT,
                format!("{call}: the transport takes no copy functions: {status}"),
            )),
        }
    })
}

/// Asks whether the provider uses the functions of host_set_overrides. `answer` becomes a libfabric errno: 0 if
/// the provider uses them; -FI_ENOSYS (-38) if it does not support overrides, or was offered none; another
/// negative errno if it refused them with that errno; -FI_ENODATA (-61) if none are set. If the answer is not 0,
/// only the transport's own copies use the functions; memory that the provider accesses itself does not.
///
/// # Safety
/// `answer` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_query_overrides(answer: *mut c_int) -> c_int {
    guarded(|| {
        let call = "host_query_overrides";
        if answer.is_null() {
            return Err(Error::argument(call, "answer is NULL"));
        }
        let info = job(call)?.transport().query_hmem(HOST_HMEM_SYSTEM);
        let info = info.ok_or_else(|| {
            let reason = format!("{call}: the transport knows of no device memory");
            Error::new(HOST_ERR_TRANSPORT, reason)
        })?;
        // SAFETY: the pointer is not NULL; the caller guarantees that it is writable.
        unsafe { *answer = info.provider_answer() };
        Ok(())
    })
}

/// Adds a device of a kind, with its number among the devices of this kind. `device` becomes its number
/// in calls and in "device_num". The host does not allocate its memory: see host_device_add_memory.
/// The device starts no operations unless the program calls host_device_starts.
/// Devices stay until host_finalize.
///
/// # Safety
/// `name` is a string, `device` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_add(
    name: *const c_char,
    iface: u32,
    number: u64,
    device: *mut c_int,
) -> c_int {
    guarded(|| {
        let call = "host_device_add";
        if device.is_null() {
            return Err(Error::argument(call, "device is NULL"));
        }
        // SAFETY: the caller guarantees the string.
        let name = unsafe { text(call, "name", name) }?;
        if iface == HOST_HMEM_SYSTEM {
            return Err(Error::argument(call, "HOST_HMEM_SYSTEM is host memory"));
        }
        let added = job(call)?.devices().add(Device {
            name: String::from(name),
            iface,
            number,
            starts: false,
            why: String::from("the program did not say that its device can start operations"),
        })?;
        // SAFETY: not NULL; the caller guarantees that it is writable.
        unsafe { *device = added };
        Ok(())
    })
}

/// Declares that kernels of a device that the program added can read and write host memory, also by atomics,
/// so that they can start operations through rings (host_device_ring_create).
#[unsafe(no_mangle)]
pub extern "C" fn host_device_starts(device: c_int) -> c_int {
    guarded(|| Ok(job("host_device_starts")?.devices().starts(device)?))
}

fn base_of(call: &str, memory: *const c_void) -> Result<u64> {
    match memory.is_null() {
        true => Err(Error::argument(call, "memory is NULL")),
        false => Ok(memory as u64),
    }
}

/// Tells the host of `size` bytes of memory on a device. Buffers and windows may lie in this memory
/// until host_device_forget_memory. The host accesses this memory by the copy functions only.
///
/// # Safety
/// The range is memory of this device until host_device_forget_memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_add_memory(
    device: c_int,
    memory: *const c_void,
    size: usize,
) -> c_int {
    guarded(|| {
        let call = "host_device_add_memory";
        let base = base_of(call, memory)?;
        let job = job(call)?;
        // SAFETY: the caller guarantees the range.
        Ok(unsafe { job.devices().add_memory(device, base, size) }?)
    })
}

/// Undoes host_device_add_memory for the memory that begins at `memory`. No operation and no window
/// may use the memory any longer.
#[unsafe(no_mangle)]
pub extern "C" fn host_device_forget_memory(memory: *const c_void) -> c_int {
    guarded(|| {
        let call = "host_device_forget_memory";
        let base = base_of(call, memory)?;
        job(call)?.devices().forget_memory(base);
        Ok(())
    })
}
