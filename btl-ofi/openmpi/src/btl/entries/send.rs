//! Two-sided messages: descriptors, their sending, and messages sent at once. pml/ob1 relies on these rules:
//! - `send` returns 1 if the message has left. In this case `send` calls the descriptor's function only if the
//!   descriptor asks for a call in every case. The call returns 0 if it calls the function later.
//! - A message reported as sent arrives even if this process does not enter Open MPI again: MPI_Send may have returned.
//! - After "out of resource" from `send`, ob1 tries again only after some later completion, which may never come. So `send`
//!   keeps a descriptor that finds no room, and returns 0.
//! - `sendi` may fail for lack of room; Open MPI then resets the convertor and sends the descriptor from `sendi`.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull, null, null_mut};

use btl_ofi::Leaves;
use plugin_api::Status;

use crate::bindings as ffi;
use crate::btl::entries::call::{Btl, BtlEndpoint};
use crate::btl::fragments::{Fragment, NONE};
use crate::btl::module::Module;
use crate::btl::sender;
use crate::guard::{called, guarded};
use crate::identity;

type Descriptor = *mut ffi::mca_btl_base_descriptor_t;

/// The longest message of a module, bytes; 0 without messages.
fn limit(module: &Module) -> usize {
    let limit = module.transport().capabilities().send_limit;
    limit.saturating_sub(sender::LONGEST)
}

/// A descriptor for a message of `size` bytes. A size above the module's limit ends the job and returns NULL, because osc/rdma
/// would ask again for ever.
pub(super) unsafe extern "C" fn alloc(
    btl: Btl,
    _endpoint: BtlEndpoint,
    _order: u8,
    size: usize,
    flags: u32,
) -> Descriptor {
    guarded("alloc", NONE, || {
        // SAFETY: Open MPI passes NULL or the live module that `init` returned.
        let Some(module) = (unsafe { Module::of(btl) }) else {
            return NONE;
        };
        let limit = limit(module);
        if size > limit {
            module.fail(null(), Status::NOT_SUPPORTED, &why_not(size, limit));
            return NONE;
        }
        module.fragments().take(size, flags).as_ptr().cast()
    })
}

/// The reason why there is no message of this size, and what to do.
#[cold]
fn why_not(size: usize, limit: usize) -> String {
    if limit > 0 {
        return format!("a message of {size} bytes was asked for, and the longest has {limit}");
    }
    // osc/rdma makes the operations of such a window by messages. osc/rdma takes the BTL with the lowest latency that
    // reaches the process, even if this BTL has no messages.
    let name = identity::NAME.to_string_lossy();
    format!(
        "a message was asked for, and btl_ofi_mode 0 has none. Windows whose processes this component does not reach all go by \
         messages: set btl_ofi_mode to 2 for all processes, set btl_{name}_latency higher than that of the other transports, or \
         leave this component out (--mca btl ^{name})"
    )
}

/// Frees a descriptor.
pub(super) unsafe extern "C" fn free(btl: Btl, descriptor: Descriptor) -> c_int {
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    called("free", unsafe { Module::of(btl) }, |module| {
        let fragment = NonNull::new(descriptor.cast::<Fragment>())?;
        // SAFETY: Open MPI gives each descriptor back once.
        unsafe { module.fragments().give_back(fragment) };
        Some(Status::SUCCESS)
    })
}

/// A descriptor for `reserve` bytes and up to `*size` bytes of the convertor's data, which are sent without a copy if they need
/// no packing.
pub(super) unsafe extern "C" fn prepare_src(
    btl: Btl,
    _endpoint: BtlEndpoint,
    convertor: *mut ffi::opal_convertor_t,
    _order: u8,
    reserve: usize,
    size: *mut usize,
    flags: u32,
) -> Descriptor {
    guarded("prepare_src", NONE, || {
        // SAFETY: Open MPI passes NULL or the live module that `init` returned, and a writable size.
        let (module, size) = unsafe { (Module::of(btl), size.as_mut()) };
        let (Some(module), Some(size)) = (module, size) else {
            return NONE;
        };
        let Some(room) = limit(module).checked_sub(reserve) else {
            return NONE;
        };
        let mut data = (*size).min(room);
        // SAFETY: Open MPI passes a convertor that is ready to pack.
        let packs = unsafe { ffi::mca_btl_ofi_host_needs_packing(convertor) };
        let buffer = reserve + if packs { data } else { 0 };
        let fragment = module.fragments().take(buffer, flags);
        // SAFETY: `take` returned a descriptor without another owner. Open MPI keeps the data until the message is complete;
        // the buffer has room for `data` bytes behind the reserve.
        unsafe {
            let f = &mut *fragment.as_ptr();
            let to = if packs { f.at(reserve) } else { null_mut() };
            let at = ffi::mca_btl_ofi_host_pack(convertor, to, &raw mut data);
            if at.is_null() && data > 0 {
                module.fragments().give_back(fragment);
                return NONE;
            }
            match packs {
                true => f.cut(reserve + data),
                false => f.append(at, data),
            }
        }
        *size = data;
        fragment.as_ptr().cast()
    })
}

/// Sends a descriptor.
pub(super) unsafe extern "C" fn send(
    btl: Btl,
    endpoint: BtlEndpoint,
    descriptor: Descriptor,
    tag: u8,
) -> c_int {
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    called("send", unsafe { Module::of(btl) }, |module| {
        let endpoint = NonNull::new(endpoint.cast())?;
        let fragment = NonNull::new(descriptor.cast::<Fragment>())?;
        let (fragments, door) = (module.fragments(), module.door());
        // SAFETY: Open MPI passes a descriptor of this module, which is not used until it is complete, and a live endpoint.
        let sent = unsafe { fragments.send(door, (endpoint, tag), fragment) };
        // The value may be 1, which is no status.
        Some(Status(sent))
    })
}

/// Sends a header and the convertor's data at once, or fails and sends nothing.
pub(super) unsafe extern "C" fn sendi(
    btl: Btl,
    endpoint: BtlEndpoint,
    convertor: *mut ffi::opal_convertor_t,
    header: *mut c_void,
    header_size: usize,
    payload_size: usize,
    _order: u8,
    flags: u32,
    tag: u8,
    descriptor: *mut Descriptor,
) -> c_int {
    if !descriptor.is_null() {
        // pml/ob1 reads the descriptor after every failure. SAFETY: Open MPI passes NULL or a
        // writable place for a descriptor.
        unsafe { *descriptor = NONE };
    }
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    called("sendi", unsafe { Module::of(btl) }, |module| {
        let to = NonNull::new(endpoint.cast())?;
        let size = header_size + payload_size;
        let mut sent = Err(Status::TEMP_OUT_OF_RESOURCE);
        if !module.fragments().has_waiting_for(to) {
            let fill = |at: *mut u8| {
                let mut packed = payload_size;
                // SAFETY: Open MPI passes a header of this size, and a convertor with this much data.
                unsafe {
                    ptr::copy_nonoverlapping(header.cast::<u8>(), at, header_size);
                    if payload_size > 0 {
                        ffi::mca_btl_ofi_host_pack(
                            convertor,
                            at.add(header_size).cast(),
                            &raw mut packed,
                        );
                    }
                    sender::write(tag, at.add(size));
                }
            };
            let message = (tag, size + sender::size(tag), Leaves::Now);
            // SAFETY: the endpoint is live, and `fill` writes all bytes.
            sent = unsafe { module.transport().send(to, message, fill) };
        }
        let Err(status) = sent else {
            return Some(Status::SUCCESS);
        };
        if !descriptor.is_null() {
            // SAFETY: Open MPI passes NULL or a writable place for a descriptor, which it then fills in and sends.
            unsafe { *descriptor = alloc(btl, endpoint, 0, size, flags) };
        }
        Some(status)
    })
}
