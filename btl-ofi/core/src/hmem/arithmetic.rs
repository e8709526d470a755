//! Arithmetic of atomics on elements that the agent has copied from a device. Works on byte slices; the agent
//! serialises the accesses.

use plugin_api::{AtomicOp, Datatype};

macro_rules! one {
    ($t:ty, $target:expr, $operand:expr, $combine:expr) => {{
        const N: usize = size_of::<$t>();
        let targets = $target.as_chunks_mut::<N>().0.iter_mut();
        for (t, o) in targets.zip($operand.as_chunks::<N>().0) {
            *t = $combine(<$t>::from_ne_bytes(*t), <$t>::from_ne_bytes(*o)).to_ne_bytes();
        }
    }};
}

macro_rules! integer {
    ($t:ty, $op:expr, $target:expr, $operand:expr) => {{
        let truth = |v: bool| <$t>::from(v);
        one!($t, $target, $operand, |a: $t, b: $t| match $op {
            AtomicOp::Sum => a.wrapping_add(b),
            AtomicOp::Prod => a.wrapping_mul(b),
            AtomicOp::Min => a.min(b),
            AtomicOp::Max => a.max(b),
            AtomicOp::Land => truth(a != 0 && b != 0),
            AtomicOp::Lor => truth(a != 0 || b != 0),
            AtomicOp::Lxor => truth((a != 0) != (b != 0)),
            AtomicOp::Band => a & b,
            AtomicOp::Bor => a | b,
            AtomicOp::Bxor => a ^ b,
            AtomicOp::Write => b,
            AtomicOp::Read | AtomicOp::Cswap => a,
        })
    }};
}

macro_rules! float {
    ($t:ty, $op:expr, $target:expr, $operand:expr) => {
        one!($t, $target, $operand, |a: $t, b: $t| match $op {
            AtomicOp::Sum => a + b,
            AtomicOp::Prod => a * b,
            // NaN operands leave the target unchanged, as in libfabric's software atomics.
            AtomicOp::Min => {
                if b < a { b } else { a }
            }
            AtomicOp::Max => {
                if b > a { b } else { a }
            }
            AtomicOp::Write => b,
            _ => a,
        })
    };
}

/// `target[i] = target[i] op operand[i]`, for the whole elements that both slices hold.
pub(crate) fn combine(datatype: Datatype, op: AtomicOp, target: &mut [u8], operand: &[u8]) {
    match datatype {
        Datatype::Int8 => integer!(i8, op, target, operand),
        Datatype::Uint8 => integer!(u8, op, target, operand),
        Datatype::Int16 => integer!(i16, op, target, operand),
        Datatype::Uint16 => integer!(u16, op, target, operand),
        Datatype::Int32 => integer!(i32, op, target, operand),
        Datatype::Uint32 => integer!(u32, op, target, operand),
        Datatype::Int64 => integer!(i64, op, target, operand),
        Datatype::Uint64 => integer!(u64, op, target, operand),
        Datatype::Float => float!(f32, op, target, operand),
        Datatype::Double => float!(f64, op, target, operand),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_operations() {
        let mut target = [250u8, 1];
        combine(Datatype::Uint8, AtomicOp::Sum, &mut target, &[10, 2]);
        assert_eq!(target, [4, 3]);
        let mut target = (-3i32).to_ne_bytes();
        combine(
            Datatype::Int32,
            AtomicOp::Min,
            &mut target,
            &2i32.to_ne_bytes(),
        );
        assert_eq!(i32::from_ne_bytes(target), -3);
        let mut target = 1.5f64.to_ne_bytes();
        combine(
            Datatype::Double,
            AtomicOp::Max,
            &mut target,
            &f64::NAN.to_ne_bytes(),
        );
        assert_eq!(f64::from_ne_bytes(target), 1.5);
        let mut target = 6u64.to_ne_bytes();
        combine(
            Datatype::Uint64,
            AtomicOp::Lxor,
            &mut target,
            &0u64.to_ne_bytes(),
        );
        assert_eq!(u64::from_ne_bytes(target), 1);
        combine(
            Datatype::Uint64,
            AtomicOp::Write,
            &mut target,
            &9u64.to_ne_bytes(),
        );
        combine(
            Datatype::Uint64,
            AtomicOp::Read,
            &mut target,
            &7u64.to_ne_bytes(),
        );
        assert_eq!(u64::from_ne_bytes(target), 9);
    }
}
