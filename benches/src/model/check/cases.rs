//! What is both run and modelled.

use std::error::Error;

use btl_ofi::sizes::Request;
use host_stub::comm::Comm;
use host_stub::win::{Assertion, Datatype, Layout, LockKind, Op, Target, Window};

use crate::traffic::{Job, Script};
use crate::{collectives, epochs};

/// Bytes of a window, and of the longest put and allreduce.
pub(super) const LONG: usize = 64 << 10;

/// What a rank calls with.
pub(super) struct Rank {
    pub(super) shape: Job,
    pub(super) me: u64,
    pub(super) window: Window,
    pub(super) comm: Comm,
    /// Buffers of [`LONG`] bytes.
    pub(super) from: Vec<u64>,
    pub(super) into: Vec<u64>,
}

type Outcome = Result<(), Box<dyn Error>>;

/// One line of the check.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Calls between two readings of the counters.
    pub(super) times: u64,
    pub(super) run: fn(&mut Rank) -> Outcome,
    pub(super) script: fn(Job, u64) -> Script,
    /// Whether mailboxes carry it. Then rings are given back in it, and each call is complete everywhere before the next.
    pub(super) by_mailbox: bool,
    /// The part of the messages that may be saved: a request that is made while another one waits to be sent to the same
    /// rank shares its message. How many do, depends on the moment.
    pub(super) shared: f64,
    /// Whether the provider makes a part of it, with bytes of its own.
    pub(super) by_provider: bool,
}

const CASE: Case = Case {
    name: "",
    times: 5,
    run: |_| Ok(()),
    script: |_, _| Script::default(),
    by_mailbox: false,
    shared: 0.1,
    by_provider: false,
};

impl Rank {
    /// The rank of this number on the next node.
    fn far(&self) -> usize {
        ((self.me + self.shape.per_node) % self.shape.ranks) as usize
    }

    fn to<'a>(&self, rank: usize, layout: &'a Layout) -> Target<'a> {
        Target {
            rank,
            displacement: 0,
            layout,
        }
    }

    fn put(&self, rank: usize, layout: &Layout) -> Outcome {
        // SAFETY: the buffer holds the layout and is left alone until after the flush.
        unsafe {
            self.window
                .put(self.from.as_ptr().cast(), layout, self.to(rank, layout))?;
        }
        Ok(())
    }

    /// An access epoch to all ranks that costs nothing by itself.
    fn open(&self, calls: impl FnOnce() -> Outcome) -> Outcome {
        self.window.lock_all(Assertion::NOCHECK)?;
        let called = calls();
        self.window.unlock_all()?;
        called
    }

    /// Puts to the far rank, and one flush.
    fn puts(&self, count: usize, layout: &Layout) -> Outcome {
        self.open(|| {
            for _ in 0..count {
                self.put(self.far(), layout)?;
            }
            Ok(self.window.flush(self.far())?)
        })
    }

    fn get(&mut self) -> Outcome {
        let (word, far, into) = (word(), self.far(), self.into.as_mut_ptr().cast());
        self.open(|| {
            // SAFETY: the buffer holds the layout and is left alone until after the flush.
            unsafe { self.window.get(into, &word, self.to(far, &word))? };
            Ok(self.window.flush(far)?)
        })
    }

    /// An atomic of each kind with one result or none.
    fn update(&mut self, kind: Request) -> Outcome {
        let (word, far) = (word(), self.far());
        let (from, into) = (
            self.from.as_ptr().cast::<u8>(),
            self.into.as_mut_ptr().cast(),
        );
        self.open(|| {
            // SAFETY: the buffers hold an element and are left alone until after the flush.
            unsafe {
                match kind {
                    Request::FetchAdd => {
                        let int = Datatype::Int64;
                        self.window.fetch_and_op(from, into, int, far, 0, Op::Sum)?;
                    }
                    Request::CompareSwap => {
                        let int = Datatype::Int64;
                        self.window
                            .compare_and_swap(from, from.add(8), into, int, far, 0)?;
                    }
                    Request::Notified(_) => {
                        let target = self.to(far, &word);
                        self.window.put_notify(from, &word, target, 0)?;
                    }
                    _ => {
                        let target = self.to(far, &word);
                        self.window.accumulate(from, &word, target, Op::Sum)?;
                    }
                }
            }
            Ok(self.window.flush(far)?)
        })
    }

    fn halo(&self) -> Outcome {
        let group = epochs::neighbours(self.shape, self.me);
        let group: Vec<usize> = group.into_iter().map(|rank| rank as usize).collect();
        self.window.post(&group, Assertion::empty())?;
        self.window.start(&group, Assertion::empty())?;
        for rank in &group {
            self.put(*rank, &word())?;
        }
        self.window.complete()?;
        Ok(self.window.wait()?)
    }

    fn locks(&self) -> Outcome {
        self.window.lock_all(Assertion::empty())?;
        Ok(self.window.unlock_all()?)
    }

    fn put_to_all(&self) -> Outcome {
        self.open(|| {
            for rank in (0..self.shape.ranks).filter(|rank| *rank != self.me) {
                self.put(rank as usize, &word())?;
            }
            Ok(self.window.flush_all()?)
        })
    }

    fn exclusive_put(&self) -> Outcome {
        let far = self.far();
        self.window
            .lock(LockKind::Exclusive, far, Assertion::empty())?;
        self.put(far, &word())?;
        Ok(self.window.unlock(far)?)
    }

    fn allreduce(&mut self, bytes: usize) -> Outcome {
        let (from, into) = (
            self.from.as_ptr().cast::<u8>(),
            self.into.as_mut_ptr().cast::<u8>(),
        );
        let count = bytes / size_of::<f64>();
        // SAFETY: both buffers hold as many elements.
        unsafe {
            self.comm
                .allreduce(from, into, count, Datatype::Double, Op::Sum)?;
        }
        Ok(())
    }
}

fn word() -> Layout {
    Layout::contiguous(Datatype::Int64, 1)
}

/// All cases, in the order in which all ranks run them.
pub(super) const CASES: [Case; 16] = [
    Case {
        name: "put 8 B, flush",
        run: |r| r.puts(1, &word()),
        script: |_, _| epochs::operation(Request::Put(8)),
        ..CASE
    },
    Case {
        name: "get 8 B, flush",
        run: Rank::get,
        script: |_, _| epochs::operation(Request::Get(8)),
        ..CASE
    },
    Case {
        name: "fetch-add, flush",
        run: |r| r.update(Request::FetchAdd),
        script: |_, _| epochs::operation(Request::FetchAdd),
        ..CASE
    },
    Case {
        name: "accumulate 8 B, flush",
        run: |r| r.update(Request::Add),
        script: |_, _| epochs::operation(Request::Add),
        ..CASE
    },
    Case {
        name: "compare-swap, flush",
        run: |r| r.update(Request::CompareSwap),
        script: |_, _| epochs::operation(Request::CompareSwap),
        ..CASE
    },
    Case {
        name: "notified put 8 B, flush",
        run: |r| r.update(Request::Notified(8)),
        script: |_, _| epochs::operation(Request::Notified(8)),
        ..CASE
    },
    Case {
        name: "64 puts 8 B, flush",
        run: |r| r.puts(64, &word()),
        script: |_, _| epochs::puts(64),
        ..CASE
    },
    Case {
        name: "put 64 KiB, flush",
        run: |r| r.puts(1, &Layout::contiguous(Datatype::Int64, LONG / 8)),
        script: |_, _| epochs::operation(Request::Put(LONG)),
        by_provider: true,
        ..CASE
    },
    Case {
        name: "fence",
        times: 1,
        run: |r| Ok(r.window.fence(Assertion::NOSUCCEED)?),
        script: epochs::fence,
        ..CASE
    },
    Case {
        name: "halo: post, start, puts, complete, wait",
        times: 1,
        run: |r| r.halo(),
        script: |job, rank| epochs::halo(job, rank, 8),
        ..CASE
    },
    Case {
        name: "lock_all, unlock_all",
        times: 1,
        run: |r| r.locks(),
        script: epochs::locks,
        ..CASE
    },
    Case {
        name: "put 8 B to all, flush_all",
        times: 1,
        run: |r| r.put_to_all(),
        script: epochs::put_to_all,
        ..CASE
    },
    Case {
        name: "exclusive lock, put 8 B, unlock",
        times: 1,
        run: |r| r.exclusive_put(),
        script: |_, _| epochs::exclusive_put(),
        ..CASE
    },
    Case {
        name: "barrier",
        times: 4,
        run: |r| Ok(r.comm.barrier()?),
        script: collectives::barrier,
        by_mailbox: true,
        // What gives rings back.
        shared: 0.25,
        ..CASE
    },
    Case {
        name: "allreduce 8 B",
        times: 4,
        run: |r| r.allreduce(8),
        script: |job, rank| collectives::allreduce(job, rank, 8),
        by_mailbox: true,
        shared: 0.25,
        ..CASE
    },
    Case {
        name: "allreduce 64 KiB",
        times: 2,
        run: |r| r.allreduce(LONG),
        script: |job, rank| collectives::allreduce(job, rank, LONG),
        by_mailbox: true,
        // An offer may follow the word that another one was fetched.
        shared: 0.5,
        by_provider: true,
    },
];

/// Whether the ranks of a job can meet so: nodes of equal size, at least two.
pub(super) fn fits(job: Job) -> bool {
    job.nodes() > 1 && job.ranks.is_multiple_of(job.per_node)
}
