//! AMOs: the BTL's atomics on one word.

mod by_target;
pub(crate) mod table;

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::{AtomicKind, AtomicOp, Status};

use self::by_target::WordOperands;
use crate::base::hints::{NO_CALLBACK, PROVIDER, Way, branch, is_by_provider};
use crate::engine::amo::table::{SWAP, Word};
use crate::engine::transport::Transport;
use crate::mem::handle::{Handle, Target};
use crate::op::completion::Completion;
use crate::peer::endpoint::Endpoint;

impl Transport {
    /// Fast path of an update of one word. Returns `None`, before side effects, for anything unusual, including unknown
    /// codes; the caller then calls [`submit`](Self::submit). `T` is [`is_threaded`](Self::is_threaded). `WAY` selects the
    /// peers that the path serves: peers whose atomics the provider executes, peers with a current batch of messages, or
    /// else peers with a ring and peers that need a new batch.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit); the constants have the values named above. With
    /// [`PROVIDER`](crate::hints::PROVIDER), the peer [sends atomics by the
    /// provider](Endpoint::sends_atomics_by_fabric). With [`NO_CALLBACK`](crate::hints::NO_CALLBACK), also,
    /// `completion` is `None`.
    #[inline(always)]
    pub unsafe fn try_atomic_op<const T: bool, const WAY: Way>(
        &self,
        endpoint: NonNull<Endpoint>,
        remote_address: u64,
        remote: &Handle,
        (op, flags): (u32, u32),
        operand: u64,
        completion: Option<Completion>,
    ) -> Option<Status> {
        let at = remote_address;
        // SAFETY: the caller guarantees that `endpoint` is live; the operand is in the operation record; the
        // message is used only while the context is locked.
        unsafe {
            let peer = endpoint.as_ref();
            let kind = AtomicKind::Update;
            let word_operands = WordOperands {
                kind,
                operand,
                compare: 0,
            };
            if !is_by_provider(WAY) {
                // SAFETY: the caller guarantees that `T` is the transport's threading.
                return self.try_word_by_target::<T, WAY>(
                    endpoint,
                    (op, flags),
                    at,
                    remote,
                    &word_operands,
                    ptr::null_mut(),
                    completion,
                );
            }
            let (target, word) = self.word(1 << kind as u32, (op, flags), remote, at)?;
            // The constant `None` spares the compiler the loads of `completion`.
            let completion = match WAY {
                NO_CALLBACK => None,
                _ => completion,
            };
            let mut posting =
                self.begin::<T>(endpoint, (ptr::null_mut(), word.bytes()), completion)?;
            let operand = posting.operand(operand);
            let message = posting.state.message.update(
                operand,
                (peer.address, target.address, remote.key()),
                (word.datatype as u32, word.op as u32),
                posting.pointer,
            );
            let context = posting.context;
            let delivered = self.quick.delivered;
            let rc = (context.calls.update)(context.tx, message, delivered);
            self.end::<T>(posting, rc)
        }
    }

    /// Fast path of a fetch of one word, for callers without local handle. Returns `None`, before
    /// side effects, for anything unusual, including unknown codes.
    ///
    /// # Safety
    /// The conditions of [`try_atomic_op`](Self::try_atomic_op).
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the BTL's atomic_fop")]
    pub unsafe fn try_atomic_fop<const T: bool, const WAY: Way>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        remote: &Handle,
        (op, flags): (u32, u32),
        operand: u64,
        completion: Option<Completion>,
    ) -> Option<Status> {
        branch();
        if local.is_null() {
            return None;
        }
        let at = remote_address;
        // SAFETY: the caller guarantees that `endpoint` is live and that `local` is writable until completion;
        // the operand is in the operation record.
        unsafe {
            let peer = endpoint.as_ref();
            let kind = AtomicKind::Fetch;
            let word_operands = WordOperands {
                kind,
                operand,
                compare: 0,
            };
            if WAY != PROVIDER {
                // SAFETY: the caller guarantees that `T` is the transport's threading.
                return self.try_word_by_target::<T, WAY>(
                    endpoint,
                    (op, flags),
                    at,
                    remote,
                    &word_operands,
                    local,
                    completion,
                );
            }
            let (target, word) = self.word(1 << kind as u32, (op, flags), remote, at)?;
            let posting = self.begin::<T>(endpoint, (local, word.bytes()), completion)?;
            let context = posting.context;
            let rc = (context.calls.fetch)(
                context.tx,
                posting.operand(operand),
                1,
                ptr::null_mut(),
                local,
                ptr::null_mut(),
                peer.address,
                target.address,
                remote.key(),
                word.datatype as u32,
                word.op as u32,
                posting.pointer,
            );
            self.end::<T>(posting, rc)
        }
    }

    /// Fast path of a compare-and-swap of one word, for callers without local handle. Returns `None`,
    /// before side effects, for anything unusual, including unknown flags.
    ///
    /// # Safety
    /// The conditions of [`try_atomic_op`](Self::try_atomic_op).
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the BTL's atomic_cswap")]
    pub unsafe fn try_atomic_cswap<const T: bool, const WAY: Way>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        remote: &Handle,
        (compare, value): (u64, u64),
        flags: u32,
        completion: Option<Completion>,
    ) -> Option<Status> {
        branch();
        if local.is_null() {
            return None;
        }
        let at = remote_address;
        // SAFETY: the caller guarantees that `endpoint` is live and that `local` is writable until completion;
        // both values are in the operation record.
        unsafe {
            let peer = endpoint.as_ref();
            let kind = AtomicKind::Compare;
            let word_operands = WordOperands {
                kind,
                operand: value,
                compare,
            };
            if WAY != PROVIDER {
                // SAFETY: the caller guarantees that `T` is the transport's threading.
                return self.try_word_by_target::<T, WAY>(
                    endpoint,
                    (SWAP, flags),
                    at,
                    remote,
                    &word_operands,
                    local,
                    completion,
                );
            }
            let (target, word) = self.word(1 << kind as u32, (SWAP, flags), remote, at)?;
            let posting = self.begin::<T>(endpoint, (local, word.bytes()), completion)?;
            let context = posting.context;
            let rc = (context.calls.compare)(
                context.tx,
                posting.operand(value),
                1,
                ptr::null_mut(),
                posting.compare(compare),
                ptr::null_mut(),
                local,
                ptr::null_mut(),
                peer.address,
                target.address,
                remote.key(),
                word.datatype as u32,
                AtomicOp::Cswap as u32,
                posting.pointer,
            );
            self.end::<T>(posting, rc)
        }
    }

    /// Checks an AMO for the fast path. `bit` is the bit of its kind in [`Word::kinds`]. Returns the AMO's
    /// target and libfabric's codes.
    #[inline(always)]
    fn word(
        &self,
        bit: u64,
        (op, flags): (u32, u32),
        handle: &Handle,
        address: u64,
    ) -> Option<(Target, &Word)> {
        branch();
        let word = self.atomics.words.get(op, flags)?;
        branch();
        if word.kinds & bit == 0 {
            return None;
        }
        branch();
        let mask = word.mask;
        if address & mask != 0 {
            return None;
        }
        branch();
        let target = handle.open_target(address, mask + 1, self.quick.virtual_addresses);
        Some((target?, word))
    }
}
