//! Selection of a provider: the hints for libfabric, the refused providers, and the reasons.

use std::collections::HashMap;
use std::net::IpAddr;

use libfabric_sys as ffi;
use plugin_api::ThreadLevel;

use crate::base::environment;
use crate::base::error::Error;
use crate::base::params::{Options, Place};
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::device::Device;
use crate::fabric::entries::offers;
use crate::fabric::fids::{Info, InfoRef};
use crate::fabric::memory;
use crate::fabric::others;
use crate::fabric::policy;
use crate::fabric::query::{Calling, SUPPORTED_MR, all_entries, has_atomics, takes_messages};
use crate::fabric::quirks;
use crate::fabric::ranking::{Ranking, source};
use crate::fabric::richer::{with_atomic_order, with_devices, with_messages};

/// Registration modes that the transport does not support.
const REFUSED_MR: [(u32, &str); 5] = [
    (
        ffi::FI_MR_LOCAL,
        "FI_MR_LOCAL: local buffers would have to be registered",
    ),
    (
        ffi::FI_MR_RAW,
        "FI_MR_RAW: keys would be larger than 64 bits",
    ),
    (
        ffi::FI_MR_MMU_NOTIFY,
        "FI_MR_MMU_NOTIFY: the provider would have to be told of page changes",
    ),
    (
        ffi::FI_MR_RMA_EVENT,
        "FI_MR_RMA_EVENT: regions would have to be enabled for counters",
    ),
    (
        ffi::FI_MR_HMEM,
        "FI_MR_HMEM: device memory would have to be registered locally",
    ),
];

/// A provider in the result of a survey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the provider, as `fi_info` prints it.
    pub name: String,
    /// Name of the domain (device).
    pub domain: String,
    /// The reason for its refusal; `None` if it is usable.
    pub refusal: Option<String>,
    /// Whether the transport would select the provider.
    pub chosen: bool,
}

/// An accepted provider, opened.
pub(crate) struct Chosen {
    pub(crate) device: Device,
    pub(crate) atomics: AtomicTable,
    /// Refused entries, each with the reason: providers that libfabric lists before the chosen one, and other interfaces of
    /// the chosen one.
    pub(crate) passed_over: Vec<(String, String)>,
    /// Other interfaces of the chosen provider that serve as rails.
    pub(crate) rails: Vec<Place>,
    pub(crate) ranking: Ranking,
}

/// Opens the first usable provider.
pub(crate) fn choose(options: &Options, calling: Calling) -> Result<Chosen, Error> {
    if memory::is_named(options) {
        return by_memory(options);
    }
    environment::prepare(quirks::needs(options));
    let ranking = Ranking::find();
    let mut refusals = Vec::new();
    let mut entries = ranking.arrange(offers(options, calling)?).into_iter();
    while let Some(info) = entries.next() {
        let name = info.get().provider();
        match try_open(info, options, calling, &ranking) {
            Ok((device, atomics)) => {
                let rest: Vec<Info> = entries.collect();
                let rails = others::rails(&device, &rest, options, &ranking);
                refusals.extend(others::passed_over(&device, &rest, options, &ranking));
                refusals.retain(|(name, _)| rails.iter().all(|rail| *name != rail.title()));
                return Ok(Chosen {
                    device,
                    atomics,
                    passed_over: refusals,
                    rails,
                    ranking,
                });
            }
            // A provider occurs once per address; keep each reason once.
            Err(why) => {
                let refusal = (name, why);
                if !refusals.contains(&refusal) {
                    refusals.push(refusal);
                }
            }
        }
    }
    // No provider is usable: report the reason for each one, including those that our hints excluded.
    let mut refusals = Vec::new();
    for candidate in survey_for(options, calling)? {
        let why = candidate.refusal;
        let why = why.unwrap_or_else(|| String::from("the first attempt to open it failed"));
        let refusal = (candidate.name, why);
        if !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }
    let wanted = wanted(options, environment::filter().as_deref());
    Err(Error::NoProvider { wanted, refusals })
}

/// Opens the provider `memory`.
fn by_memory(options: &Options) -> Result<Chosen, Error> {
    if let Some(why) = memory::refusal(options) {
        return Err(memory::refused(why));
    }
    Ok(Chosen {
        device: Device::open(Info::of_memory(), options)?,
        atomics: AtomicTable::of_targets(),
        passed_over: Vec::new(),
        rails: Vec::new(),
        ranking: Ranking::default(),
    })
}

/// The lists that narrowed the choice (the parameter's list and libfabric's own), as the end of a
/// sentence.
fn wanted(options: &Options, filter: Option<&str>) -> String {
    let include = options.provider.include.join(",");
    let lists = [
        (!include.is_empty()).then(|| format!("btl_ofi_provider_include is \"{include}\"")),
        filter.map(|filter| {
            format!(
                "FI_PROVIDER is \"{filter}\" in the environment, which limits what libfabric offers"
            )
        }),
    ];
    let lists: Vec<String> = lists.into_iter().flatten().collect();
    match lists.is_empty() {
        true => String::new(),
        false => format!(" ({})", lists.join("; ")),
    }
}

/// Lists every provider: [`Transport::survey`](crate::Transport::survey).
pub(crate) fn survey(options: &Options, level: ThreadLevel) -> Result<Vec<Candidate>, Error> {
    survey_for(options, Calling::at(level))
}

fn survey_for(options: &Options, calling: Calling) -> Result<Vec<Candidate>, Error> {
    if memory::is_named(options) {
        let refusal = memory::refusal(options);
        return Ok(vec![Candidate {
            name: String::from(memory::NAME),
            domain: Info::of_memory().get().domain(),
            chosen: refusal.is_none(),
            refusal,
        }]);
    }
    environment::prepare(quirks::needs(options));
    let ranking = Ranking::find();
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut add = |name: String, domain: String, refusal: Option<String>, each: bool| {
        let merges = |c: &Candidate| c.domain == domain || refusal.is_some() && !each;
        match candidates.iter_mut().find(|c| c.name == name && merges(c)) {
            // A provider occurs once per address; it is usable if one of its entries is.
            Some(known) if known.refusal.is_some() && refusal.is_none() => known.refusal = None,
            Some(_) => {}
            None => candidates.push(Candidate {
                name,
                domain,
                refusal,
                chosen: false,
            }),
        }
    };
    // The address of each provider's first usable entry.
    let mut taken: HashMap<String, IpAddr> = HashMap::new();
    for info in ranking.arrange(offers(options, calling)?) {
        let (name, domain) = (info.get().provider(), info.get().domain());
        let address = source(info.get());
        let refused = ranking.admit(info.get(), options).err();
        let passed = taken.get(&name).copied();
        let passed = passed.and_then(|chosen| ranking.not_preferred(info.get(), chosen));
        let each = refused.is_some() || passed.is_some();
        let refusal = match refused.or(passed) {
            Some(why) => Some(why),
            None => try_open(info, options, calling, &ranking).err(),
        };
        if let (None, Some(address)) = (&refusal, address) {
            taken.entry(name.clone()).or_insert(address);
        }
        add(name, domain, refusal, each);
    }
    let all = all_entries()?;
    for info in all.iter() {
        let name = info.provider();
        let refusal = check_attributes(info, options).err().unwrap_or_else(|| {
            String::from("it does not support the requested combination of attributes")
        });
        add(name, info.domain(), Some(refusal), false);
    }
    for name in unmatched(options, &candidates) {
        let known = candidates.iter().map(|candidate| &candidate.name);
        let unknown = match policy::keeps_files(&name) {
            true => {
                "libfabric wants 16 MiB free in /dev/shm for each processor before it offers it"
            }
            false => "libfabric has no such provider, or it finds no device",
        };
        let refusal = match mca_params::similar(&name, known) {
            Some(similar) => format!("{unknown}; did you mean {similar}?"),
            None => unknown.to_owned(),
        };
        candidates.push(Candidate {
            name,
            domain: String::new(),
            refusal: Some(refusal),
            chosen: false,
        });
    }
    if let Some(first) = candidates.iter_mut().find(|c| c.refusal.is_none()) {
        first.chosen = true;
    }
    Ok(candidates)
}

/// Names of the include list that match no known provider.
fn unmatched(options: &Options, known: &[Candidate]) -> Vec<String> {
    options
        .provider
        .include
        .iter()
        .filter(|wanted| {
            !known.iter().any(|c| {
                c.name
                    .get(..wanted.len())
                    .is_some_and(|s| s.eq_ignore_ascii_case(wanted))
            })
        })
        .cloned()
        .collect()
}

/// Checks the attributes only.
pub(super) fn check_attributes(info: InfoRef<'_>, options: &Options) -> Result<(), String> {
    let name = info.provider();
    options.admits(&name)?;
    policy::serves(&name)?;
    if info.ep_attr().type_ != ffi::FI_EP_RDM {
        return Err(String::from("its endpoints are not FI_EP_RDM"));
    }
    if info.raw().caps & u64::from(ffi::FI_RMA) == 0 {
        return Err(String::from("it lacks FI_RMA"));
    }
    if !has_atomics(info) && info.raw().caps & u64::from(ffi::FI_MSG) == 0 {
        return Err(String::from(
            "it lacks FI_ATOMIC, and FI_MSG, by which targets would execute atomics",
        ));
    }
    let mr_mode = info.domain_attr().mr_mode as u32;
    for (bit, why) in REFUSED_MR {
        if mr_mode & bit != 0 {
            return Err(format!("it requires {why}"));
        }
    }
    let known = SUPPORTED_MR | ffi::FI_MR_BASIC | ffi::FI_MR_SCALABLE;
    if mr_mode & !known != 0 {
        return Err(format!(
            "it requires unknown registration modes {:#x}",
            mr_mode & !known
        ));
    }
    let unknown = info.raw().mode & !(ffi::FI_CONTEXT | ffi::FI_CONTEXT2);
    if unknown != 0 {
        return Err(format!(
            "it requires the modes {unknown:#x}, which are not supported"
        ));
    }
    policy::refusal(info)?;
    let (put, get) = policy::limits(info, options);
    if put.min(get) < options.provider.smallest_limit {
        return Err(format!(
            "it moves at most {} bytes at once (after btl_ofi_put_limit and btl_ofi_get_limit), and {} are needed",
            put.min(get),
            options.provider.smallest_limit
        ));
    }
    Ok(())
}

/// Checks the attributes and the interface, opens the provider, and queries the atomics that every host needs.
fn try_open(
    info: Info,
    options: &Options,
    calling: Calling,
    ranking: &Ranking,
) -> Result<(Device, AtomicTable), String> {
    check_attributes(info.get(), options)?;
    ranking.admit(info.get(), options)?;
    if let Some(place) = &options.provider.place
        && *place != others::place(info.get())
    {
        return Err(String::from("it is another interface"));
    }
    let name = info.get().provider();
    let info = with_atomic_order(info, options, calling).map_err(|e| e.to_string())?;
    let info = with_messages(info, options, calling).map_err(|e| e.to_string())?;
    if !takes_messages(info.get(), options) {
        if options.two_sided() {
            return Err(String::from(
                "btl_ofi_mode asks for two-sided messages, and it has none, or takes too short ones",
            ));
        }
        if options.applies {
            return Err(String::from(
                "it has no messages, or takes too short ones: by messages, targets change elements that no atomic serves",
            ));
        }
    }
    let info = with_devices(info, options, calling).map_err(|e| e.to_string())?;
    let device = Device::open(info, options).map_err(|e| e.to_string())?;
    // fi_query_atomic may grant atomics that the provider was not opened for.
    let advertised = has_atomics(device.info());
    let atomics = match advertised {
        true => AtomicTable::query(&device),
        false => AtomicTable::none(),
    };
    match atomics.missing() {
        None => Ok((device, atomics)),
        // Rails need no atomics.
        Some(_) if options.provider.is_rail => Ok((device, atomics)),
        Some(_) if takes_messages(device.info(), options) => {
            Ok((device, AtomicTable::of_targets()))
        }
        Some(missing) if advertised => Err(format!(
            "{name} advertises atomics, but fi_query_atomic refuses {missing}"
        )),
        Some(_) => Err(String::from(
            "it has no atomics, and no messages by which targets would execute them, or takes too short ones",
        )),
    }
}
