//! The transport's parameters, declared as data. This module reads them into [`Options`]; other modules act on them.
//!
//! Names, types and meanings are those of Open MPI's `btl/ofi` and `common/ofi` components. Where this transport has
//! another default, a comment gives the reason.

use std::error::Error as StdError;

use mca_params::{Declaration, Value};

use crate::base::error::Error;

mod declarations;
use declarations::DECLARATIONS;

/// Providers that are used only when the user names them: Open MPI's default of `opal_common_ofi_provider_exclude`.
pub(crate) const DEFAULT_EXCLUDE: &str = "shm,sockets,tcp,udp,rstream,usnic,net";

/// Largest value of `num_cq_read`: completions are read into an array on the stack.
pub(crate) const MAX_CQ_READ: usize = 64;
/// Default of `btl_ofi_message_limit`.
const MESSAGE_LIMIT: u64 = 4096;
/// Most receive buffers for messages.
const MOST_RECEIVES: usize = 4096;

/// Default of `btl_ofi_exclusivity`, and what it means when the transport carries the host's messages, too: below the
/// transports of one node, above TCP.
const EXCLUSIVITY: u64 = 64 * 1024 - 50;
const EXCLUSIVITY_TWO_SIDED: u32 = 1024;

/// What the transport offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Puts, gets and atomics.
    OneSided,
    /// Messages of the host.
    TwoSided,
    Both,
}

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
    pub(crate) mode: Mode,
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
    /// Number of receive buffers for messages.
    pub(crate) receives: usize,
    /// Largest put and get that travels as a message; 0 for no messages where the provider has atomics.
    pub(crate) message_limit: usize,
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

        let mode = match int("btl_ofi_mode")? {
            0 => Mode::OneSided,
            1 => Mode::TwoSided,
            _ => Mode::Both,
        };
        Ok(Options {
            mode,
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
            exclusivity: match unsigned("btl_ofi_exclusivity")? {
                EXCLUSIVITY if mode != Mode::OneSided => EXCLUSIVITY_TWO_SIDED,
                other => other as u32,
            },
            flags: unsigned("btl_ofi_flags")? as u32,
            put_limit: unsigned("btl_ofi_put_limit")?,
            get_limit: unsigned("btl_ofi_get_limit")?,
            latency: unsigned("btl_ofi_latency")? as u32,
            bandwidth: unsigned("btl_ofi_bandwidth")? as u32,
            peer_check_ms: unsigned("btl_ofi_peer_check_interval")? as u32,
            peer_timeout_ms: unsigned("btl_ofi_peer_timeout")? as u32,
            same_node: text("btl_ofi_same_node")? == "auto",
            fault_guard: flag("btl_ofi_fault_guard")?,
            receives: (int("btl_ofi_rd_num")?.max(1) as usize).min(MOST_RECEIVES),
            message_limit: unsigned("btl_ofi_message_limit")? as usize,
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

    /// Whether the transport sends and receives messages of the host.
    pub(crate) fn two_sided(&self) -> bool {
        self.mode != Mode::OneSided
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
