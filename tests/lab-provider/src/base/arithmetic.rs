//! The arithmetic of atomics.

use libfabric_sys as ffi;

/// The bytes of an element, for supported datatypes.
pub(crate) fn size(datatype: u32) -> Option<usize> {
    match datatype {
        ffi::FI_INT8 | ffi::FI_UINT8 => Some(1),
        ffi::FI_INT16 | ffi::FI_UINT16 => Some(2),
        ffi::FI_INT32 | ffi::FI_UINT32 | ffi::FI_FLOAT => Some(4),
        ffi::FI_INT64 | ffi::FI_UINT64 | ffi::FI_DOUBLE => Some(8),
        _ => None,
    }
}

/// Whether an operation is defined on a datatype.
pub(crate) fn serves(datatype: u32, op: u32) -> bool {
    let float = [ffi::FI_FLOAT, ffi::FI_DOUBLE].contains(&datatype);
    let bitwise = [ffi::FI_BOR, ffi::FI_BAND, ffi::FI_BXOR].contains(&op);
    op <= ffi::FI_CSWAP && !(float && bitwise)
}

macro_rules! integers {
    ($type:ty, $op:expr, $old:expr, $operand:expr, $compare:expr) => {{
        let (a, b) = (
            <$type>::from_ne_bytes(word($old)),
            <$type>::from_ne_bytes(word($operand)),
        );
        let truth = |t: bool| <$type>::from(t);
        let new = match $op {
            ffi::FI_MIN => a.min(b),
            ffi::FI_MAX => a.max(b),
            ffi::FI_SUM => a.wrapping_add(b),
            ffi::FI_PROD => a.wrapping_mul(b),
            ffi::FI_LOR => truth(a != 0 || b != 0),
            ffi::FI_LAND => truth(a != 0 && b != 0),
            ffi::FI_LXOR => truth((a != 0) != (b != 0)),
            ffi::FI_BOR => a | b,
            ffi::FI_BAND => a & b,
            ffi::FI_BXOR => a ^ b,
            ffi::FI_ATOMIC_WRITE => b,
            ffi::FI_CSWAP if a == <$type>::from_ne_bytes(word($compare)) => b,
            _ => a,
        };
        $old.copy_from_slice(&new.to_ne_bytes());
    }};
}

macro_rules! floats {
    ($type:ty, $op:expr, $old:expr, $operand:expr, $compare:expr) => {{
        let (a, b) = (
            <$type>::from_ne_bytes(word($old)),
            <$type>::from_ne_bytes(word($operand)),
        );
        let truth = |t: bool| if t { 1.0 } else { 0.0 };
        let new = match $op {
            ffi::FI_MIN => a.min(b),
            ffi::FI_MAX => a.max(b),
            ffi::FI_SUM => a + b,
            ffi::FI_PROD => a * b,
            ffi::FI_LOR => truth(a != 0.0 || b != 0.0),
            ffi::FI_LAND => truth(a != 0.0 && b != 0.0),
            ffi::FI_LXOR => truth((a != 0.0) != (b != 0.0)),
            ffi::FI_ATOMIC_WRITE => b,
            ffi::FI_CSWAP if a == <$type>::from_ne_bytes(word($compare)) => b,
            _ => a,
        };
        $old.copy_from_slice(&new.to_ne_bytes());
    }};
}

/// The first bytes of a slice; missing ones are 0.
fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}

/// Applies one operation to one element in place.
pub(crate) fn apply(datatype: u32, op: u32, old: &mut [u8], operand: &[u8], compare: &[u8]) {
    match datatype {
        ffi::FI_INT8 => integers!(i8, op, old, operand, compare),
        ffi::FI_UINT8 => integers!(u8, op, old, operand, compare),
        ffi::FI_INT16 => integers!(i16, op, old, operand, compare),
        ffi::FI_UINT16 => integers!(u16, op, old, operand, compare),
        ffi::FI_INT32 => integers!(i32, op, old, operand, compare),
        ffi::FI_UINT32 => integers!(u32, op, old, operand, compare),
        ffi::FI_INT64 => integers!(i64, op, old, operand, compare),
        ffi::FI_UINT64 => integers!(u64, op, old, operand, compare),
        ffi::FI_FLOAT => floats!(f32, op, old, operand, compare),
        ffi::FI_DOUBLE => floats!(f64, op, old, operand, compare),
        _ => {}
    }
}

/// Applies one operation to an array of elements; missing operands and comparands are 0.
pub(crate) fn apply_all(
    datatype: u32,
    op: u32,
    old: &[u8],
    operands: &[u8],
    compare: &[u8],
) -> Vec<u8> {
    let mut new = old.to_vec();
    let size = size(datatype).unwrap_or(1);
    for (i, element) in new.chunks_exact_mut(size).enumerate() {
        let part = |from: &'_ [u8]| from.get(i * size..(i + 1) * size).unwrap_or(&[]).to_vec();
        apply(datatype, op, element, &part(operands), &part(compare));
    }
    new
}
