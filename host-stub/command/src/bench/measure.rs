//! The measured loops. Nothing in them allocates.

use std::time::{Duration, Instant};

use plugin_api::Datatype;
use serde::Serialize;

use super::Operation;
use host_stub::win::{Layout, Op, Target, WinResult, Window};

/// Calls between two flushes when the rate is measured.
const BATCH: usize = 64;
/// Bytes between two flushes when the rate is measured, whatever the size of a call; one call at
/// least.
const BATCH_BYTES: usize = 8 << 20;

/// What was measured at one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Row {
    /// Bytes of one call.
    pub(super) size: usize,
    /// Calls whose latency was measured.
    pub(super) iterations: usize,
    /// Median of a call and its flush, microseconds.
    pub(super) latency_us: f64,
    /// The 99th of 100, microseconds.
    pub(super) latency_p99_us: f64,
    /// Calls per second, many before a flush.
    pub(super) calls_per_s: f64,
    /// Their bytes, MB/s.
    pub(super) mb_per_s: f64,
}

/// One operation between this rank and a target.
pub(super) struct Measure<'w> {
    window: &'w Window,
    operation: Operation,
    target: usize,
    origin: Vec<u64>,
    result: Vec<u64>,
    /// Nanoseconds of each call; never longer than [`SAMPLES`].
    samples: Vec<u64>,
}

/// Most latencies that are kept for one size.
const SAMPLES: usize = 200_000;

impl<'w> Measure<'w> {
    pub(super) fn new(
        window: &'w Window,
        operation: Operation,
        target: usize,
        largest: usize,
    ) -> Self {
        Measure {
            window,
            operation,
            target,
            origin: vec![1; largest.div_ceil(8)],
            result: vec![0; largest.div_ceil(8)],
            samples: Vec::with_capacity(SAMPLES),
        }
    }

    /// Measures one size, within about `budget`.
    pub(super) fn run(&mut self, size: usize, budget: Duration) -> WinResult<Row> {
        let batch = (BATCH_BYTES / size.max(1)).clamp(1, BATCH);
        // Connections, caches and pools first.
        let warm = Instant::now();
        for _ in 0..100 {
            self.call(size)?;
            self.window.flush(self.target)?;
            if warm.elapsed() > budget / 10 {
                break;
            }
        }
        self.samples.clear();
        let started = Instant::now();
        while self.samples.len() < SAMPLES && started.elapsed() < budget * 4 / 10 {
            let call = Instant::now();
            self.call(size)?;
            self.window.flush(self.target)?;
            self.samples.push(call.elapsed().as_nanos() as u64);
        }
        let mut calls = 0usize;
        let started = Instant::now();
        let elapsed = loop {
            for _ in 0..batch {
                self.call(size)?;
            }
            self.window.flush(self.target)?;
            calls += batch;
            let elapsed = started.elapsed();
            if elapsed > budget * 4 / 10 {
                break elapsed;
            }
        };
        self.samples.sort_unstable();
        let percentile = |per_cent: usize| {
            let index = (self.samples.len() * per_cent / 100).min(self.samples.len() - 1);
            self.samples[index] as f64 / 1e3
        };
        let calls_per_s = calls as f64 / elapsed.as_secs_f64();
        Ok(Row {
            size,
            iterations: self.samples.len(),
            latency_us: percentile(50),
            latency_p99_us: percentile(99),
            calls_per_s,
            mb_per_s: calls_per_s * size as f64 / 1e6,
        })
    }

    #[inline]
    fn call(&mut self, size: usize) -> WinResult<()> {
        let origin = self.origin.as_mut_ptr().cast::<u8>();
        let result = self.result.as_mut_ptr().cast::<u8>();
        let bytes = Layout::contiguous(Datatype::Uint8, size);
        let words = Layout::contiguous(Datatype::Int64, size / 8);
        let target = |layout| Target {
            rank: self.target,
            displacement: 0,
            layout,
        };
        // SAFETY: both buffers hold the largest size, and live, untouched but by these calls,
        // until after the flush that ends every loop. Calls of one batch may share them: reads of
        // one origin do not conflict, and fetched values are not looked at.
        unsafe {
            match self.operation {
                Operation::Put => self.window.put(origin, &bytes, target(&bytes)),
                Operation::Get => self.window.get(origin, &bytes, target(&bytes)),
                Operation::Acc => self
                    .window
                    .accumulate(origin, &words, target(&words), Op::Sum),
                Operation::Fop | Operation::Tables => self.window.fetch_and_op(
                    origin,
                    result,
                    Datatype::Int64,
                    self.target,
                    0,
                    Op::Sum,
                ),
                Operation::Cas => self.window.compare_and_swap(
                    origin,
                    origin,
                    result,
                    Datatype::Int64,
                    self.target,
                    0,
                ),
            }
        }
    }
}
