//! The measured loops, which allocate nothing.

use std::time::{Duration, Instant};

use plugin_api::Datatype;

use super::Operation;
use super::report::{Figure, Row};
use host_stub::win::{Layout, Op, Target, WinResult, Window};

/// Maximum calls between two flushes in measurements of the rate.
const BATCH: usize = 64;
/// Maximum bytes between two flushes in measurements of the rate, but at least one call.
const BATCH_BYTES: usize = 8 << 20;

/// Rounds in which one size is measured. The spread of a figure is the distance between their
/// results.
const ROUNDS: usize = 5;

/// Bytes from the beginning of a run to the beginning of the next, divided by the bytes of the run.
pub(super) const SPREAD: usize = 8;

/// One operation between this rank and a target.
pub(super) struct Measure<'w> {
    window: &'w Window,
    operation: Operation,
    target: usize,
    /// The beginning of the target's memory in the window.
    base: u64,
    /// Bytes of the target's runs; 0 if all are contiguous.
    run: usize,
    origin: Vec<u64>,
    result: Vec<u64>,
    /// Nanoseconds of each call; at most [`SAMPLES`] values.
    samples: Vec<u64>,
}

/// Maximum number of latencies that are kept for one size.
const SAMPLES: usize = 200_000;

impl<'w> Measure<'w> {
    pub(super) fn new(
        window: &'w Window,
        operation: Operation,
        (target, base, run): (usize, u64, usize),
        largest: usize,
    ) -> Self {
        Measure {
            window,
            operation,
            target,
            base,
            run,
            origin: vec![1; largest.div_ceil(8)],
            result: vec![0; largest.div_ceil(8)],
            samples: Vec::with_capacity(SAMPLES),
        }
    }

    /// Measures one size, within about `budget`.
    pub(super) fn run(&mut self, size: usize, budget: Duration) -> WinResult<Row> {
        let batch = (BATCH_BYTES / size.max(1)).clamp(1, BATCH);
        // Warms connections, caches and pools first.
        let warm = Instant::now();
        for _ in 0..100 {
            self.call(size)?;
            self.window.flush(self.target)?;
            if warm.elapsed() > budget / 10 {
                break;
            }
        }
        self.samples.clear();
        let (mut latencies, mut rates) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
        let part = budget * 4 / 10 / ROUNDS as u32;
        for _ in 0..ROUNDS {
            latencies.push(self.latency(size, part)?);
            rates.push(self.rate(size, batch, part)?);
        }
        self.samples.sort_unstable();
        let rate = Figure::of(rates);
        Ok(Row {
            size,
            iterations: self.samples.len(),
            latency_us: Figure {
                median: percentile(&self.samples, 50),
                ..Figure::of(latencies)
            },
            latency_p99_us: percentile(&self.samples, 99),
            calls_per_s: rate,
            mb_per_s: rate.median * size as f64 / 1e6,
        })
    }

    /// Median time of calls and their flushes, for a part of the time. Microseconds.
    fn latency(&mut self, size: usize, part: Duration) -> WinResult<f64> {
        let first = self.samples.len();
        let started = Instant::now();
        loop {
            let call = Instant::now();
            self.call(size)?;
            self.window.flush(self.target)?;
            self.samples.push(call.elapsed().as_nanos() as u64);
            if self.samples.len() - first == SAMPLES / ROUNDS || started.elapsed() > part {
                break;
            }
        }
        let round = &mut self.samples[first..];
        round.sort_unstable();
        Ok(percentile(round, 50))
    }

    /// Calls per second with a flush after each batch, for a part of the time.
    fn rate(&mut self, size: usize, batch: usize, part: Duration) -> WinResult<f64> {
        let mut calls = 0usize;
        let started = Instant::now();
        loop {
            for _ in 0..batch {
                self.call(size)?;
            }
            self.window.flush(self.target)?;
            calls += batch;
            let elapsed = started.elapsed();
            if elapsed > part {
                return Ok(calls as f64 / elapsed.as_secs_f64());
            }
        }
    }

    #[inline]
    fn call(&mut self, size: usize) -> WinResult<()> {
        let origin = self.origin.as_mut_ptr().cast::<u8>();
        let result = self.result.as_mut_ptr().cast::<u8>();
        let bytes = Layout::contiguous(Datatype::Uint8, size);
        let words = Layout::contiguous(Datatype::Int64, size / 8);
        let there = match self.run {
            0 => bytes.clone(),
            run => Layout::strided(Datatype::Uint8, size / run, run, SPREAD * run)?,
        };
        let target = |layout| Target {
            rank: self.target,
            displacement: self.base,
            layout,
        };
        // SAFETY: both buffers hold the largest size, live until after the flush that ends every
        // loop, and only these calls use them. Calls of one batch may share them: reads of one
        // origin do not conflict, and fetched values are not read.
        unsafe {
            match self.operation {
                Operation::Put => self.window.put(origin, &bytes, target(&there)),
                Operation::Get => self.window.get(origin, &bytes, target(&there)),
                Operation::Acc => self
                    .window
                    .accumulate(origin, &words, target(&words), Op::Sum),
                Operation::Fop => self.window.fetch_and_op(
                    origin,
                    result,
                    Datatype::Int64,
                    self.target,
                    self.base,
                    Op::Sum,
                ),
                Operation::Cas => self.window.compare_and_swap(
                    origin,
                    origin,
                    result,
                    Datatype::Int64,
                    self.target,
                    self.base,
                ),
            }
        }
    }
}

/// A percentile of sorted nanoseconds, in microseconds.
fn percentile(sorted: &[u64], per_cent: usize) -> f64 {
    let index = (sorted.len() * per_cent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(f64::NAN, |ns| *ns as f64 / 1e3)
}
