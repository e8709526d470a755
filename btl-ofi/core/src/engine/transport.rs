//! [`Transport`]: opening, registration, statistics, closing.

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use plugin_api::{
    Access, AtomicKind, AtomicOp, Datatype, Module, ModuleFlags, Stats, Status, ThreadLevel,
};

use crate::base::capabilities::{Capabilities, ErrorReport};
use crate::base::error::Error;
use crate::base::guard::Installed;
use crate::base::params::Options;
use crate::engine::amo::Words;
use crate::engine::context::Context;
use crate::engine::peers::Peers;
use crate::engine::post::Quick;
use crate::engine::staging::Hmem;
use crate::engine::typed_amo::Vectors;
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::device::Device;
use crate::fabric::policy::{self, Policy};
use crate::fabric::registration::{Region, Registrar};
use crate::fabric::select::{self, Calling};
use crate::mem::handle::Handle;
use crate::peer::address::Blob;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{self, ProcessId};
use crate::peer::reach::{self, Probe};
use crate::sm::channel::Channel;
use crate::sm::segment::{self, Segment};

/// How long closing and releasing a peer wait for outstanding operations.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Write-only memory for results that no caller uses.
pub(crate) struct Scratch(*mut [u64]);

impl Scratch {
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.0.cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: `open` made the pointer with Box::into_raw, and `drop` runs once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// An open transport. Opened with [`ThreadLevel::Multiple`], every method may be called from several threads at
/// once; otherwise from one thread at a time. Callbacks run with no lock held.
#[repr(C)]
pub struct Transport {
    /// The module that a door hands out. First, so that a pointer to the transport is a pointer to the module.
    pub module: Module,
    pub(crate) quick: Quick,
    // Dropped before the memory that the provider may still write to or name.
    pub(crate) registrar: Arc<Registrar>,
    pub(crate) device: Arc<Device>,
    pub(crate) contexts: Box<[Context]>,
    /// Receives fetched values that no caller wants. Only the provider writes it; no code reads it.
    pub(crate) scratch: Scratch,
    pub(crate) policy: Policy,
    pub(crate) words: Words,
    pub(crate) vectors: Vectors,
    /// Whether inline completions return `COMPLETED` instead of running a callback.
    pub(crate) answers_at_once: bool,
    /// Whether peers of this node may be reached by memory (`btl_ofi_same_node`).
    pub(crate) same_node: bool,
    /// Whether this process may reach the memory of others by CMA, and be reached.
    pub(crate) attaches: bool,
    /// Whether peers may be reached by rings, and this process is.
    pub(crate) has_rings: bool,
    /// Whether a connected peer may be reached through the provider.
    pub(crate) uses_fabric: AtomicBool,
    pub(crate) threaded: bool,
    pub(crate) virtual_addresses: bool,
    pub(crate) put_limit: usize,
    pub(crate) get_limit: usize,
    pub(crate) progress_threshold: u32,
    pub(crate) num_cq_read: usize,
    /// Passed to callbacks as their module.
    pub(crate) owner: AtomicPtr<Module>,

    /// Operations without callback that failed since the last flush of all peers.
    pub(crate) lost: AtomicU32,
    /// Set once a peer failed: a flush of all then waits for each living peer by itself.
    pub(crate) degraded: AtomicBool,
    /// Threads that currently report the operations of failed peers.
    pub(crate) telling: AtomicU32,
    /// Set once no operation through the provider can complete any more.
    pub(crate) broken: AtomicBool,
    /// Status of the last peer failure, for the next flush of all peers.
    pub(crate) last_failure: AtomicI32,
    pub(crate) last_check: AtomicU64,
    /// Set once closing or releasing a peer timed out. Later releases then do not wait again for operations
    /// that never complete. A new peer clears it.
    pub(crate) impatient: AtomicBool,
    /// Milliseconds between two liveness checks.
    pub(crate) look_ms: u64,
    /// Milliseconds of silence after which a peer is given up; 0 means never.
    pub(crate) peer_timeout_ms: u64,
    /// Whether the failure detector also checks peers with no outstanding operations.
    pub(crate) watch_idle: AtomicBool,
    pub(crate) own: ProcessId,
    pub(crate) opened: Instant,
    pub(crate) peers: Mutex<Peers>,
    pub(crate) report: RwLock<Option<ErrorReport>>,
    pub(crate) hmem: Hmem,
    /// Whether the provider may register device memory (FI_HMEM).
    pub(crate) hmem_provider: bool,
    /// Whether a thread serves peers' requests on staged device memory.
    pub(crate) hmem_thread: bool,
    /// Set once the fallback after a refused device registration was logged.
    pub(crate) said_fall_back: AtomicBool,
    pub(crate) atomics: AtomicTable,
    pub(crate) capabilities: Capabilities,
    address: Vec<u8>,
    pub(crate) node: u64,
    /// A random value in this process's memory. Peers read it to verify that they reach this process (`reach`),
    /// and write back the same value.
    probe: Box<AtomicU64>,
}

// SAFETY: the raw pointers are to boxes that the transport owns; all other fields are Send.
unsafe impl Send for Transport {}
// SAFETY: shared fields are atomic or behind locks; each context's lock guards its provider objects.
unsafe impl Sync for Transport {}

thread_local! {
    /// The thread's number, which selects its context; assigned on first use.
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn thread_number() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    THREAD.with(|t| {
        if t.get() == usize::MAX {
            t.set(NEXT.fetch_add(1, Ordering::Relaxed) as usize);
        }
        t.get()
    })
}

impl Transport {
    /// Opens the first usable provider.
    ///
    /// # Errors
    /// [`Error::NoProvider`] lists every provider with the reason for its refusal; other errors name the
    /// libfabric call.
    pub fn open(options: &Options, level: ThreadLevel) -> Result<Transport, Error> {
        let threaded = level == ThreadLevel::Multiple;
        let mut chosen = select::choose(options, Calling::at(level))?;
        let device = Arc::new(chosen.device);
        let info = device.info();
        let provider = info.provider();
        let mut policy = policy::decide(info);
        let mut scratch = vec![0u64; 1];
        if policy.updates_fetch {
            chosen.atomics.update_by_fetch();
            scratch.resize(chosen.atomics.largest_update().div_ceil(8).max(1), 0);
        }
        let probe = Box::new(AtomicU64::new(probe_value()));
        let known_by = known_by(&probe);
        let apart = policy::keeps_apart(info, options).map(String::from);
        let same_node = apart.is_none();
        let obstacle = apart.or_else(|| reach::prepare(known_by));
        policy.describe(obstacle.as_deref().map_or(Ok(()), Err));
        let attaches = obstacle.is_none();
        let segment = attaches.then(|| make_segment(known_by.value)).flatten();
        let descriptor = segment.as_ref().map(Segment::descriptor);
        if same_node && policy.processor_atomics {
            chosen.atomics.limit_to_ring(segment::LARGEST);
        }
        let claimed = info.claims_contexts();
        let mut contexts = Vec::new();
        for (tx, cq) in device.lanes() {
            // SAFETY: the transport holds the device, which keeps the endpoints and queues live.
            contexts.push(unsafe { Context::new(tx, cq, &provider, threaded, claimed)? });
        }
        let guard = (same_node && options.fault_guard)
            .then(Installed::new)
            .flatten();
        if let (Some(segment), Some(context)) = (segment, contexts.first()) {
            context.state.lock().channel = Some(Box::new(Channel::new(segment)));
        }
        let registrar = Arc::new(Registrar::new(Arc::clone(&device), threaded, guard));
        let (put_limit, get_limit) = policy::limits(info, options);
        let capabilities = Capabilities {
            flags: flags(&policy, attaches, &chosen.atomics)
                & ModuleFlags::from_bits_retain(options.flags),
            atomic_flags: chosen.atomics.flags(),
            put_limit,
            get_limit,
            exclusivity: options.exclusivity,
            latency: options.latency,
            bandwidth: match options.bandwidth {
                0 => link_speed(info),
                n => n,
            },
            contexts: contexts.len(),
            registers_pages: info.domain_attr().mr_mode as u32
                & (libfabric_sys::FI_MR_BASIC | libfabric_sys::FI_MR_ALLOCATED)
                != 0,
            provider: c_string(&provider),
            domain: c_string(&info.domain()),
            completion: c_string(&policy.text),
            passed_over: chosen.passed_over,
        };
        let (node, own) = (liveness::node(), ProcessId::own());
        let address = Blob {
            virtual_addresses: registrar.virtual_addresses,
            same_node,
            node,
            process: own,
            probe_address: known_by.address,
            probe_value: known_by.value,
            segment: descriptor,
            provider: provider.clone(),
            format: info.raw().addr_format,
            address: device.name()?,
        }
        .encode();
        if options.rd_num_set {
            tracing::warn!(
                "btl_ofi_rd_num is set, but this transport is one-sided and posts no receive buffers"
            );
        }
        if options.contexts > contexts.len() {
            tracing::warn!(
                "{} contexts were asked for, {} are used{}",
                options.contexts,
                contexts.len(),
                if options.disable_sep {
                    String::from(": btl_ofi_disable_sep is set")
                } else if device.is_scalable() {
                    format!(": provider {provider} has no more")
                } else {
                    format!(": provider {provider} has no scalable endpoint")
                }
            );
        }
        for (name, why) in &capabilities.passed_over {
            tracing::info!("passed over {name}: {why}");
        }
        tracing::info!(
            "using provider {provider}, domain {}, {} context(s): {}",
            info.domain(),
            contexts.len(),
            policy.text
        );
        let contexts = contexts.into_boxed_slice();
        Ok(Transport {
            module: Module {
                vtable: std::ptr::null(),
                attributes: std::ptr::null(),
            },
            scratch: Scratch(Box::into_raw(scratch.into_boxed_slice())),
            threaded,
            virtual_addresses: registrar.virtual_addresses,
            put_limit,
            get_limit,
            progress_threshold: options.progress_threshold,
            num_cq_read: options.num_cq_read,
            owner: AtomicPtr::new(std::ptr::null_mut()),
            lost: AtomicU32::new(0),
            degraded: AtomicBool::new(false),
            telling: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            last_failure: AtomicI32::new(0),
            last_check: AtomicU64::new(0),
            impatient: AtomicBool::new(false),
            look_ms: look_interval(options),
            peer_timeout_ms: u64::from(options.peer_timeout_ms),
            watch_idle: AtomicBool::new(false),
            own,
            opened: Instant::now(),
            peers: Mutex::new(Peers::default()),
            report: RwLock::new(None),
            hmem: Hmem::default(),
            hmem_provider: select::takes_devices(info),
            hmem_thread: options.hmem_thread,
            said_fall_back: AtomicBool::new(false),
            words: Words::new(&chosen.atomics, &policy),
            vectors: Vectors::new(&chosen.atomics, &policy),
            quick: Quick {
                first: contexts.as_ptr(),
                several: contexts.len() > 1,
                delivered: policy.delivered,
                crowd: policy.depth.min(options.progress_threshold),
                records: !policy.bare,
                virtual_addresses: registrar.virtual_addresses,
            },
            answers_at_once: false,
            atomics: chosen.atomics,
            policy,
            same_node,
            attaches,
            has_rings: descriptor.is_some(),
            uses_fabric: AtomicBool::new(false),
            capabilities,
            address,
            node,
            probe,
            contexts,
            registrar,
            device,
        })
    }

    /// Whether calls may overlap: the transport was opened with [`ThreadLevel::Multiple`].
    pub fn is_threaded(&self) -> bool {
        self.threaded
    }

    /// The handle of a region of this process that holds `size` bytes at `address`, for a host that has none at hand
    /// when it reaches for its own memory.
    #[cold]
    pub fn own_handle(&self, address: u64, size: u64) -> Option<Handle> {
        self.registrar.regions().covering(address, size)
    }

    /// Makes inline completions return [`COMPLETED`](plugin_api::Status::COMPLETED); no callback runs then. For
    /// doors whose callers know that status.
    pub fn answer_at_once(&mut self) {
        self.answers_at_once = true;
    }

    /// Sets the pointer that callbacks receive as their module.
    pub fn set_owner(&self, owner: *mut Module) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    /// Sets the function that receives failures which no callback reports.
    pub fn on_error(&self, report: Option<ErrorReport>) {
        *self.report.write().unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// The module's capabilities.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The bytes that peers need in order to [`connect`](Self::connect).
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// Most elements of one typed AMO; `None` if the provider does not support it.
    pub fn atomic_count(
        &self,
        kind: AtomicKind,
        datatype: Datatype,
        op: AtomicOp,
    ) -> Option<usize> {
        match self.atomics.count(kind, datatype, op) {
            0 => None,
            n => Some(n as usize),
        }
    }

    /// Whether the probe in an address is this transport's own.
    pub(crate) fn is_own_probe(&self, blob: &Blob) -> bool {
        blob.probe() == known_by(&self.probe)
    }

    #[inline]
    pub(crate) fn own_index(&self) -> usize {
        match self.contexts.len() {
            n if n > 1 && self.threaded => thread_number() % n,
            _ => 0,
        }
    }

    /// Registers `length` bytes at `base`. See [`Region`].
    ///
    /// # Errors
    /// The provider's refusal. With [`Status::OUT_OF_RESOURCE`] the caller may free something and try again.
    ///
    /// # Safety
    /// The memory stays mapped until the region is closed. Peers may access it as `access` allows.
    pub unsafe fn register(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
    ) -> Result<Region, Error> {
        self.registrar.register(base, length, access)
    }

    /// Counts since opening.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::new();
        for context in &self.contexts {
            let state = context.state.lock();
            let direct = context.direct.load(Ordering::Relaxed);
            stats.posted += state.posted + direct;
            stats.completed += state.completed + direct;
            stats.failed += state.failed;
            stats.again += state.again;
        }
        stats.registrations = self.registrar.live();
        stats.endpoints = self.lock_peers().known.len() as u64;
        stats
    }

    /// Waits for outstanding operations, for at most 5 s. For doors that end registrations before they
    /// [`close`](Self::close) the transport.
    pub fn flush_for_close(&self) {
        self.flush_patiently(None);
    }

    /// Waits for outstanding operations to one peer or to all, for at most `CLOSE_PATIENCE`. After one timeout
    /// later calls do not wait.
    pub(crate) fn flush_patiently(&self, peer: Option<&Endpoint>) -> Status {
        let patience = match self.impatient.load(Ordering::Relaxed) {
            false => CLOSE_PATIENCE,
            true => Duration::ZERO,
        };
        let status = self.flush_until(peer, Some(Instant::now() + patience));
        if status == Status::TIMEOUT {
            self.impatient.store(true, Ordering::Relaxed);
        }
        status
    }

    /// Waits for outstanding operations, for at most 5 s, then closes everything. Regions that still exist keep
    /// their domain open until they are dropped.
    ///
    /// # Errors
    /// The provider's first refusal; the rest is closed nevertheless.
    pub fn close(self) -> Result<(), Error> {
        self.flush_for_close();
        let outstanding: u32 = self.contexts.iter().map(|c| c.count.outstanding()).sum();
        if outstanding > 0 && !self.degraded.load(Ordering::Relaxed) {
            tracing::warn!("closing with {outstanding} operations outstanding");
        }
        let Transport {
            device,
            registrar,
            contexts,
            peers,
            probe,
            scratch,
            hmem,
            ..
        } = self;
        hmem.shut();
        drop(registrar);
        let result = match Arc::into_inner(device) {
            Some(device) => device.close(),
            // Live regions share the device; the last one closes it.
            None => Ok(()),
        };
        // Dropped after the provider, which may still have written to this memory.
        drop((contexts, peers, probe, scratch, hmem));
        result
    }
}

/// Creates the segment for atomics and small transfers of peers of this node. Without a segment their atomics go through
/// the provider, and their transfers use CMA.
fn make_segment(nonce: u64) -> Option<Segment> {
    Segment::make(nonce)
        .inspect_err(|e| {
            tracing::info!("no segment for atomics; they go through the provider: {e}")
        })
        .ok()
}

fn flags(policy: &Policy, attaches: bool, atomics: &AtomicTable) -> ModuleFlags {
    let mut flags = ModuleFlags::PUT
        | ModuleFlags::GET
        | ModuleFlags::RDMA_FLUSH
        | ModuleFlags::RDMA_REMOTE_COMPLETION
        | ModuleFlags::ATOMIC_FOPS;
    if atomics.count(AtomicKind::Update, Datatype::Uint64, AtomicOp::Sum) > 0 {
        flags |= ModuleFlags::ATOMIC_OPS;
    }
    if policy.atomics_ordered {
        flags |= ModuleFlags::ATOMICS_ORDERED;
    }
    // Flags hold for all peers.
    if policy.one_node && attaches {
        flags |= ModuleFlags::RDMA_PASSIVE_TARGET;
    }
    flags
}

/// Milliseconds between two liveness checks: at most a quarter of the peer timeout, so that it is exceeded by a
/// quarter at most.
fn look_interval(options: &Options) -> u64 {
    let interval = u64::from(options.peer_check_ms);
    match options.peer_timeout_ms {
        0 => interval,
        limit => interval.min(u64::from(limit).div_ceil(4)),
    }
}

/// The link's speed in Mbit/s, or 0 if the provider does not report it.
fn link_speed(info: crate::fabric::fids::InfoRef<'_>) -> u32 {
    // SAFETY: libfabric sets these pointers or leaves them NULL.
    let speed = unsafe { info.raw().nic.as_ref().and_then(|n| n.link_attr.as_ref()) };
    speed.map_or(0, |link| {
        u32::try_from(link.speed / 1_000_000).unwrap_or(u32::MAX)
    })
}

fn known_by(probe: &AtomicU64) -> Probe {
    Probe {
        address: probe.as_ptr() as u64,
        value: probe.load(Ordering::Relaxed),
    }
}

/// A random value that other memory is unlikely to hold. Not a secret.
fn probe_value() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
