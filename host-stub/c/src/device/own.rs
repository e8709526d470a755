//! Devices of the program's own: how their memory is reached, and what memory they have.

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

/// Copies to `size` flat bytes at `dest` what lies `offset` bytes into the `count` runs of `iov`, each of
/// the kind (HOST_HMEM_*) that `iface` says; kinds may be mixed. Returns when it is done, with the bytes
/// copied or a negative libfabric errno: -FI_ENOSYS (-38) for a kind that it does not know. Any thread of
/// the process may call it, several at once; it calls nothing of the host.
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

/// Copies `size` flat bytes at `src` to device memory; otherwise as host_copy_from_hmem_fn.
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

/// Copies blocks of device memory of kind `iface` at regular distances to `size` flat bytes at `dest`, one
/// after the other: count[1] rows of count[0] blocks of `block` bytes. Block i of row j begins
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

/// Copies `size` flat bytes at `src` to blocks of device memory; otherwise as host_copy_from_strided_fn.
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
/// the event is over. Returns the bytes that are being copied, or a negative libfabric errno if no copy began.
/// After -FI_EAGAIN (-11) the synchronous function is called instead.
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

/// The state of such a copy, without waiting: 0 while it is under way, 1 when it is complete, a negative
/// libfabric errno when it failed. With the last two answers the event is over, and is not asked for again.
/// Any thread of the process may call it, several at once; it calls nothing of the host.
pub type host_event_query_fn = Option<unsafe extern "C" fn(event: *mut c_void) -> i32>;

/// What a host_overrides_t begins with.
pub const HOST_OVERRIDES_MAGIC: u64 = 0x3152564f54534f48;

/// How a program has device memory reached. It grows at its end only, and `size` says where that is:
/// functions beyond are NULL.
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
    /// Blocks at regular distances, device to host: called once for a strided buffer, and for an indexed one
    /// that is rows of equal blocks. For NULL the functions above are called, with up to 256 runs at a time.
    pub copy_from_hmem_strided: host_copy_from_strided_fn,
    /// The same, host to device.
    pub copy_to_hmem_strided: host_copy_to_strided_fn,
    /// Copies that are complete later, device to host: called for large transfers of a buffer that the
    /// transport takes as it is, if query_event is set too. Copies then overlap each other and the network.
    pub copy_from_hmem_async: host_copy_from_async_fn,
    /// The same, host to device.
    pub copy_to_hmem_async: host_copy_to_async_fn,
    /// Asks for the state of such copies.
    pub query_event: host_event_query_fn,
    /// Passed to the functions for such copies as it is.
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

/// Sets how device memory is reached, for all kinds: at once, in windows and buffers that exist already
/// too. Operations under way keep earlier functions for their local buffers. In the
/// place of a function that is NULL comes the transport's own, which knows CUDA only; NULL instead of a table
/// is a table of none. The provider is offered the functions too: host_query_overrides has its answer. A single
/// function is offered only where CUDA is the only kind of memory that the provider reaches.
///
/// # Safety
/// `overrides` is NULL or a table. All functions that were ever set do what their types say, until host_finalize has returned.
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
/// it does; -FI_ENOSYS (-38) if it does not support this, or was offered none; another negative one with
/// which it refused them; -FI_ENODATA (-61) if none are set. Where it is not 0, the transport's own copies use the
/// functions, and memory that the provider reaches by itself does not.
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
        // SAFETY: not NULL; the caller guarantees it.
        unsafe { *answer = info.provider_answer() };
        Ok(())
    })
}

/// Tells the host of a device of a kind, and of its number among those of its kind. `device` becomes its
/// number in calls and in "device_num". The host gives out no memory of it: see host_device_add_memory.
/// It starts no operations unless host_device_starts says so.
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
        // SAFETY: not NULL; the caller guarantees it.
        unsafe { *device = added };
        Ok(())
    })
}

/// Says that kernels of a device that the program added read and write host memory, with atomics, and so start
/// operations through rings (host_device_ring_create).
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

/// Tells the host of `size` bytes of memory on a device, which buffers and windows may lie in until
/// host_device_forget_memory. The host reaches for it by the copy functions only.
///
/// # Safety
/// The range is memory of that device until then.
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

/// Takes back what host_device_add_memory said of the memory that begins at `memory`. No operation and
/// no window uses it any more.
#[unsafe(no_mangle)]
pub extern "C" fn host_device_forget_memory(memory: *const c_void) -> c_int {
    guarded(|| {
        let call = "host_device_forget_memory";
        let base = base_of(call, memory)?;
        job(call)?.devices().forget_memory(base);
        Ok(())
    })
}
