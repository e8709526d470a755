//! A stream of the driver, and copies on it.

use cudarc::driver::sys::{self, CUDA_MEMCPY2D, CUmemorytype, CUresult, CUstream};
use osc_engine::door::Run;

use super::driver::done;

/// A stream that waits for no other stream, because a kernel there may wait for the host. All calls need its context to be
/// current.
pub(super) struct Stream(CUstream);

// SAFETY: the value is an opaque handle of the driver, which any thread may use.
unsafe impl Send for Stream {}
// SAFETY: as for Send.
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream of the current context.
    pub(super) fn new() -> Result<Stream, String> {
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: receives the stream.
        let made = unsafe { sys::cuStreamCreate(&mut stream, flags) };
        done("cuStreamCreate", made).map(|()| Stream(stream))
    }

    /// Starts to zero memory.
    ///
    /// # Safety
    /// `at` has `len` bytes until the stream is synchronised.
    pub(super) unsafe fn zero(&self, at: u64, len: usize) -> Result<(), String> {
        // SAFETY: the caller guarantees the memory.
        let started = unsafe { sys::cuMemsetD8Async(at, 0, len, self.0) };
        done("cuMemsetD8Async", started)
    }

    /// Starts to copy runs: runs at regular distances take one call of the driver.
    ///
    /// # Safety
    /// The runs are memory that the driver reaches until the stream is synchronised.
    pub(super) unsafe fn copy(&self, runs: &mut dyn Iterator<Item = Run>) -> Result<(), String> {
        let mut rows: Option<Rows> = None;
        for run in runs {
            if !rows.as_mut().is_some_and(|rows| rows.takes(run))
                && let Some(whole) = rows.replace(Rows::of(run))
            {
                // SAFETY: the caller guarantees the runs.
                unsafe { self.copy_rows(&whole) }?;
            }
        }
        // SAFETY: the caller guarantees the runs.
        rows.map_or(Ok(()), |last| unsafe { self.copy_rows(&last) })
    }

    unsafe fn copy_rows(&self, rows: &Rows) -> Result<(), String> {
        if rows.count > 1 {
            // SAFETY: the caller guarantees the runs; the driver reads the description during the call.
            let started = unsafe { sys::cuMemcpy2DAsync_v2(&rows.blocks(), self.0) };
            // By its manual, the driver may refuse distances within a device that cuMemAllocPitch did not
            // choose.
            if started != CUresult::CUDA_ERROR_INVALID_VALUE {
                return done("cuMemcpy2DAsync", started);
            }
        }
        rows.each().try_for_each(|Run { to, from, len }| {
            // SAFETY: the caller guarantees the runs.
            done("cuMemcpyAsync", unsafe {
                sys::cuMemcpyAsync(to, from, len, self.0)
            })
        })
    }

    /// Waits until all started copies are complete.
    pub(super) fn synchronise(&self) -> Result<(), String> {
        // SAFETY: the stream lives.
        done("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.0)
        })
    }

    /// Ends the stream, which is no longer used.
    pub(super) fn destroy(&self) -> Result<(), String> {
        // SAFETY: the owner calls this once, last.
        done("cuStreamDestroy", unsafe {
            sys::cuStreamDestroy_v2(self.0)
        })
    }
}

/// The longest distance of rows in one call (CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device so far).
const FARTHEST: u64 = i32::MAX as u64;

/// Runs of one length at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    first: Run,
    count: usize,
    /// Bytes from run to run, at the destination and at the source.
    steps: (u64, u64),
}

impl Rows {
    fn of(first: Run) -> Rows {
        Rows {
            first,
            count: 1,
            steps: (0, 0),
        }
    }

    /// Adds the next run if it continues the rows.
    fn takes(&mut self, run: Run) -> bool {
        let first = self.first;
        let apart = (
            run.to.wrapping_sub(first.to),
            run.from.wrapping_sub(first.from),
        );
        if self.count == 1 {
            self.steps = apart;
        }
        let n = self.count as u64;
        let fits = |step: u64| (first.len as u64..=FARTHEST).contains(&step);
        let (to, from) = self.steps;
        let takes = run.len == first.len
            && fits(to)
            && fits(from)
            && apart == (to.wrapping_mul(n), from.wrapping_mul(n));
        self.count += usize::from(takes);
        takes
    }

    fn each(&self) -> impl Iterator<Item = Run> {
        let Rows { first, steps, .. } = *self;
        (0..self.count as u64).map(move |n| Run {
            to: first.to.wrapping_add(steps.0.wrapping_mul(n)),
            from: first.from.wrapping_add(steps.1.wrapping_mul(n)),
            len: first.len,
        })
    }

    /// The rows for the driver, which recognises the device of each address.
    fn blocks(&self) -> CUDA_MEMCPY2D {
        CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            srcHost: std::ptr::null(),
            srcDevice: self.first.from,
            srcArray: std::ptr::null_mut(),
            srcPitch: self.steps.1 as usize,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            dstHost: std::ptr::null_mut(),
            dstDevice: self.first.to,
            dstArray: std::ptr::null_mut(),
            dstPitch: self.steps.0 as usize,
            WidthInBytes: self.first.len,
            Height: self.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(to: u64, from: u64, len: usize) -> Run {
        Run { to, from, len }
    }

    /// The number of runs that are taken as rows, after a check that they are these runs.
    fn taken(runs: &[Run]) -> usize {
        let mut rows = Rows::of(runs[0]);
        let more = runs[1..].iter().take_while(|run| rows.takes(**run)).count();
        assert!(rows.each().eq(runs[..=more].iter().copied()), "{rows:?}");
        rows.count
    }

    #[test]
    fn runs_at_equal_distances_are_rows() {
        assert_eq!(taken(&[run(0, 100, 8)]), 1);
        assert_eq!(taken(&[run(0, 100, 8), run(8, 120, 8), run(16, 140, 8)]), 3);
        // Another distance at either side, another length, backwards, overlapping, too far.
        assert_eq!(taken(&[run(0, 100, 8), run(8, 120, 8), run(17, 140, 8)]), 2);
        assert_eq!(taken(&[run(0, 100, 8), run(8, 120, 8), run(16, 141, 8)]), 2);
        assert_eq!(taken(&[run(0, 100, 8), run(8, 120, 4)]), 1);
        assert_eq!(taken(&[run(0, 100, 8), run(8, 80, 8)]), 1);
        assert_eq!(taken(&[run(0, 100, 8), run(4, 120, 8)]), 1);
        assert_eq!(taken(&[run(0, 100, 8), run(8, 100 + (1 << 31), 8)]), 1);
    }
}
