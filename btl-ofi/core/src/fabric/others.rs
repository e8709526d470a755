//! The other interfaces of the chosen provider: the ones that serve as rails, and the reasons why the chosen interface
//! is preferred.

use crate::base::params::{Options, Place};
use crate::fabric::device::Device;
use crate::fabric::fids::{Info, InfoRef};
use crate::fabric::ranking::{Ranking, source};
use crate::fabric::select::check_attributes;
use crate::mem::handle::MAX_RAILS;

/// The interface of an entry.
pub(super) fn place(info: InfoRef<'_>) -> Place {
    Place {
        provider: info.provider(),
        domain: info.domain(),
        address: source(info),
    }
}

/// The interfaces that serve as rails beside the chosen one, in order of preference.
pub(super) fn rails(
    device: &Device,
    rest: &[Info],
    options: &Options,
    ranking: &Ranking,
) -> Vec<Place> {
    let rails = options.provider.rails;
    let most = rails.unwrap_or(MAX_RAILS) - 1;
    let (chosen, first) = (device.info(), place(device.info()));
    let mut found: Vec<Place> = Vec::new();
    for info in rest.iter().map(Info::get) {
        let here = place(info);
        let new = here.provider == first.provider
            && here.domain != first.domain
            && found.iter().all(|rail| rail.domain != here.domain)
            && info.raw().addr_format == chosen.raw().addr_format
            && info.domain_attr().mr_mode == chosen.domain_attr().mr_mode;
        if found.len() < most
            && new
            && check_attributes(info, options).is_ok()
            && ranking.admit(info, options).is_ok()
            && ranking.suits_as_rail(info, chosen, rails.is_none())
        {
            found.push(here);
        }
    }
    found
}

/// The other interfaces of the chosen provider, each with the reason against it.
pub(super) fn passed_over(
    device: &Device,
    rest: &[Info],
    options: &Options,
    ranking: &Ranking,
) -> Vec<(String, String)> {
    let chosen = device.info();
    let name = chosen.provider();
    let Some(address) = source(chosen) else {
        return Vec::new();
    };
    let others = rest.iter().map(Info::get);
    let others = others.filter(|info| info.provider() == name);
    let reasons = others.filter_map(|info| {
        let refused = ranking.admit(info, options).err();
        let why = refused.or_else(|| ranking.not_preferred(info, address))?;
        Some((place(info).title(), why))
    });
    let mut found: Vec<(String, String)> = Vec::new();
    for reason in reasons.chain(ranking.down(chosen)) {
        if !found.contains(&reason) {
            found.push(reason);
        }
    }
    found
}
