//! [`Transport`]: opening, registration, statistics, closing.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use plugin_api::{AtomicKind, AtomicOp, Datatype, Module};

use crate::base::capabilities::{Capabilities, ErrorReport};
use crate::core::state::{Core, known_by};
use crate::engine::amo::table::Words;
use crate::engine::compound::state::Compounds;
use crate::engine::rails::Rails;
use crate::engine::staging::Hmem;
use crate::engine::typed_amo::table::Vectors;
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::policy::Policy;
use crate::peer::address::Blob;

/// An open transport. A transport belongs to the process that opened it. A child of fork gets errors, and may open a
/// transport of its own (docs/failures.md). With [`ThreadLevel::Multiple`](plugin_api::ThreadLevel::Multiple), several
/// threads may call any method at once; otherwise only one thread at a time may call. Callbacks run with no lock held.
#[repr(C)]
pub struct Transport {
    // The first field, so that a pointer to the transport is also a pointer to the core, and to the module in the core.
    pub(crate) core: Core,
    /// Further interfaces, for large transfers.
    pub(crate) rails: Rails,
    pub(crate) atomics: Atomics,
    /// Operations that consist of other operations.
    pub(crate) compounds: Compounds,
    pub(crate) hmem: Hmem,
}

// SAFETY: the raw pointers are to boxes that the transport owns, and to tables that do not change; all other fields are
// Send.
unsafe impl Send for Transport {}
// SAFETY: shared fields are atomic or behind locks.
unsafe impl Sync for Transport {}

impl Deref for Transport {
    type Target = Core;

    #[inline(always)]
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Transport {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

/// The supported atomics, in the forms in which the paths look them up.
pub(crate) struct Atomics {
    pub(crate) table: AtomicTable,
    pub(crate) words: Words,
    pub(crate) vectors: Vectors,
}

impl Atomics {
    pub(crate) fn new(table: AtomicTable, policy: &Policy) -> Atomics {
        Atomics {
            words: Words::new(&table, policy),
            vectors: Vectors::new(&table, policy),
            table,
        }
    }
}

impl Transport {
    /// Whether calls may overlap, because the transport was opened with
    /// [`ThreadLevel::Multiple`](plugin_api::ThreadLevel::Multiple).
    pub fn is_threaded(&self) -> bool {
        self.setup.threaded
    }

    /// Whether the transport reaches peers by memory alone. The user or the host then names the provider `memory`.
    pub fn is_by_memory_alone(&self) -> bool {
        self.policy.memory_only
    }

    /// Whether requests to peers of other nodes may travel as messages.
    pub fn uses_messages(&self) -> bool {
        self.policy.posts_messages()
    }

    /// Lets inline completions return [`COMPLETED`](plugin_api::Status::COMPLETED); no callback runs then. For
    /// doors whose callers know this status. Such callers also pause before they repeat a refused post, so a post that would wait
    /// long for another thread is refused.
    pub fn answer_at_once(&mut self) {
        self.setup.answers_at_once = true;
    }

    /// Sets the pointer that callbacks receive as their module.
    pub fn set_owner(&self, owner: *mut Module) {
        self.setup.owner.store(owner, Ordering::Relaxed);
    }

    /// Sets the function that receives failures that no callback reports.
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

    /// The bytes that a peer needs to [`connect`](Self::connect).
    pub fn address(&self) -> &[u8] {
        &self.node.address
    }

    /// Maximum elements of one typed AMO; `None` if the provider does not support this AMO.
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

    /// Whether the probe in an address is this transport's probe.
    pub(crate) fn is_own_probe(&self, blob: &Blob) -> bool {
        blob.probe() == known_by(&self.node.probe)
    }
}
