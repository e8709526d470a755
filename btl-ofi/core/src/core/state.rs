//! [`Core`]: the parts that all operations share, independently of their carriers. The core depends on no carrier and
//! on no layer above the carriers.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_api::{Module, Status};

use crate::base::capabilities::Capabilities;
use crate::base::error::Error;
use crate::base::fork::Birth;
use crate::base::interfaces::Lists;
use crate::core::context::Context;
use crate::core::failures::Failures;
use crate::core::fork;
use crate::core::peers::Peers;
use crate::core::receive::Receive;
use crate::core::slow::SlowWork;
use crate::detector::Detector;
use crate::fabric::device::Device;
use crate::fabric::own::OwnMemory;
use crate::fabric::policy::Policy;
use crate::fabric::region::Region;
use crate::fabric::registration::Registrar;
use crate::peer::counters::{CounterTable, CountersRef};
use crate::peer::liveness::ProcessId;
use crate::peer::networks::Networks;
use crate::peer::reach::Probe;
use crate::sm::mapped::MappedRegions;

/// The state that the operations of a transport share: contexts, counts, peers, and the settings of the carriers. A
/// [`Transport`](crate::Transport) contains a core and the state of operations that consist of others. A transport
/// dereferences to the core.
#[repr(C)]
pub struct Core {
    /// The module that a door hands out. The module is the first field, so that a pointer to the transport is a pointer
    /// to the module.
    pub module: Module,
    // The fast paths read this value.
    pub(crate) quick: Quick,
    // Contains a registration, so it is dropped before the objects that the registration keeps open.
    pub(crate) node: Node,
    // Dropped before the memory that the provider may still write to or refer to.
    pub(crate) registrar: Arc<Registrar>,
    pub(crate) device: Arc<Device>,
    // Dropped before the objects that it refers to.
    pub(crate) entry: fork::Entry,
    pub(crate) contexts: Box<[Context]>,
    pub(crate) policy: Policy,
    /// Receives fetched values that no caller wants. Only the provider writes this memory, and
    /// nothing reads it.
    pub(crate) scratch: OwnMemory,
    pub(crate) setup: Setup,
    pub(crate) failures: Failures,
    pub(crate) detector: Detector,
    pub(crate) peers: Arc<Mutex<Peers>>,
    pub(crate) slow: SlowWork,
    /// Memory of local peers that this process maps.
    pub(crate) mapped: MappedRegions,
    pub(crate) counters: CounterTable,
    pub(crate) capabilities: Capabilities,
    /// The host's function for messages of peers.
    pub(crate) receive: Mutex<Option<Receive>>,
    /// The process that opened the transport.
    pub(crate) birth: Birth,
}

/// Constants that every operation reads.
#[repr(C)]
pub(crate) struct Quick {
    /// The first context. Lives as long as the transport.
    pub(crate) first: *const Context,
    /// The counters of peers.
    pub(crate) counters: CountersRef,
    /// Flags with which the provider confirms delivery of a put or update.
    pub(crate) delivered: u64,
    /// The number of outstanding operations on a context at which a post leaves the fast path, to make
    /// progress or to be refused.
    pub(crate) outstanding_limit: u32,
    /// The same limit for untracked operations; 0 if every operation needs a record.
    pub(crate) untracked_limit: u32,
    /// Whether there is more than one context.
    pub(crate) several: bool,
    /// Whether the provider addresses memory by virtual address.
    pub(crate) virtual_addresses: bool,
}

/// Settings that are fixed when the transport is opened.
pub(crate) struct Setup {
    /// Whether inline completions return `COMPLETED` instead of running a callback, and posts that would wait long for another
    /// thread are refused.
    pub(crate) answers_at_once: bool,
    pub(crate) threaded: bool,
    pub(crate) virtual_addresses: bool,
    pub(crate) put_limit: usize,
    pub(crate) get_limit: usize,
    /// Sizes of the largest put and the largest get on the fast paths. Larger transfers may be divided into
    /// fragments.
    pub(crate) quick_limits: (usize, usize),
    /// Sizes of the largest put and the largest get that travel as messages.
    pub(crate) message_limits: (usize, usize),
    pub(crate) progress_threshold: u32,
    pub(crate) num_cq_read: usize,
    /// Milliseconds between two liveness checks.
    pub(crate) check_interval_ms: u64,
    /// Milliseconds of silence after which a peer fails; 0 means never.
    pub(crate) peer_timeout_ms: u64,
    /// Whether the provider may register device memory (FI_HMEM).
    pub(crate) hmem_provider: bool,
    /// Whether a thread serves peers' requests on staged device memory.
    pub(crate) hmem_thread: bool,
    /// The user's lists of interfaces.
    pub(crate) interfaces: Lists,
    /// The module pointer that callbacks receive.
    pub(crate) owner: AtomicPtr<Module>,
}

/// This process's place among the processes of its node.
pub(crate) struct Node {
    /// See [`liveness::node`].
    pub(crate) id: u64,
    pub(crate) own: ProcessId,
    /// The registration of the probe as a word that peers read to confirm their puts, if puts go by order. The
    /// registration is dropped before the memory.
    pub(crate) word: Option<Region>,
    /// The key that every message to this process carries ([`msg`](crate::fabric::msg)); 0 if it takes no messages.
    pub(crate) key: u64,
    /// A random value in this process's memory. Peers read the value to verify that they reach this process
    /// (`reach`).
    pub(crate) probe: Box<AtomicU64>,
    /// Whether memory may reach peers of this node (`btl_ofi_same_node`).
    pub(crate) same_node: bool,
    /// Whether this process may access the memory of peers by CMA, and peers its memory.
    pub(crate) attaches: bool,
    /// Whether rings may be used, to peers and from peers.
    pub(crate) has_rings: bool,
    /// Whether the provider may reach a connected peer.
    pub(crate) uses_fabric: AtomicBool,
    pub(crate) networks: Networks,
    /// The bytes that this process publishes for its peers.
    pub(crate) address: Vec<u8>,
}

// SAFETY: the raw pointers are to boxes that the core owns; all other fields are Send.
unsafe impl Send for Core {}
// SAFETY: shared fields are atomic or behind locks; each context's lock guards its provider objects.
unsafe impl Sync for Core {}

impl Core {
    pub(crate) fn lock_peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this transport is the copy in a child of fork.
    #[inline]
    pub(crate) fn is_copy(&self) -> bool {
        !self.birth.is_here()
    }

    /// Refuses a call in a child of fork, for calls that return a status.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_copy(&self) -> Status {
        self.birth.tell();
        Status::FATAL
    }

    /// Checks that this process is not a child of fork.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub(crate) fn check_copy(&self) -> Result<(), Error> {
        self.birth.check()
    }
}

/// The probe that identifies this process's memory.
pub(crate) fn known_by(probe: &AtomicU64) -> Probe {
    Probe {
        address: probe.as_ptr() as u64,
        value: probe.load(Ordering::Relaxed),
    }
}
