//! Elements that no other thread changes meanwhile: a load and a store change each. Contiguous elements are changed by
//! vector instructions, which access every element as a whole, so other threads may read the elements meanwhile.

use super::{Element, Elements, Places, Row, each};

/// Number of contiguous elements that are changed together. This number is one of the shortest vectors of the smallest
/// elements, and few enough of the largest elements for the processor's registers.
const TOGETHER: usize = 16;

/// Replaces each element by the result of `f` on it and its operand, if `f` returns a value.
///
/// # Safety
/// `e` satisfies the requirements of [`apply`](super::apply), `T` is the type of `e.datatype`, and nothing else changes the
/// elements.
#[inline]
pub(super) unsafe fn change<T: Element, P: Places>(
    e: &Elements,
    p: P,
    f: impl Fn(T, T) -> Option<T>,
) {
    // SAFETY: the caller guarantees elements, operands and results, and `each` passes aligned elements of `e.at`.
    unsafe {
        if !P::IN_A_ROW || e.count < TOGETHER {
            return each::<T>(e, p, |at, value| replace(at, |old| f(old, value)));
        }
        let whole = e.count / TOGETHER * TOGETHER;
        change_together(&e.part::<T>(0, whole), &f);
        let rest = e.part::<T>(whole, e.count);
        each::<T>(&rest, Row, |at, value| replace(at, |old| f(old, value)));
    }
}

/// Like [`change`], for contiguous elements whose number is a multiple of [`TOGETHER`].
///
/// # Safety
/// The conditions of [`change`].
unsafe fn change_together<T: Element>(e: &Elements, f: impl Fn(T, T) -> Option<T>) {
    for first in (0..e.count).step_by(TOGETHER) {
        // SAFETY: the caller guarantees this number of aligned elements, as many operands, and as many results unless NULL.
        unsafe {
            let at = e.at.cast::<T>().add(first).cast::<[T; TOGETHER]>();
            let operands = e.operands.cast::<T>().add(first);
            let operands = operands.cast::<[T; TOGETHER]>().read_unaligned();
            let old = at.read();
            let mut new = old;
            for lane in 0..TOGETHER {
                if let Some(value) = f(old[lane], operands[lane]) {
                    new[lane] = value;
                }
            }
            at.write(new);
            if !e.results.is_null() {
                let results = e.results.cast::<T>().add(first);
                results.cast::<[T; TOGETHER]>().write_unaligned(old);
            }
        }
    }
}

/// Replaces an element that nothing else changes by the result of `f` on it, if `f` returns a value. Returns the old value.
/// Other threads may read the element meanwhile.
///
/// # Safety
/// `at` names an element as the documentation of [`Element`] requires.
#[inline]
unsafe fn replace<T: Element>(at: *mut T, f: impl Fn(T) -> Option<T>) -> T {
    // SAFETY: the caller guarantees that `at` is aligned and permits this access.
    unsafe {
        let old = T::read(at);
        if let Some(new) = f(old) {
            T::write(at, new);
        }
        old
    }
}
