//! Accumulate operations: MPI's names, the types on which each is defined, and the result of each.

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

macro_rules! integer_combine {
    ($name:ident, $t:ty) => {
        fn $name(op: Op, target: &mut [u8], operand: &[u8]) {
            const N: usize = size_of::<$t>();
            let truth = |v: bool| <$t>::from(v);
            for (t, o) in target
                .as_chunks_mut::<N>()
                .0
                .iter_mut()
                .zip(operand.as_chunks::<N>().0)
            {
                let (a, b) = (<$t>::from_ne_bytes(*t), <$t>::from_ne_bytes(*o));
                let value = match op {
                    Op::Sum => a.wrapping_add(b),
                    Op::Prod => a.wrapping_mul(b),
                    Op::Min => a.min(b),
                    Op::Max => a.max(b),
                    Op::Land => truth(a != 0 && b != 0),
                    Op::Lor => truth(a != 0 || b != 0),
                    Op::Lxor => truth((a != 0) != (b != 0)),
                    Op::Band => a & b,
                    Op::Bor => a | b,
                    Op::Bxor => a ^ b,
                    Op::Replace => b,
                    Op::NoOp => a,
                };
                *t = value.to_ne_bytes();
            }
        }
    };
}

macro_rules! float_combine {
    ($name:ident, $t:ty) => {
        fn $name(op: Op, target: &mut [u8], operand: &[u8]) {
            const N: usize = size_of::<$t>();
            for (t, o) in target
                .as_chunks_mut::<N>()
                .0
                .iter_mut()
                .zip(operand.as_chunks::<N>().0)
            {
                let (a, b) = (<$t>::from_ne_bytes(*t), <$t>::from_ne_bytes(*o));
                let value = match op {
                    Op::Sum => a + b,
                    Op::Prod => a * b,
                    // A comparison instead of `f32::min`: a NaN operand leaves the target
                    // unchanged, as `target = operand < target ? operand : target` does in
                    // providers.
                    Op::Min => {
                        if b < a {
                            b
                        } else {
                            a
                        }
                    }
                    Op::Max => {
                        if b > a {
                            b
                        } else {
                            a
                        }
                    }
                    Op::Replace => b,
                    // The operation is not defined on floats; `Op::is_defined_on` keeps callers
                    // away.
                    _ => a,
                };
                *t = value.to_ne_bytes();
            }
        }
    };
}

integer_combine!(combine_i8, i8);
integer_combine!(combine_u8, u8);
integer_combine!(combine_i16, i16);
integer_combine!(combine_u16, u16);
integer_combine!(combine_i32, i32);
integer_combine!(combine_u32, u32);
integer_combine!(combine_i64, i64);
integer_combine!(combine_u64, u64);
float_combine!(combine_f32, f32);
float_combine!(combine_f64, f64);

/// `target[i] = target[i] op operand[i]` for each whole element that both slices hold. Neither
/// needs alignment.
pub fn combine(datatype: Datatype, op: Op, target: &mut [u8], operand: &[u8]) {
    let combine = match datatype {
        Datatype::Int8 => combine_i8,
        Datatype::Uint8 => combine_u8,
        Datatype::Int16 => combine_i16,
        Datatype::Uint16 => combine_u16,
        Datatype::Int32 => combine_i32,
        Datatype::Uint32 => combine_u32,
        Datatype::Int64 => combine_i64,
        Datatype::Uint64 => combine_u64,
        Datatype::Float => combine_f32,
        Datatype::Double => combine_f64,
    };
    combine(op, target, operand);
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

    fn i16s(op: Op, a: i16, b: i16) -> i16 {
        let mut target = a.to_ne_bytes();
        combine(Datatype::Int16, op, &mut target, &b.to_ne_bytes());
        i16::from_ne_bytes(target)
    }

    #[test]
    fn integers_wrap_and_keep_their_sign() {
        assert_eq!(i16s(Op::Sum, i16::MAX, 1), i16::MIN);
        assert_eq!(i16s(Op::Prod, 300, 300), 24464);
        assert_eq!(i16s(Op::Min, -1, 1), -1);
        assert_eq!(i16s(Op::Max, -1, 1), 1);
        let mut target = u16::MAX.to_ne_bytes();
        combine(Datatype::Uint16, Op::Min, &mut target, &1u16.to_ne_bytes());
        assert_eq!(u16::from_ne_bytes(target), 1);
    }

    #[test]
    fn logical_results_are_zero_or_one() {
        assert_eq!(i16s(Op::Land, 4, 2), 1);
        assert_eq!(i16s(Op::Land, 4, 0), 0);
        assert_eq!(i16s(Op::Lor, 0, -7), 1);
        assert_eq!(i16s(Op::Lxor, 5, 6), 0);
        assert_eq!(i16s(Op::Lxor, 0, 6), 1);
    }

    #[test]
    fn bitwise_replace_and_no_op() {
        assert_eq!(i16s(Op::Band, 6, 3), 2);
        assert_eq!(i16s(Op::Bor, 6, 3), 7);
        assert_eq!(i16s(Op::Bxor, 6, 3), 5);
        assert_eq!(i16s(Op::Replace, 6, 3), 3);
        assert_eq!(i16s(Op::NoOp, 6, 3), 6);
    }

    #[test]
    fn floats_compare_and_add_per_element() {
        let mut target: Vec<u8> = [1.5f64, -2.0]
            .iter()
            .flat_map(|v| v.to_ne_bytes())
            .collect();
        let operand: Vec<u8> = [0.5f64, -3.0]
            .iter()
            .flat_map(|v| v.to_ne_bytes())
            .collect();
        combine(Datatype::Double, Op::Sum, &mut target, &operand);
        let expected: Vec<u8> = [2.0f64, -5.0]
            .iter()
            .flat_map(|v| v.to_ne_bytes())
            .collect();
        assert_eq!(target, expected);
        combine(Datatype::Double, Op::Max, &mut target, &operand);
        let expected: Vec<u8> = [2.0f64, -3.0]
            .iter()
            .flat_map(|v| v.to_ne_bytes())
            .collect();
        assert_eq!(target, expected);
    }

    #[test]
    fn a_tail_shorter_than_an_element_stays() {
        let mut target = [1u8, 0, 9];
        combine(Datatype::Uint16, Op::Replace, &mut target, &[7, 0, 7]);
        assert_eq!(target, [7, 0, 9]);
    }
}
