//! The three ways of one process to do the same operation.

use std::time::Instant;

use host_stub::loader::{EndpointRef, Transport};
use host_stub::win::{Datatype, Layout, Op, Target as Place, WinResult, Window};
use plugin_api::{BtlAtomicOp, Handle, OpFlags, Status};

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

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// One at a time, complete before the next; nanoseconds each.
    Latency,
    /// As many as the provider takes; operations per second.
    Rate,
    /// Sixteen at a time; bytes per second.
    Bandwidth,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Raw,
    Transport,
    Window,
}

/// All sides of one process, to the other.
pub(crate) struct Sides {
    pub(crate) window: Window,
    pub(crate) transport: Transport,
    pub(crate) peer: EndpointRef,
    pub(crate) handle: Vec<u64>,
    pub(crate) remote: u64,
    pub(crate) raw: Raw,
    pub(crate) target: Target,
    pub(crate) local: *mut u8,
}

impl Sides {
    #[inline]
    fn operate(&mut self, kind: Kind, size: usize) {
        loop {
            let none = std::ptr::null_mut::<Handle>();
            let context = none.cast::<std::ffi::c_void>();
            let handle = self.handle.as_ptr().cast::<Handle>();
            let (t, peer, local, remote) = (&self.transport, self.peer, self.local, self.remote);
            let (add, plain) = (BtlAtomicOp::Add, OpFlags::empty());
            // SAFETY: the peer is connected, and both buffers live to the end of the process.
            #[rustfmt::skip]
            let status = unsafe {
                match kind {
                    Kind::Put => t.put(peer, local, remote, none, handle, size, None, context, context),
                    Kind::Get => t.get(peer, local, remote, none, handle, size, None, context, context),
                    Kind::FetchAdd => t.atomic_fop(
                        peer, local, remote, none, handle, add, 1, plain, None, context, context),
                    Kind::CompareSwap => t.atomic_cswap(
                        peer, local, remote, none, handle, 0, 1, plain, None, context, context),
                    Kind::Accumulate => t.atomic_op(
                        peer, remote, handle, add, 1, plain, None, context, context),
                }
            };
            if status == Status::SUCCESS {
                return;
            }
            self.transport.progress();
        }
    }

    fn raw_operate(&mut self, kind: Kind, size: usize) {
        match kind {
            Kind::Put => self.raw.put(self.target, self.local, size),
            Kind::Get => self.raw.get(self.target, self.local, size),
            Kind::FetchAdd => self.raw.fetch_add(self.target, self.local),
            Kind::CompareSwap => self.raw.compare_swap(self.target, self.local),
            Kind::Accumulate => self.raw.add(self.target, self.local),
        }
        if self.raw.outstanding > 64 {
            self.raw.poll();
        }
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
                Kind::Accumulate => self.window.accumulate(word, layout, there(), Op::Sum),
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
            _ => Layout::contiguous(Datatype::Int64, 1),
        };
        let start = Instant::now();
        let mut left = n;
        while left > 0 {
            let batch = together.min(left);
            for _ in 0..batch {
                match side {
                    Side::Raw => self.raw_operate(kind, size),
                    Side::Transport => self.operate(kind, size),
                    Side::Window => self
                        .window_operate(kind, &layout)
                        .map_err(|e| e.to_string())?,
                }
            }
            match side {
                Side::Raw => self.raw.drain(),
                Side::Transport => drop(self.transport.flush(Some(self.peer))),
                Side::Window => self.window.flush(1).map_err(|e| e.to_string())?,
            }
            left -= batch;
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// Ends rank 1.
    pub(crate) fn stop(&mut self) {
        // SAFETY: inside the buffer, which nobody reads now.
        unsafe { self.local.add(STOP).cast::<u64>().write(1) };
        let (local, remote) = (self.local, self.remote);
        // SAFETY: as above.
        self.local = unsafe { local.add(STOP) };
        self.remote = remote + STOP as u64;
        self.operate(Kind::Put, 8);
        self.transport.flush(Some(self.peer));
        (self.local, self.remote) = (local, remote);
    }
}
