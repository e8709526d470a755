//! Blocks of device memory at regular distances: the walk over them in runs, and their copies.

use std::ffi::c_void;

use plugin_api::IoVec;

use super::copy::{Copier, INVALID};

/// Maximum runs that are passed to one call of a copy function.
const RUNS: usize = 256;

/// `count[1]` rows of `count[0]` blocks, each of `block` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// First byte of the first block.
    pub(crate) base: *mut c_void,
    pub(crate) block: usize,
    /// Distances in bytes between the starts of two blocks of one row, and between the starts of
    /// two rows.
    pub(crate) stride: [usize; 2],
    pub(crate) count: [usize; 2],
}

impl Blocks {
    /// Size of all blocks in bytes; `None` if it exceeds the memory of any process.
    pub(crate) fn bytes(&self) -> Option<usize> {
        self.block
            .checked_mul(self.count[0])?
            .checked_mul(self.count[1])
    }

    /// Calls `copy` with groups of runs, in order: the runs, their kinds, the bytes before them, and their own bytes.
    /// Returns the sum of the results of `copy`, up to the first error or incomplete copy.
    pub(crate) fn by_runs(
        &self,
        iface: u32,
        mut copy: impl FnMut(&[IoVec], &[u32], usize, usize) -> isize,
    ) -> isize {
        let empty = IoVec {
            base: std::ptr::null_mut(),
            len: 0,
        };
        let (mut runs, kinds) = ([empty; RUNS], [iface; RUNS]);
        let total = self.count[0] * self.count[1];
        let mut begun = 0;
        while begun < total {
            let n = (total - begun).min(RUNS);
            for (i, run) in (begun..begun + n).zip(&mut runs) {
                let (row, column) = (i / self.count[0], i % self.count[0]);
                let columns = column.wrapping_mul(self.stride[0]);
                let offset = columns.wrapping_add(row.wrapping_mul(self.stride[1]));
                *run = IoVec {
                    base: self.base.wrapping_byte_add(offset),
                    len: self.block,
                };
            }
            let (done, bytes) = (begun * self.block, n * self.block);
            let copied = copy(&runs[..n], &kinds[..n], done, bytes);
            if copied < 0 {
                return copied;
            }
            if copied as usize != bytes {
                return (done as isize).saturating_add(copied);
            }
            begun += n;
        }
        (total * self.block) as isize
    }
}

impl Copier {
    /// Copies `blocks` of kind `iface` to `size` bytes at `dest`. Uses the user's function for blocks if it is set,
    /// otherwise copies the blocks as runs. Returns the number of bytes, or a negative errno.
    ///
    /// # Safety
    /// `dest` is writable for `size` bytes. The blocks are memory of that kind.
    pub(crate) unsafe fn copy_from_blocks(
        &self,
        dest: *mut c_void,
        size: usize,
        iface: u32,
        blocks: &Blocks,
    ) -> isize {
        if blocks.bytes() != Some(size) {
            return INVALID;
        }
        let Blocks {
            base,
            block,
            ref stride,
            ref count,
        } = *blocks;
        match self.from_strided {
            // SAFETY: the caller guarantees the conditions of the user's function.
            Some(from) => unsafe {
                let (stride, count) = (stride.as_ptr(), count.as_ptr());
                from(dest, size, base, iface, block, stride, count)
            },
            None => blocks.by_runs(iface, |runs, kinds, done, bytes| {
                let dest = dest.wrapping_byte_add(done);
                // SAFETY: the caller guarantees `dest` and all blocks; these runs are some of the blocks.
                unsafe { self.copy_from(dest, bytes, runs.as_ptr(), kinds.as_ptr(), runs.len(), 0) }
            }),
        }
    }

    /// Copies `size` bytes at `src` to `blocks` of kind `iface`; otherwise as
    /// [`copy_from_blocks`](Self::copy_from_blocks).
    ///
    /// # Safety
    /// `src` is readable for `size` bytes. The blocks are memory of that kind.
    pub(crate) unsafe fn copy_to_blocks(
        &self,
        iface: u32,
        blocks: &Blocks,
        src: *const c_void,
        size: usize,
    ) -> isize {
        if blocks.bytes() != Some(size) {
            return INVALID;
        }
        let Blocks {
            base,
            block,
            ref stride,
            ref count,
        } = *blocks;
        match self.to_strided {
            // SAFETY: the caller guarantees the conditions of the user's function.
            Some(to) => unsafe {
                let (stride, count) = (stride.as_ptr(), count.as_ptr());
                to(base, iface, block, stride, count, src, size)
            },
            None => blocks.by_runs(iface, |runs, kinds, done, bytes| {
                let src = src.wrapping_byte_add(done);
                // SAFETY: the caller guarantees `src` and all blocks; these runs are some of the blocks.
                unsafe { self.copy_to(runs.as_ptr(), kinds.as_ptr(), runs.len(), 0, src, bytes) }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_blocks_become_groups_of_runs() {
        let blocks = Blocks {
            base: std::ptr::without_provenance_mut(1000),
            block: 8,
            stride: [16, 1000],
            count: [3, 100],
        };
        let mut calls = Vec::new();
        let copied = blocks.by_runs(7, |runs, kinds, done, bytes| {
            assert!(kinds.iter().all(|kind| *kind == 7));
            assert_eq!((runs.len(), runs.len() * 8), (kinds.len(), bytes));
            let ends = [runs[0], runs[runs.len() - 1]].map(|run| (run.base.addr(), run.len));
            calls.push((done, bytes, ends));
            bytes as isize
        });
        assert_eq!(copied, 2400);
        // Block 255 is the first block of row 85.
        let [first, second] = [(1000, 8), (86_000, 8)];
        assert_eq!(calls[0], (0, 2048, [first, second]));
        assert_eq!(calls[1], (2048, 352, [(86_016, 8), (100_032, 8)]));
    }

    #[test]
    fn a_copy_that_ends_early_ends_the_walk() {
        let blocks = Blocks {
            base: std::ptr::null_mut(),
            block: 1,
            stride: [2, 0],
            count: [600, 1],
        };
        let mut calls = 0;
        let mut answer = |nth: isize| {
            calls = 0;
            blocks.by_runs(0, |_, _, _, bytes| {
                calls += 1;
                if calls == 2 { nth } else { bytes as isize }
            })
        };
        assert_eq!(answer(-5), -5);
        assert_eq!(answer(100), 356);
        assert_eq!(calls, 2);
    }
}
