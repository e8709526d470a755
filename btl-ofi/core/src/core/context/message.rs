//! The provider's message structures, reused from operation to operation.

use std::ffi::c_void;
use std::ptr::NonNull;

use libfabric_sys as ffi;

/// Reusable messages for puts and updates. Each call sets only the fields that differ from the previous
/// message. Used under the context's lock. This structure is on the heap, because the messages point to their own
/// fields.
pub(crate) struct Message(NonNull<Parts>);

struct Parts {
    put: ffi::fi_msg_rma,
    local: ffi::iovec,
    remote: ffi::fi_rma_iov,
    /// The update of one element, and the update of any number of elements.
    word: Update,
    vector: Update,
}

struct Update {
    message: ffi::fi_msg_atomic,
    operands: ffi::fi_ioc,
    target: ffi::fi_rma_ioc,
}

impl Update {
    /// # Safety
    /// `update` is not moved afterwards.
    unsafe fn prepare(update: *mut Update) {
        // SAFETY: the caller guarantees that the place is valid.
        unsafe {
            (*update).message.msg_iov = &raw const (*update).operands;
            (*update).message.iov_count = 1;
            (*update).message.rma_iov = &raw const (*update).target;
            (*update).message.rma_iov_count = 1;
            (*update).operands.count = 1;
            (*update).target.count = 1;
        }
    }

    /// Fills in all fields except the counts.
    ///
    /// # Safety
    /// `update` is valid, and nothing else uses it.
    #[inline(always)]
    unsafe fn fill(
        update: *mut Update,
        operands: *mut c_void,
        (peer, address, key): (ffi::fi_addr_t, u64, u64),
        (datatype, op): (ffi::fi_datatype, ffi::fi_op),
        context: *mut c_void,
    ) -> *const ffi::fi_msg_atomic {
        // SAFETY: the caller guarantees that the place is valid. No reference is made to the place, because the
        // message has pointers to it.
        unsafe {
            (*update).operands.addr = operands;
            (*update).target.addr = address;
            (*update).target.key = key;
            (*update).message.addr = peer;
            (*update).message.datatype = datatype;
            (*update).message.op = op;
            (*update).message.context = context;
            &raw const (*update).message
        }
    }
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
            Update::prepare(&raw mut (*p).word);
            Update::prepare(&raw mut (*p).vector);
        }
        Message(parts)
    }

    /// Fills in a put: local buffer and size, peer address with remote address and key, and the operation's
    /// context. The result is valid until the next call.
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

    /// Fills in an update of one element: operand, peer address with remote address and key, type and operation, and the
    /// operation's context. The result is valid until the next call.
    #[inline(always)]
    pub(crate) fn update(
        &mut self,
        operand: *mut c_void,
        to: (ffi::fi_addr_t, u64, u64),
        how: (ffi::fi_datatype, ffi::fi_op),
        context: *mut c_void,
    ) -> *const ffi::fi_msg_atomic {
        // SAFETY: `self` owns the allocation, and the borrow is exclusive.
        unsafe { Update::fill(&raw mut (*self.0.as_ptr()).word, operand, to, how, context) }
    }

    /// [`update`](Self::update) for any number of elements.
    #[inline(always)]
    pub(crate) fn update_of(
        &mut self,
        (operands, count): (*mut c_void, usize),
        to: (ffi::fi_addr_t, u64, u64),
        how: (ffi::fi_datatype, ffi::fi_op),
        context: *mut c_void,
    ) -> *const ffi::fi_msg_atomic {
        // SAFETY: `self` owns the allocation, and the borrow is exclusive.
        unsafe {
            let update = &raw mut (*self.0.as_ptr()).vector;
            (*update).operands.count = count;
            (*update).target.count = count;
            Update::fill(update, operands, to, how, context)
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: `new` leaked this box, and `drop` runs once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
