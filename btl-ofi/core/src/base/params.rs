//! The transport's parameters, declared as data. This module reads them into [`Options`]; other modules act on them.
//!
//! Names, types and meanings are those of Open MPI's `btl/ofi` and `common/ofi` components. Where this transport has
//! another default, a comment gives the reason.

use std::borrow::Cow;
use std::error::Error as StdError;

use mca_params::{Allowed, Declaration, Kind, Level, Named, Scope, Value};
use plugin_api::ModuleFlags;

use crate::base::error::Error;

/// Providers that are used only when the user names them: Open MPI's default of `opal_common_ofi_provider_exclude`.
pub const DEFAULT_EXCLUDE: &str = "shm,sockets,tcp,udp,rstream,usnic,net";

/// Largest value of `num_cq_read`: completions are read into an array on the stack.
pub(crate) const MAX_CQ_READ: usize = 64;

const fn declare(
    name: &'static str,
    kind: Kind,
    default: Value,
    allowed: Allowed,
    level: Level,
    help: &'static str,
) -> Declaration {
    Declaration::new(name, kind, default)
        .allowed(allowed)
        .level(level)
        .scope(Scope::ReadOnly)
        .help(help)
}

static FLAG_NAMES: [Named; 8] = [
    Named::new(ModuleFlags::PUT.bits() as i64, "put"),
    Named::new(ModuleFlags::GET.bits() as i64, "get"),
    Named::new(ModuleFlags::ATOMIC_OPS.bits() as i64, "atomics"),
    Named::new(ModuleFlags::ATOMIC_FOPS.bits() as i64, "fetching-atomics"),
    Named::new(ModuleFlags::RDMA_FLUSH.bits() as i64, "rdma-flush"),
    Named::new(
        ModuleFlags::RDMA_REMOTE_COMPLETION.bits() as i64,
        "rdma-remote-completion",
    ),
    Named::new(
        ModuleFlags::ATOMICS_ORDERED.bits() as i64,
        "atomics-ordered",
    ),
    Named::new(
        ModuleFlags::RDMA_PASSIVE_TARGET.bits() as i64,
        "rdma-passive-target",
    ),
];

static PROGRESS_MODES: [Cow<'static, str>; 3] = [
    Cow::Borrowed("unspec"),
    Cow::Borrowed("auto"),
    Cow::Borrowed("manual"),
];

static SAME_NODE: [Cow<'static, str>; 2] = [Cow::Borrowed("auto"), Cow::Borrowed("off")];

static HMEM: [Cow<'static, str>; 3] = [
    Cow::Borrowed("auto"),
    Cow::Borrowed("on"),
    Cow::Borrowed("off"),
];

static DECLARATIONS: [Declaration; 22] = [
    declare(
        "btl_ofi_hmem",
        Kind::String,
        Value::str("auto"),
        Allowed::OneOf(Cow::Borrowed(&HMEM)),
        Level::TUNER_ALL,
        "Whether the transport asks the provider to reach device memory itself (FI_HMEM): on, off, or \
         auto, which asks if this machine has a device that the transport knows. Copies reach device \
         memory that the provider does not take.",
    ),
    declare(
        "btl_ofi_hmem_thread",
        Kind::Bool,
        Value::Bool(false),
        Allowed::Any,
        Level::TUNER_ALL,
        "Whether a dedicated thread, instead of progress, executes the requests of peers for device \
         memory that copies reach.",
    ),
    declare(
        "btl_ofi_mode",
        Kind::Int,
        Value::Int(0),
        Allowed::Range { min: 0, max: 2 },
        Level::TUNER_DETAIL,
        "What the transport offers: 0 one-sided, 1 two-sided, 2 both. This transport is one-sided \
         and refuses to open with 1 or 2.",
    ),
    declare(
        "btl_ofi_num_cq_read",
        Kind::Int,
        Value::Int(64),
        Allowed::Range {
            min: 1,
            max: MAX_CQ_READ as i64,
        },
        Level::TUNER_DETAIL,
        "Number of completions to read from a completion queue at once.",
    ),
    declare(
        "btl_ofi_progress_mode",
        Kind::String,
        Value::str("unspec"),
        Allowed::OneOf(Cow::Borrowed(&PROGRESS_MODES)),
        Level::TUNER_DETAIL,
        "Progress mode asked of the provider: unspec, auto or manual.",
    ),
    declare(
        "btl_ofi_num_contexts_per_module",
        Kind::Int,
        Value::Int(1),
        Allowed::Range { min: 1, max: 256 },
        Level::TUNER_DETAIL,
        "Number of transmit contexts. More let threads send without waiting for each other; it \
         should not exceed the number of cores. Needs a provider with scalable endpoints.",
    ),
    declare(
        "btl_ofi_disable_sep",
        Kind::Bool,
        Value::Bool(false),
        Allowed::Any,
        Level::TUNER_DETAIL,
        "Never use a scalable endpoint.",
    ),
    declare(
        "btl_ofi_progress_threshold",
        Kind::Int,
        Value::Int(64),
        Allowed::Range {
            min: 1,
            max: i32::MAX as i64,
        },
        Level::TUNER_DETAIL,
        "Number of outstanding operations of a context at which each new operation also reads \
         completions.",
    ),
    declare(
        "btl_ofi_rd_num",
        Kind::Int,
        Value::Int(10),
        Allowed::Range {
            min: 1,
            max: i32::MAX as i64,
        },
        Level::TUNER_DETAIL,
        "Number of receive buffers per context in the two-sided modes. It has no effect in one-sided \
         mode, where the transport warns if it is set.",
    ),
    declare(
        "btl_ofi_provider_include",
        Kind::String,
        Value::str(""),
        Allowed::Any,
        Level::USER_BASIC,
        "Comma-separated providers to consider, by the beginning of their names as fi_info \
             prints them; empty for all. When set, provider_exclude has no effect.",
    )
    .synonyms(&[Cow::Borrowed("opal_common_ofi_provider_include")]),
    declare(
        "btl_ofi_provider_exclude",
        Kind::String,
        Value::str(DEFAULT_EXCLUDE),
        Allowed::Any,
        Level::USER_BASIC,
        "Comma-separated providers not to consider, by the beginning of their names.",
    )
    .synonyms(&[Cow::Borrowed("opal_common_ofi_provider_exclude")]),
    declare(
        "btl_ofi_verbose",
        Kind::Int,
        Value::Int(0),
        Allowed::Range { min: 0, max: 100 },
        Level::USER_ALL,
        "How much the transport logs: 0 errors and warnings, 1 what was chosen and why, \
             10 and above everything.",
    )
    .synonyms(&[Cow::Borrowed("opal_common_ofi_verbose")]),
    declare(
        "btl_ofi_exclusivity",
        Kind::UnsignedInt,
        Value::Unsigned(64 * 1024 - 50),
        Allowed::Any,
        Level::DEV_BASIC,
        "Preference among transports to one peer; the highest wins.",
    ),
    declare(
        "btl_ofi_flags",
        Kind::UnsignedInt,
        Value::Unsigned(ModuleFlags::all().bits() as u64),
        Allowed::Flags(Cow::Borrowed(&FLAG_NAMES)),
        Level::TUNER_DETAIL,
        "Abilities that may be advertised, as a mask over what the provider offers.",
    ),
    declare(
        "btl_ofi_put_limit",
        Kind::SizeT,
        Value::Unsigned(0),
        Allowed::Any,
        Level::TUNER_BASIC,
        "Largest put in bytes; 0 for the provider's own limit.",
    ),
    declare(
        "btl_ofi_get_limit",
        Kind::SizeT,
        Value::Unsigned(0),
        Allowed::Any,
        Level::TUNER_BASIC,
        "Largest get in bytes; 0 for the provider's own limit.",
    ),
    declare(
        "btl_ofi_latency",
        Kind::UnsignedInt,
        Value::Unsigned(1),
        Allowed::Any,
        Level::TUNER_DETAIL,
        "Approximate latency in microseconds, for hosts that choose among transports.",
    ),
    declare(
        "btl_ofi_bandwidth",
        Kind::UnsignedInt,
        Value::Unsigned(0),
        Allowed::Any,
        Level::TUNER_DETAIL,
        "Approximate bandwidth in Mbit/s; 0 for the bandwidth of the link that the provider reports.",
    ),
    declare(
        "btl_ofi_peer_check_interval",
        Kind::UnsignedInt,
        Value::Unsigned(250),
        Allowed::Range {
            min: 1,
            max: 3_600_000,
        },
        Level::TUNER_ALL,
        "Milliseconds without any completion after which the transport checks whether the local peers \
         that have operations outstanding still run.",
    ),
    declare(
        "btl_ofi_peer_timeout",
        Kind::UnsignedInt,
        Value::Unsigned(0),
        Allowed::Range {
            min: 0,
            max: 86_400_000,
        },
        Level::TUNER_ALL,
        "Milliseconds of silence after which a peer is given up: operations to it are outstanding \
         and none completes, or its process on this node is stopped. 0 to wait for ever. Choose a \
         longer time than any peer computes without communicating.",
    ),
    declare(
        "btl_ofi_same_node",
        Kind::String,
        Value::str("auto"),
        Allowed::OneOf(Cow::Borrowed(&SAME_NODE)),
        Level::USER_DETAIL,
        "How processes of one node reach each other: auto, by memory where the kernel allows that (shared \
         memory and cross-memory attach), whatever the provider is; or off, by the provider. Both \
         processes must have auto.",
    ),
    declare(
        "btl_ofi_fault_guard",
        Kind::Bool,
        Value::Bool(true),
        Allowed::Any,
        Level::TUNER_ALL,
        "Whether a handler of SIGSEGV and SIGBUS turns faults in windows into errors of operations. \
         Such a fault occurs when a local peer accesses memory that is not mapped as it was \
         registered. Other signals go to the handlers that were installed before. When false, no \
         handler is installed, and the kernel makes or checks these accesses, which is slower.",
    ),
];

/// Progress mode that the transport asks of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressMode {
    Unspecified,
    Auto,
    Manual,
}

/// Values of all parameters.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) num_cq_read: usize,
    pub(crate) progress_mode: ProgressMode,
    pub(crate) contexts: usize,
    pub(crate) disable_sep: bool,
    pub(crate) progress_threshold: u32,
    pub(crate) include: Vec<String>,
    pub(crate) exclude: Vec<String>,
    pub(crate) verbose: i32,
    pub(crate) exclusivity: u32,
    pub(crate) flags: u32,
    pub(crate) put_limit: u64,
    pub(crate) get_limit: u64,
    pub(crate) latency: u32,
    pub(crate) bandwidth: u32,
    pub(crate) peer_check_ms: u32,
    pub(crate) peer_timeout_ms: u32,
    /// Whether neighbours may be reached by memory.
    pub(crate) same_node: bool,
    /// Whether signal handlers may be installed.
    pub(crate) fault_guard: bool,
    /// Whether `btl_ofi_rd_num`, a parameter of the two-sided modes, differs from its default.
    pub(crate) rd_num_set: bool,
    /// Whether to ask the provider to reach device memory itself; `None` for auto.
    pub(crate) hmem: Option<bool>,
    pub(crate) hmem_thread: bool,
    /// See [`need_limit`](Self::need_limit).
    pub(crate) smallest_limit: usize,
}

impl Options {
    /// Every parameter of the transport.
    pub fn declarations() -> &'static [Declaration] {
        &DECLARATIONS
    }

    /// Reads every parameter with `resolve`, which gets each declaration once.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the error of `resolve`, for a value of another type, or for a mode that this
    /// transport does not offer.
    pub fn resolve<E: StdError>(
        mut resolve: impl FnMut(&Declaration) -> Result<Value, E>,
    ) -> Result<Options, Error> {
        let mut values = Vec::with_capacity(DECLARATIONS.len());
        for d in &DECLARATIONS {
            let value = resolve(d).map_err(|e| Error::Parameter {
                name: d.name.clone().into_owned(),
                reason: e.to_string(),
            })?;
            values.push((d.name.as_ref(), value));
        }
        let find = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, v)| v);
        let wrong = |name: &str| Error::Parameter {
            name: name.to_owned(),
            reason: String::from("the host gave a value of another type"),
        };
        let int = |name: &str| {
            find(name)
                .and_then(Value::as_int)
                .ok_or_else(|| wrong(name))
        };
        let unsigned = |name: &str| {
            find(name)
                .and_then(Value::as_unsigned)
                .ok_or_else(|| wrong(name))
        };
        let text = |name: &str| {
            find(name)
                .and_then(Value::as_str)
                .ok_or_else(|| wrong(name))
        };
        let flag = |name: &str| {
            find(name)
                .and_then(Value::as_bool)
                .ok_or_else(|| wrong(name))
        };

        let mode = int("btl_ofi_mode")?;
        if mode != 0 {
            return Err(Error::Parameter {
                name: String::from("btl_ofi_mode"),
                reason: format!(
                    "mode {mode} needs two-sided messages, which this transport does not offer; use 0"
                ),
            });
        }
        Ok(Options {
            num_cq_read: (int("btl_ofi_num_cq_read")? as usize).clamp(1, MAX_CQ_READ),
            progress_mode: match text("btl_ofi_progress_mode")? {
                "auto" => ProgressMode::Auto,
                "manual" => ProgressMode::Manual,
                _ => ProgressMode::Unspecified,
            },
            contexts: int("btl_ofi_num_contexts_per_module")?.max(1) as usize,
            disable_sep: flag("btl_ofi_disable_sep")?,
            progress_threshold: int("btl_ofi_progress_threshold")?.max(1) as u32,
            include: list(text("btl_ofi_provider_include")?),
            exclude: list(text("btl_ofi_provider_exclude")?),
            verbose: int("btl_ofi_verbose")?,
            exclusivity: unsigned("btl_ofi_exclusivity")? as u32,
            flags: unsigned("btl_ofi_flags")? as u32,
            put_limit: unsigned("btl_ofi_put_limit")?,
            get_limit: unsigned("btl_ofi_get_limit")?,
            latency: unsigned("btl_ofi_latency")? as u32,
            bandwidth: unsigned("btl_ofi_bandwidth")? as u32,
            peer_check_ms: unsigned("btl_ofi_peer_check_interval")? as u32,
            peer_timeout_ms: unsigned("btl_ofi_peer_timeout")? as u32,
            same_node: text("btl_ofi_same_node")? == "auto",
            fault_guard: flag("btl_ofi_fault_guard")?,
            rd_num_set: int("btl_ofi_rd_num")? != 10,
            hmem: match text("btl_ofi_hmem")? {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            },
            hmem_thread: flag("btl_ofi_hmem_thread")?,
            smallest_limit: 0,
        })
    }

    /// Rejects providers that move fewer than `bytes` bytes per operation, for hosts that cannot divide their
    /// transfers further.
    pub fn need_limit(&mut self, bytes: usize) {
        self.smallest_limit = bytes;
    }

    /// The value of `btl_ofi_verbose`.
    pub fn verbosity(&self) -> i32 {
        self.verbose
    }

    /// Checks a provider against the include and exclude lists; the error is the reason.
    ///
    /// A provider is listed when its name begins with an entry, ignoring case. So `tcp` stands for `tcp;ofi_rxm` too
    /// (the rule of `opal_common_ofi_is_in_list`).
    pub(crate) fn admits(&self, provider: &str) -> Result<(), String> {
        let listed = |names: &[String]| {
            names.iter().any(|n| {
                provider
                    .get(..n.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(n))
            })
        };
        if !self.include.is_empty() {
            if listed(&self.include) {
                Ok(())
            } else {
                Err(format!(
                    "not in btl_ofi_provider_include ({})",
                    self.include.join(",")
                ))
            }
        } else if listed(&self.exclude) {
            Err(format!(
                "in btl_ofi_provider_exclude ({})",
                self.exclude.join(",")
            ))
        } else {
            Ok(())
        }
    }

    /// Whether the user named the provider in `btl_ofi_provider_include`.
    pub(crate) fn named(&self, provider: &str) -> bool {
        !self.include.is_empty() && self.admits(provider).is_ok()
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
