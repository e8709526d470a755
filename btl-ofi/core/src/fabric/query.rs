//! Queries to libfabric: hints, and properties of the returned entries.

use std::ffi::CString;

use libfabric_sys as ffi;
use plugin_api::ThreadLevel;

use crate::base::error::{CallError, Doing, Error};
use crate::base::params::{Options, ProgressMode};
use crate::fabric::fids::{Hints, HintsMut, Info, InfoList, InfoRef};
use crate::fabric::msg::wire;
use crate::fabric::ranking::source;

/// The oldest supported release; the bindings were made from its headers.
pub(super) const OLDEST_API: u32 = ffi::version(1, 14);

/// Newest API version for which this code was written.
pub(super) const NEWEST_API: u32 = ffi::version(1, 17);

/// Registration modes that the transport supports, in any combination.
pub(super) const SUPPORTED_MR: u32 = ffi::FI_MR_VIRT_ADDR
    | ffi::FI_MR_ALLOCATED
    | ffi::FI_MR_PROV_KEY
    | ffi::FI_MR_ENDPOINT
    // This mode concerns buffers of collective operations, which this transport does not use.
    | ffi::FI_MR_COLLECTIVE;

/// All present bits of registration modes.
pub(super) const EVERY_MR: u32 = !OLD_MR;

/// The two old modes, which cannot be combined with other modes.
const OLD_MR: u32 = ffi::FI_MR_BASIC | ffi::FI_MR_SCALABLE;

/// Orders among atomics that keep accumulates ordered without a wait.
pub(super) const ATOMIC_ORDER: u64 =
    ffi::FI_ORDER_ATOMIC_RAW | ffi::FI_ORDER_ATOMIC_WAR | ffi::FI_ORDER_ATOMIC_WAW;

/// Reads take effect behind the puts that were posted before them.
pub(super) const READ_ORDER: u64 = ffi::FI_ORDER_RMA_RAW;

/// The host's way of calling the transport.
#[derive(Clone, Copy)]
pub(crate) struct Calling {
    pub(crate) threaded: bool,
}

impl Calling {
    pub(crate) fn at(level: ThreadLevel) -> Calling {
        Calling {
            threaded: level == ThreadLevel::Multiple,
        }
    }
}

/// The API version to request. Fails if no usable libfabric is found.
pub(super) fn api() -> Result<u32, Error> {
    let unusable = |found: String| {
        let reason = format!(
            "{found}. Install {}.{} or newer (Debian and Ubuntu: apt-get install libfabric1), or put its folder first \
             in LD_LIBRARY_PATH",
            OLDEST_API >> 16,
            OLDEST_API & 0xffff
        );
        Error::NoProvider {
            wanted: String::new(),
            refusals: vec![(String::from("libfabric"), reason)],
        }
    };
    ffi::load().map_err(|found| unusable(format!("cannot be loaded ({found})")))?;
    // SAFETY: fi_version takes no argument and only returns a number.
    let installed = unsafe { ffi::fi_version() };
    if installed < OLDEST_API {
        let found = format!("{}.{} is too old", installed >> 16, installed & 0xffff);
        return Err(unusable(found));
    }
    Ok(installed.min(NEWEST_API))
}

/// The capabilities to request: RMA with atomics, or RMA with messages. With messages, the transport makes the
/// atomics itself.
pub(super) const CAPS: [u64; 2] = [
    (ffi::FI_RMA | ffi::FI_ATOMIC) as u64,
    (ffi::FI_RMA as u64) | ffi::FI_MSG as u64,
];

/// Whether the provider advertises atomics. Some providers advertise atomics and have none (`AtomicTable::missing`).
pub(super) fn has_atomics(info: InfoRef<'_>) -> bool {
    info.raw().caps & CAPS[0] == CAPS[0]
}

/// Whether the mode is one of the two old registration modes.
pub(super) fn is_old(mr_mode: u32) -> bool {
    mr_mode & OLD_MR != 0
}

/// Whether the provider registers device memory.
pub(crate) fn takes_devices(info: InfoRef<'_>) -> bool {
    info.raw().caps & ffi::FI_HMEM != 0
}

/// Whether atomics from one origin to one target take effect in order.
pub(crate) fn orders_atomics(info: InfoRef<'_>) -> bool {
    info.tx_attr().msg_order & ATOMIC_ORDER == ATOMIC_ORDER
}

/// Whether reads take effect behind the puts that were posted before them.
pub(crate) fn orders_reads(info: InfoRef<'_>) -> bool {
    info.tx_attr().msg_order & READ_ORDER != 0
}

/// Whether the provider confirms operations with `FI_DELIVERY_COMPLETE`.
pub(crate) fn confirms(info: InfoRef<'_>) -> bool {
    info.tx_attr().op_flags & u64::from(ffi::FI_DELIVERY_COMPLETE) != 0
}

/// The link's speed in Mbit/s, or 0 if the provider does not report it.
pub(crate) fn link_speed(info: InfoRef<'_>) -> u32 {
    // SAFETY: libfabric sets these pointers or leaves them NULL.
    let speed = unsafe { info.raw().nic.as_ref().and_then(|n| n.link_attr.as_ref()) };
    speed.map_or(0, |link| {
        u32::try_from(link.speed / 1_000_000).unwrap_or(u32::MAX)
    })
}

/// Whether the provider accepts messages as long as the transport's longest.
pub(crate) fn takes_messages(info: InfoRef<'_>, options: &Options) -> bool {
    info.raw().caps & u64::from(ffi::FI_MSG) != 0
        && info.ep_attr().max_msg_size >= wire::longest(options.two_sided())
}

/// Asks libfabric for the entry of `info` (same provider, domain and addresses) with the hints that `more` adds. The entry
/// keeps only those of its message orders that are in `orders`. `None` if no such entry `fits`.
pub(super) fn richer_entry(
    info: &Info,
    (options, calling): (&Options, Calling),
    orders: u64,
    fits: impl Fn(InfoRef<'_>) -> bool,
    more: impl FnOnce(&mut HintsMut<'_>),
) -> Result<Option<Info>, Error> {
    let api = api()?;
    let info = info.get();
    let (name, domain) = (info.provider(), info.domain());
    let mr_mode = info.domain_attr().mr_mode as u32;
    // The old modes cannot be combined with the present bits.
    let allowed = match is_old(mr_mode) {
        true => mr_mode,
        false => mr_mode | SUPPORTED_MR,
    };
    let kept = ffi::FI_MSG as u64 | ffi::FI_ATOMIC as u64;
    let order = info.tx_attr().msg_order & orders;
    let list = query(api, Some(&name), |h| {
        write_hints(h, options, calling, allowed, info.tx_attr().op_flags);
        *h.caps = u64::from(ffi::FI_RMA) | info.raw().caps & kept;
        h.tx.msg_order = order;
        h.rx.msg_order = order;
        more(h);
    })?;
    let same = list.iter().find(|i| {
        i.provider() == name
            && i.domain() == domain
            && i.domain_attr().mr_mode as u32 & !ffi::FI_MR_HMEM == mr_mode
            && i.raw().addr_format == info.raw().addr_format
            && source(*i) == source(info)
            && i.tx_attr().msg_order & order == order
            && fits(*i)
    });
    same.map(|better| {
        better
            .duplicate()
            .doing(|| format!("copying the entry of {name}"))
    })
    .transpose()
}

pub(super) fn query(
    api: u32,
    provider: Option<&str>,
    fill: impl FnOnce(&mut HintsMut<'_>),
) -> Result<InfoList, Error> {
    let ask = || -> Result<InfoList, CallError> {
        let mut hints = Hints::new()?.with(fill);
        if let Some(name) = provider.and_then(|p| CString::new(p).ok()) {
            hints = hints.provider(&name);
        }
        InfoList::query(api, &hints)
    };
    ask().doing(|| String::from("asking libfabric for providers"))
}

/// Writes the transport's hints.
pub(super) fn write_hints(
    h: &mut HintsMut<'_>,
    options: &Options,
    calling: Calling,
    mr_mode: u32,
    op_flags: u64,
) {
    *h.caps = CAPS[0];
    *h.mode = ffi::FI_CONTEXT | ffi::FI_CONTEXT2;
    h.ep.type_ = ffi::FI_EP_RDM;
    h.domain.mr_mode = mr_mode as i32;
    // One thread at a time uses each context (endpoint and queue). This is the weakest sufficient model. A host that
    // never calls from two threads at once needs no locks.
    h.domain.threading = if calling.threaded {
        ffi::FI_THREAD_COMPLETION
    } else {
        ffi::FI_THREAD_DOMAIN
    };
    h.domain.resource_mgmt = ffi::FI_RM_ENABLED;
    let progress = match options.provider.progress_mode {
        ProgressMode::Unspecified => ffi::FI_PROGRESS_UNSPEC,
        ProgressMode::Auto => ffi::FI_PROGRESS_AUTO,
        ProgressMode::Manual => ffi::FI_PROGRESS_MANUAL,
    };
    h.domain.control_progress = progress;
    h.domain.data_progress = progress;
    h.tx.iov_limit = 1;
    h.tx.rma_iov_limit = 1;
    h.rx.iov_limit = 1;
    h.tx.op_flags = op_flags;
}

/// All entries of libfabric, without requirements.
pub(super) fn all_entries() -> Result<InfoList, Error> {
    let api = api()?;
    query(api, None, |h| {
        *h.mode = u64::MAX;
        h.domain.mode = u64::MAX;
        h.domain.mr_mode = EVERY_MR as i32;
    })
}
