//! The results of operations on elements.
//!
//! The operation is chosen outside of the loop, so that the loop becomes vector instructions. The result may go
//! elsewhere, so that the operands of reductions keep the order of the ranks.

use plugin_api::Datatype;

use super::Op;

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
                // A comparison instead of `f32::min`: a NaN operand leaves the target unchanged, as
                // `target = operand < target ? operand : target` does in providers.
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
                // The operation is not defined on floats; `Op::is_defined_on` keeps callers away.
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
pub unsafe fn combine_into(
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

/// `target[i] = target[i] op operand[i]` for each whole element that both slices hold. Neither
/// needs alignment.
pub fn combine(datatype: Datatype, op: Op, target: &mut [u8], operand: &[u8]) {
    let count = target.len().min(operand.len()) / datatype.size();
    let into = target.as_mut_ptr();
    // SAFETY: both slices hold that many elements, and the target is exclusive.
    unsafe { combine_into(datatype, op, into, operand.as_ptr(), into, count) };
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_result_may_go_elsewhere_and_needs_no_alignment() {
        let left: Vec<u8> = (0..25).collect();
        let right = [2u8; 25];
        let mut into = [0u8; 25];
        // SAFETY: three elements of 8 bytes lie behind the first byte of each buffer.
        unsafe {
            let (left, right) = (left.as_ptr().add(1), right.as_ptr().add(1));
            let into = into.as_mut_ptr().add(1);
            combine_into(Datatype::Uint64, Op::Bxor, left, right, into, 3);
        }
        assert_eq!(into[0], 0);
        let expected: Vec<u8> = left[1..].iter().map(|byte| byte ^ 2).collect();
        assert_eq!(into[1..], expected);
    }
}
