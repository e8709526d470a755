//! The transport of one module: opening, peers, registration, closing.

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
use crate::engine::channel::Channel;
use crate::engine::context::Context;
use crate::engine::peers::Peers;
use crate::engine::post::Quick;
use crate::engine::ring_transfers;
use crate::engine::staging::Hmem;
use crate::engine::typed_amo::Vectors;
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::device::Device;
use crate::fabric::policy::{self, Policy};
use crate::fabric::registration::{Region, Registrar};
use crate::fabric::select::{self, Calling};
use crate::peer::address::Blob;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{self, ProcessId};
use crate::peer::reach::{self, Probe};
use crate::sm::segment::{self, Segment};

/// How long releasing peers and closing wait for operations that are still outstanding.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Memory that is only ever written.
pub(crate) struct Scratch(*mut [u64]);

impl Scratch {
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.0.cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw in `open`, and dropped once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// An open transport. Every method may be called from several threads at once if it was opened with
/// [`ThreadLevel::Multiple`], and from one at a time otherwise; callbacks run with no lock held.
#[repr(C)]
pub struct Transport {
    /// What a door hands out as its module: first, so that one address serves for both.
    pub module: Module,
    pub(crate) quick: Quick,
    // Dropped first: what the provider might still write to or name must outlive it.
    pub(crate) registrar: Arc<Registrar>,
    pub(crate) device: Arc<Device>,
    pub(crate) contexts: Box<[Context]>,
    /// Where fetched values go that nobody wants. Written by the provider only, never read.
    pub(crate) scratch: Scratch,
    pub(crate) policy: Policy,
    pub(crate) words: Words,
    pub(crate) vectors: Vectors,
    /// Whether a transfer that was over before its call returned is answered so, without callback.
    pub(crate) answers_at_once: bool,
    /// Whether atomics to peers on this node may go through their segments (`channel`).
    pub(crate) channelled: bool,
    /// Whether no peer so far is reached through the provider.
    pub(crate) lean: AtomicBool,
    pub(crate) threaded: bool,
    pub(crate) virtual_addresses: bool,
    pub(crate) put_limit: usize,
    pub(crate) get_limit: usize,
    pub(crate) progress_threshold: u32,
    pub(crate) num_cq_read: usize,
    /// Passed back to callbacks as their module.
    pub(crate) owner: AtomicPtr<Module>,

    /// Operations without callback that failed since the last flush of all.
    pub(crate) lost: AtomicU32,
    /// Set once a peer failed: from then on a flush of all asks each living peer.
    pub(crate) degraded: AtomicBool,
    /// Threads that are reporting the operations of peers given up.
    pub(crate) telling: AtomicU32,
    /// Set once no operation can complete any more.
    pub(crate) broken: AtomicBool,
    /// The last failure of a peer, for the next flush of all.
    pub(crate) last_failure: AtomicI32,
    pub(crate) last_check: AtomicU64,
    /// Set once releasing a peer, or closing, ran out of patience: what does not complete is not
    /// waited for again with each peer that is released after it. Cleared by a new peer.
    pub(crate) impatient: AtomicBool,
    /// Milliseconds between two looks at the peers.
    pub(crate) look_ms: u64,
    /// Milliseconds of silence after which a peer is given up; 0 for never.
    pub(crate) peer_timeout_ms: u64,
    /// Whether peers to whom nothing is outstanding are looked for.
    pub(crate) watch_idle: AtomicBool,
    /// This process.
    pub(crate) own: ProcessId,
    pub(crate) opened: Instant,
    pub(crate) peers: Mutex<Peers>,
    pub(crate) report: RwLock<Option<ErrorReport>>,
    pub(crate) hmem: Hmem,
    /// Whether the provider may take registrations of device memory (FI_HMEM).
    pub(crate) hmem_provider: bool,
    /// Whether a thread serves peers that reach for staged device memory.
    pub(crate) hmem_thread: bool,
    /// Set once it was said that the provider refused such a registration.
    pub(crate) said_fall_back: AtomicBool,
    pub(crate) atomics: AtomicTable,
    pub(crate) capabilities: Capabilities,
    address: Vec<u8>,
    pub(crate) node: u64,
    /// Peers know this process's memory by it, and write to it what it holds.
    probe: Box<AtomicU64>,
}

// SAFETY: the raw pointers in Peers are owned boxes; everything else is Send by itself.
unsafe impl Send for Transport {}
// SAFETY: shared state is atomic or behind locks; contexts are guarded by theirs.
unsafe impl Sync for Transport {}

thread_local! {
    /// Which context a thread keeps; numbered as threads first need one.
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
    /// Opens the first provider that can be used.
    ///
    /// # Errors
    /// [`Error::NoProvider`] names every refusal; other errors name the libfabric call.
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
        if policy.direct
            && let Some(why) = reach::prepare(known_by)
        {
            policy.do_without_kernel(&why);
        }
        let segment = make_segment(&policy, device.lanes().len(), known_by.value);
        let descriptor = segment.as_ref().map(Segment::descriptor);
        if segment.is_some() {
            chosen.atomics.limit_to_channel(segment::LARGEST);
        }
        let claimed = info.claims_contexts();
        let mut contexts = Vec::new();
        for (tx, cq) in device.lanes() {
            // SAFETY: the lanes are live as long as the device, which this transport holds.
            contexts.push(unsafe { Context::new(tx, cq, &provider, threaded, claimed)? });
        }
        let guard = (segment.is_some() && options.fault_guard)
            .then(Installed::new)
            .flatten();
        if let (Some(segment), [context]) = (segment, &contexts[..]) {
            context.state.lock().channel = Some(Box::new(Channel::new(segment)));
        }
        let registrar = Arc::new(Registrar::new(Arc::clone(&device), threaded, guard));
        let (put_limit, get_limit) = policy::limits(info, options);
        let capabilities = Capabilities {
            flags: flags(&policy, &chosen.atomics) & ModuleFlags::from_bits_retain(options.flags),
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
                small: descriptor.map_or(0, |_| ring_transfers::MOST),
                several: contexts.len() > 1,
                delivered: policy.delivered,
                crowd: policy.depth.min(options.progress_threshold),
                records: !policy.bare,
                virtual_addresses: registrar.virtual_addresses,
            },
            answers_at_once: false,
            atomics: chosen.atomics,
            policy,
            channelled: descriptor.is_some(),
            lean: AtomicBool::new(true),
            capabilities,
            address,
            node,
            probe,
            contexts,
            registrar,
            device,
        })
    }

    /// Whether puts and gets to peers on this node are copied by the kernel, where it may.
    pub fn copies_directly(&self) -> bool {
        self.policy.direct
    }

    /// Whether calls may overlap: opened with [`ThreadLevel::Multiple`].
    pub fn is_threaded(&self) -> bool {
        self.threaded
    }

    /// Has transfers that are over before their call returns answered with
    /// [`COMPLETED`](plugin_api::Status::COMPLETED), instead of a callback later. For doors whose
    /// callers know that answer.
    pub fn answer_at_once(&mut self) {
        self.answers_at_once = true;
    }

    /// Sets the pointer that callbacks receive as their module.
    pub fn set_owner(&self, owner: *mut Module) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    /// Sets the function that learns of failures no callback reports.
    pub fn on_error(&self, report: Option<ErrorReport>) {
        *self.report.write().unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// What the module offers.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What peers need in order to [`connect`](Self::connect).
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// Elements that one typed atomic may carry; `None` when the provider does not serve it.
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

    /// Whether an address is this transport's own, by its probe.
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
    /// The provider's refusal; [`Status::OUT_OF_RESOURCE`] as its status means: free something and
    /// try again.
    ///
    /// # Safety
    /// The memory stays mapped until the region is closed; what peers do to it is as `access` says.
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

    /// Waits a bounded time for what is outstanding. For doors that end registrations before they
    /// [`close`](Self::close).
    pub fn flush_for_close(&self) {
        self.flush_patiently(None);
    }

    /// Waits for what is outstanding, to a peer or to all, as long as releasing and closing wait.
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

    /// Waits a bounded time for what is outstanding, then closes everything. Regions that still
    /// live keep their domain open until they are dropped.
    ///
    /// # Errors
    /// The first refusal of the provider; everything else is closed all the same.
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
            // Live regions share the device, and the last of them closes it.
            None => Ok(()),
        };
        // What the provider might still have written to or named goes after the provider.
        drop((contexts, peers, probe, scratch, hmem));
        result
    }
}

/// The segment for atomics and small transfers of peers on this node, where they may come so. Without it they
/// come through the provider, and transfers through the kernel.
fn make_segment(policy: &Policy, contexts: usize, nonce: u64) -> Option<Segment> {
    // More than one context would execute beside each other; shm has one.
    if !policy.direct || contexts != 1 {
        return None;
    }
    Segment::make(nonce)
        .inspect_err(|e| tracing::info!("no segment for atomics, they use the provider: {e}"))
        .ok()
}

fn flags(policy: &Policy, atomics: &AtomicTable) -> ModuleFlags {
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
    if policy.direct {
        flags |= ModuleFlags::RDMA_PASSIVE_TARGET;
    }
    flags
}

/// Milliseconds between two looks at the peers: often enough that a time of silence is kept with a
/// quarter to spare.
fn look_interval(options: &Options) -> u64 {
    let interval = u64::from(options.peer_check_ms);
    match options.peer_timeout_ms {
        0 => interval,
        limit => interval.min(u64::from(limit).div_ceil(4)),
    }
}

/// The link's speed in Mbit/s when the provider tells, else 0.
fn link_speed(info: crate::fabric::fids::InfoRef<'_>) -> u32 {
    // SAFETY: libfabric fills these pointers or leaves them NULL.
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

/// A value that other memory is unlikely to hold: not a secret, only telling.
fn probe_value() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
