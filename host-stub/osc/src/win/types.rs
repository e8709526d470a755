//! The accumulates that the transport serves itself, queried once for all windows of a process.

use plugin_api::{AtomicKind, AtomicOp, Datatype};

use crate::base::Op;
use crate::transport::Transport;

/// One element type.
#[derive(Clone, Copy, Default)]
pub(super) struct TypeSupport {
    /// Whether every accumulate of this type uses the transport's atomics: operations that the
    /// transport serves directly, others by compare-swap loops. All these operations are atomic with
    /// respect to each other, because each is a single transport atomic on the element. If the
    /// transport cannot read, replace and compare-swap a type, the target's processor changes its
    /// elements, always, for every origin. A floating-point type needs the same of the integer of its
    /// size, by which its bits are compared and swapped.
    pub(super) native: bool,
    /// Bytes of one update, per [`Op`]; 0 if not served.
    update: [u32; Op::ALL.len()],
    /// Bytes of one fetching update, per [`Op`]; 0 if not served.
    fetch: [u32; Op::ALL.len()],
}

impl TypeSupport {
    /// Bytes of one call, or `None` if the transport does not serve `op` in this form.
    #[inline]
    pub(super) fn limit(&self, op: Op, fetch: bool) -> Option<usize> {
        let table = if fetch { &self.fetch } else { &self.update };
        match table[op as usize] {
            0 => None,
            limit => Some(limit as usize),
        }
    }

    /// Whether the transport serves an operation with and without a result, so that the operation is atomic
    /// with respect to itself without help of others.
    pub(super) fn serves_alone(&self, op: Op) -> bool {
        self.update[op as usize] > 0 && self.fetch[op as usize] > 0
    }
}

/// The type as which elements are compared bit by bit: a floating-point comparison treats the two
/// zeros as equal, and never finds a NaN.
pub(super) const fn bits_of(datatype: Datatype) -> Datatype {
    match datatype {
        Datatype::Float => Datatype::Uint32,
        Datatype::Double => Datatype::Uint64,
        other => other,
    }
}

/// Every element type.
#[derive(Clone, Copy)]
pub(crate) struct TypeTable([TypeSupport; Datatype::ALL.len()]);

impl TypeTable {
    pub(crate) fn of(transport: &Transport) -> TypeTable {
        Self::from_query(|datatype, op, kind| transport.atomic_query(datatype, op, kind))
    }

    fn from_query(query: impl Fn(Datatype, AtomicOp, AtomicKind) -> Option<usize>) -> TypeTable {
        let mut table = TypeTable([TypeSupport::default(); Datatype::ALL.len()]);
        for datatype in Datatype::ALL {
            let support = &mut table.0[*datatype as usize];
            let limit = |op: Op, kind| {
                let elements = query(*datatype, op.atomic(), kind).unwrap_or(0);
                u32::try_from(elements.saturating_mul(datatype.size())).unwrap_or(u32::MAX)
            };
            for op in Op::ALL.iter().filter(|op| op.is_defined_on(*datatype)) {
                if *op != Op::NoOp {
                    support.update[*op as usize] = limit(*op, AtomicKind::Update);
                }
                support.fetch[*op as usize] = limit(*op, AtomicKind::Fetch);
            }
            support.native = support.fetch[Op::NoOp as usize] > 0
                && support.update[Op::Replace as usize] > 0
                && query(*datatype, AtomicOp::Cswap, AtomicKind::Compare).is_some();
        }
        for datatype in [Datatype::Float, Datatype::Double] {
            let bits = table.get(bits_of(datatype)).native;
            let support = &mut table.0[datatype as usize];
            support.native &= bits;
        }
        table
    }

    #[inline]
    pub(super) fn get(&self, datatype: Datatype) -> &TypeSupport {
        &self.0[datatype as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_native_only_with_read_write_and_compare_swap() {
        for missing in [AtomicOp::Read, AtomicOp::Write, AtomicOp::Cswap] {
            let table = TypeTable::from_query(|_, op, _| (op != missing).then_some(4));
            assert!(!table.get(Datatype::Int32).native, "without {missing:?}");
        }
        let table = TypeTable::from_query(|datatype, op, _| {
            (datatype == Datatype::Int64 && op != AtomicOp::Prod).then_some(4)
        });
        let support = table.get(Datatype::Int64);
        assert!(support.native);
        assert_eq!(support.limit(Op::Sum, false), Some(4 * 8));
        assert_eq!(support.limit(Op::Prod, false), None);
        assert_eq!(support.limit(Op::NoOp, true), Some(4 * 8));
        assert_eq!(support.limit(Op::NoOp, false), None);
        assert!(!table.get(Datatype::Int32).native);
    }

    #[test]
    fn a_float_needs_its_bits() {
        let table =
            TypeTable::from_query(|datatype, _, _| (datatype != Datatype::Uint32).then_some(1));
        assert!(!table.get(Datatype::Float).native);
        assert!(table.get(Datatype::Double).native);
    }

    #[test]
    fn undefined_combinations_are_never_asked() {
        TypeTable::from_query(|datatype, op, _| {
            let logical_or_bitwise = matches!(
                op,
                AtomicOp::Land
                    | AtomicOp::Lor
                    | AtomicOp::Lxor
                    | AtomicOp::Band
                    | AtomicOp::Bor
                    | AtomicOp::Bxor
            );
            assert!(!(datatype.is_float() && logical_or_bitwise));
            Some(1)
        });
    }
}
