//! The arithmetic of atomics: this processor executes them on memory of this process.
//!
//! One atomic instruction or a compare-and-swap loop changes each element, or several neighbours ([`blocks`]), for
//! every type. libfabric's software providers do the same (`__atomic` builtins, prov/util of 1.17 and 2.1). So an
//! element stays atomic among three kinds of access: those made here, those that the provider makes for peers, and
//! those that threads of the process make with atomic instructions. NaN compares as in libfabric: a minimum or maximum
//! with NaN leaves the element, and compare-and-swap compares bits.
//!
//! Elements that no other thread changes meanwhile ([`Elements::alone`]) need no atomic instruction: a load and a
//! store change each.

mod alone;
mod blocks;

use plugin_api::{AtomicKind, AtomicOp, Datatype};

use self::blocks::Parts;
use crate::base::access::Word;

/// An atomic on elements that start at `at`.
#[derive(Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) datatype: Datatype,
    pub(crate) op: AtomicOp,
    pub(crate) count: usize,
    /// Aligned to the element's size.
    pub(crate) at: *mut u8,
    /// `count` operands, of any alignment. [`AtomicOp::Read`] does not read the operands.
    pub(crate) operands: *const u8,
    /// The compare value of [`AtomicOp::Cswap`], in the low bytes.
    pub(crate) compare: u64,
    /// Memory for `count` old values, of any alignment, or NULL.
    pub(crate) results: *mut u8,
    /// Whether nothing else changes the elements during the operation.
    pub(crate) alone: bool,
}

/// The positions of the elements, counted in elements from [`Elements::at`].
trait Places: Copy {
    /// Whether the elements are contiguous, in order.
    const IN_A_ROW: bool;

    fn place(self, number: usize) -> usize;
}

/// Contiguous elements.
#[derive(Clone, Copy)]
struct Row;

impl Places for Row {
    const IN_A_ROW: bool = true;

    #[inline]
    fn place(self, number: usize) -> usize {
        number
    }
}

impl Places for &[u32] {
    const IN_A_ROW: bool = false;

    #[inline]
    fn place(self, number: usize) -> usize {
        self[number] as usize
    }
}

impl Elements {
    /// The elements of type `T` with indices from `first` to before `end`.
    #[inline]
    fn part<T>(&self, first: usize, end: usize) -> Elements {
        let offset = first * size_of::<T>();
        Elements {
            count: end - first,
            at: self.at.wrapping_add(offset),
            operands: self.operands.wrapping_add(offset),
            results: match self.results.is_null() {
                true => self.results,
                false => self.results.wrapping_add(offset),
            },
            ..*self
        }
    }
}

/// Whether the combination is valid and supported.
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

/// Executes the atomic.
///
/// # Safety
/// `at` is aligned to the element's size and names `count` elements that may be used for the operation; other code
/// accesses them only by atomics. `operands` and `results` satisfy the conditions in [`Elements`]. The combination is
/// [supported](serves).
#[inline]
pub(crate) unsafe fn apply(e: &Elements) {
    // SAFETY: the caller guarantees the same conditions.
    unsafe { apply_at(e, Row) }
}

/// Executes the atomic on single elements at these positions, counted in elements from `e.at`. `e.count` is their number.
///
/// # Safety
/// The conditions of [`apply`], for the elements at these positions.
pub(crate) unsafe fn apply_to_listed(e: &Elements, places: &[u32]) {
    // SAFETY: the caller guarantees the same conditions.
    unsafe { apply_at(e, places) }
}

/// # Safety
/// The conditions of [`apply`], for the elements at these positions.
#[inline]
unsafe fn apply_at(e: &Elements, places: impl Places) {
    // SAFETY: the caller guarantees the conditions of `e`, and `run` gets the type of `e.datatype`.
    unsafe {
        match e.datatype {
            Datatype::Int8 => run::<i8>(e, places),
            Datatype::Uint8 => run::<u8>(e, places),
            Datatype::Int16 => run::<i16>(e, places),
            Datatype::Uint16 => run::<u16>(e, places),
            Datatype::Int32 => run::<i32>(e, places),
            Datatype::Uint32 => run::<u32>(e, places),
            Datatype::Int64 => run::<i64>(e, places),
            Datatype::Uint64 => run::<u64>(e, places),
            Datatype::Float => run::<f32>(e, places),
            Datatype::Double => run::<f64>(e, places),
        }
    }
}

/// Replaces an element of `size` bytes (1, 2, 4 or 8) by its copy after `f` has changed the copy in place. Returns the old
/// element in the first bytes of a word.
///
/// # Errors
/// The error of `f`; the element is then unchanged.
///
/// # Safety
/// `at` is aligned to the size, and names an element as [`apply`] requires.
pub(crate) unsafe fn change_by<E>(
    size: usize,
    at: *mut u8,
    f: impl FnMut(*mut u8) -> Result<(), E>,
) -> Result<[u8; 8], E> {
    // SAFETY: the caller guarantees the element, which has the size of the word.
    unsafe {
        match size {
            1 => loop_by(at, f),
            2 => loop_by(at.cast::<u16>(), f),
            4 => loop_by(at.cast::<u32>(), f),
            _ => loop_by(at.cast::<u64>(), f),
        }
    }
}

/// # Safety
/// The conditions of [`change_by`].
unsafe fn loop_by<W: Word + Copy + PartialEq, E>(
    at: *mut W,
    mut f: impl FnMut(*mut u8) -> Result<(), E>,
) -> Result<[u8; 8], E> {
    // SAFETY: the caller guarantees that `at` is aligned and permits this access.
    let mut old = unsafe { W::load(at) };
    loop {
        // A `u64` has the alignment that the user's function may expect.
        let mut new = [0u64];
        let word = new.as_mut_ptr().cast::<W>();
        // SAFETY: the word is at most as large as `new`, and the caller guarantees `at`.
        unsafe {
            word.write(old);
            f(word.cast())?;
            let seen = W::cswap(at, old, word.read());
            if seen == old {
                word.write(old);
                return Ok(new[0].to_ne_bytes());
            }
            old = seen;
        }
    }
}

/// An element type of atomics.
///
/// The functions on memory require that `at` is aligned, names an element that other code changes only by atomics, and may
/// be used for the operation.
trait Element: Copy {
    /// The unsigned word with the element's bits.
    type Bits: Word + Copy + PartialEq;

    fn bits(self) -> Self::Bits;
    fn of(bits: Self::Bits) -> Self;
    fn truncated(value: u64) -> Self::Bits;
    /// # Safety
    /// `at` is an element as the trait's documentation requires.
    unsafe fn sum(at: *mut Self, value: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn less(self, other: Self) -> bool;
    fn truth(self) -> bool;
    fn of_truth(truth: bool) -> Self;

    /// # Safety
    /// `at` is an element as the trait's documentation requires.
    #[inline]
    unsafe fn read(at: *mut Self) -> Self {
        // SAFETY: the caller guarantees that `at` is aligned and permits this access.
        Self::of(unsafe { Self::Bits::load(at.cast()) })
    }

    /// # Safety
    /// `at` is an element as the trait's documentation requires.
    #[inline]
    unsafe fn write(at: *mut Self, value: Self) {
        // SAFETY: the caller guarantees that `at` is aligned and permits this access.
        unsafe { Self::Bits::store(at.cast(), value.bits()) };
    }

    /// # Safety
    /// `at` is an element as the trait's documentation requires.
    #[inline]
    unsafe fn swap(at: *mut Self, value: Self) -> Self {
        // SAFETY: the caller guarantees that `at` is aligned and permits this access.
        Self::of(unsafe { Self::Bits::swap(at.cast(), value.bits()) })
    }

    /// Writes `value` if the element's bits equal those of `compare`; returns the old value.
    ///
    /// # Safety
    /// `at` is an element as the trait's documentation requires.
    #[inline]
    unsafe fn cswap(at: *mut Self, compare: u64, value: Self) -> Self {
        let compare = Self::truncated(compare);
        // SAFETY: the caller guarantees that `at` is aligned and permits this access.
        Self::of(unsafe { Self::Bits::cswap(at.cast(), compare, value.bits()) })
    }

    /// Replaces the element by the result of `f` on it, if `f` returns a value. Returns the old
    /// value.
    ///
    /// # Safety
    /// `at` is an element as the trait's documentation requires.
    #[inline]
    unsafe fn change(at: *mut Self, f: impl Fn(Self) -> Option<Self>) -> Self {
        let word: *mut Self::Bits = at.cast();
        // SAFETY: the caller guarantees that `at` is aligned and permits this access.
        unsafe {
            let mut old = Self::Bits::load(word);
            while let Some(new) = f(Self::of(old)) {
                let seen = Self::Bits::cswap(word, old, new.bits());
                if seen == old {
                    break;
                }
                old = seen;
            }
            Self::of(old)
        }
    }
}

macro_rules! integer {
    ($($type:ident as $bits:ident),+) => {$(
        impl Element for $type {
            type Bits = $bits;

            #[inline]
            fn bits(self) -> $bits {
                self as $bits
            }
            #[inline]
            fn of(bits: $bits) -> Self {
                bits as $type
            }
            #[inline]
            fn truncated(value: u64) -> $bits {
                value as $bits
            }
            #[inline]
            unsafe fn sum(at: *mut Self, value: Self) -> Self {
                // SAFETY: the caller guarantees that `at` is aligned and permits this access.
                Self::of(unsafe { <$bits>::add(at.cast(), value.bits()) })
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline]
            fn xor(self, other: Self) -> Self {
                self ^ other
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
    i8 as u8, u8 as u8, i16 as u16, u16 as u16, i32 as u32, u32 as u32, i64 as u64, u64 as u64
);

macro_rules! float {
    ($($type:ident as $bits:ident),+) => {$(
        impl Element for $type {
            type Bits = $bits;

            #[inline]
            fn bits(self) -> $bits {
                self.to_bits()
            }
            #[inline]
            fn of(bits: $bits) -> Self {
                Self::from_bits(bits)
            }
            #[inline]
            fn truncated(value: u64) -> $bits {
                value as $bits
            }
            #[inline]
            unsafe fn sum(at: *mut Self, value: Self) -> Self {
                // SAFETY: the caller guarantees that `at` is aligned and permits this access.
                unsafe { Self::change(at, |old| Some(old + value)) }
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            // `serves` rejects bitwise operations on floats. For such operations, these functions leave
            // the element unchanged.
            #[inline]
            fn and(self, _: Self) -> Self {
                self
            }
            #[inline]
            fn or(self, _: Self) -> Self {
                self
            }
            #[inline]
            fn xor(self, _: Self) -> Self {
                self
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

float!(f32 as u32, f64 as u64);

/// # Safety
/// `e` satisfies the requirements of [`apply`], and `T` is the type of `e.datatype`.
unsafe fn run<T: Element>(e: &Elements, p: impl Places) {
    // SAFETY: the caller guarantees the conditions of `e`, `T` is its type, and `each` passes aligned elements of
    // `e.at`.
    unsafe {
        match e.op {
            AtomicOp::Read => {
                for i in 0..e.count {
                    let old = T::read(e.at.cast::<T>().add(p.place(i)));
                    if !e.results.is_null() {
                        e.results.cast::<T>().add(i).write_unaligned(old);
                    }
                }
            }
            AtomicOp::Write if e.results.is_null() => each::<T>(e, p, |at, v| {
                T::write(at, v);
                v
            }),
            AtomicOp::Write => each::<T>(e, p, |at, v| T::swap(at, v)),
            AtomicOp::Cswap => each::<T>(e, p, |at, v| T::cswap(at, e.compare, v)),
            AtomicOp::Sum => many::<T, _>(e, p, |old, v| Some(old.plus(v)), |at, v| T::sum(at, v)),
            AtomicOp::Band => changed::<T>(e, p, |old, v| Some(old.and(v))),
            AtomicOp::Bor => changed::<T>(e, p, |old, v| Some(old.or(v))),
            AtomicOp::Bxor => changed::<T>(e, p, |old, v| Some(old.xor(v))),
            AtomicOp::Min => changed::<T>(e, p, |old, v| v.less(old).then_some(v)),
            AtomicOp::Max => changed::<T>(e, p, |old, v| old.less(v).then_some(v)),
            AtomicOp::Prod => changed::<T>(e, p, |old, v| Some(old.times(v))),
            AtomicOp::Lor => logical::<T>(e, p, |a, b| a || b),
            AtomicOp::Land => logical::<T>(e, p, |a, b| a && b),
            AtomicOp::Lxor => logical::<T>(e, p, |a, b| a != b),
        }
    }
}

/// # Safety
/// `e` satisfies the requirements of [`apply`], and `T` is the type of `e.datatype`.
#[inline]
unsafe fn logical<T: Element>(e: &Elements, p: impl Places, f: impl Fn(bool, bool) -> bool) {
    // SAFETY: the caller guarantees the conditions of `e`.
    unsafe {
        changed::<T>(e, p, |old, value| {
            Some(T::of_truth(f(old.truth(), value.truth())))
        })
    }
}

/// Replaces each element by the result of `f` on it and its operand, if `f` returns a value.
///
/// # Safety
/// `e` satisfies the requirements of [`apply`], and `T` is the type of `e.datatype`.
#[inline]
unsafe fn changed<T: Element>(e: &Elements, p: impl Places, f: impl Fn(T, T) -> Option<T>) {
    // SAFETY: the caller guarantees the conditions of `e`, and `many` passes aligned elements of `e.at`.
    unsafe {
        many::<T, _>(e, p, &f, |at, value| T::change(at, |old| f(old, value)));
    }
}

/// Replaces each element like [`changed`]. If nothing else changes the elements, does so [without atomic
/// instructions](alone). Otherwise changes whole [`blocks`] if possible, and the remaining elements by `step`, like
/// [`each`].
///
/// # Safety
/// `e` satisfies the requirements of [`apply`], and `T` is the type of `e.datatype`.
#[inline]
unsafe fn many<T: Element, P: Places>(
    e: &Elements,
    p: P,
    f: impl Fn(T, T) -> Option<T>,
    step: impl Fn(*mut T, T) -> T,
) {
    if e.alone {
        // SAFETY: the caller guarantees the same conditions.
        return unsafe { alone::change::<T, P>(e, p, f) };
    }
    let parts = match P::IN_A_ROW {
        true => blocks::parts::<T>(e),
        false => None,
    };
    let Some(Parts { head, blocks }) = parts else {
        // SAFETY: the caller guarantees the conditions of `each`.
        return unsafe { each::<T>(e, p, step) };
    };
    let end = head + blocks * blocks::BLOCK / size_of::<T>();
    // SAFETY: the three parts together are the vector; the blocks begin at the boundary of a block.
    unsafe {
        each::<T>(&e.part::<T>(0, head), Row, &step);
        blocks::change::<T>(&e.part::<T>(head, end), blocks, f);
        each::<T>(&e.part::<T>(end, e.count), Row, step);
    }
}

/// Runs `step`, which returns the old value, for each element and its operand. Stores the old values in `results`.
///
/// # Safety
/// `e` satisfies the requirements of [`apply`], and `T` is the type of `e.datatype`.
#[inline]
unsafe fn each<T: Element>(e: &Elements, p: impl Places, step: impl Fn(*mut T, T) -> T) {
    for i in 0..e.count {
        // SAFETY: the caller guarantees `e.count` elements and operands, and as many results unless NULL.
        unsafe {
            let operand = e.operands.cast::<T>().add(i).read_unaligned();
            let old = step(e.at.cast::<T>().add(p.place(i)), operand);
            if !e.results.is_null() {
                e.results.cast::<T>().add(i).write_unaligned(old);
            }
        }
    }
}

#[cfg(test)]
mod tests;
