//! Typed AMOs: atomics on vectors of elements.

pub(crate) mod table;

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::{AtomicKind, Status};

use crate::base::hints::{PROVIDER, Way, branch};
use crate::engine::transport::Transport;
use crate::mem::handle::{Handle, Target};
use crate::op::completion::Completion;
use crate::op::request::{Caller, Operands, Request};
use crate::op::responder::{Command, what};
use crate::peer::endpoint::Endpoint;

impl Transport {
    /// Fast path of an update, for callers without local handle. Returns `None`, before side
    /// effects, for anything unusual, including unknown codes. The constants are those of
    /// [`try_atomic_op`](Self::try_atomic_op).
    ///
    /// # Safety
    /// The conditions of [`try_atomic_op`](Self::try_atomic_op).
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the ABI's atomic_opv")]
    pub unsafe fn try_atomic_opv<const T: bool, const WAY: Way>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *const c_void,
        remote_address: u64,
        remote: &Handle,
        (datatype, op): (u32, u32),
        count: usize,
        completion: Option<Completion>,
    ) -> Option<Status> {
        branch();
        if local.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees that `endpoint` is live and that the operands are readable until
        // completion; the message is used only while the context is locked.
        unsafe {
            let peer = endpoint.as_ref();
            let kind = AtomicKind::Update;
            let (target, size) =
                self.elements::<WAY>(kind, (datatype, op), count, remote, remote_address)?;
            if WAY != PROVIDER {
                let atomic = Request {
                    command: Command::on(remote, remote_address, what(kind, datatype, op), count),
                    operands: Operands::Buffer(local),
                    size,
                    result: ptr::null_mut(),
                };
                let caller = Caller::plain(completion, local.cast_mut());
                return self.try_command(endpoint, &caller, &atomic);
            }
            let local = local.cast_mut();
            let mut posting = self.begin::<T>(endpoint, (local, size), completion)?;
            let message = posting.state.message.update_of(
                (local, count),
                (peer.address, target.address, target.key),
                (datatype, op),
                posting.pointer,
            );
            let context = posting.context;
            let rc = (context.calls.update)(context.tx, message, self.quick.delivered);
            self.end::<T>(posting, rc)
        }
    }

    /// Fast path of a fetch, for callers without local handles. Returns `None`, before side
    /// effects, for anything unusual, including unknown codes. The constants are those of
    /// [`try_atomic_op`](Self::try_atomic_op).
    ///
    /// # Safety
    /// The conditions of [`try_atomic_op`](Self::try_atomic_op).
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the ABI's atomic_fopv")]
    pub unsafe fn try_atomic_fopv<const T: bool, const WAY: Way>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *const c_void,
        result: *mut c_void,
        remote_address: u64,
        remote: &Handle,
        (datatype, op): (u32, u32),
        count: usize,
        completion: Option<Completion>,
    ) -> Option<Status> {
        branch();
        if local.is_null() {
            return None;
        }
        branch();
        if result.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees that `endpoint` is live and that operands and result are valid until
        // completion.
        unsafe {
            let peer = endpoint.as_ref();
            let kind = AtomicKind::Fetch;
            let (target, size) =
                self.elements::<WAY>(kind, (datatype, op), count, remote, remote_address)?;
            if WAY != PROVIDER {
                let atomic = Request {
                    command: Command::on(remote, remote_address, what(kind, datatype, op), count),
                    operands: Operands::Buffer(local),
                    size,
                    result,
                };
                let caller = Caller::plain(completion, result);
                return self.try_command(endpoint, &caller, &atomic);
            }
            let posting = self.begin::<T>(endpoint, (result, size), completion)?;
            let context = posting.context;
            let rc = (context.calls.fetch)(
                context.tx,
                local,
                count,
                ptr::null_mut(),
                result,
                ptr::null_mut(),
                peer.address,
                target.address,
                remote.key(),
                datatype,
                op,
                posting.pointer,
            );
            self.end::<T>(posting, rc)
        }
    }

    /// Checks a typed AMO for the fast path. Returns its target and its size in bytes.
    #[inline(always)]
    fn elements<const WAY: Way>(
        &self,
        kind: AtomicKind,
        (datatype, op): (u32, u32),
        count: usize,
        handle: &Handle,
        address: u64,
    ) -> Option<(Target, usize)> {
        branch();
        let row = self.atomics.vectors.0.get(datatype as usize)?;
        branch();
        let served = row.get(op as usize)?;
        branch();
        // The subtraction wraps, so that zero elements also fail this check.
        if count.wrapping_sub(1)
            >= served.most[usize::from(WAY == PROVIDER)][kind as usize] as usize
        {
            return None;
        }
        branch();
        if address & ((1 << served.shift) - 1) != 0 {
            return None;
        }
        branch();
        let size = (count as u64) << served.shift;
        let target = handle.open_target(address, size, self.quick.virtual_addresses)?;
        Some((target, size as usize))
    }
}
