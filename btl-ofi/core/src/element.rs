//! The arithmetic of atomics, done by this processor on memory of this process.
//!
//! Each element is changed by one atomic instruction or by a compare-and-swap loop, whatever its type.
//! libfabric's software providers do the same (`__atomic` builtins, prov/util of 1.17 and 2.1), so an
//! element stays atomic between what is done here, what the provider does for peers that reach us
//! through it, and what threads of the process do with its own instructions. What is not a number
//! compares as libfabric compares it: a minimum or maximum with NaN leaves what is there, and
//! compare-and-swap compares bits.

use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

use plugin_api::{AtomicKind, AtomicOp, Datatype};

/// An atomic on elements that start at `at`.
#[derive(Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) datatype: Datatype,
    pub(crate) op: AtomicOp,
    pub(crate) count: usize,
    /// Aligned to the element's size.
    pub(crate) at: *mut u8,
    /// As many elements; any alignment. Not read by [`AtomicOp::Read`].
    pub(crate) operands: *const u8,
    /// What [`AtomicOp::Cswap`] compares with, in the low bytes.
    pub(crate) compare: u64,
    /// Room for as many elements, of any alignment, or NULL.
    pub(crate) results: *mut u8,
}

/// Whether the combination makes sense and is served.
pub(crate) fn serves(kind: AtomicKind, datatype: Datatype, op: AtomicOp) -> bool {
    let bits = matches!(op, AtomicOp::Bor | AtomicOp::Band | AtomicOp::Bxor);
    match kind {
        AtomicKind::Compare => op == AtomicOp::Cswap,
        AtomicKind::Update if op == AtomicOp::Read => false,
        AtomicKind::Update | AtomicKind::Fetch => {
            op != AtomicOp::Cswap && !(bits && datatype.is_float())
        }
    }
}

/// Does it.
///
/// # Safety
/// The pointers are good for what [`Elements`] says, and the combination is [served](serves).
#[inline]
pub(crate) unsafe fn apply(e: &Elements) {
    // SAFETY: as the caller vouches.
    unsafe {
        match e.datatype {
            Datatype::Int8 => run::<i8>(e),
            Datatype::Uint8 => run::<u8>(e),
            Datatype::Int16 => run::<i16>(e),
            Datatype::Uint16 => run::<u16>(e),
            Datatype::Int32 => run::<i32>(e),
            Datatype::Uint32 => run::<u32>(e),
            Datatype::Int64 => run::<i64>(e),
            Datatype::Uint64 => run::<u64>(e),
            Datatype::Float => run::<f32>(e),
            Datatype::Double => run::<f64>(e),
        }
    }
}

/// A type that atomics know.
trait Element: Copy {
    /// The cell that holds one, and can change it atomically.
    type Cell;

    /// # Safety
    /// `at` is an aligned element that others change atomically only, as long as the cell is used.
    unsafe fn cell<'a>(at: *mut Self) -> &'a Self::Cell;
    fn read(cell: &Self::Cell) -> Self;
    fn write(cell: &Self::Cell, value: Self);
    fn swap(cell: &Self::Cell, value: Self) -> Self;
    /// Writes `value` where the bits are those of `compare`; what was there.
    fn cswap(cell: &Self::Cell, compare: u64, value: Self) -> Self;
    /// Writes what `f` makes of what is there, if anything; what was there.
    fn change(cell: &Self::Cell, f: impl Fn(Self) -> Option<Self>) -> Self;
    fn sum(cell: &Self::Cell, value: Self) -> Self;
    fn and(cell: &Self::Cell, value: Self) -> Self;
    fn or(cell: &Self::Cell, value: Self) -> Self;
    fn xor(cell: &Self::Cell, value: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn less(self, other: Self) -> bool;
    fn truth(self) -> bool;
    fn of_truth(truth: bool) -> Self;
}

macro_rules! integer {
    ($($type:ident in $cell:ident),+) => {$(
        impl Element for $type {
            type Cell = $cell;

            #[inline]
            unsafe fn cell<'a>(at: *mut Self) -> &'a $cell {
                // SAFETY: as the caller vouches.
                unsafe { $cell::from_ptr(at) }
            }
            #[inline]
            fn read(cell: &$cell) -> Self {
                cell.load(Ordering::Acquire)
            }
            #[inline]
            fn write(cell: &$cell, value: Self) {
                cell.store(value, Ordering::Release);
            }
            #[inline]
            fn swap(cell: &$cell, value: Self) -> Self {
                cell.swap(value, Ordering::AcqRel)
            }
            #[inline]
            fn cswap(cell: &$cell, compare: u64, value: Self) -> Self {
                let (yes, no) = (Ordering::AcqRel, Ordering::Acquire);
                match cell.compare_exchange(compare as $type, value, yes, no) {
                    Ok(old) | Err(old) => old,
                }
            }
            #[inline]
            fn change(cell: &$cell, f: impl Fn(Self) -> Option<Self>) -> Self {
                match cell.fetch_update(Ordering::AcqRel, Ordering::Acquire, f) {
                    Ok(old) | Err(old) => old,
                }
            }
            #[inline]
            fn sum(cell: &$cell, value: Self) -> Self {
                cell.fetch_add(value, Ordering::AcqRel)
            }
            #[inline]
            fn and(cell: &$cell, value: Self) -> Self {
                cell.fetch_and(value, Ordering::AcqRel)
            }
            #[inline]
            fn or(cell: &$cell, value: Self) -> Self {
                cell.fetch_or(value, Ordering::AcqRel)
            }
            #[inline]
            fn xor(cell: &$cell, value: Self) -> Self {
                cell.fetch_xor(value, Ordering::AcqRel)
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline]
            fn truth(self) -> bool {
                self != 0
            }
            #[inline]
            fn of_truth(truth: bool) -> Self {
                Self::from(truth)
            }
        }
    )+};
}

integer!(
    i8 in AtomicI8, u8 in AtomicU8, i16 in AtomicI16, u16 in AtomicU16,
    i32 in AtomicI32, u32 in AtomicU32, i64 in AtomicI64, u64 in AtomicU64
);

macro_rules! float {
    ($($type:ident in $cell:ident, bits $bits:ident);+) => {$(
        impl Element for $type {
            type Cell = $cell;

            #[inline]
            unsafe fn cell<'a>(at: *mut Self) -> &'a $cell {
                // SAFETY: as the caller vouches; the cell has the element's size and alignment.
                unsafe { $cell::from_ptr(at.cast()) }
            }
            #[inline]
            fn read(cell: &$cell) -> Self {
                Self::from_bits(<$bits>::read(cell))
            }
            #[inline]
            fn write(cell: &$cell, value: Self) {
                <$bits>::write(cell, value.to_bits());
            }
            #[inline]
            fn swap(cell: &$cell, value: Self) -> Self {
                Self::from_bits(<$bits as Element>::swap(cell, value.to_bits()))
            }
            #[inline]
            fn cswap(cell: &$cell, compare: u64, value: Self) -> Self {
                Self::from_bits(<$bits>::cswap(cell, compare, value.to_bits()))
            }
            #[inline]
            fn change(cell: &$cell, f: impl Fn(Self) -> Option<Self>) -> Self {
                let f = |bits| f(Self::from_bits(bits)).map(Self::to_bits);
                Self::from_bits(<$bits>::change(cell, f))
            }
            #[inline]
            fn sum(cell: &$cell, value: Self) -> Self {
                Self::change(cell, |old| Some(old + value))
            }
            // `serves` lets no operation on bits through; without one, what is there stays.
            #[inline]
            fn and(cell: &$cell, _: Self) -> Self {
                Self::read(cell)
            }
            #[inline]
            fn or(cell: &$cell, _: Self) -> Self {
                Self::read(cell)
            }
            #[inline]
            fn xor(cell: &$cell, _: Self) -> Self {
                Self::read(cell)
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline]
            fn truth(self) -> bool {
                self != 0.0
            }
            #[inline]
            fn of_truth(truth: bool) -> Self {
                Self::from(u8::from(truth))
            }
        }
    )+};
}

float!(f32 in AtomicU32, bits u32; f64 in AtomicU64, bits u64);

/// # Safety
/// As for [`apply`].
unsafe fn run<T: Element>(e: &Elements) {
    // SAFETY: as the caller vouches, for each line.
    unsafe {
        match e.op {
            AtomicOp::Read => {
                for i in 0..e.count {
                    let old = T::read(T::cell(e.at.cast::<T>().add(i)));
                    if !e.results.is_null() {
                        e.results.cast::<T>().add(i).write_unaligned(old);
                    }
                }
            }
            AtomicOp::Write if e.results.is_null() => each::<T>(e, |cell, v| {
                T::write(cell, v);
                v
            }),
            AtomicOp::Write => each::<T>(e, T::swap),
            AtomicOp::Cswap => each::<T>(e, |cell, v| T::cswap(cell, e.compare, v)),
            AtomicOp::Sum => each::<T>(e, T::sum),
            AtomicOp::Band => each::<T>(e, T::and),
            AtomicOp::Bor => each::<T>(e, T::or),
            AtomicOp::Bxor => each::<T>(e, T::xor),
            AtomicOp::Min => each::<T>(e, |c, v| T::change(c, |old| v.less(old).then_some(v))),
            AtomicOp::Max => each::<T>(e, |c, v| T::change(c, |old| old.less(v).then_some(v))),
            AtomicOp::Prod => each::<T>(e, |c, v| T::change(c, |old| Some(old.times(v)))),
            AtomicOp::Lor => logical::<T>(e, |a, b| a || b),
            AtomicOp::Land => logical::<T>(e, |a, b| a && b),
            AtomicOp::Lxor => logical::<T>(e, |a, b| a != b),
        }
    }
}

/// # Safety
/// As for [`apply`].
#[inline]
unsafe fn logical<T: Element>(e: &Elements, f: impl Fn(bool, bool) -> bool) {
    let step = |cell: &T::Cell, value: T| {
        T::change(cell, |old| Some(T::of_truth(f(old.truth(), value.truth()))))
    };
    // SAFETY: as the caller vouches.
    unsafe { each::<T>(e, step) };
}

/// Runs `step`, which returns what was there, for each element and its operand.
///
/// # Safety
/// As for [`apply`].
#[inline]
unsafe fn each<T: Element>(e: &Elements, step: impl Fn(&T::Cell, T) -> T) {
    for i in 0..e.count {
        // SAFETY: the caller vouches for as many elements.
        unsafe {
            let operand = e.operands.cast::<T>().add(i).read_unaligned();
            let old = step(T::cell(e.at.cast::<T>().add(i)), operand);
            if !e.results.is_null() {
                e.results.cast::<T>().add(i).write_unaligned(old);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One element of any type, in the low bytes.
    fn one(datatype: Datatype, op: AtomicOp, start: u64, operand: u64, compare: u64) -> (u64, u64) {
        let (mut at, mut old) = (start, 0u64);
        let e = Elements {
            datatype,
            op,
            count: 1,
            at: (&raw mut at).cast(),
            operands: (&raw const operand).cast(),
            compare,
            results: (&raw mut old).cast(),
        };
        // SAFETY: all are words, which hold one element of any type.
        unsafe { apply(&e) };
        (old, at)
    }

    #[test]
    fn integers_of_every_width() {
        use AtomicOp as O;
        for (&datatype, signed) in Datatype::ALL[..8].iter().zip([true, false].iter().cycle()) {
            let mask = u64::MAX >> (64 - 8 * datatype.size());
            let minus = |n: u64| n.wrapping_neg() & mask;
            let less = if *signed { minus(3) } else { 2 };
            let more = if *signed { 2 } else { minus(3) };
            for (op, start, operand, end) in [
                (O::Sum, mask, 2, 1),
                (O::Prod, minus(3), 2, minus(6)),
                (O::Min, minus(3), 2, less),
                (O::Max, 2, minus(3), more),
                (O::Band, 0b1100, 0b1010, 0b1000),
                (O::Bor, 0b1100, 0b1010, 0b1110),
                (O::Bxor, 0b1100, 0b1010, 0b0110),
                (O::Land, 5, 0, 0),
                (O::Land, 5, 6, 1),
                (O::Lor, 5, 0, 1),
                (O::Lxor, 5, 6, 0),
                (O::Lxor, 0, 6, 1),
                (O::Write, 5, 6, 6),
                (O::Read, 5, 6, 5),
            ] {
                let seen = one(datatype, op, start, operand, 0);
                assert_eq!(seen, (start, end), "{op:?} of {datatype:?}");
            }
            let cases = [(5, 5, 6), (4, 5, 5)];
            for (compare, start, end) in cases {
                let seen = one(datatype, O::Cswap, start, 6, compare);
                assert_eq!(seen, (start, end), "{datatype:?}");
            }
            // Bytes beside the element stay as they are.
            if datatype.size() < 8 {
                let (_, at) = one(datatype, O::Sum, u64::MAX, 1, 0);
                assert_eq!(at, !mask);
            }
        }
    }

    #[test]
    fn floating_point() {
        use AtomicOp as O;
        let f = |v: f64| v.to_bits();
        let nan = f64::NAN;
        for (op, start, operand, end) in [
            (O::Sum, 1.5, 2.25, 3.75),
            (O::Prod, 1.5, -2.0, -3.0),
            (O::Min, 1.5, -2.0, -2.0),
            (O::Max, 1.5, -2.0, 1.5),
            (O::Min, 1.5, nan, 1.5),
            (O::Max, 1.5, nan, 1.5),
            (O::Land, 1.5, 0.0, 0.0),
            (O::Lor, 0.0, 2.5, 1.0),
            (O::Lxor, 1.5, 2.5, 0.0),
            (O::Write, 1.5, 2.5, 2.5),
        ] {
            let seen = one(Datatype::Double, op, f(start), f(operand), 0);
            assert_eq!(seen, (f(start), f(end)), "{op:?}");
            let g = |v: f64| u64::from((v as f32).to_bits());
            let seen = one(Datatype::Float, op, g(start), g(operand), 0);
            assert_eq!(seen, (g(start), g(end)), "{op:?}");
        }
        let same = one(Datatype::Double, O::Cswap, f(nan), f(1.0), f(nan));
        assert_eq!(same, (f(nan), f(1.0)), "bits are compared");
    }

    #[test]
    fn vectors_from_anywhere_to_anywhere() {
        let mut at = [1u32, 2, 3];
        let mut operands = [0u8; 13];
        for (i, v) in [10u32, 20, 30].iter().enumerate() {
            operands[1 + 4 * i..5 + 4 * i].copy_from_slice(&v.to_ne_bytes());
        }
        let mut results = [0u8; 13];
        let e = Elements {
            datatype: Datatype::Uint32,
            op: AtomicOp::Sum,
            count: 3,
            at: at.as_mut_ptr().cast(),
            operands: operands[1..].as_ptr(),
            compare: 0,
            results: results[1..].as_mut_ptr(),
        };
        // SAFETY: three elements each.
        unsafe { apply(&e) };
        assert_eq!(at, [11, 22, 33]);
        let old = results[1..].chunks_exact(4);
        let old: Vec<u32> = old
            .map(|c| u32::from_ne_bytes([c[0], c[1], c[2], c[3]]))
            .collect();
        assert_eq!(old, [1, 2, 3]);
    }

    #[test]
    fn elements_stay_whole_among_threads() {
        for datatype in [Datatype::Double, Datatype::Uint8, Datatype::Int64] {
            let mut at = 0u64;
            let place = &raw mut at as usize;
            std::thread::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        let operand = match datatype {
                            Datatype::Double => 1f64.to_bits(),
                            _ => 1,
                        };
                        for _ in 0..10_000 {
                            let e = Elements {
                                datatype,
                                op: AtomicOp::Sum,
                                count: 1,
                                at: std::ptr::with_exposed_provenance_mut(place),
                                operands: (&raw const operand).cast(),
                                compare: 0,
                                results: std::ptr::null_mut(),
                            };
                            // SAFETY: words, which outlive the scope.
                            unsafe { apply(&e) };
                        }
                    });
                }
            });
            let end = match datatype {
                Datatype::Double => 30_000f64.to_bits(),
                Datatype::Uint8 => u64::from(30_000u32 as u8),
                _ => 30_000,
            };
            assert_eq!(at, end, "{datatype:?}");
        }
    }
}
