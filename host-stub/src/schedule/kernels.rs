//! Combining the elements of two buffers into a third: reductions' inner loops.
//!
//! The same results as [`crate::base::combine`], which the tests compare with; here the operation is
//! chosen outside of the loop, so that the loop becomes vector instructions, and the result may go
//! elsewhere, so that the operands keep the order of the ranks.

use plugin_api::Datatype;

use crate::base::{ElementType, Op, ReduceOp};

/// Each element by `op`.
///
/// # Safety
/// As for [`combine_into`].
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
        // SAFETY: the caller vouches for `count` elements.
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
        // SAFETY: the caller's promise is passed on.
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
        // SAFETY: the caller's promise is passed on.
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
                // Not defined on floats; calls are refused before.
                _ => each($left, $right, $into, $count, |a: $t, _| a),
            }
        }
    };
}

macro_rules! complex {
    ($t:ty, $op:expr, ($left:expr, $right:expr, $into:expr, $count:expr)) => {
        match $op {
            Op::Sum => each($left, $right, $into, $count, |a: [$t; 2], b: [$t; 2]| {
                [a[0] + b[0], a[1] + b[1]]
            }),
            Op::Prod => each($left, $right, $into, $count, |a: [$t; 2], b: [$t; 2]| {
                [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
            }),
            // Not defined; calls are refused before.
            _ => {}
        }
    };
}

/// `into[i] = left[i] op right[i]`.
///
/// # Safety
/// `left` and `right` are readable and `into` writable for `count` elements; `into` may be the same
/// as one of them, but overlaps none in another way. None needs alignment.
pub(crate) unsafe fn combine_into(
    element: ElementType,
    op: ReduceOp,
    left: *const u8,
    right: *const u8,
    into: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match (element, op) {
            (ElementType::Basic(datatype), ReduceOp::Basic(op)) => {
                basic(datatype, op, left, right, into, count);
            }
            (ElementType::FloatComplex, ReduceOp::Basic(op)) => {
                complex!(f32, op, (left, right, into, count));
            }
            (ElementType::DoubleComplex, ReduceOp::Basic(op)) => {
                complex!(f64, op, (left, right, into, count));
            }
            (_, ReduceOp::MinLoc) => located::<false>(element, left, right, into, count),
            (_, ReduceOp::MaxLoc) => located::<true>(element, left, right, into, count),
            (_, ReduceOp::User(op)) => op.apply(left, right, into, (count, element.size())),
            // Not defined; calls are refused before.
            (_, ReduceOp::Basic(_)) => {}
        }
    }
}

/// The greater or the lesser of two elements that begin with a value and have their index `AT` bytes further on; of two
/// equal ones that with the lesser index. Whole elements are chosen, so that padding is defined too.
fn better<T: Copy + PartialOrd, const N: usize, const AT: usize, const GREATEST: bool>(
    a: [u8; N],
    b: [u8; N],
) -> [u8; N] {
    const { assert!(size_of::<T>() <= AT && AT + 4 <= N) };
    // SAFETY: a number, of which the element has all bytes.
    let value = |element: &[u8; N]| unsafe { element.as_ptr().cast::<T>().read_unaligned() };
    // SAFETY: as above.
    let index =
        |element: &[u8; N]| unsafe { element.as_ptr().add(AT).cast::<i32>().read_unaligned() };
    let (left, right) = (value(&a), value(&b));
    let beats = if GREATEST { right > left } else { right < left };
    if beats || (left == right && index(&b) < index(&a)) {
        b
    } else {
        a
    }
}

/// Each element by MINLOC or MAXLOC.
///
/// # Safety
/// As for [`combine_into`].
unsafe fn located<const GREATEST: bool>(
    element: ElementType,
    left: *const u8,
    right: *const u8,
    into: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match element {
            ElementType::FloatInt => each(left, right, into, count, better::<f32, 8, 4, GREATEST>),
            ElementType::DoubleInt => {
                each(left, right, into, count, better::<f64, 16, 8, GREATEST>)
            }
            ElementType::LongInt => each(left, right, into, count, better::<i64, 16, 8, GREATEST>),
            ElementType::TwoInt => each(left, right, into, count, better::<i32, 8, 4, GREATEST>),
            ElementType::ShortInt => each(left, right, into, count, better::<i16, 8, 4, GREATEST>),
            // Not defined; calls are refused before.
            _ => {}
        }
    }
}

/// Each element of a type of the transport.
///
/// # Safety
/// As for [`combine_into`].
unsafe fn basic(
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
    use crate::base::combine;

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
                        basic(*datatype, *op, left, right.as_ptr(), to, count);
                    }
                    assert_eq!(into, wanted, "{op} on {datatype:?}");
                    // In place.
                    // SAFETY: as above.
                    unsafe {
                        let to = into.as_mut_ptr().add(1);
                        into.copy_from_slice(&left);
                        basic(*datatype, *op, to, right.as_ptr(), to, count);
                    }
                    assert_eq!(into, wanted, "{op} on {datatype:?} in place");
                }
            }
        }
    }

    /// Combines one element with another, into a third place and in place.
    fn one<T: Copy>(element: ElementType, op: ReduceOp, left: T, right: T) -> [T; 2] {
        assert_eq!(size_of::<T>(), element.size());
        let (mut into, mut on_left) = (left, left);
        // SAFETY: every buffer has one element.
        unsafe {
            let right = (&raw const right).cast();
            combine_into(
                element,
                op,
                (&raw const left).cast(),
                right,
                (&raw mut into).cast(),
                1,
            );
            let on_left: *mut u8 = (&raw mut on_left).cast();
            combine_into(element, op, on_left, right, on_left, 1);
        }
        [into, on_left]
    }

    #[test]
    fn complex_numbers_add_and_multiply() {
        let (a, b) = ([1.0f64, 2.0], [3.0, -4.0]);
        let double = ElementType::DoubleComplex;
        assert_eq!(one(double, Op::Sum.into(), a, b), [[4.0, -2.0]; 2]);
        assert_eq!(one(double, Op::Prod.into(), a, b), [[11.0, 2.0]; 2]);
        let (a, b) = ([1.0f32, 2.0], [3.0, -4.0]);
        let float = ElementType::FloatComplex;
        assert_eq!(one(float, Op::Prod.into(), a, b), [[11.0, 2.0]; 2]);
    }

    #[test]
    fn of_equal_values_the_lesser_index_stays() {
        fn check<T: Copy + PartialOrd + PartialEq + std::fmt::Debug>(
            element: ElementType,
            low: T,
            high: T,
        ) {
            #[repr(C)]
            #[derive(Clone, Copy)]
            struct Located<T> {
                value: T,
                index: i32,
            }
            let of = |value, index| Located { value, index };
            let found = |op, a: Located<T>, b: Located<T>| {
                let [into, on_left] = one(element, op, a, b);
                assert_eq!((into.value, into.index), (on_left.value, on_left.index));
                (into.value, into.index)
            };
            assert_eq!(found(ReduceOp::MinLoc, of(low, 7), of(high, 2)), (low, 7));
            assert_eq!(found(ReduceOp::MinLoc, of(high, 7), of(low, 9)), (low, 9));
            assert_eq!(found(ReduceOp::MaxLoc, of(low, 7), of(high, 9)), (high, 9));
            assert_eq!(found(ReduceOp::MaxLoc, of(high, 7), of(low, 2)), (high, 7));
            for op in [ReduceOp::MinLoc, ReduceOp::MaxLoc] {
                assert_eq!(found(op, of(low, 7), of(low, 2)), (low, 2));
                assert_eq!(found(op, of(low, 1), of(low, 2)), (low, 1));
            }
        }
        check(ElementType::FloatInt, -1.5f32, 2.0);
        check(ElementType::DoubleInt, -1.5f64, 2.0);
        check(ElementType::LongInt, i64::MIN, 2);
        check(ElementType::TwoInt, -3i32, 2);
        check(ElementType::ShortInt, -3i16, 2);
    }
}
