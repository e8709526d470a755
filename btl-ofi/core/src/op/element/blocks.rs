//! One atomic instruction for several elements of a vector: a compare-and-swap of 16 bytes costs little more than a
//! compare-and-swap of one element, and atomic instructions are nearly the whole cost of a long vector. Each element
//! still changes atomically, even with respect to atomics on the element alone, because the processor locks the memory
//! that both access.

use super::Elements;

/// Bytes that one instruction changes.
pub(super) const BLOCK: usize = 16;
/// Shorter vectors have too few whole blocks to gain by this path.
const LEAST: usize = 2 * BLOCK;

/// The division of a vector into elements and whole blocks.
pub(super) struct Parts {
    /// Number of elements before the first block.
    pub(super) head: usize,
    /// Number of blocks.
    pub(super) blocks: usize,
}

/// The division of a vector, if its blocks should be changed as a whole.
#[inline]
pub(super) fn parts<T>(e: &Elements) -> Option<Parts> {
    if e.count * size_of::<T>() < LEAST || !is_possible() {
        return None;
    }
    let head = e.at.align_offset(BLOCK) / size_of::<T>();
    Some(Parts {
        head,
        blocks: e.count.checked_sub(head)? * size_of::<T>() / BLOCK,
    })
}

#[cfg(target_arch = "x86_64")]
fn is_possible() -> bool {
    std::arch::is_x86_feature_detected!("cmpxchg16b")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_possible() -> bool {
    false
}

/// Replaces each element of some blocks by the result of `f` on it and its operand, if `f` returns a value. Stores the old
/// values in the results, unless NULL.
///
/// # Safety
/// `e` satisfies the requirements of [`apply`](super::apply), `T` is the type of `e.datatype`, `e.at` is aligned to a
/// block, and all elements are in `count` blocks. [`parts`] returned that blocks are possible for the vector.
pub(super) unsafe fn change<T: Copy>(e: &Elements, count: usize, f: impl Fn(T, T) -> Option<T>) {
    let lanes = BLOCK / size_of::<T>();
    for offset in (0..count).map(|i| i * BLOCK) {
        // SAFETY: the block, its operands and its results lie inside the caller's memory; `lanes` elements make up a block.
        unsafe {
            let at = e.at.add(offset).cast();
            let operands = e.operands.add(offset).cast::<T>();
            let mut old = load(at);
            loop {
                let (mut new, mut changes) = (old, false);
                let (from, to) = (old.as_ptr().cast::<T>(), new.as_mut_ptr().cast::<T>());
                for lane in 0..lanes {
                    if let Some(value) =
                        f(from.add(lane).read(), operands.add(lane).read_unaligned())
                    {
                        to.add(lane).write(value);
                        changes = true;
                    }
                }
                if !changes {
                    break;
                }
                let seen = swap_if(at, old, new);
                if seen == old {
                    break;
                }
                old = seen;
            }
            if !e.results.is_null() {
                e.results
                    .add(offset)
                    .cast::<[u64; 2]>()
                    .write_unaligned(old);
            }
        }
    }
}

/// The content of a block. The halves of the block may be read at different times; the [swap](swap_if) compares both.
///
/// # Safety
/// `at` may be read.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn load(at: *const [u64; 2]) -> [u64; 2] {
    let (low, high);
    // SAFETY: the caller guarantees the block. The code is in assembly, because other code changes the
    // block by atomics of other sizes.
    unsafe {
        std::arch::asm!(
            "mov {low}, [{at}]",
            "mov {high}, [{at} + 8]",
            at = in(reg) at,
            low = out(reg) low,
            high = lateout(reg) high,
            options(nostack, readonly, preserves_flags)
        );
    }
    [low, high]
}

/// Writes `new` to a block if the block contains `old`. Returns the block's previous content. The operation has the
/// memory order of the other atomics.
///
/// # Safety
/// `at` is aligned to a block that may be changed by atomics, and the processor has the instruction.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn swap_if(at: *mut [u64; 2], old: [u64; 2], new: [u64; 2]) -> [u64; 2] {
    let [mut low, mut high] = old;
    // SAFETY: the caller guarantees the block and the instruction. The compiler may need rbx, so rbx is restored. The
    // address is in a register other than rbx, because rbx is overwritten before the address is used.
    unsafe {
        std::arch::asm!(
            "xchg {new_low}, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, {new_low}",
            in("rdi") at,
            new_low = inout(reg) new[0] => _,
            in("rcx") new[1],
            inout("rax") low,
            inout("rdx") high,
            options(nostack)
        );
    }
    [low, high]
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn load(_: *const [u64; 2]) -> [u64; 2] {
    unreachable!("blocks are not possible")
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn swap_if(_: *mut [u64; 2], _: [u64; 2], _: [u64; 2]) -> [u64; 2] {
    unreachable!("blocks are not possible")
}
