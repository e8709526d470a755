//! The execution of an apply: one function changes its elements, for every carrier.

mod copies;

use std::ptr;

use plugin_api::{AtomicOp, Datatype, Status};

use self::copies::{Blocks, by_copies};
use super::{Command, Host, Responder, Target};
use crate::mem::regions::{Arithmetic, Regions};
use crate::op::apply::{Carried, Change, Plan};
use crate::op::element::{self, Elements};

/// The current position in packed operands and results.
#[derive(Clone, Copy)]
struct Packed {
    operands: *const u8,
    compare: *const u8,
    /// NULL if no results are requested.
    results: *mut u8,
}

impl Packed {
    fn of(plan: &Plan<'_>, results: *mut u8) -> Packed {
        Packed {
            operands: plan.operands,
            compare: plan.compare,
            results: match plan.has_results {
                true => results,
                false => ptr::null_mut(),
            },
        }
    }

    /// Moves the position forward by `bytes` bytes of elements.
    #[inline]
    fn advance(&mut self, bytes: usize) {
        self.operands = self.operands.wrapping_add(bytes);
        self.compare = self.compare.wrapping_add(bytes);
        if !self.results.is_null() {
            self.results = self.results.wrapping_add(bytes);
        }
    }
}

impl Responder {
    /// Executes an apply with the operands `words`. The old values go to `results`. For device memory, copies the elements,
    /// under the lock that serializes all commands on device memory.
    ///
    /// # Safety
    /// `results` is writable for the results that the command carries, and overlaps no memory that a command may name.
    pub(crate) unsafe fn apply(
        &mut self,
        regions: &Regions,
        c: &Command,
        words: &[u64],
        results: *mut u8,
    ) -> Result<(), Status> {
        let plan = Plan::read(words, Carried::of(c.count), c.address)?;
        let arithmetic = regions.arithmetic;
        // SAFETY: the caller guarantees the results and has locked the region table, whose content it passes.
        unsafe {
            match self.find(regions, c.key, c.cookie) {
                Some(known) => change_all(&Host { known }, &plan, results, arithmetic),
                None => self.apply_on_device(&regions.devices, c, &plan, results, arithmetic),
            }
        }
    }
}

/// Changes the elements of an apply after the whole apply was checked.
///
/// # Safety
/// The conditions of [`Responder::apply`]; the target is a live region.
pub(super) unsafe fn change_all<T: Target>(
    target: &T,
    plan: &Plan<'_>,
    results: *mut u8,
    arithmetic: Option<Arithmetic>,
) -> Result<(), Status> {
    plan.check(|address, size| target.covers(address, size))?;
    let change = &plan.change;
    if !change.is_allowed(target.access(), plan.has_results) {
        return Err(Status::PERM);
    }
    let mut packed = Packed::of(plan, results);
    if change.is_transfer {
        // SAFETY: the region has the checked blocks; the caller guarantees results and region.
        return unsafe { copy_all(target, plan, packed) };
    }
    if plan.in_parts {
        let blocks = Blocks::new(plan.blocks());
        // SAFETY: the region has the checked blocks, and there are as many packed operands and results.
        return unsafe { by_copies(target, change, (blocks, plan.bytes()), packed, arithmetic) };
    }
    let alone = target.is_by_commands();
    // SAFETY: the region has the checked elements, and there are as many packed operands and results.
    if T::HAS_ATOMICS && unsafe { change_listed(plan, &packed, alone) } {
        return Ok(());
    }
    // The user's function takes many elements at once. If atomics must change the elements, the function takes
    // the elements one by one.
    let has_atomics = T::HAS_ATOMICS && !(alone && own_arithmetic(change).is_none());
    let by = (arithmetic, alone, has_atomics);
    if let Some(block) = plan.only_block() {
        // SAFETY: the region has the checked block, and there are as many packed operands and results.
        return unsafe { change_block(target, change, block, &packed, by) };
    }
    for block in plan.blocks() {
        // SAFETY: the region has the checked block, and packed operands and results have as many bytes left.
        unsafe { change_block(target, change, block, &packed, by)? };
        packed.advance(block.1);
    }
    Ok(())
}

/// Changes the elements of a block: by atomics if these may change the block and it is aligned, otherwise on copies.
///
/// # Safety
/// The region has the block; there are as many packed operands, and as many results unless NULL.
#[inline(always)]
unsafe fn change_block<T: Target>(
    target: &T,
    change: &Change,
    block: (u64, usize),
    packed: &Packed,
    (arithmetic, alone, has_atomics): (Option<Arithmetic>, bool, bool),
) -> Result<(), Status> {
    // SAFETY: the caller guarantees the block, operands and results.
    unsafe {
        match has_atomics && change.is_atomic_at(block.0) {
            true => by_atomics(change, block, packed, (arithmetic, alone)),
            false => by_copies(
                target,
                change,
                (Blocks::one(block), block.1),
                *packed,
                arithmetic,
            ),
        }
    }
}

/// Changes single listed elements if all of them are aligned and no user's function is needed; otherwise does nothing.
/// Returns whether the call changed the elements.
///
/// # Safety
/// The elements may be changed by atomics, or nothing else changes them if `alone`; there are as many operands, and as many
/// results unless NULL.
unsafe fn change_listed(plan: &Plan<'_>, packed: &Packed, alone: bool) -> bool {
    let change = &plan.change;
    let Some(places) = plan.listed_elements() else {
        return false;
    };
    // Distances between listed elements are multiples of the element size, so checking the first address is enough.
    if !change.is_atomic_at(plan.address) {
        return false;
    }
    let Some((datatype, op)) = own_arithmetic(change) else {
        return false;
    };
    let elements = Elements {
        datatype,
        op,
        count: places.len(),
        at: ptr::with_exposed_provenance_mut(plan.address as usize),
        operands: packed.operands,
        compare: 0,
        results: packed.results,
        alone,
    };
    // SAFETY: the caller guarantees elements, operands and results; the combination is supported.
    unsafe { element::apply_to_listed(&elements, places) };
    true
}

/// Makes a checked put or get of several runs.
///
/// # Safety
/// The region has the blocks and stays registered. Packed operands or results have as many bytes.
unsafe fn copy_all<T: Target>(
    target: &T,
    plan: &Plan<'_>,
    mut packed: Packed,
) -> Result<(), Status> {
    for (address, bytes) in plan.blocks() {
        // SAFETY: the caller guarantees the blocks and the packed bytes. The packed bytes are memory of this process that
        // no command may name.
        unsafe {
            match packed.results.is_null() {
                true => target.put(packed.operands, address, bytes)?,
                false => target.get(address, packed.results, bytes)?,
            }
        }
        packed.advance(bytes);
    }
    Ok(())
}

/// Whether atomics can change all elements of an apply, without the user's function.
pub(crate) fn is_by_instructions(plan: &Plan<'_>) -> bool {
    let change = &plan.change;
    let needs_none = change.op == Some(AtomicOp::Cswap) || own_arithmetic(change).is_some();
    needs_none
        && !plan.in_parts
        && plan
            .blocks()
            .all(|(address, _)| change.is_atomic_at(address))
}

/// Changes the elements of an apply for which [`is_by_instructions`] returned true.
///
/// # Safety
/// The blocks may be changed by atomics. `results` is writable for the results of the plan.
pub(crate) unsafe fn change_by_instructions(plan: &Plan<'_>, results: *mut u8) {
    let mut packed = Packed::of(plan, results);
    // SAFETY: the caller guarantees elements and results, and the plan has the operands.
    if unsafe { change_listed(plan, &packed, false) } {
        return;
    }
    for block in plan.blocks() {
        // SAFETY: the caller guarantees blocks and results; operands and results have as many bytes left.
        let done = unsafe { by_atomics(&plan.change, block, &packed, (None, false)) };
        debug_assert!(done.is_ok(), "no function is needed");
        packed.advance(block.1);
    }
}

/// Changes the elements of a block: each by an atomic of the processor, or by a load and a store if `alone`.
///
/// # Safety
/// The elements may be changed by atomics, or nothing else changes them if `alone`; there are as many operands, and as many
/// results unless NULL.
#[inline]
unsafe fn by_atomics(
    change: &Change,
    (address, bytes): (u64, usize),
    packed: &Packed,
    (arithmetic, alone): (Option<Arithmetic>, bool),
) -> Result<(), Status> {
    let size = change.size;
    let mut elements = Elements {
        datatype: change.bits(),
        op: AtomicOp::Write,
        count: bytes / size,
        at: ptr::with_exposed_provenance_mut(address as usize),
        operands: packed.operands,
        compare: 0,
        results: packed.results,
        alone,
    };
    if let Some((datatype, op)) = own_arithmetic(change) {
        (elements.datatype, elements.op) = (datatype, op);
        // SAFETY: the caller guarantees elements, operands and results; the combination is
        // supported.
        unsafe { element::apply(&elements) };
        return Ok(());
    }
    let is_compare = change.op == Some(AtomicOp::Cswap);
    let arithmetic = match is_compare {
        true => None,
        false => Some(arithmetic.ok_or(Status::NOT_SUPPORTED)?),
    };
    for offset in (0..bytes).step_by(size) {
        let at = elements.at.wrapping_add(offset);
        let operand = packed.operands.wrapping_add(offset);
        // SAFETY: an element of the block has this offset, so the caller's guarantees cover all these addresses.
        let old = unsafe {
            element::change_by(size, at, |copy| match arithmetic {
                Some(arithmetic) => {
                    let mut aligned = 0u64;
                    let aligned = (&raw mut aligned).cast::<u8>();
                    ptr::copy_nonoverlapping(operand, aligned, size);
                    call(arithmetic, change, (copy, aligned), 1)
                }
                None => {
                    if is_equal(copy, packed.compare.wrapping_add(offset), size) {
                        ptr::copy_nonoverlapping(operand, copy, size);
                    }
                    Ok(())
                }
            })?
        };
        if !packed.results.is_null() {
            let result = packed.results.wrapping_add(offset);
            // SAFETY: the caller guarantees a result for each element.
            unsafe { ptr::copy_nonoverlapping(old.as_ptr(), result, size) };
        }
    }
    Ok(())
}

/// The type and operation with which [`element`] makes a change of an aligned element; `None` if it
/// cannot.
#[inline]
fn own_arithmetic(change: &Change) -> Option<(Datatype, AtomicOp)> {
    let op = change.op?;
    match op {
        AtomicOp::Read | AtomicOp::Write => Some((change.bits(), op)),
        AtomicOp::Cswap => None,
        _ => {
            let datatype = change.datatype?;
            element::serves(change.kind(false), datatype, op).then_some((datatype, op))
        }
    }
}

/// Calls the user's function. A status that is no refusal becomes an error, because the origin would otherwise repeat the
/// operation.
///
/// # Safety
/// Both pointers are aligned for every type of the element's size, and valid for `count` elements.
unsafe fn call(
    arithmetic: Arithmetic,
    &Change { code, size, .. }: &Change,
    (elements, operands): (*mut u8, *mut u8),
    count: usize,
) -> Result<(), Status> {
    let Arithmetic { function, context } = arithmetic;
    // SAFETY: the user set this function with its argument, and allows it to run on any thread. The caller guarantees
    // elements and operands.
    match unsafe { function(context, code, size, elements.cast(), operands.cast(), count) } {
        Status::SUCCESS => Ok(()),
        status if status.is_ok() || status.is_again() => Err(Status::ERROR),
        status => Err(status),
    }
}

/// # Safety
/// Both ranges are readable for `size` bytes.
unsafe fn is_equal(one: *const u8, other: *const u8, size: usize) -> bool {
    // SAFETY: the caller guarantees both ranges.
    unsafe { std::slice::from_raw_parts(one, size) == std::slice::from_raw_parts(other, size) }
}

#[cfg(test)]
mod tests;
