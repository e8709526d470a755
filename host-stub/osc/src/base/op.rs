//! Accumulate operations: MPI's names, and the types on which each is defined. `kernels` has their results.

use plugin_api::{AtomicOp, Datatype};

crate::named_enum! {
    /// The operation of an accumulate or a fetch-and-op. Names are those of MPI's constants, without prefix and in lower case.
    pub enum Op {
        /// Sum; integers wrap.
        Sum = "sum",
        /// Product; integers wrap.
        Prod = "prod",
        /// Minimum.
        Min = "min",
        /// Maximum.
        Max = "max",
        /// Logical and: 1 where both are non-zero, else 0.
        Land = "land",
        /// Logical or.
        Lor = "lor",
        /// Logical exclusive or.
        Lxor = "lxor",
        /// Bitwise and.
        Band = "band",
        /// Bitwise or.
        Bor = "bor",
        /// Bitwise exclusive or.
        Bxor = "bxor",
        /// The operand (MPI_REPLACE).
        Replace = "replace",
        /// The target's value (MPI_NO_OP); fetching calls only.
        NoOp = "no_op",
    }
}

impl Op {
    /// Whether MPI defines the operation on `datatype`: logical and bitwise ones need integers.
    pub const fn is_defined_on(self, datatype: Datatype) -> bool {
        match self {
            Op::Land | Op::Lor | Op::Lxor | Op::Band | Op::Bor | Op::Bxor => !datatype.is_float(),
            _ => true,
        }
    }

    /// The transport's code.
    pub const fn atomic(self) -> AtomicOp {
        match self {
            Op::Sum => AtomicOp::Sum,
            Op::Prod => AtomicOp::Prod,
            Op::Min => AtomicOp::Min,
            Op::Max => AtomicOp::Max,
            Op::Land => AtomicOp::Land,
            Op::Lor => AtomicOp::Lor,
            Op::Lxor => AtomicOp::Lxor,
            Op::Band => AtomicOp::Band,
            Op::Bor => AtomicOp::Bor,
            Op::Bxor => AtomicOp::Bxor,
            Op::Replace => AtomicOp::Write,
            Op::NoOp => AtomicOp::Read,
        }
    }
}

/// The short name of a datatype, e.g. `i32`.
pub const fn type_name(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Int8 => "i8",
        Datatype::Uint8 => "u8",
        Datatype::Int16 => "i16",
        Datatype::Uint16 => "u16",
        Datatype::Int32 => "i32",
        Datatype::Uint32 => "u32",
        Datatype::Int64 => "i64",
        Datatype::Uint64 => "u64",
        Datatype::Float => "f32",
        Datatype::Double => "f64",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_no_logical_or_bitwise_operations() {
        for op in Op::ALL {
            let logical_or_bitwise = matches!(
                op,
                Op::Land | Op::Lor | Op::Lxor | Op::Band | Op::Bor | Op::Bxor
            );
            for datatype in Datatype::ALL {
                assert_eq!(
                    op.is_defined_on(*datatype),
                    !(logical_or_bitwise && datatype.is_float()),
                    "{op} on {datatype:?}"
                );
            }
        }
    }
}
