//! The provider's message structures, reused from operation to operation.

use std::ffi::c_void;
use std::ptr::NonNull;

use libfabric_sys as ffi;

use crate::mem::device_regions::Descriptor;

/// Reusable messages for puts and updates. Each call sets only the fields that differ from the last message.
/// Used under the context's lock. On the heap, because the messages point to their own fields.
pub(crate) struct Message(NonNull<Parts>);

struct Parts {
    put: ffi::fi_msg_rma,
    local: ffi::iovec,
    remote: ffi::fi_rma_iov,
    descriptor: *mut c_void,
    update: ffi::fi_msg_atomic,
    operands: ffi::fi_ioc,
    target: ffi::fi_rma_ioc,
}

impl Message {
    pub(super) fn new() -> Message {
        // SAFETY: all fields are pointers and integers, for which zero is a valid value.
        let parts = NonNull::from(Box::leak(Box::new(unsafe { std::mem::zeroed::<Parts>() })));
        let p = parts.as_ptr();
        // SAFETY: the allocation is new and has no other reference; the fields live as long as the messages
        // that point to them.
        unsafe {
            (*p).put.msg_iov = &raw const (*p).local;
            (*p).put.iov_count = 1;
            (*p).put.rma_iov = &raw const (*p).remote;
            (*p).put.rma_iov_count = 1;
            (*p).update.msg_iov = &raw const (*p).operands;
            (*p).update.iov_count = 1;
            (*p).update.rma_iov = &raw const (*p).target;
            (*p).update.rma_iov_count = 1;
        }
        Message(parts)
    }

    /// Fills in a put: local buffer and size, peer address with remote address and key, and the operation's
    /// context. Valid until the next call.
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        (local, size): (*mut c_void, usize),
        (peer, address, key): (ffi::fi_addr_t, u64, u64),
        context: *mut c_void,
    ) -> *const ffi::fi_msg_rma {
        let p = self.0.as_ptr();
        // SAFETY: `self` owns the allocation, and the borrow is exclusive.
        unsafe {
            (*p).local.iov_base = local;
            (*p).local.iov_len = size;
            (*p).remote.addr = address;
            (*p).remote.len = size;
            (*p).remote.key = key;
            (*p).put.addr = peer;
            (*p).put.context = context;
            &raw const (*p).put
        }
    }

    /// Gives the put that was filled in last the descriptor of its local buffer.
    pub(crate) fn describe(&mut self, Descriptor(descriptor): Descriptor) {
        let p = self.0.as_ptr();
        // SAFETY: `self` owns the allocation, and the borrow is exclusive; the field lives as long as the message.
        unsafe {
            (*p).descriptor = descriptor;
            (*p).put.desc = &raw mut (*p).descriptor;
        }
    }

    /// Fills in an update: operands, peer address with remote address and key, type and operation, and the
    /// operation's context. Valid until the next call.
    #[inline(always)]
    pub(crate) fn update(
        &mut self,
        (operands, count): (*mut c_void, usize),
        (peer, address, key): (ffi::fi_addr_t, u64, u64),
        (datatype, op): (ffi::fi_datatype, ffi::fi_op),
        context: *mut c_void,
    ) -> *const ffi::fi_msg_atomic {
        let p = self.0.as_ptr();
        // SAFETY: `self` owns the allocation, and the borrow is exclusive.
        unsafe {
            (*p).operands.addr = operands;
            (*p).operands.count = count;
            (*p).target.addr = address;
            (*p).target.count = count;
            (*p).target.key = key;
            (*p).update.addr = peer;
            (*p).update.datatype = datatype;
            (*p).update.op = op;
            (*p).update.context = context;
            &raw const (*p).update
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: `new` leaked this box, and `drop` runs once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
