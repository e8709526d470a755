//! Requests beyond the hints of all providers. Each takes the provider's entry with one more capability, if the
//! entry's other attributes are the same.

use libfabric_sys as ffi;

use crate::base::error::Error;
use crate::base::params::Options;
use crate::fabric::fids::{HintsMut, Info, InfoRef};
use crate::fabric::policy;
use crate::fabric::query::{
    ATOMIC_ORDER, Calling, READ_ORDER, has_atomics, is_old, orders_atomics, richer_entry,
    takes_devices, takes_messages,
};
use crate::mem::cuda;

/// Requests ordered atomics if order costs nothing: takes the provider's ordered entry if the entry's other
/// attributes are the same.
pub(super) fn with_atomic_order(
    info: Info,
    options: &Options,
    calling: Calling,
) -> Result<Info, Error> {
    if !policy::wants_atomic_order(info.get()) || !has_atomics(info.get()) {
        return Ok(info);
    }
    let better = richer(&info, (options, calling), orders_atomics, |h| {
        h.tx.msg_order |= ATOMIC_ORDER;
        h.rx.msg_order |= ATOMIC_ORDER;
    })?;
    Ok(better.unwrap_or(info))
}

/// Requests messages if messages are faster than the provider's own atomics and small transfers, if
/// the provider has no atomics, or if the host needs messages.
pub(super) fn with_messages(
    info: Info,
    options: &Options,
    calling: Calling,
) -> Result<Info, Error> {
    let is_asked = options.two_sided() || options.applies;
    if !policy::prefers_messages(info.get()) && has_atomics(info.get()) && !is_asked {
        return Ok(info);
    }
    let better = richer(
        &info,
        (options, calling),
        |i| takes_messages(i, options),
        |h| {
            *h.caps |= u64::from(ffi::FI_MSG);
        },
    )?;
    Ok(better.unwrap_or(info))
}

/// Requests access to device memory if there may be devices: takes the provider's entry with FI_HMEM if its other
/// attributes are the same. Does nothing for providers whose transfers are replaced by copies
/// (`policy::takes_devices`).
pub(super) fn with_devices(info: Info, options: &Options, calling: Calling) -> Result<Info, Error> {
    // FI_MR_HMEM cannot be combined with the old modes.
    let old = is_old(info.get().domain_attr().mr_mode as u32);
    let wanted = options.devices.by_provider;
    let never = wanted == Some(false) || (wanted.is_none() && !cuda::has_driver());
    if never || old || !policy::takes_devices(info.get()) {
        return Ok(info);
    }
    let better = richer(&info, (options, calling), takes_devices, |h| {
        h.domain.mr_mode |= ffi::FI_MR_HMEM as i32;
        *h.caps |= ffi::FI_HMEM;
    });
    match better {
        // The devices are counted last, because the count starts their driver, which costs open files
        // and time.
        Ok(Some(better)) if wanted.is_some() || cuda::devices() > 0 => Ok(better),
        Ok(_) => Ok(info),
        // Device memory is optional, so without its support the entry stays the same.
        Err(why) => {
            tracing::info!("no access to device memory was asked of the provider: {why}");
            Ok(info)
        }
    }
}

/// Calls [`richer_entry`] with the orders that the entry's query requested.
fn richer(
    info: &Info,
    asked: (&Options, Calling),
    fits: impl Fn(InfoRef<'_>) -> bool,
    more: impl FnOnce(&mut HintsMut<'_>),
) -> Result<Option<Info>, Error> {
    // The order of reads is requested only if reads confirm puts, because it may make a provider
    // slower.
    let orders = match policy::needs_read_order(info.get()) {
        true => ATOMIC_ORDER | READ_ORDER,
        false => ATOMIC_ORDER,
    };
    richer_entry(info, asked, orders, fits, more)
}
