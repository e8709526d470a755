//! The counted calls: the same number of each kind, each kind between its entry and the end of
//! [`counted_phase`], which makes callgrind write its counts and begin anew.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use host_stub::job::{Job, JobOptions};
use host_stub::loader::{EndpointRef, Transport, UNREPORTED};
use host_stub::win::{
    Assertion, Datatype, Info, Layout, Op, TableChoice, Target, WinError, Window,
};
use plugin_api::counters::Carrier;
use plugin_api::{
    APPLY_OTHER, Access, ApplyRequest, ApplyRun, AtomicOp, BtlAtomicOp, CompletionFn, Endpoint,
    Handle, Module, OpFlags, Status, ThreadLevel,
};

/// Calls of each kind. Fewer than `btl_ofi_progress_threshold`, so that posting makes no progress,
/// and fewer than one read of a queue returns, so that one read finds all of them.
pub(super) const CALLS: u64 = 48;
/// Bytes of each rank's memory; its last word ends a rank that only makes progress.
const SIZE: usize = 4096;
const STOP: usize = SIZE - 8;
/// The longest time for which the target may be too slow before a kind is counted.
const PATIENCE: Duration = Duration::from_secs(60);
/// Polls of the target before it yields to other processes.
const POLLS: usize = 1000;
/// Words of the initiator's memory, used in turns.
const WORDS: usize = 64;

/// The kinds over the transport, in the order in which they are counted.
pub(super) const TRANSPORT: [&str; 15] = [
    "put",
    "put with callback",
    "get",
    "get with callback",
    "fetch-add",
    "fetch-add with callback",
    "compare-swap",
    "compare-swap with callback",
    "add",
    "add with callback",
    "apply",
    "apply with callback",
    "progress, nothing there",
    "flush, nothing outstanding",
    "put with callback and its completion",
];
/// The kinds over a window whose table goes through the transport.
pub(super) const WINDOW: [&str; 4] = [
    "window put and flush",
    "window get and flush",
    "window fetch-add and flush",
    "window accumulate and flush",
];
/// The kind over a window in a shared segment.
pub(super) const SHARED: &str = "window put to a shared segment";

/// Kinds of operations, the first of [`TRANSPORT`].
const KINDS: usize = 12;

/// Named without mangling, for callgrind's options.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn counted_phase(work: &mut Work<'_>) {
    for _ in 0..CALLS {
        (work.call)();
    }
    // Keeps the call before from being a tail call, which would leave this function early.
    work.over += 1;
}

struct Work<'a> {
    call: &'a mut dyn FnMut(),
    over: u64,
}

unsafe extern "C" fn done(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    _status: i32,
) {
    // SAFETY: the context is the counter of a rank, which outlives its operations.
    let count = unsafe { &*context.cast::<Cell<u64>>() };
    count.set(count.get() + 1);
}

struct Rank {
    transport: Transport,
    peer: EndpointRef,
    local: *mut u8,
    /// The word of `local` for the next operation: two results must not share a word.
    next: Cell<usize>,
    remote: u64,
    handle: Vec<u64>,
    done: Cell<u64>,
    refused: Cell<Option<Status>>,
}

/// Runs one rank over a provider.
pub(super) fn run(provider: &str) -> Result<(), String> {
    let mut options = JobOptions::default();
    options.settings = vec![
        ("btl_ofi_provider_include".into(), provider.into()),
        (
            "btl_ofi_same_node".into(),
            benches::same_node(provider).into(),
        ),
    ];
    // SAFETY: this program has one thread that calls.
    let options = unsafe { options.assume_threads(ThreadLevel::Single) };
    let job = Job::init(options).map_err(|e| e.to_string())?;
    let memory = vec![0u64; SIZE / 8].leak().as_mut_ptr().cast::<u8>();
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    // SAFETY: the memory is never freed.
    let registration =
        unsafe { job.transport().register(memory, SIZE, access) }.map_err(|e| e.to_string())?;
    let mut card = (memory as u64).to_ne_bytes().to_vec();
    card.extend_from_slice(registration.handle_bytes());
    let cards = job.allgather(&card).map_err(|e| e.to_string())?;
    let last = job.size() as usize - 1;
    let words: Vec<u64> = cards[last]
        .as_chunks::<8>()
        .0
        .iter()
        .map(|w| u64::from_ne_bytes(*w))
        .collect();
    let rank = Rank {
        transport: job.transport().clone(),
        peer: job.endpoint(last as u32).map_err(|e| e.to_string())?,
        local: vec![0u64; WORDS].leak().as_mut_ptr().cast(),
        next: Cell::new(0),
        remote: words[0],
        handle: words[1..].to_vec(),
        done: Cell::new(0),
        refused: Cell::new(None),
    };
    let info = Info::new().with_table(TableChoice::Btl);
    let window = Window::allocate_with(&job, SIZE, 1, &info).map_err(text)?;
    let info = Info::new().with_table(TableChoice::Shm);
    let shared = Window::allocate_with(&job, SIZE, 1, &info).map_err(text)?;
    if job.rank() == 0 {
        window.lock_all(Assertion::empty()).map_err(text)?;
        shared.lock_all(Assertion::empty()).map_err(text)?;
        let counted = rank
            .count()
            .and_then(|()| rank.count_window(&window, last))
            .and_then(|()| rank.count_shared(&shared, last));
        window.unlock_all().map_err(text)?;
        shared.unlock_all().map_err(text)?;
        rank.stop();
        counted?;
    } else {
        // SAFETY: the last word of this rank's own memory; a peer writes it.
        while unsafe { memory.add(STOP).cast::<u64>().read_volatile() } == 0 {
            // Yields rarely: on a busy machine, a rank that yields at each poll never answers in time.
            for _ in 0..POLLS {
                rank.transport.progress();
            }
            std::thread::yield_now();
        }
    }
    job.barrier().map_err(|e| e.to_string())?;
    window.free().map_err(|e| e.to_string())?;
    shared.free().map_err(|e| e.to_string())?;
    drop(registration);
    job.finalize().map_err(|e| e.to_string())
}

fn text(error: Box<WinError>) -> String {
    error.to_string()
}

fn count(call: &mut dyn FnMut()) {
    counted_phase(&mut Work { call, over: 0 });
}

impl Rank {
    fn call(&self, kind: usize) -> Status {
        let handle = self.handle.as_ptr().cast::<Handle>();
        let callback: Option<CompletionFn> = if kind % 2 == 1 { Some(done) } else { None };
        let context = (&raw const self.done).cast_mut().cast::<c_void>();
        let report = (callback, context, null_mut());
        let (t, peer, remote) = (&self.transport, self.peer, (self.remote, handle));
        let next = self.next.get();
        self.next.set((next + 1) % WORDS);
        // SAFETY: one of the words of `local`.
        let local = unsafe { self.local.add(next * 8) };
        let flags = OpFlags::empty();
        // SAFETY: the peer is connected; the memory on both sides lives to the end of the process.
        unsafe {
            match kind / 2 {
                0 => t.put(peer, (local, null_mut()), remote, 8, report),
                1 => t.get(peer, (local, null_mut()), remote, 8, report),
                2 => t.atomic_fop(
                    peer,
                    (local, null_mut()),
                    remote,
                    BtlAtomicOp::Add,
                    1,
                    flags,
                    report,
                ),
                3 => t.atomic_cswap(peer, (local, null_mut()), remote, (0, 1), flags, report),
                5 => {
                    // The provider does not serve this type, so the operation is a command over
                    // every provider.
                    let run = ApplyRun {
                        offset: 0,
                        length: 8,
                        stride: 0,
                        count: 1,
                    };
                    let request = ApplyRequest {
                        runs: &raw const run,
                        run_count: 1,
                        operands: local.cast(),
                        results: null_mut(),
                        size: 8,
                        datatype: APPLY_OTHER,
                        op: AtomicOp::Write as u32,
                        code: 0,
                    };
                    t.apply(peer, remote, &request, report)
                }
                _ => t.atomic_op(peer, remote, BtlAtomicOp::Add, 1, flags, report),
            }
        }
    }

    /// Posts once. A refused post is remembered, because the measurement is void then.
    fn post(&self, kind: usize) {
        match self.call(kind) {
            Status::SUCCESS => {}
            // No callback will run.
            Status::COMPLETED => self.done.set(self.done.get() + 1),
            status => self.refused.set(Some(status)),
        }
    }

    /// Makes calls until one takes the path that is to be counted. After a slow answer of the target, which is common on
    /// a busy machine, transfers use the kernel instead of the ring for a while.
    fn await_ring(&self, kind: usize) -> Result<(), String> {
        let by_kernel = || {
            let stats = self.transport.stats().map_err(|e| e.to_string())?;
            Ok::<_, String>((stats.operations[Carrier::Cma as usize], stats.revoked))
        };
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let before = by_kernel()?;
            self.post(kind);
            self.transport.flush(None);
            if by_kernel()? == before {
                return Ok(());
            }
        }
        Err(format!(
            "no transfer went through the target's ring in {PATIENCE:?}: the machine is too busy to count"
        ))
    }

    fn count(&self) -> Result<(), String> {
        // The first operation of each kind connects peers and fills pools; it may be refused for a
        // while.
        for kind in 0..KINDS {
            while self.call(kind).is_again() {
                self.transport.progress();
            }
            self.transport.flush(None);
        }
        for kind in 0..KINDS {
            self.await_ring(kind)?;
            count(&mut || self.post(kind));
            self.transport.flush(None);
        }
        count(&mut || {
            self.transport.progress();
        });
        count(&mut || {
            self.transport.flush(Some(self.peer));
        });
        count(&mut || {
            let before = self.done.get();
            self.post(1);
            while self.done.get() == before && self.refused.get().is_none() {
                self.transport.progress();
            }
        });
        match self.refused.get() {
            Some(status) => Err(format!("an operation was answered with {status}")),
            None => Ok(()),
        }
    }

    fn count_window(&self, window: &Window, rank: usize) -> Result<(), String> {
        let bytes = Layout::contiguous(Datatype::Uint8, 8);
        let word = Layout::contiguous(Datatype::Int64, 1);
        let at = |layout| Target {
            rank,
            displacement: 64,
            layout,
        };
        let operand = self.local;
        // SAFETY: in the words of `local`.
        let result = unsafe { operand.add(8) };
        let mut outcome = Ok(());
        let mut call = |kind| {
            // SAFETY: the buffers live to the end of the process.
            let posted = unsafe {
                match kind {
                    0 => window.put(operand, &bytes, at(&bytes)),
                    1 => window.get(result, &bytes, at(&bytes)),
                    2 => window.fetch_and_op(operand, result, Datatype::Int64, rank, 64, Op::Sum),
                    _ => window.accumulate(operand, &word, at(&word), Op::Sum),
                }
            };
            let flushed = posted.and_then(|()| window.flush(rank));
            if let Err(e) = flushed {
                outcome = Err(text(e));
            }
        };
        for kind in 0..WINDOW.len() {
            call(kind);
            count(&mut || call(kind));
        }
        outcome
    }

    /// A put that is complete when it returns.
    fn count_shared(&self, window: &Window, rank: usize) -> Result<(), String> {
        let layout = Layout::contiguous(Datatype::Uint8, 8);
        let mut outcome = Ok(());
        let mut call = || {
            let target = Target {
                rank,
                displacement: 64,
                layout: &layout,
            };
            // SAFETY: the buffer lives to the end of the process.
            if let Err(e) = unsafe { window.put(self.local, &layout, target) } {
                outcome = Err(text(e));
            }
        };
        call();
        count(&mut call);
        outcome
    }

    /// Ends the rank that only makes progress.
    fn stop(&self) {
        // SAFETY: the first word of `local`, and the word at STOP of the peer's memory.
        unsafe {
            self.local.cast::<u64>().write(1);
            let handle = self.handle.as_ptr().cast::<Handle>();
            let (local, remote) = (
                (self.local.cast_const(), null_mut()),
                (self.remote + STOP as u64, handle),
            );
            while self
                .transport
                .put(self.peer, local, remote, 8, UNREPORTED)
                .is_again()
            {
                self.transport.progress();
            }
        }
        self.transport.flush(None);
    }
}
