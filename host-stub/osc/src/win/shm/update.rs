//! The arithmetic of the shared-memory table: every operation on elements of every type, by the
//! processor's atomics or, for unaligned elements, byte by byte under a lock that the caller holds.

use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

use plugin_api::Datatype;

use crate::base::{Op, combine};

#[inline]
pub(super) fn is_aligned(address: u64, datatype: Datatype) -> bool {
    address & (datatype.size() as u64 - 1) == 0
}

/// Contiguous elements on every side.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) target: *mut u8,
    /// Null if nothing is read from the origin.
    pub(super) operand: *const u8,
    /// Null if nothing is fetched.
    pub(super) result: *mut u8,
    pub(super) count: usize,
}

macro_rules! integer_update {
    ($name:ident, $t:ty, $atomic:ty) => {
        #[inline]
        unsafe fn $name(op: Op, run: Run) {
            // One loop for each operation, so that no loop tests the operation at every element.
            macro_rules! each {
                (|$at:ident, $operand:ident| $update:expr) => {
                    for index in 0..run.count {
                        // SAFETY: the caller guarantees aligned elements of the target, accessed by
                        // atomics alone, and operands if the operation has them.
                        let ($at, $operand) = unsafe {
                            (
                                <$atomic>::from_ptr(run.target.cast::<$t>().add(index)),
                                if run.operand.is_null() {
                                    0
                                } else {
                                    run.operand.cast::<$t>().add(index).read_unaligned()
                                },
                            )
                        };
                        let old: $t = $update;
                        if !run.result.is_null() {
                            // SAFETY: the caller guarantees room for this number of results.
                            unsafe { run.result.cast::<$t>().add(index).write_unaligned(old) };
                        }
                    }
                };
            }
            macro_rules! by_swapping {
                ($compute:expr) => {
                    each!(|at, b| {
                        let mut found = at.load(Ordering::Relaxed);
                        loop {
                            let compute: fn($t, $t) -> $t = $compute;
                            match at.compare_exchange_weak(
                                found,
                                compute(found, b),
                                Ordering::AcqRel,
                                Ordering::Relaxed,
                            ) {
                                Ok(old) => break old,
                                Err(other) => found = other,
                            }
                        }
                    })
                };
            }
            match op {
                Op::Sum => each!(|at, b| at.fetch_add(b, Ordering::AcqRel)),
                Op::Min => each!(|at, b| at.fetch_min(b, Ordering::AcqRel)),
                Op::Max => each!(|at, b| at.fetch_max(b, Ordering::AcqRel)),
                Op::Band => each!(|at, b| at.fetch_and(b, Ordering::AcqRel)),
                Op::Bor => each!(|at, b| at.fetch_or(b, Ordering::AcqRel)),
                Op::Bxor => each!(|at, b| at.fetch_xor(b, Ordering::AcqRel)),
                Op::Replace => each!(|at, b| at.swap(b, Ordering::AcqRel)),
                Op::NoOp => each!(|at, _b| at.load(Ordering::Acquire)),
                Op::Prod => by_swapping!(|a, b| a.wrapping_mul(b)),
                Op::Land => by_swapping!(|a, b| <$t>::from(a != 0 && b != 0)),
                Op::Lor => by_swapping!(|a, b| <$t>::from(a != 0 || b != 0)),
                Op::Lxor => by_swapping!(|a, b| <$t>::from((a != 0) != (b != 0))),
            }
        }
    };
}

integer_update!(update_i8, i8, AtomicI8);
integer_update!(update_u8, u8, AtomicU8);
integer_update!(update_i16, i16, AtomicI16);
integer_update!(update_u16, u16, AtomicU16);
integer_update!(update_i32, i32, AtomicI32);
integer_update!(update_u32, u32, AtomicU32);
integer_update!(update_i64, i64, AtomicI64);
integer_update!(update_u64, u64, AtomicU64);

macro_rules! float_update {
    ($name:ident, $t:ty, $bits:ty, $atomic:ty, $as_bits:ident, $datatype:expr) => {
        unsafe fn $name(op: Op, run: Run) {
            if matches!(op, Op::Replace | Op::NoOp) {
                // The bits are copied unchanged. SAFETY: the caller guarantees the elements; both
                // types have the same size and alignment.
                return unsafe { $as_bits(op, run) };
            }
            for index in 0..run.count {
                // SAFETY: as for integers.
                let (at, operand) = unsafe {
                    (
                        <$atomic>::from_ptr(run.target.cast::<$bits>().add(index)),
                        run.operand.cast::<$t>().add(index).read_unaligned(),
                    )
                };
                let mut found = at.load(Ordering::Relaxed);
                let old = loop {
                    let mut value = <$t>::from_bits(found).to_ne_bytes();
                    combine($datatype, op, &mut value, &operand.to_ne_bytes());
                    match at.compare_exchange_weak(
                        found,
                        <$t>::from_ne_bytes(value).to_bits(),
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    ) {
                        Ok(old) => break old,
                        Err(other) => found = other,
                    }
                };
                if !run.result.is_null() {
                    // SAFETY: as for integers.
                    unsafe { run.result.cast::<$bits>().add(index).write_unaligned(old) };
                }
            }
        }
    };
}

float_update!(update_f32, f32, u32, AtomicU32, update_u32, Datatype::Float);
float_update!(
    update_f64,
    f64,
    u64,
    AtomicU64,
    update_u64,
    Datatype::Double
);

/// Updates aligned elements.
///
/// # Safety
/// The target is writable for the elements, aligned, and accessed by atomics alone meanwhile. The
/// operand, if any, is readable, and the result, if any, writable for the same number of elements.
pub(super) unsafe fn update(datatype: Datatype, op: Op, run: Run) {
    // SAFETY: the caller guarantees the elements; the width is that of the type.
    unsafe {
        match datatype {
            Datatype::Int8 => update_i8(op, run),
            Datatype::Uint8 => update_u8(op, run),
            Datatype::Int16 => update_i16(op, run),
            Datatype::Uint16 => update_u16(op, run),
            Datatype::Int32 => update_i32(op, run),
            Datatype::Uint32 => update_u32(op, run),
            Datatype::Int64 => update_i64(op, run),
            Datatype::Uint64 => update_u64(op, run),
            Datatype::Float => update_f32(op, run),
            Datatype::Double => update_f64(op, run),
        }
    }
}

/// Updates elements that are not aligned, under the target's lock.
///
/// # Safety
/// As for [`update`], except that the run may be unaligned.
pub(super) unsafe fn update_bytes(datatype: Datatype, op: Op, run: Run) {
    let size = datatype.size();
    let (mut element, mut operand) = ([0u8; 8], [0u8; 8]);
    for offset in (0..run.count).map(|index| index * size) {
        // SAFETY: the caller guarantees the elements; an element has at most 8 bytes.
        unsafe {
            let target = run.target.wrapping_add(offset);
            std::ptr::copy_nonoverlapping(target, element.as_mut_ptr(), size);
            if !run.result.is_null() {
                let result = run.result.wrapping_add(offset);
                std::ptr::copy_nonoverlapping(element.as_ptr(), result, size);
            }
            if op == Op::NoOp {
                continue;
            }
            let from = run.operand.wrapping_add(offset);
            std::ptr::copy_nonoverlapping(from, operand.as_mut_ptr(), size);
            combine(datatype, op, &mut element[..size], &operand[..size]);
            std::ptr::copy_nonoverlapping(element.as_ptr(), target, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<const N: usize>(
        datatype: Datatype,
        op: Op,
        target: [u8; N],
        operand: [u8; N],
    ) -> ([u8; N], [u8; N]) {
        let mut word = [0u64];
        let at = word.as_mut_ptr().cast::<u8>();
        let mut result = [0u8; N];
        // SAFETY: the pointer is to an aligned word with room for the element.
        unsafe {
            std::ptr::copy_nonoverlapping(target.as_ptr(), at, N);
            let run = Run {
                target: at,
                operand: operand.as_ptr(),
                result: result.as_mut_ptr(),
                count: 1,
            };
            update(datatype, op, run);
            let mut new = [0u8; N];
            std::ptr::copy_nonoverlapping(at, new.as_mut_ptr(), N);
            (new, result)
        }
    }

    fn agree<const N: usize>(datatype: Datatype, values: &[[u8; N]]) {
        for op in Op::ALL.iter().filter(|op| op.is_defined_on(datatype)) {
            for a in values {
                for b in values {
                    let mut wanted = *a;
                    combine(datatype, *op, &mut wanted, b);
                    let (new, old) = one(datatype, *op, *a, *b);
                    assert_eq!(
                        (new, old),
                        (wanted, *a),
                        "{op} on {datatype:?}: {a:?} {b:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_operation_computes_what_the_model_does() {
        agree(
            Datatype::Int8,
            &[0i8, 1, -1, 100, i8::MIN].map(i8::to_ne_bytes),
        );
        agree(Datatype::Uint8, &[0u8, 1, 255, 100].map(u8::to_ne_bytes));
        agree(
            Datatype::Int16,
            &[0i16, 1, -1, 300, i16::MIN].map(i16::to_ne_bytes),
        );
        agree(
            Datatype::Uint16,
            &[0u16, 1, u16::MAX, 300].map(u16::to_ne_bytes),
        );
        agree(
            Datatype::Int32,
            &[0i32, 1, -1, 70_000, i32::MIN].map(i32::to_ne_bytes),
        );
        agree(
            Datatype::Uint32,
            &[0u32, 1, u32::MAX, 70_000].map(u32::to_ne_bytes),
        );
        agree(
            Datatype::Int64,
            &[0i64, 1, -1, 1 << 40, i64::MIN].map(i64::to_ne_bytes),
        );
        agree(
            Datatype::Uint64,
            &[0u64, 1, u64::MAX, 1 << 40].map(u64::to_ne_bytes),
        );
        agree(
            Datatype::Float,
            &[0f32, -0.0, 1.5, -2.5, f32::INFINITY].map(f32::to_ne_bytes),
        );
        agree(
            Datatype::Double,
            &[0f64, -0.0, 1.5, -2.5, f64::INFINITY].map(f64::to_ne_bytes),
        );
    }

    #[test]
    fn unaligned_elements_compute_the_same() {
        for op in Op::ALL {
            let mut bytes = [1u8, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
            let operand = [9u8, 8, 7, 6, 5, 4, 3, 2];
            let before = bytes;
            let mut result = [0u8; 8];
            let mut wanted = bytes;
            combine(Datatype::Int32, op, &mut wanted[1..9], &operand);
            let run = Run {
                target: bytes.as_mut_ptr().wrapping_add(1),
                operand: operand.as_ptr(),
                result: result.as_mut_ptr(),
                count: 2,
            };
            // SAFETY: two elements from the second byte on lie in the buffers.
            unsafe { update_bytes(Datatype::Int32, op, run) };
            assert_eq!(bytes, wanted, "{op}");
            assert_eq!(result, before[1..9], "{op}");
        }
    }

    #[test]
    fn no_addition_is_lost_between_threads() {
        let mut words = [0u64; 2];
        let at = words.as_mut_ptr() as usize;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let operand = 1.0f64.to_ne_bytes();
                        let run = |target: usize| Run {
                            target: target as *mut u8,
                            operand: operand.as_ptr(),
                            result: std::ptr::null_mut(),
                            count: 1,
                        };
                        let one = 1u64.to_ne_bytes();
                        // SAFETY: aligned words that live until the threads have ended.
                        unsafe {
                            update(Datatype::Double, Op::Sum, run(at));
                            let run = Run {
                                operand: one.as_ptr(),
                                ..run(at + 8)
                            };
                            update(Datatype::Uint64, Op::Sum, run);
                        }
                    }
                });
            }
        });
        assert_eq!((f64::from_bits(words[0]), words[1]), (8000.0, 8000));
    }
}
