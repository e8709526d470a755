//! The table of AMOs. Fast paths look AMOs up here.

use crate::base::hints::branch;
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::policy::Policy;
use crate::op::request;
use plugin_api::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags};

/// Number of rows of the table: the codes of the BTL's operations are smaller.
pub(super) const CODES: usize = 0x40;
/// The row of compare-and-swap; no BTL operation has this code.
pub(super) const SWAP: u32 = 0;
/// Shift of the ring's bits among the kinds.
pub(super) const RING: u32 = 4;

/// libfabric's codes for an AMO, and the kinds of atomics in which the fast path supports the AMO. The codes
/// have the width in which arguments are passed.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Word {
    pub(super) datatype: u64,
    pub(super) op: u64,
    /// Size in bytes, minus one.
    pub(super) mask: u64,
    /// One bit per [`AtomicKind`] that the provider supports. The bits of the kinds that a ring supports
    /// are [`RING`] higher.
    pub(super) kinds: u64,
}

impl Word {
    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
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
            let fetches = kind == AtomicKind::Update && policy.updates_fetch;
            let counts = table.count(kind, datatype, op) > 0;
            u64::from(counts && !fetches) << kind as u32 | u64::from(counts) << (kind as u32 + RING)
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
    pub(super) fn get(&self, op: u32, flags: u32) -> Option<&Word> {
        let row = self.0.get(op as usize)?;
        branch();
        row.get(flags as usize)
    }
}
