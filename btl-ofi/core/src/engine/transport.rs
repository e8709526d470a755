//! [`Transport`]: opening, registration, statistics, closing.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use plugin_api::{Access, AtomicKind, AtomicOp, Datatype, Module, Stats, Status};

use crate::base::capabilities::{Capabilities, ErrorReport};
use crate::base::error::Error;
use crate::base::fork::Birth;
use crate::base::interfaces::Lists;
use crate::base::usable;
use crate::engine::amo::Words;
use crate::engine::compound::Compounds;
use crate::engine::context::Context;
use crate::engine::fork;
use crate::engine::liveness::Detector;
use crate::engine::peers::Peers;
use crate::engine::post::Quick;
use crate::engine::rails::Rails;
use crate::engine::sends::Receive;
use crate::engine::staging::Hmem;
use crate::engine::streams::Streams;
use crate::engine::typed_amo::Vectors;
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::device::Device;
use crate::fabric::own::OwnMemory;
use crate::fabric::policy::Policy;
use crate::fabric::region::Region;
use crate::fabric::registration::Registrar;
use crate::mem::handle::Handle;
use crate::mem::shared::SharedMemory;
use crate::peer::address::Blob;
use crate::peer::counters::CounterTable;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::ProcessId;
use crate::peer::networks::Networks;
use crate::peer::reach::Probe;
use crate::sm::mapped::MappedRegions;

/// How long closing and releasing a peer wait for outstanding operations.
pub(super) const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// An open transport. It belongs to the process that opened it: a child of fork gets errors, and may open one of its own
/// (docs/failures.md). Opened with [`ThreadLevel::Multiple`](plugin_api::ThreadLevel::Multiple), every method may be called from several threads at
/// once; otherwise from one thread at a time. Callbacks run with no lock held.
#[repr(C)]
pub struct Transport {
    /// The module that a door hands out. First, so that a pointer to the transport is a pointer to the module.
    pub module: Module,
    pub(crate) quick: Quick,
    // Both hold a registration, so they are dropped before what that keeps open.
    pub(crate) node: Node,
    /// Further interfaces, for large transfers.
    pub(crate) rails: Rails,
    // Dropped before the memory that the provider may still write to or name.
    pub(crate) registrar: Arc<Registrar>,
    pub(crate) device: Arc<Device>,
    // Before what it names.
    pub(crate) entry: fork::Entry,
    pub(crate) contexts: Box<[Context]>,
    pub(crate) policy: Policy,
    pub(crate) atomics: Atomics,
    /// Operations that are made of others.
    pub(crate) compounds: Compounds,
    pub(crate) streams: Streams,
    pub(crate) setup: Setup,
    pub(crate) failures: Failures,
    pub(crate) detector: Detector,
    pub(crate) peers: Arc<Mutex<Peers>>,
    pub(crate) hmem: Hmem,
    /// Memory of local peers that this process maps.
    pub(crate) mapped: MappedRegions,
    pub(crate) counters: CounterTable,
    pub(crate) capabilities: Capabilities,
    /// The host's function for messages of peers.
    pub(crate) receive: Mutex<Option<Receive>>,
    /// The process that opened it.
    pub(crate) birth: Birth,
}

/// The atomics that are supported, in the forms in which the paths look them up.
pub(crate) struct Atomics {
    pub(crate) table: AtomicTable,
    pub(crate) words: Words,
    pub(crate) vectors: Vectors,
    /// Receives fetched values that no caller wants. Only the provider writes it; no code reads it.
    pub(crate) scratch: OwnMemory,
}

impl Atomics {
    pub(crate) fn new(table: AtomicTable, scratch: OwnMemory, policy: &Policy) -> Atomics {
        Atomics {
            words: Words::new(&table, policy),
            vectors: Vectors::new(&table, policy),
            scratch,
            table,
        }
    }
}

/// What was settled when the transport was opened.
pub(crate) struct Setup {
    /// Whether inline completions return `COMPLETED` instead of running a callback.
    pub(crate) answers_at_once: bool,
    pub(crate) threaded: bool,
    pub(crate) virtual_addresses: bool,
    pub(crate) put_limit: usize,
    pub(crate) get_limit: usize,
    /// Largest put, and largest get, of the quick paths: larger ones may go in pieces.
    pub(crate) quick_limits: (usize, usize),
    /// Largest put, and largest get, that travels as a message.
    pub(crate) message_limits: (usize, usize),
    /// Bytes of large transfers that are on the way to a peer at a time (`streams`), or `NO_WINDOW`.
    pub(crate) stream_window: usize,
    pub(crate) progress_threshold: u32,
    pub(crate) num_cq_read: usize,
    /// Milliseconds between two liveness checks.
    pub(crate) check_interval_ms: u64,
    /// Milliseconds of silence after which a peer is given up; 0 means never.
    pub(crate) peer_timeout_ms: u64,
    /// Whether the provider may register device memory (FI_HMEM).
    pub(crate) hmem_provider: bool,
    /// Whether a thread serves peers' requests on staged device memory.
    pub(crate) hmem_thread: bool,
    /// The interfaces that the user lists.
    pub(crate) interfaces: Lists,
    /// Passed to callbacks as their module.
    pub(crate) owner: AtomicPtr<Module>,
}

/// This process among those of its node.
pub(crate) struct Node {
    /// See [`liveness::machine`].
    pub(crate) machine: u64,
    /// See [`liveness::node`].
    pub(crate) id: u64,
    pub(crate) own: ProcessId,
    /// The registration of the probe as a word that peers read to confirm their puts, where puts go by order. Dropped before
    /// the memory.
    pub(crate) word: Option<Region>,
    /// The key that every message to this process carries ([`msg`](crate::fabric::msg)); 0 if it takes no messages.
    pub(crate) key: u64,
    /// A random value in this process's memory. Peers read it to verify that they reach this process (`reach`).
    pub(crate) probe: Box<AtomicU64>,
    /// Whether peers of this node may be reached by memory (`btl_ofi_same_node`).
    pub(crate) same_node: bool,
    /// Whether this process may reach the memory of others by CMA, and be reached.
    pub(crate) attaches: bool,
    /// Whether peers may be reached by rings, and this process is.
    pub(crate) has_rings: bool,
    /// Whether a connected peer may be reached through the provider.
    pub(crate) uses_fabric: AtomicBool,
    pub(crate) networks: Networks,
    /// What this process publishes for its peers.
    pub(crate) address: Vec<u8>,
}

/// Failures of operations and peers that were not reported yet, or that change what follows.
#[derive(Default)]
pub(crate) struct Failures {
    /// Operations without callback that failed since the last flush of all peers.
    pub(crate) lost: AtomicU32,
    /// Set once a peer failed: a flush of all then waits for each living peer by itself.
    pub(crate) degraded: AtomicBool,
    /// Threads that wait for endpoints after a failure, without a lock: a release meanwhile keeps the endpoint. Raised and read
    /// under the lock of the peers.
    pub(crate) flushing: AtomicU32,
    /// Threads that currently report the operations of failed peers.
    pub(crate) reporting: AtomicU32,
    /// Threads that put failures aside (`failure::aside`), so that others need not ask.
    pub(crate) quiet: AtomicU32,
    /// Set once no operation through the provider can complete any more.
    pub(crate) broken: AtomicBool,
    /// Set once the provider refused to close the endpoints, so that it may still touch buffers.
    pub(crate) refused_to_shut: AtomicBool,
    /// Status of the last peer failure, for the next flush of all peers.
    pub(crate) last_failure: AtomicI32,
    pub(crate) report: RwLock<Option<ErrorReport>>,
    /// Whether the failures of operations with a callback are reported, too.
    pub(crate) every: bool,
    /// What texts begin with: the interface, if this transport is a rail of another one.
    pub(crate) of: String,
}

// SAFETY: the raw pointers are to boxes that the transport owns; all other fields are Send.
unsafe impl Send for Transport {}
// SAFETY: shared fields are atomic or behind locks; each context's lock guards its provider objects.
unsafe impl Sync for Transport {}

thread_local! {
    /// The thread's number, which tells it from others and selects its context; assigned on first use.
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

pub(super) fn thread_number() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    THREAD.with(|t| {
        if t.get() == usize::MAX {
            t.set(NEXT.fetch_add(1, Ordering::Relaxed) as usize);
        }
        t.get()
    })
}

impl Transport {
    /// Whether calls may overlap: the transport was opened with [`ThreadLevel::Multiple`](plugin_api::ThreadLevel::Multiple).
    pub fn is_threaded(&self) -> bool {
        self.setup.threaded
    }

    /// Whether memory alone reaches peers: the provider is `memory`, which the user or the host names.
    pub fn is_by_memory_alone(&self) -> bool {
        self.policy.memory_only
    }

    /// Whether requests to peers of other nodes may travel as messages.
    pub fn uses_messages(&self) -> bool {
        self.policy.uses_messages()
    }

    /// The handle of a region of this process that holds `size` bytes at `address` and allows atomics, for a host that has none
    /// at hand when it reaches for its own memory.
    #[cold]
    pub fn own_handle(&self, address: u64, size: u64) -> Option<Handle> {
        if self.is_copy() {
            return None;
        }
        let regions = self.registrar.regions();
        regions.covering(address, size, Access::REMOTE_ATOMIC)
    }

    /// Makes inline completions return [`COMPLETED`](plugin_api::Status::COMPLETED); no callback runs then. For
    /// doors whose callers know that status.
    pub fn answer_at_once(&mut self) {
        self.setup.answers_at_once = true;
    }

    /// Sets the pointer that callbacks receive as their module.
    pub fn set_owner(&self, owner: *mut Module) {
        self.setup.owner.store(owner, Ordering::Relaxed);
    }

    /// Sets the function that receives failures which no callback reports.
    pub fn on_error(&self, report: Option<ErrorReport>) {
        *self
            .failures
            .report
            .write()
            .unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// The module's capabilities.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The bytes that peers need in order to [`connect`](Self::connect).
    pub fn address(&self) -> &[u8] {
        &self.node.address
    }

    /// Most elements of one typed AMO; `None` if the provider does not support it.
    pub fn atomic_count(
        &self,
        kind: AtomicKind,
        datatype: Datatype,
        op: AtomicOp,
    ) -> Option<usize> {
        match self.atomics.table.count(kind, datatype, op) {
            0 => None,
            n => Some(n as usize),
        }
    }

    /// Whether the probe in an address is this transport's own.
    pub(crate) fn is_own_probe(&self, blob: &Blob) -> bool {
        blob.probe() == known_by(&self.node.probe)
    }

    #[inline]
    pub(crate) fn own_index(&self) -> usize {
        match self.contexts.len() {
            n if n > 1 && self.setup.threaded => thread_number() % n,
            _ => 0,
        }
    }

    /// Registers `length` bytes at `base`. See [`Region`].
    ///
    /// For accesses of peers the first and the last word are tried, which changes nothing: memory that is to be written and can only
    /// be read is refused, and memory that is not mapped. Memory that its owner takes away later, while it is registered, is
    /// the owner's mistake: it gets the signal (SIGSEGV, SIGBUS) of the access that it makes for a peer.
    ///
    /// # Errors
    /// [`Error::Invalid`] for memory that peers cannot use as `access` says. Else the provider's refusal. With [`Status::OUT_OF_RESOURCE`] the caller may free something and try again.
    ///
    /// # Safety
    /// The memory stays mapped until the region is closed. Peers may access it as `access` allows.
    pub unsafe fn register(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
    ) -> Result<Region, Error> {
        self.check_copy()?;
        usable::check(base as u64, length as u64, access)?;
        let rails = self.rails.register(base, length, access);
        self.registrar.register(base, length, access, rails, None)
    }

    /// [`register`](Self::register) for memory that is a shared mapping of a file. Local peers map it too, and make their
    /// operations by instructions of their own, if the file is one in memory (`memfd_create`) that is sealed against
    /// shrinking (`F_SEAL_SHRINK`). Otherwise they reach it as other memory; a line of the log says why.
    ///
    /// The descriptor is duplicated (with `O_CLOEXEC`) and kept until the region is closed, so the caller may close its own
    /// after this call. If no descriptor is left for that, peers do not map the memory.
    ///
    /// A page of the file that is not allocated is allocated by its first access, and without memory left for it this is a
    /// fault (SIGBUS) of the process that makes the access. So allocate the pages before (`fallocate`).
    ///
    /// # Errors
    /// As for [`register`](Self::register). [`Error::Invalid`] if the memory cannot be at this place of the file.
    ///
    /// # Safety
    /// As for [`register`](Self::register). The memory is a shared mapping of the file at this place.
    pub unsafe fn register_shared(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
        memory: SharedMemory<'_>,
    ) -> Result<Region, Error> {
        self.check_copy()?;
        let file = memory.keep(base as u64, length as u64)?;
        usable::check(base as u64, length as u64, access)?;
        let rails = self.rails.register(base, length, access);
        self.registrar.register(base, length, access, rails, file)
    }

    /// Counts since opening.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::new();
        for context in &self.contexts {
            let state = context.state.lock();
            let direct = context.direct.load(Ordering::Relaxed);
            stats.posted += state.counts.others;
            stats.completed += state.counts.completed + direct;
            stats.failed += state.counts.failed;
            stats.again += state.counts.again;
        }
        self.counters.add_to(&mut stats);
        stats.posted += stats.operations.iter().sum::<u64>();
        self.rails.add_to(&mut stats);
        let own = u64::from(self.node.word.is_some()) + self.rails.registrations();
        stats.registrations = self.registrar.live() - own;
        stats.endpoints = self.lock_peers().known.len() as u64;
        stats
    }

    /// Waits for outstanding operations, for at most 5 s. For doors that end registrations before they
    /// [`close`](Self::close) the transport.
    pub fn flush_for_close(&self) {
        if self.is_copy() {
            return;
        }
        let until = Instant::now() + CLOSE_PATIENCE;
        self.flush_patiently(None);
        self.leave_mailboxes(None);
        // Peers wait for the answers of commands that were executed here, and for sends.
        self.wait_for_sends(None, until);
        self.part();
    }

    /// Makes progress until `is_done` holds, but no longer than a release waits. For doors that have something to send before they
    /// release a peer or close the transport.
    pub fn progress_until(&self, mut is_done: impl FnMut() -> bool) {
        let deadline = Instant::now() + self.patience();
        while !is_done() {
            if Instant::now() >= deadline || self.is_copy() {
                self.detector.impatient.store(true, Ordering::Relaxed);
                break;
            }
            self.progress();
        }
    }

    /// How long a release waits: not at all once one has waited in vain.
    pub(crate) fn patience(&self) -> Duration {
        match self.detector.impatient.load(Ordering::Relaxed) {
            false => CLOSE_PATIENCE,
            true => Duration::ZERO,
        }
    }

    /// Waits for outstanding operations to one peer or to all, for at most `CLOSE_PATIENCE`. After one timeout
    /// later calls do not wait.
    pub(crate) fn flush_patiently(&self, peer: Option<&Endpoint>) -> Status {
        let status = self.flush_until(peer, Some(Instant::now() + self.patience()));
        if status == Status::TIMEOUT {
            self.detector.impatient.store(true, Ordering::Relaxed);
        }
        status
    }

    /// Waits for outstanding operations, for at most 5 s, then closes everything. Regions that still exist keep
    /// their domain open until they are dropped, but peers no longer reach them through this transport's endpoints.
    ///
    /// # Errors
    /// The provider's first refusal; the rest is closed nevertheless. [`Error::Forked`] in a child of fork, which closes nothing.
    pub fn close(self) -> Result<(), Error> {
        if let Err(e) = self.check_copy() {
            // Threads of the parent may have been changing it, so it is not even dropped.
            std::mem::forget(self);
            return Err(e);
        }
        self.flush_for_close();
        let outstanding: u32 = self.contexts.iter().map(|c| c.count.outstanding()).sum();
        if outstanding > 0 && !self.failures.degraded.load(Ordering::Relaxed) {
            tracing::warn!("closing with {outstanding} operations outstanding");
        }
        let Transport {
            device,
            registrar,
            contexts,
            peers,
            mut node,
            atomics,
            hmem,
            rails,
            counters,
            compounds,
            entry,
            ..
        } = self;
        counters.write();
        hmem.shut();
        drop((node.word.take(), registrar));
        let on_rails = rails.close();
        // Live regions keep the device open, but what is outstanding uses memory that ends here.
        let shut = device.shut();
        let closed = match Arc::into_inner(device) {
            Some(device) => device.close(),
            // Live regions share the device; the last one closes it.
            None => Ok(()),
        };
        // Peers find it as long as the allocator leaves it there.
        node.probe.store(0, Ordering::Relaxed);
        drop(entry);
        // Dropped after the provider, which may still have written to this memory.
        let memory = (contexts, atomics, peers, node, hmem, counters, compounds);
        match &shut {
            Ok(()) => drop(memory),
            // The provider may still use it.
            Err(_) => std::mem::forget(memory),
        }
        shut.and(closed).and(on_rails)
    }
}

/// The probe that identifies this process's memory.
pub(super) fn known_by(probe: &AtomicU64) -> Probe {
    Probe {
        address: probe.as_ptr() as u64,
        value: probe.load(Ordering::Relaxed),
    }
}
