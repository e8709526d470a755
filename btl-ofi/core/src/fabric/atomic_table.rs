//! The atomics that the provider supports, queried once by `fi_query_atomic`.

use libfabric_sys as ffi;
use plugin_api::{AtomicFlags, AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags};

use crate::fabric::device::Device;
use crate::fabric::msg::LARGEST;
use crate::op::element;
use crate::op::request;

const _: () = {
    // The ABI uses the codes of libfabric.
    assert!(AtomicOp::Min as u32 == ffi::FI_MIN && AtomicOp::Max as u32 == ffi::FI_MAX);
    assert!(AtomicOp::Sum as u32 == ffi::FI_SUM && AtomicOp::Prod as u32 == ffi::FI_PROD);
    assert!(AtomicOp::Lor as u32 == ffi::FI_LOR && AtomicOp::Land as u32 == ffi::FI_LAND);
    assert!(AtomicOp::Bor as u32 == ffi::FI_BOR && AtomicOp::Band as u32 == ffi::FI_BAND);
    assert!(AtomicOp::Lxor as u32 == ffi::FI_LXOR && AtomicOp::Bxor as u32 == ffi::FI_BXOR);
    assert!(AtomicOp::Read as u32 == ffi::FI_ATOMIC_READ);
    assert!(AtomicOp::Write as u32 == ffi::FI_ATOMIC_WRITE);
    assert!(AtomicOp::Cswap as u32 == ffi::FI_CSWAP);
    assert!(Datatype::Int8 as u32 == ffi::FI_INT8 && Datatype::Uint8 as u32 == ffi::FI_UINT8);
    assert!(Datatype::Int16 as u32 == ffi::FI_INT16 && Datatype::Uint16 as u32 == ffi::FI_UINT16);
    assert!(Datatype::Int32 as u32 == ffi::FI_INT32 && Datatype::Uint32 as u32 == ffi::FI_UINT32);
    assert!(Datatype::Int64 as u32 == ffi::FI_INT64 && Datatype::Uint64 as u32 == ffi::FI_UINT64);
    assert!(Datatype::Float as u32 == ffi::FI_FLOAT && Datatype::Double as u32 == ffi::FI_DOUBLE);
};

const TYPES: usize = Datatype::ALL.len();
const OPS: usize = AtomicOp::ALL.len();
const KINDS: usize = AtomicKind::ALL.len();

/// Elements per call for each kind, datatype and operation; 0 if the provider does not support the combination.
pub(crate) struct AtomicTable {
    /// Whether the provider executes the atomics; otherwise only targets execute them, and messages carry them.
    pub(crate) by_provider: bool,
    counts: [[[u32; OPS]; TYPES]; KINDS],
}

impl AtomicTable {
    /// No atomics.
    pub(crate) fn none() -> AtomicTable {
        AtomicTable {
            by_provider: true,
            counts: [[[0; OPS]; TYPES]; KINDS],
        }
    }

    pub(crate) fn query(device: &Device) -> AtomicTable {
        let mut table = AtomicTable::none();
        for &kind in AtomicKind::ALL {
            let flags = match kind {
                AtomicKind::Update => 0,
                AtomicKind::Fetch => ffi::FI_FETCH_ATOMIC,
                AtomicKind::Compare => ffi::FI_COMPARE_ATOMIC,
            };
            for &datatype in Datatype::ALL {
                for &op in AtomicOp::ALL {
                    let fits = (op == AtomicOp::Cswap) == (kind == AtomicKind::Compare)
                        && !(op == AtomicOp::Read && kind == AtomicKind::Update);
                    if !fits {
                        continue;
                    }
                    let mut attr = ffi::fi_atomic_attr::default();
                    // SAFETY: `device` keeps the domain open; `attr` is a local that receives the answer.
                    let rc = unsafe {
                        ffi::fi_query_atomic(
                            device.domain(),
                            datatype as u32,
                            op as u32,
                            &mut attr,
                            u64::from(flags),
                        )
                    };
                    // Reject a combination whose element size differs from the size of the
                    // datatype.
                    if rc == 0 && attr.size == datatype.size() {
                        table.counts[kind as usize][datatype as usize][op as usize] =
                            attr.count.min(u32::MAX as usize) as u32;
                    }
                }
            }
        }
        table.leave_floats_without_bits();
        table
    }

    /// Drops a floating-point type whose bits the provider cannot read, write and compare: only targets then change its
    /// elements.
    fn leave_floats_without_bits(&mut self) {
        let needed = [
            (AtomicKind::Fetch, AtomicOp::Read),
            (AtomicKind::Update, AtomicOp::Write),
            (AtomicKind::Compare, AtomicOp::Cswap),
        ];
        for (float, bits) in [
            (Datatype::Float, Datatype::Uint32),
            (Datatype::Double, Datatype::Uint64),
        ] {
            if needed
                .iter()
                .any(|&(kind, op)| self.count(kind, bits, op) == 0)
            {
                for counts in &mut self.counts {
                    counts[float as usize] = [0; OPS];
                }
            }
        }
    }

    /// The atomics that a target executes when messages carry them.
    pub(crate) fn of_targets() -> AtomicTable {
        let mut table = AtomicTable {
            by_provider: false,
            counts: [[[u32::MAX; OPS]; TYPES]; KINDS],
        };
        table.limit_to_targets(LARGEST);
        table
    }

    /// Limits each update to the count of the fetching atomic that replaces it.
    pub(crate) fn update_by_fetch(&mut self) {
        let fetch = self.counts[AtomicKind::Fetch as usize];
        let update = &mut self.counts[AtomicKind::Update as usize];
        for (update, fetch) in update.iter_mut().flatten().zip(fetch.iter().flatten()) {
            *update = (*update).min(*fetch);
        }
    }

    /// Limits the table to combinations that targets also execute, and to `largest` bytes, because a peer may be
    /// reached through the provider, or through a ring or messages.
    pub(crate) fn limit_to_targets(&mut self, largest: usize) {
        for &kind in AtomicKind::ALL {
            for &datatype in Datatype::ALL {
                for &op in AtomicOp::ALL {
                    let count = &mut self.counts[kind as usize][datatype as usize][op as usize];
                    if element::serves(kind, datatype, op) {
                        *count = (*count).min((largest / datatype.size()) as u32);
                    } else {
                        *count = 0;
                    }
                }
            }
        }
    }

    /// Size in bytes of the largest update.
    pub(crate) fn largest_update(&self) -> usize {
        let update = &self.counts[AtomicKind::Update as usize];
        let bytes = Datatype::ALL.iter().flat_map(|&d| {
            update[d as usize]
                .iter()
                .map(move |&count| count as usize * d.size())
        });
        bytes.max().unwrap_or(0)
    }

    /// Elements per call; 0 if the combination is not supported.
    #[inline]
    pub(crate) fn count(&self, kind: AtomicKind, datatype: Datatype, op: AtomicOp) -> u32 {
        self.counts[kind as usize][datatype as usize][op as usize]
    }

    /// Description of the first atomic that a usable provider must support and this provider lacks.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        if self.count(AtomicKind::Fetch, Datatype::Uint64, AtomicOp::Sum) == 0 {
            return Some("a fetching 64-bit sum");
        }
        if self.count(AtomicKind::Compare, Datatype::Uint64, AtomicOp::Cswap) == 0 {
            return Some("a 64-bit compare-and-swap");
        }
        None
    }

    /// The BTL's flags for the supported atomics.
    pub(crate) fn flags(&self) -> AtomicFlags {
        let mut flags = AtomicFlags::empty();
        let mut words_32 = true;
        let both = |op, width_32, float| {
            let mut flags = OpFlags::empty();
            flags.set(OpFlags::WORD_32, width_32);
            flags.set(OpFlags::FLOAT, float);
            let (datatype, op) = request::typed(op, flags);
            self.count(AtomicKind::Update, datatype, op) > 0
                && self.count(AtomicKind::Fetch, datatype, op) > 0
        };
        for &(op, flag) in FLAGS {
            if both(op, false, false) {
                flags |= flag;
                words_32 &= both(op, true, false);
            }
        }
        if self.count(AtomicKind::Compare, Datatype::Uint64, AtomicOp::Cswap) > 0 {
            flags |= AtomicFlags::CSWAP;
            words_32 &= self.count(AtomicKind::Compare, Datatype::Uint32, AtomicOp::Cswap) > 0;
        }
        if words_32 {
            flags |= AtomicFlags::WORD_32;
        }
        let float = [BtlAtomicOp::Add, BtlAtomicOp::Min, BtlAtomicOp::Max];
        if float
            .iter()
            .all(|&op| both(op, false, true) && both(op, true, true))
        {
            flags |= AtomicFlags::FLOAT;
        }
        flags
    }
}

const FLAGS: &[(BtlAtomicOp, AtomicFlags)] = &[
    (BtlAtomicOp::Add, AtomicFlags::ADD),
    (BtlAtomicOp::And, AtomicFlags::AND),
    (BtlAtomicOp::Or, AtomicFlags::OR),
    (BtlAtomicOp::Xor, AtomicFlags::XOR),
    (BtlAtomicOp::Land, AtomicFlags::LAND),
    (BtlAtomicOp::Lor, AtomicFlags::LOR),
    (BtlAtomicOp::Lxor, AtomicFlags::LXOR),
    (BtlAtomicOp::Swap, AtomicFlags::SWAP),
    (BtlAtomicOp::Min, AtomicFlags::MIN),
    (BtlAtomicOp::Max, AtomicFlags::MAX),
];
