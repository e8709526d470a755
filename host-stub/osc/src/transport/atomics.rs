//! The atomics of a transport: on words, as in the BTL interface, and on typed elements.

use std::ffi::c_void;

use plugin_api::Status;
use plugin_api::{
    ApplyFn, ApplyRequest, AtomicKind, AtomicOp, BtlAtomicOp, Datatype, Handle, OpFlags,
};

use super::module::NO_ORDER;
use super::{EndpointRef, Report, Transport};

impl Transport {
    /// Updates the word at `remote` with `operand`.
    ///
    /// # Safety
    /// As for [`put`](Self::put); `remote` is aligned to the word.
    #[inline]
    pub unsafe fn atomic_op(
        &self,
        endpoint: EndpointRef,
        (remote, remote_handle): (u64, *const Handle),
        op: BtlAtomicOp,
        operand: u64,
        flags: OpFlags,
        (callback, context, data): Report,
    ) -> Status {
        // SAFETY: the caller vouches for every pointer.
        unsafe {
            (self.functions().atomic_op)(
                self.module(),
                endpoint.as_ptr(),
                remote,
                remote_handle,
                op as u32,
                operand,
                flags.bits(),
                NO_ORDER,
                callback,
                context,
                data,
            )
        }
    }

    /// Updates the word at `remote` and fetches its old value to `local`.
    ///
    /// # Safety
    /// As for [`get`](Self::get); `remote` is aligned to the word.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the shape is btl.h's")]
    pub unsafe fn atomic_fop(
        &self,
        endpoint: EndpointRef,
        (local, local_handle): (*mut u8, *mut Handle),
        (remote, remote_handle): (u64, *const Handle),
        op: BtlAtomicOp,
        operand: u64,
        flags: OpFlags,
        (callback, context, data): Report,
    ) -> Status {
        // SAFETY: the caller vouches for every pointer.
        unsafe {
            (self.functions().atomic_fop)(
                self.module(),
                endpoint.as_ptr(),
                local.cast(),
                remote,
                local_handle,
                remote_handle,
                op as u32,
                operand,
                flags.bits(),
                NO_ORDER,
                callback,
                context,
                data,
            )
        }
    }

    /// Writes `value` to the word at `remote` if it equals `compare`, and fetches its old value.
    ///
    /// # Safety
    /// As for [`get`](Self::get); `remote` is aligned to the word.
    #[inline]
    pub unsafe fn atomic_cswap(
        &self,
        endpoint: EndpointRef,
        (local, local_handle): (*mut u8, *mut Handle),
        (remote, remote_handle): (u64, *const Handle),
        (compare, value): (u64, u64),
        flags: OpFlags,
        (callback, context, data): Report,
    ) -> Status {
        // SAFETY: the caller vouches for every pointer.
        unsafe {
            (self.functions().atomic_cswap)(
                self.module(),
                endpoint.as_ptr(),
                local.cast(),
                remote,
                local_handle,
                remote_handle,
                compare,
                value,
                flags.bits(),
                NO_ORDER,
                callback,
                context,
                data,
            )
        }
    }

    /// The largest count of elements that one typed atomic takes; `None` if the provider does not
    /// serve `op` on `datatype` in this form.
    pub fn atomic_query(
        &self,
        datatype: Datatype,
        op: AtomicOp,
        kind: AtomicKind,
    ) -> Option<usize> {
        let mut count = 0_usize;
        // SAFETY: `count` is writable.
        let status = unsafe {
            (self.functions().atomic_query)(
                self.module(),
                datatype as u32,
                op as u32,
                kind as u32,
                &mut count,
            )
        };
        (status.is_ok() && count > 0).then_some(count)
    }

    /// Updates `count` elements at `remote` with those at `local`, each atomically.
    ///
    /// # Safety
    /// As for [`put`](Self::put), for `count` elements; `remote` is aligned to the element, and
    /// `count` is at most the result of [`atomic_query`](Self::atomic_query).
    #[inline]
    pub unsafe fn atomic_opv(
        &self,
        endpoint: EndpointRef,
        (local, local_handle): (*const u8, *mut Handle),
        (remote, remote_handle): (u64, *const Handle),
        (datatype, op): (Datatype, AtomicOp),
        count: usize,
        (callback, context, data): Report,
    ) -> Status {
        // SAFETY: the caller vouches for every pointer.
        unsafe {
            (self.functions().atomic_opv)(
                self.module(),
                endpoint.as_ptr(),
                local.cast(),
                remote,
                local_handle,
                remote_handle,
                datatype as u32,
                op as u32,
                count,
                callback,
                context,
                data,
            )
        }
    }

    /// As [`atomic_opv`](Self::atomic_opv), and fetches the old values to `result`. `local` may be
    /// NULL for [`AtomicOp::Read`]. The callback's local address is `result`.
    ///
    /// # Safety
    /// As for [`atomic_opv`](Self::atomic_opv); `result` is writable and not accessed until
    /// completion, and `result_handle` covers it or is NULL within the threshold of gets.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the shape is the vtable's")]
    pub unsafe fn atomic_fopv(
        &self,
        endpoint: EndpointRef,
        (local, local_handle): (*const u8, *mut Handle),
        (result, result_handle): (*mut u8, *mut Handle),
        (remote, remote_handle): (u64, *const Handle),
        (datatype, op): (Datatype, AtomicOp),
        count: usize,
        (callback, context, data): Report,
    ) -> Status {
        // SAFETY: the caller vouches for every pointer.
        unsafe {
            (self.functions().atomic_fopv)(
                self.module(),
                endpoint.as_ptr(),
                local.cast(),
                result.cast(),
                remote,
                local_handle,
                result_handle,
                remote_handle,
                datatype as u32,
                op as u32,
                count,
                callback,
                context,
                data,
            )
        }
    }

    /// Compares the element at `remote` with the one at `compare`, writes the one at `local` if
    /// they are equal, and fetches the old value to `result`. `local` and `compare` are copied
    /// before the call returns.
    ///
    /// # Safety
    /// `local` and `compare` are readable for one element; the rest as for
    /// [`atomic_fopv`](Self::atomic_fopv).
    #[inline]
    pub unsafe fn atomic_cswapv(
        &self,
        endpoint: EndpointRef,
        (compare, local): (*const u8, *const u8),
        (result, result_handle): (*mut u8, *mut Handle),
        (remote, remote_handle): (u64, *const Handle),
        datatype: Datatype,
        (callback, context, data): Report,
    ) -> Status {
        // SAFETY: the caller vouches for every pointer.
        unsafe {
            (self.functions().atomic_cswapv)(
                self.module(),
                endpoint.as_ptr(),
                local.cast(),
                compare.cast(),
                result.cast(),
                remote,
                result_handle,
                remote_handle,
                datatype as u32,
                callback,
                context,
                data,
            )
        }
    }

    /// Changes elements in runs of the peer's memory from `remote` on, of any size and alignment, as one command to the peer.
    /// [`Status::NOT_SUPPORTED`]: only the atomics above may change such elements at this peer, or the plugin has no such
    /// function.
    ///
    /// # Safety
    /// The request's runs and operands are readable, its results writable and not accessed until completion.
    #[inline]
    pub unsafe fn apply(
        &self,
        endpoint: EndpointRef,
        (remote, remote_handle): (u64, *const Handle),
        request: &ApplyRequest,
        (callback, context, data): Report,
    ) -> Status {
        let Some(functions) = &self.functions().apply else {
            return Status::NOT_SUPPORTED;
        };
        // SAFETY: the caller vouches for every pointer.
        unsafe {
            (functions.apply)(
                self.module(),
                endpoint.as_ptr(),
                remote,
                remote_handle,
                request,
                callback,
                context,
                data,
            )
        }
    }

    /// Sets the function by which this process executes the [applies](Self::apply) of peers and its own. Does nothing if the
    /// plugin has no applies.
    pub(crate) fn register_apply(&self, function: ApplyFn, context: *mut c_void) {
        if let Some(functions) = &self.functions().apply {
            // SAFETY: the function belongs to this crate and stays callable with its context.
            let status = unsafe { (functions.register)(self.module(), Some(function), context) };
            if !status.is_ok() {
                tracing::warn!("no function for accumulates was set: {status}");
            }
        }
    }
}
