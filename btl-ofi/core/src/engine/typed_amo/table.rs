//! The table in which fast paths look up typed AMOs.

use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::policy::Policy;
use plugin_api::{AtomicKind, AtomicOp, Datatype};

/// Number of rows and of columns. This number exceeds the number of types and of operations.
const CODES: usize = 16;

/// The fast path's support of one type and operation.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Served {
    /// Maximum elements. The first index is 0 for a ring and 1 for the provider; the second is the
    /// kind: update or fetch.
    pub(super) most: [[u32; 2]; 2],
    /// Log2 of the element's size in bytes.
    pub(super) shift: u32,
}

/// All typed AMOs, by the codes of type and operation.
pub(crate) struct Vectors(pub(super) [[Served; CODES]; CODES]);

impl Vectors {
    pub(crate) fn new(table: &AtomicTable, policy: &Policy) -> Vectors {
        let mut vectors = Vectors([[Served::default(); CODES]; CODES]);
        for &datatype in Datatype::ALL {
            for &op in AtomicOp::ALL {
                let [update, fetch] = [AtomicKind::Update, AtomicKind::Fetch]
                    .map(|kind| table.count(kind, datatype, op));
                let at_provider = if policy.updates_fetch { 0 } else { update };
                vectors.0[datatype as usize % CODES][op as usize % CODES] = Served {
                    most: [[update, fetch], [at_provider, fetch]],
                    shift: datatype.size().trailing_zeros(),
                };
            }
        }
        vectors
    }
}
