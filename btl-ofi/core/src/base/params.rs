//! The transport's parameters, declared as data. This module reads the parameters into [`Options`]; other modules
//! act on them.
//!
//! Names, types and meanings are those of Open MPI's `btl/ofi` and `common/ofi` components. A comment gives the
//! reason if this transport has another default.

use std::fmt::Display;
use std::path::PathBuf;

use mca_params::{Declaration, Value};

use crate::base::error::Error;
use crate::base::interfaces::Lists;

mod declarations;
mod places;
use declarations::{DECLARATIONS, REMOVED};
pub(crate) use places::Place;

/// Providers that are used only if the user names them: Open MPI's default of `opal_common_ofi_provider_exclude`.
pub(crate) const DEFAULT_EXCLUDE: &str = "shm,sockets,tcp,udp,rstream,usnic,net";

/// Largest value of `num_cq_read`, because completions are read into an array on the stack.
pub(crate) const MAX_CQ_READ: usize = 64;
/// Default of `btl_ofi_message_limit`.
const MESSAGE_LIMIT: u64 = 4096;
/// Maximum number of receive buffers for messages.
const MOST_RECEIVES: usize = 4096;

/// Default of `btl_ofi_exclusivity`, and the value that replaces it if the transport also carries the host's
/// messages: below the transports of one node, above TCP.
const EXCLUSIVITY: u64 = 64 * 1024 - 50;
const EXCLUSIVITY_TWO_SIDED: u32 = 1024;

/// The services of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Puts, gets and atomics.
    OneSided,
    /// Two-sided messages of the host.
    TwoSided,
    Both,
}

/// Progress mode that the transport requests from the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressMode {
    Unspecified,
    Auto,
    Manual,
}

impl Place {
    /// The place's name in log messages.
    pub(crate) fn title(&self) -> String {
        format!("{} on {}", self.provider, self.domain)
    }
}

/// Values of all parameters, by topic.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) mode: Mode,
    pub(crate) provider: Provider,
    pub(crate) contexts: Contexts,
    pub(crate) offer: Offer,
    pub(crate) peers: Peers,
    pub(crate) messages: Messages,
    pub(crate) devices: Devices,
    /// The file to which the counters are written when the transport closes.
    pub(crate) stats_file: Option<PathBuf>,
    pub(crate) verbose: i32,
    /// See [`report_every_failure`](Options::report_every_failure).
    pub(crate) reports_every_failure: bool,
    /// Whether messages are opened for applies, although the provider executes atomics itself.
    pub(crate) applies: bool,
}

/// The choice of the provider, and its settings.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) include: Vec<String>,
    pub(crate) exclude: Vec<String>,
    /// The interfaces that may be used (`btl_ofi_if_include`, `btl_ofi_if_exclude`).
    pub(crate) interfaces: Lists,
    pub(crate) progress_mode: ProgressMode,
    /// See [`need_limit`](Options::need_limit).
    pub(crate) smallest_limit: usize,
    /// Maximum interfaces for large transfers; `None` for all that are about as fast as the first one.
    pub(crate) rails: Option<usize>,
    /// The only interface to use, if another transport has already chosen it.
    pub(crate) place: Option<Place>,
    /// Whether the transport is a rail of another transport: it makes only large transfers.
    pub(crate) is_rail: bool,
}

/// Transmit contexts and their completion queues.
#[derive(Clone, Debug)]
pub(crate) struct Contexts {
    pub(crate) number: usize,
    pub(crate) disable_sep: bool,
    pub(crate) num_cq_read: usize,
    pub(crate) progress_threshold: u32,
}

/// Properties of the module that the host reads.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) exclusivity: u32,
    pub(crate) flags: u32,
    pub(crate) put_limit: u64,
    pub(crate) get_limit: u64,
    pub(crate) latency: u32,
    pub(crate) bandwidth: u32,
}

/// Failure detection, and the paths to peers of this node.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    pub(crate) check_ms: u32,
    pub(crate) timeout_ms: u32,
    /// Whether memory may reach local peers.
    pub(crate) same_node: bool,
}

/// Commands that travel as messages.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    /// Number of receive buffers.
    pub(crate) receives: usize,
    /// Largest put that travels as a message; gets may be [longer](crate::fabric::policy::message_limits). With 0, no
    /// messages are used if the provider has atomics.
    pub(crate) limit: usize,
}

/// Device memory.
#[derive(Clone, Debug)]
pub(crate) struct Devices {
    /// Whether to ask the provider to access device memory itself; `None` for auto.
    pub(crate) by_provider: Option<bool>,
    /// Whether a separate thread serves peers.
    pub(crate) thread: bool,
}

/// The values by name, as the host resolved them.
struct Values(Vec<(&'static str, Value)>);

impl Values {
    fn get<'a, T>(
        &'a self,
        name: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Error> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found
            .and_then(|(_, value)| read(value))
            .ok_or_else(|| Error::Parameter {
                name: name.to_owned(),
                reason: String::from("the host gave a value of another type"),
            })
    }

    fn int(&self, name: &str) -> Result<i32, Error> {
        self.get(name, Value::as_int)
    }

    fn unsigned(&self, name: &str) -> Result<u64, Error> {
        self.get(name, Value::as_unsigned)
    }

    fn text(&self, name: &str) -> Result<&str, Error> {
        self.get(name, Value::as_str)
    }

    fn flag(&self, name: &str) -> Result<bool, Error> {
        self.get(name, Value::as_bool)
    }

    fn interfaces(&self) -> Result<Lists, Error> {
        let include = self.text("btl_ofi_if_include")?;
        let exclude = self.text("btl_ofi_if_exclude")?;
        Lists::parse(include, exclude).map_err(|(name, reason)| Error::Parameter {
            name: name.to_owned(),
            reason,
        })
    }

    /// A path; `None` if the value is empty.
    fn path(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let text = self.text(name)?;
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn list(&self, name: &str) -> Result<Vec<String>, Error> {
        self.text(name).map(list)
    }
}

impl Provider {
    fn of(values: &Values) -> Result<Provider, Error> {
        Ok(Provider {
            include: values.list("btl_ofi_provider_include")?,
            exclude: values.list("btl_ofi_provider_exclude")?,
            interfaces: values.interfaces()?,
            progress_mode: match values.text("btl_ofi_progress_mode")? {
                "auto" => ProgressMode::Auto,
                "manual" => ProgressMode::Manual,
                _ => ProgressMode::Unspecified,
            },
            smallest_limit: 0,
            // A text that is no number means auto.
            rails: values.text("btl_ofi_rails")?.parse().ok(),
            place: None,
            is_rail: false,
        })
    }
}

impl Contexts {
    fn of(values: &Values) -> Result<Contexts, Error> {
        Ok(Contexts {
            number: values.int("btl_ofi_num_contexts_per_module")?.max(1) as usize,
            disable_sep: values.flag("btl_ofi_disable_sep")?,
            num_cq_read: (values.int("btl_ofi_num_cq_read")? as usize).clamp(1, MAX_CQ_READ),
            progress_threshold: values.int("btl_ofi_progress_threshold")?.max(1) as u32,
        })
    }
}

impl Offer {
    fn of(values: &Values, mode: Mode) -> Result<Offer, Error> {
        Ok(Offer {
            exclusivity: match values.unsigned("btl_ofi_exclusivity")? {
                EXCLUSIVITY if mode != Mode::OneSided => EXCLUSIVITY_TWO_SIDED,
                other => other as u32,
            },
            flags: values.unsigned("btl_ofi_flags")? as u32,
            put_limit: values.unsigned("btl_ofi_put_limit")?,
            get_limit: values.unsigned("btl_ofi_get_limit")?,
            latency: values.unsigned("btl_ofi_latency")? as u32,
            bandwidth: values.unsigned("btl_ofi_bandwidth")? as u32,
        })
    }
}

impl Peers {
    fn of(values: &Values) -> Result<Peers, Error> {
        Ok(Peers {
            check_ms: values.unsigned("btl_ofi_peer_check_interval")? as u32,
            timeout_ms: values.unsigned("btl_ofi_peer_timeout")? as u32,
            same_node: values.text("btl_ofi_same_node")? == "auto",
        })
    }
}

impl Messages {
    fn of(values: &Values) -> Result<Messages, Error> {
        Ok(Messages {
            receives: (values.int("btl_ofi_rd_num")?.max(1) as usize).min(MOST_RECEIVES),
            limit: values.unsigned("btl_ofi_message_limit")? as usize,
        })
    }
}

impl Devices {
    fn of(values: &Values) -> Result<Devices, Error> {
        Ok(Devices {
            by_provider: match values.text("btl_ofi_hmem")? {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            },
            thread: values.flag("btl_ofi_hmem_thread")?,
        })
    }
}

impl Options {
    /// The same options for a user that never has device memory: devices are not searched for.
    pub fn without_devices(mut self) -> Options {
        self.devices = Devices {
            by_provider: Some(false),
            thread: false,
        };
        self
    }

    /// Every parameter of the transport, and parameters that were removed.
    pub fn declarations() -> impl Iterator<Item = &'static Declaration> {
        DECLARATIONS.iter().chain(&REMOVED)
    }

    /// Reads every parameter with `resolve`, which receives each declaration once.
    ///
    /// # Errors
    /// [`Error::Parameter`] if `resolve` fails, if a value has another type, or if a removed parameter has a value.
    pub fn resolve<E: Display>(
        mut resolve: impl FnMut(&Declaration) -> Result<Value, E>,
    ) -> Result<Options, Error> {
        let mut values = Vec::with_capacity(DECLARATIONS.len() + REMOVED.len());
        for d in Options::declarations() {
            let value = resolve(d).map_err(|e| Error::Parameter {
                name: d.name.clone().into_owned(),
                reason: e.to_string(),
            })?;
            values.push((d.name.as_ref(), value));
        }
        let values = Values(values);
        for d in &REMOVED {
            if !values.text(&d.name)?.is_empty() {
                return Err(Error::Parameter {
                    name: d.name.clone().into_owned(),
                    reason: d.help.clone().into_owned(),
                });
            }
        }
        let mode = match values.int("btl_ofi_mode")? {
            0 => Mode::OneSided,
            1 => Mode::TwoSided,
            _ => Mode::Both,
        };
        Ok(Options {
            mode,
            provider: Provider::of(&values)?,
            contexts: Contexts::of(&values)?,
            offer: Offer::of(&values, mode)?,
            peers: Peers::of(&values)?,
            messages: Messages::of(&values)?,
            devices: Devices::of(&values)?,
            stats_file: values.path("btl_ofi_stats_file")?,
            verbose: values.int("btl_ofi_verbose")?,
            reports_every_failure: false,
            applies: false,
        })
    }

    /// Rejects providers that move fewer than `bytes` bytes per operation, for hosts that cannot divide their
    /// transfers further.
    pub fn need_limit(&mut self, bytes: usize) {
        self.provider.smallest_limit = bytes;
    }

    /// Also passes failed operations with a callback to the host's error function, before the callback runs. For hosts
    /// whose callers may not read the status.
    pub fn report_every_failure(&mut self) {
        self.reports_every_failure = true;
    }

    /// Lets [applies](crate::Transport::apply) reach every peer: messages are opened even if the provider executes atomics,
    /// and a provider without messages is refused. For hosts that make applies.
    pub fn need_applies(&mut self) {
        self.applies = true;
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
    /// A provider is listed when its name begins with an entry, ignoring case. So `tcp` also stands for
    /// `tcp;ofi_rxm` (the rule of `opal_common_ofi_is_in_list`).
    pub(crate) fn admits(&self, provider: &str) -> Result<(), String> {
        let listed = |names: &[String]| {
            names.iter().any(|n| {
                provider
                    .get(..n.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(n))
            })
        };
        if !self.provider.include.is_empty() {
            if listed(&self.provider.include) {
                Ok(())
            } else {
                Err(format!(
                    "not in btl_ofi_provider_include ({})",
                    self.provider.include.join(",")
                ))
            }
        } else if listed(&self.provider.exclude) {
            Err(format!(
                "in btl_ofi_provider_exclude ({})",
                self.provider.exclude.join(",")
            ))
        } else {
            Ok(())
        }
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
