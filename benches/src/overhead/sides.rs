//! The three ways in which one process makes the same operation.

use std::time::{Duration, Instant};

use host_stub::loader::{EndpointRef, Transport, UNREPORTED};
use host_stub::win::{Datatype, Layout, Op, Target as Place, WinResult, Window};
use plugin_api::{AtomicOp, BtlAtomicOp, Datatype as Element, Handle, OpFlags, Status};

use crate::STOP;
use crate::raw::{Raw, Target};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Get,
    FetchAdd,
    CompareSwap,
    Accumulate,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Put => "put",
            Kind::Get => "get",
            Kind::FetchAdd => "fetch-add",
            Kind::CompareSwap => "compare-swap",
            Kind::Accumulate => "accumulate",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// One at a time, complete before the next; nanoseconds each.
    Latency,
    /// As many as the provider takes; operations per second.
    Rate,
    /// Sixteen at a time; bytes per second.
    Bandwidth,
}

impl Measure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Measure::Latency => "latency",
            Measure::Rate => "rate",
            Measure::Bandwidth => "bandwidth",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Raw,
    Transport,
    Window,
}

/// All sides of one process, connected to the other process.
pub(crate) struct Sides {
    pub(crate) window: Window,
    pub(crate) transport: Transport,
    pub(crate) peer: EndpointRef,
    pub(crate) handle: Vec<u64>,
    pub(crate) remote: u64,
    pub(crate) raw: Raw,
    pub(crate) target: Target,
    pub(crate) local: *mut u8,
    /// Operands of atomics, as many as the buffer has words.
    pub(crate) operands: &'static [u64],
    /// Maximum words of one atomic, of the raw side and of the transport.
    pub(crate) words: (usize, usize),
}

/// The longest time for which a call may find no room before that is an error.
const PATIENCE: Duration = Duration::from_secs(60);

impl Sides {
    #[inline]
    fn operate(&mut self, kind: Kind, size: usize) -> Result<(), String> {
        if kind == Kind::Accumulate && size > 8 {
            let (words, most) = (size / 8, self.words.1);
            for from in (0..words).step_by(most) {
                let count = most.min(words - from);
                self.post(|s| s.accumulate(from, count))?;
            }
            return Ok(());
        }
        self.post(|s| s.call(kind, size))
    }

    /// Makes a call of the transport until it is taken, with progress in between.
    #[inline(always)]
    fn post(&self, call: impl Fn(&Self) -> Status) -> Result<(), String> {
        let status = call(self);
        if status == Status::SUCCESS {
            return Ok(());
        }
        self.post_again(status, &call)
    }

    #[cold]
    #[inline(never)]
    fn post_again(&self, mut status: Status, call: &dyn Fn(&Self) -> Status) -> Result<(), String> {
        let start = Instant::now();
        while status != Status::SUCCESS {
            if !status.is_again() {
                return Err(format!("the transport answered {status}"));
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("the transport answers {status} only"));
            }
            self.transport.progress();
            status = call(self);
        }
        Ok(())
    }

    #[inline(always)]
    fn call(&self, kind: Kind, size: usize) -> Status {
        let (t, peer) = (&self.transport, self.peer);
        let local = (self.local, std::ptr::null_mut::<Handle>());
        let remote = (self.remote, self.handle.as_ptr().cast::<Handle>());
        let (add, plain) = (BtlAtomicOp::Add, OpFlags::empty());
        // SAFETY: the peer is connected, and both buffers live to the end of the process.
        unsafe {
            match kind {
                Kind::Put => t.put(peer, (local.0, local.1), remote, size, UNREPORTED),
                Kind::Get => t.get(peer, local, remote, size, UNREPORTED),
                Kind::FetchAdd => t.atomic_fop(peer, local, remote, add, 1, plain, UNREPORTED),
                Kind::CompareSwap => t.atomic_cswap(peer, local, remote, (0, 1), plain, UNREPORTED),
                Kind::Accumulate => t.atomic_op(peer, remote, add, 1, plain, UNREPORTED),
            }
        }
    }

    /// Adds some of the operands to the peer's words.
    fn accumulate(&self, from: usize, count: usize) -> Status {
        let (none, handle) = (std::ptr::null_mut(), self.handle.as_ptr().cast::<Handle>());
        // SAFETY: as in `call`; both buffers have all words.
        unsafe {
            self.transport.atomic_opv(
                self.peer,
                (self.operands.as_ptr().add(from).cast(), none),
                (self.remote + (from * 8) as u64, handle),
                (Element::Uint64, AtomicOp::Sum),
                count,
                UNREPORTED,
            )
        }
    }

    fn raw_operate(&mut self, kind: Kind, size: usize) -> Result<(), String> {
        let (target, local, operands) = (self.target, self.local, self.operands.as_ptr());
        match kind {
            Kind::Put => self.raw.put(target, local, size)?,
            Kind::Get => self.raw.get(target, local, size)?,
            Kind::FetchAdd => self.raw.fetch_add(target, operands, local, 1)?,
            Kind::CompareSwap => self.raw.compare_swap(target, local)?,
            Kind::Accumulate => {
                let (words, most) = (size / 8, self.words.0);
                for from in (0..words).step_by(most) {
                    let count = most.min(words - from);
                    let at = Target {
                        address: target.address + (from * 8) as u64,
                        ..target
                    };
                    // SAFETY: both buffers have all words.
                    let (operands, result) = unsafe { (operands.add(from), local.add(from * 8)) };
                    self.raw.add(at, operands, result, count)?;
                }
            }
        }
        if self.raw.outstanding > 64 {
            self.raw.poll()?;
        }
        Ok(())
    }

    #[inline]
    fn window_operate(&self, kind: Kind, layout: &Layout) -> WinResult<()> {
        let there = || Place {
            rank: 1,
            displacement: 0,
            layout,
        };
        let word = self.local;
        // SAFETY: the buffer holds the largest layout and lives to the end of the process.
        unsafe {
            match kind {
                Kind::Put => self.window.put(word, layout, there()),
                Kind::Get => self.window.get(word, layout, there()),
                Kind::FetchAdd => {
                    let result = word.add(64);
                    self.window
                        .fetch_and_op(word, result, Datatype::Int64, 1, 0, Op::Sum)
                }
                Kind::CompareSwap => {
                    let (compare, result) = (word.add(8), word.add(64));
                    self.window
                        .compare_and_swap(word, compare, result, Datatype::Int64, 1, 0)
                }
                Kind::Accumulate => {
                    let operands = self.operands.as_ptr().cast();
                    self.window.accumulate(operands, layout, there(), Op::Sum)
                }
            }
        }
    }

    /// Runs one side `n` times; seconds.
    pub(crate) fn timed(
        &mut self,
        side: Side,
        kind: Kind,
        measure: Measure,
        size: usize,
        n: u32,
    ) -> Result<f64, String> {
        let together = match measure {
            Measure::Latency => 1,
            Measure::Rate => n,
            Measure::Bandwidth => 16,
        };
        let layout = match kind {
            Kind::Put | Kind::Get => Layout::contiguous(Datatype::Uint8, size),
            _ => Layout::contiguous(Datatype::Uint64, size / 8),
        };
        let start = Instant::now();
        let mut left = n;
        while left > 0 {
            let batch = together.min(left);
            for _ in 0..batch {
                match side {
                    Side::Raw => self.raw_operate(kind, size)?,
                    Side::Transport => self.operate(kind, size)?,
                    Side::Window => self
                        .window_operate(kind, &layout)
                        .map_err(|e| e.to_string())?,
                }
            }
            match side {
                Side::Raw => self.raw.drain()?,
                Side::Transport => self.flush()?,
                Side::Window => self.window.flush(1).map_err(|e| e.to_string())?,
            }
            left -= batch;
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn flush(&self) -> Result<(), String> {
        match self.transport.flush(Some(self.peer)) {
            Status::SUCCESS => Ok(()),
            status => Err(format!("a flush of the transport answered {status}")),
        }
    }

    /// Ends rank 1.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        // SAFETY: the word is inside the buffer, which no other code reads now.
        unsafe { self.local.add(STOP).cast::<u64>().write(1) };
        let (local, remote) = (self.local, self.remote);
        // SAFETY: the offset lies inside the buffer.
        self.local = unsafe { local.add(STOP) };
        self.remote = remote + STOP as u64;
        let put = self.operate(Kind::Put, 8);
        let stopped = put.and_then(|()| self.flush());
        (self.local, self.remote) = (local, remote);
        stopped
    }
}
