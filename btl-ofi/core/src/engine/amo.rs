//! AMOs: the BTL's atomics on one word.

mod by_target;

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags, Status};

use self::by_target::WordOperands;
use crate::base::hints::{NO_CALLBACK, PROVIDER, Way, branch, is_by_provider};
use crate::engine::transport::Transport;
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::policy::Policy;
use crate::mem::handle::{Handle, Target};
use crate::op::completion::Completion;
use crate::op::request;
use crate::peer::endpoint::Endpoint;

/// Rows of the table: the codes of the BTL's operations are below this.
const CODES: usize = 0x40;
/// The row of compare-and-swap; no BTL operation has this code.
const SWAP: u32 = 0;
/// Place of the ring's bits among the kinds.
const RING: u32 = 4;

/// libfabric's codes for an AMO, and the kinds in which the fast path supports it. The codes have the width in
/// which arguments are passed.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Word {
    datatype: u64,
    op: u64,
    /// Size in bytes, minus one.
    mask: u64,
    /// One bit per [`AtomicKind`] that the provider serves, and one that a ring serves, [`RING`] higher.
    kinds: u64,
}

impl Word {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.mask as usize + 1
    }
}

/// All AMOs, by operation code and flags.
pub(crate) struct Words([[Word; 4]; CODES]);

impl Words {
    pub(crate) fn new(table: &AtomicTable, policy: &Policy) -> Words {
        let unknown = Word {
            datatype: Datatype::Uint64 as u64,
            op: AtomicOp::Read as u64,
            mask: 7,
            kinds: 0,
        };
        let mut words = Words([[unknown; 4]; CODES]);
        let served = |kind: AtomicKind, datatype, op| {
            let conditions = match kind {
                AtomicKind::Update => policy.updates_fetch,
                AtomicKind::Fetch | AtomicKind::Compare => policy.fetch_alone,
            };
            let counts = table.count(kind, datatype, op) > 0;
            u64::from(counts && !conditions) << kind as u32
                | u64::from(counts) << (kind as u32 + RING)
        };
        let word = |datatype: Datatype, op: AtomicOp, kinds| Word {
            datatype: datatype as u64,
            op: op as u64,
            mask: datatype.size() as u64 - 1,
            kinds,
        };
        for flags in 0..4 {
            let known = OpFlags::from_bits_truncate(flags);
            for &op in BtlAtomicOp::ALL {
                let (datatype, typed) = request::typed(op, known);
                let kinds = served(AtomicKind::Update, datatype, typed)
                    | served(AtomicKind::Fetch, datatype, typed);
                words.0[op as usize % CODES][flags as usize] = word(datatype, typed, kinds);
            }
            let (datatype, op) = (request::swapped(known), AtomicOp::Cswap);
            let kinds = served(AtomicKind::Compare, datatype, op);
            words.0[SWAP as usize][flags as usize] = word(datatype, op, kinds);
        }
        words
    }

    #[inline(always)]
    fn get(&self, op: u32, flags: u32) -> Option<&Word> {
        let row = self.0.get(op as usize)?;
        branch();
        row.get(flags as usize)
    }
}

impl Transport {
    /// Quick path of an update of one word. `None`, before side effects, for anything unusual,
    /// including unknown codes; the caller then calls [`submit`](Self::submit). `T` is [`is_threaded`](Self::is_threaded). `WAY` is
    /// what it serves: peers whose atomics the provider executes, messages that gather, or else peers with a ring and new
    /// messages.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit); the constants have the values named above. With [`PROVIDER`](crate::hints::PROVIDER),
    /// the peer [sends atomics by the provider](Endpoint::sends_atomics_by_fabric). With
    /// [`NO_CALLBACK`](crate::hints::NO_CALLBACK), also, `completion` is `None`.
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
            // With a constant, the compiler loads no part of it.
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

    /// Quick path of a fetch of one word, for callers without local handle. `None`, before side
    /// effects, for anything unusual, including unknown codes.
    ///
    /// # Safety
    /// As for [`try_atomic_op`](Self::try_atomic_op).
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

    /// Quick path of a compare-and-swap of one word, for callers without local handle. `None`, before side
    /// effects, for anything unusual, including unknown flags.
    ///
    /// # Safety
    /// As for [`try_atomic_op`](Self::try_atomic_op).
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

    /// Checks an AMO for the fast path, with the bit of its kind among [`Word::kinds`]; returns its target and
    /// libfabric's codes.
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
