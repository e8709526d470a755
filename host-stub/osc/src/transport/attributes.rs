//! A module's attributes, copied out of the plugin.

use plugin_api::{AtomicFlags, ModuleFlags};
use serde::Serialize;

use super::text;

/// The capabilities of a module; an owned copy, constant for the module's life.
#[derive(Clone, Debug, Serialize)]
pub struct Attributes {
    /// Abilities.
    #[serde(serialize_with = "flag_names")]
    pub flags: ModuleFlags,
    /// Word atomics that the provider serves.
    #[serde(serialize_with = "flag_names")]
    pub atomic_flags: AtomicFlags,
    /// Largest put, bytes.
    pub put_limit: usize,
    /// Largest get, bytes.
    pub get_limit: usize,
    /// Alignment of puts, bytes; at least 1.
    pub put_alignment: usize,
    /// Alignment of gets, bytes; at least 1.
    pub get_alignment: usize,
    /// Bytes of a registration handle, a multiple of 8.
    pub handle_size: usize,
    /// Approximate latency of a small put, microseconds.
    pub latency: u32,
    /// Approximate bandwidth, Mbit/s.
    pub bandwidth: u32,
    /// Preference among transports; higher wins.
    pub exclusivity: u32,
    /// Transmit contexts in use.
    pub contexts: u32,
    /// Provider, as `fi_info` prints it.
    pub provider: String,
    /// Domain (device), as `fi_info` prints it.
    pub domain: String,
    /// The way in which completions are made remotely visible, as text for people.
    pub completion: String,
}

/// Largest handle that a host accepts; BTL hosts reserve 256 bytes for a handle.
const HANDLE_LIMIT: u64 = 256;

impl Attributes {
    /// Copies a checked table; an error names the field that breaks the contract.
    ///
    /// # Safety
    /// The table's strings are NULL or NUL-terminated.
    pub(super) unsafe fn copy(table: &plugin_api::Attributes) -> Result<Self, String> {
        if table.handle_size == 0
            || !table.handle_size.is_multiple_of(8)
            || table.handle_size > HANDLE_LIMIT
        {
            return Err(format!(
                "attributes: wanted a handle_size of 8 to {HANDLE_LIMIT} bytes in steps of 8, \
                 found {}",
                table.handle_size
            ));
        }
        let limit = |value: u64| {
            // 0 means no limit, as in btl.h.
            if value == 0 {
                usize::MAX
            } else {
                usize::try_from(value).unwrap_or(usize::MAX)
            }
        };
        let (put_limit, get_limit) = (limit(table.put_limit), limit(table.get_limit));
        let bytes = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let unregistered = bytes(table.put_local_registration_threshold)
            .min(bytes(table.get_local_registration_threshold));
        if unregistered < put_limit.max(get_limit) {
            return Err(format!(
                "attributes: the plugin wants local buffers of more than {unregistered} bytes registered \
                 (put_local_registration_threshold, get_local_registration_threshold), and this host registers none"
            ));
        }
        // SAFETY: the caller vouches for the strings.
        let (provider, domain, completion) = unsafe {
            (
                text(table.provider),
                text(table.domain),
                text(table.completion),
            )
        };
        Ok(Attributes {
            // Bits of a newer plugin are dropped, because this host does not know their meaning.
            flags: ModuleFlags::from_bits_truncate(table.flags),
            atomic_flags: AtomicFlags::from_bits_truncate(table.atomic_flags),
            put_limit,
            get_limit,
            put_alignment: bytes(table.put_alignment).max(1),
            get_alignment: bytes(table.get_alignment).max(1),
            handle_size: bytes(table.handle_size),
            latency: table.latency,
            bandwidth: table.bandwidth,
            exclusivity: table.exclusivity,
            contexts: table.contexts,
            provider,
            domain,
            completion,
        })
    }
}

fn flag_names<F, S>(flags: &F, serializer: S) -> Result<S::Ok, S::Error>
where
    F: bitflags::Flags + Copy,
    S: serde::Serializer,
{
    serializer.collect_seq(flags.iter_names().map(|(name, _)| name))
}
