//! Combining the elements of two buffers into a third: reductions' inner loops.
//!
//! The same results as [`crate::base::combine`], which the tests compare with; here the operation is
//! chosen outside of the loop, so that the loop becomes vector instructions, and the result may go
//! elsewhere, so that the operands keep the order of the ranks.

use plugin_api::Datatype;

use crate::base::Op;

/// Combines the elements pairwise with `op`.
///
/// # Safety
/// The conditions of [`combine_into`].
#[inline(always)]
unsafe fn each<T: Copy>(
    left: *const u8,
    right: *const u8,
    into: *mut u8,
    count: usize,
    op: impl Fn(T, T) -> T,
) {
    let (left, right) = (left.cast::<T>(), right.cast::<T>());
    let into = into.cast::<T>();
    for index in 0..count {
        // SAFETY: the caller guarantees `count` elements in each buffer.
        unsafe {
            let value = op(
                left.add(index).read_unaligned(),
                right.add(index).read_unaligned(),
            );
            into.add(index).write_unaligned(value);
        }
    }
}

macro_rules! integer {
    ($t:ty, $op:expr, ($left:expr, $right:expr, $into:expr, $count:expr)) => {{
        let truth = |value: bool| <$t>::from(value);
        // SAFETY: the caller guarantees the same conditions.
        unsafe {
            match $op {
                Op::Sum => each($left, $right, $into, $count, |a: $t, b| a.wrapping_add(b)),
                Op::Prod => each($left, $right, $into, $count, |a: $t, b| a.wrapping_mul(b)),
                Op::Min => each($left, $right, $into, $count, |a: $t, b| a.min(b)),
                Op::Max => each($left, $right, $into, $count, |a: $t, b| a.max(b)),
                Op::Land => each($left, $right, $into, $count, |a: $t, b| {
                    truth(a != 0 && b != 0)
                }),
                Op::Lor => each($left, $right, $into, $count, |a: $t, b| {
                    truth(a != 0 || b != 0)
                }),
                Op::Lxor => each($left, $right, $into, $count, |a: $t, b| {
                    truth((a != 0) != (b != 0))
                }),
                Op::Band => each($left, $right, $into, $count, |a: $t, b| a & b),
                Op::Bor => each($left, $right, $into, $count, |a: $t, b| a | b),
                Op::Bxor => each($left, $right, $into, $count, |a: $t, b| a ^ b),
                Op::Replace => each($left, $right, $into, $count, |_: $t, b| b),
                Op::NoOp => each($left, $right, $into, $count, |a: $t, _| a),
            }
        }
    }};
}

macro_rules! float {
    ($t:ty, $op:expr, ($left:expr, $right:expr, $into:expr, $count:expr)) => {
        // SAFETY: the caller guarantees the same conditions.
        unsafe {
            match $op {
                Op::Sum => each($left, $right, $into, $count, |a: $t, b| a + b),
                Op::Prod => each($left, $right, $into, $count, |a: $t, b| a * b),
                Op::Min => each(
                    $left,
                    $right,
                    $into,
                    $count,
                    |a: $t, b| if b < a { b } else { a },
                ),
                Op::Max => each(
                    $left,
                    $right,
                    $into,
                    $count,
                    |a: $t, b| if b > a { b } else { a },
                ),
                Op::Replace => each($left, $right, $into, $count, |_: $t, b| b),
                // The operation is not defined on floats, and calls with it are refused before.
                _ => each($left, $right, $into, $count, |a: $t, _| a),
            }
        }
    };
}

/// `into[i] = left[i] op right[i]`.
///
/// # Safety
/// `left` and `right` are readable and `into` writable for `count` elements. `into` may be
/// identical to `left` or `right`, but must not overlap them partially. No buffer needs alignment.
pub(crate) unsafe fn combine_into(
    datatype: Datatype,
    op: Op,
    left: *const u8,
    right: *const u8,
    into: *mut u8,
    count: usize,
) {
    match datatype {
        Datatype::Int8 => integer!(i8, op, (left, right, into, count)),
        Datatype::Uint8 => integer!(u8, op, (left, right, into, count)),
        Datatype::Int16 => integer!(i16, op, (left, right, into, count)),
        Datatype::Uint16 => integer!(u16, op, (left, right, into, count)),
        Datatype::Int32 => integer!(i32, op, (left, right, into, count)),
        Datatype::Uint32 => integer!(u32, op, (left, right, into, count)),
        Datatype::Int64 => integer!(i64, op, (left, right, into, count)),
        Datatype::Uint64 => integer!(u64, op, (left, right, into, count)),
        Datatype::Float => float!(f32, op, (left, right, into, count)),
        Datatype::Double => float!(f64, op, (left, right, into, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osc_engine::base::combine;

    #[test]
    fn results_are_those_of_accumulates() {
        let bytes =
            |seed: u8| -> Vec<u8> { (0..97u8).map(|i| i.wrapping_mul(seed) ^ seed).collect() };
        for datatype in Datatype::ALL {
            for op in Op::ALL.iter().filter(|op| op.is_defined_on(*datatype)) {
                for count in [0, 1, 5, 11] {
                    let (left, right) = (bytes(31), bytes(87));
                    let len = count * datatype.size();
                    let mut wanted = left.clone();
                    combine(*datatype, *op, &mut wanted[1..1 + len], &right[..len]);
                    let mut into = left.clone();
                    // SAFETY: the buffers are longer than 1 + 11 * 8 bytes.
                    unsafe {
                        let left = left.as_ptr().add(1);
                        let to = into.as_mut_ptr().add(1);
                        combine_into(*datatype, *op, left, right.as_ptr(), to, count);
                    }
                    assert_eq!(into, wanted, "{op} on {datatype:?}");
                    // The result replaces an operand. SAFETY: the buffers are longer than 1 + 11 *
                    // 8 bytes.
                    unsafe {
                        let to = into.as_mut_ptr().add(1);
                        into.copy_from_slice(&left);
                        combine_into(*datatype, *op, to, right.as_ptr(), to, count);
                    }
                    assert_eq!(into, wanted, "{op} on {datatype:?} in place");
                }
            }
        }
    }
}
