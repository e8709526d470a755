//! Opening a transport.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
use std::sync::{Arc, Mutex};

use plugin_api::{CompletionFn, Module, ThreadLevel};

use crate::base::capabilities::Capabilities;
use crate::base::descriptors;
use crate::base::error::{Doing, Error};
use crate::base::fork::Birth;
use crate::base::params::Options;
use crate::base::sys;
use crate::carrier::provider::confirmation::{register_word, target_of_word};
use crate::core::context::{Carriers, Context};
use crate::core::failures::Failures;
use crate::core::fork;
use crate::core::peers::Peers;
use crate::core::slow::SlowWork;
use crate::core::state::{Core, Node, Quick, Setup, known_by};
use crate::detector::{Detector, LONG};
use crate::engine::compound::state::Compounds;
use crate::engine::compound::state::part_ended;
use crate::engine::describe::{describe, title};
use crate::engine::rails::Rails;
use crate::engine::staging::Hmem;
use crate::engine::staging::told;
use crate::engine::transport::{Atomics, Transport};
use crate::fabric::atomic_table::AtomicTable;
use crate::fabric::device::Device;
use crate::fabric::fids::InfoRef;
use crate::fabric::memory;
use crate::fabric::msg::{self, Messages};
use crate::fabric::own::OwnMemory;
use crate::fabric::policy::{self, Policy};
use crate::fabric::query::{self, Calling};
use crate::fabric::registration::Registrar;
use crate::fabric::select::{self, Candidate};
use crate::peer::address::Blob;
use crate::peer::counters::{CounterTable, CountersRef};
use crate::peer::liveness::{self, ProcessId};
use crate::peer::networks::Networks;
use crate::peer::reach;
use crate::peer::share::{self, Share};
use crate::sm::channel::Channel;
use crate::sm::mapped::MappedRegions;
use crate::sm::segment::{self, Segment};

impl Transport {
    /// Lists every provider that libfabric offers. For each, says whether a transport opened at this thread level
    /// accepts it, or why not. Opens each acceptable provider for a moment, because some providers advertise features
    /// that they lack.
    ///
    /// # Errors
    /// libfabric is too old, or `fi_getinfo` fails.
    pub fn survey(options: &Options, level: ThreadLevel) -> Result<Vec<Candidate>, Error> {
        select::survey(options, level)
    }

    /// Opens the first usable provider. Any threads may use the transport at the same time ([`ThreadLevel::Multiple`]).
    ///
    /// # Errors
    /// [`Error::NoProvider`] lists every provider with the reason for its refusal; other errors name the
    /// libfabric call.
    pub fn open(options: &Options) -> Result<Transport, Error> {
        // SAFETY: `Multiple` requires nothing of the caller.
        unsafe { Transport::open_at(options, ThreadLevel::Multiple) }
    }

    /// [`open`](Self::open) for a host that promises a thread level. Below [`ThreadLevel::Multiple`], a lock costs one
    /// branch.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    ///
    /// # Safety
    /// Below [`ThreadLevel::Multiple`], calls of the transport must not overlap with each other or with the end of its
    /// regions, and each call must see the writes of the previous call. Either one thread makes all calls, or the host
    /// orders them. The transport is [`Sync`], so the compiler does not check this:
    ///
    /// ```compile_fail,E0133
    /// # let options: btl_ofi::Options = todo!();
    /// btl_ofi::Transport::open_at(&options, plugin_api::ThreadLevel::Single);
    /// ```
    pub unsafe fn open_at(options: &Options, level: ThreadLevel) -> Result<Transport, Error> {
        let threaded = level == ThreadLevel::Multiple;
        descriptors::raise_limit();
        let mut chosen = select::choose(options, Calling::at(level))?;
        let device = Arc::new(chosen.device);
        let (info, name) = (device.info(), device.name()?);
        let policy = decide(info, options, &chosen.atomics);
        let scratch = words_of_scratch(&policy, &mut chosen.atomics);
        let (mut node, segment, completion) = join_node(info, name, options, &policy);
        if policy.memory_only && segment.is_none() {
            return Err(memory::refused(completion));
        }
        node.networks = chosen.ranking.networks(info, name);
        if policy.has_messages() {
            [node.key] = sys::random().doing(|| String::from("making a key for messages"))?;
        }
        if node.same_node && policy.processor_atomics {
            chosen.atomics.limit_to_targets(segment::LARGEST);
        }
        if policy.messages {
            chosen.atomics.limit_to_targets(msg::LARGEST);
        }
        let shared = segment.as_ref().and_then(Segment::shared_regions);
        let registrar = Registrar::new(Arc::clone(&device), threaded, shared);
        let registrar = Arc::new(registrar);
        let scratch = OwnMemory::new(scratch);
        node.word = register_word(&policy, &node.probe, &registrar)?;
        // SAFETY: only calls of this transport call the rails, and the caller guarantees the same for these
        // calls.
        let rails = unsafe { Rails::open(options, level, &chosen.rails) };
        node.address = address(
            (info, name.to_vec()),
            &registrar,
            &node,
            (segment.as_ref(), &rails),
            &policy,
        )?;
        let contexts = make_contexts(&device, threaded, segment, &policy)?;
        let shares = share::number(contexts.len(), threaded);
        let counters = CounterTable::new(&title(info, &node), shares, options.stats_file.clone())?;
        if policy.has_messages() {
            let mut state = contexts[0].state.lock();
            let own = (counters.reference(), node.key);
            state.messages = Some(open_messages(&device, options, own)?);
            // A poll that includes messages costs more. If messages carry only applies, such polls begin
            // with the first apply.
            if policy.posts_messages() {
                state.carriers = Carriers::Messages;
            }
        }
        let capabilities = describe(
            info,
            options,
            (&policy, &chosen.atomics),
            (node.attaches, &completion),
            contexts.len(),
            chosen.passed_over,
        )
        .over(&rails, options);
        announce(options, &device, &capabilities, &node.networks);
        let peers = Arc::new(Mutex::new(Peers::new(shares)));
        // SAFETY: the transport drops the entry before the contexts and the counters.
        let entry = unsafe { fork::Entry::add(&contexts, threaded, &peers, counters.mapping()) };
        let outstanding_limit = options.contexts.progress_threshold;
        Ok(Transport {
            atomics: Atomics::new(chosen.atomics, &policy),
            compounds: Compounds::default(),
            hmem: Hmem::default(),
            core: Core {
                module: NO_TABLE,
                quick: Quick {
                    first: contexts.as_ptr(),
                    counters: counters.reference(),
                    several: contexts.len() > 1,
                    delivered: policy::DELIVERED,
                    outstanding_limit,
                    untracked_limit: if policy.untracked {
                        outstanding_limit
                    } else {
                        0
                    },
                    virtual_addresses: registrar.virtual_addresses,
                },
                scratch,
                setup: setup(options, &capabilities, (&registrar, &rails), info, threaded),
                slow: SlowWork::driven_if(!rails.is_empty()),
                node,
                failures: failures(options),
                detector: Detector::new(
                    u64::from(options.peers.timeout_ms),
                    check_interval(options),
                ),
                peers,
                entry,
                birth: Birth::now(),
                counters,
                receive: Mutex::new(None),
                mapped: MappedRegions::default(),
                capabilities,
                policy,
                contexts,
                registrar,
                device,
            },
            rails,
        })
    }
}

/// The policy for this provider and these options.
fn decide(info: InfoRef, options: &Options, atomics: &AtomicTable) -> Policy {
    let mut policy = policy::decide(info);
    policy.two_sided = options.two_sided();
    policy.messages =
        !options.provider.is_rail && policy::goes_by_message(info, options, atomics.by_provider);
    policy.applies = options.applies && query::takes_messages(info, options);
    // Processors of this transport then execute all atomics, and rings and messages keep the order of
    // commands.
    policy.atomics_ordered |= policy.messages;
    policy
}

/// A module without tables; the door fills them in.
const NO_TABLE: Module = Module {
    vtable: std::ptr::null(),
    attributes: std::ptr::null(),
};

/// The callbacks that the transport passes for parts of operations.
static PARTS: &[CompletionFn] = &[part_ended, told];

/// The state of a transport without failures.
fn failures(options: &Options) -> Failures {
    Failures {
        of: named(options),
        parts: PARTS,
        every: options.reports_every_failure,
        // Reserved here, so that the periodic check of the peers allocates nothing.
        found: Mutex::new(VecDeque::with_capacity(8)),
        ..Failures::default()
    }
}

/// The prefix of a transport's log messages: its interface, if it is a rail of another transport.
fn named(options: &Options) -> String {
    let place = options.provider.place.as_ref();
    place.map_or_else(String::new, |place| format!("rail {}: ", place.domain))
}

/// The constants of the slow paths.
fn setup(
    options: &Options,
    capabilities: &Capabilities,
    (registrar, rails): (&Registrar, &Rails),
    info: InfoRef<'_>,
    threaded: bool,
) -> Setup {
    // The slow path takes transfers that may be divided, and transfers that the failure detector
    // counts.
    let quick_limit = |limit| match options.peers.timeout_ms {
        0 => rails.quick_limit(limit),
        _ => rails.quick_limit(limit).min(LONG - 1),
    };
    Setup {
        answers_at_once: false,
        threaded,
        virtual_addresses: registrar.virtual_addresses,
        put_limit: capabilities.put_limit,
        get_limit: capabilities.get_limit,
        quick_limits: (
            quick_limit(capabilities.put_limit),
            quick_limit(capabilities.get_limit),
        ),
        message_limits: policy::message_limits(info, options),
        progress_threshold: options.contexts.progress_threshold,
        num_cq_read: options.contexts.num_cq_read,
        check_interval_ms: check_interval(options),
        peer_timeout_ms: u64::from(options.peers.timeout_ms),
        hmem_provider: query::takes_devices(info),
        hmem_thread: options.devices.thread,
        interfaces: options.provider.interfaces.clone(),
        owner: AtomicPtr::new(std::ptr::null_mut()),
    }
}

/// Words of memory for results that no caller uses. If the provider posts updates as fetches, the largest update fits.
fn words_of_scratch(policy: &Policy, atomics: &mut AtomicTable) -> usize {
    if !policy.updates_fetch {
        return 1;
    }
    atomics.update_by_fetch();
    atomics.largest_update().div_ceil(8).max(1)
}

/// Finds out how this process and its local peers can reach each other. Also creates this process's segment, into which
/// local peers put atomics and ring puts and gets. Without a segment, atomics of local peers take the route to other nodes,
/// and their transfers use CMA. Also returns a text that describes how completions are generated.
fn join_node(
    info: InfoRef<'_>,
    name: &[u8],
    options: &Options,
    policy: &Policy,
) -> (Node, Option<Segment>, String) {
    let probe = Box::new(AtomicU64::new(reach::probe_value(name)));
    let known_by = known_by(&probe);
    let apart = policy::keeps_apart(info, options);
    let same_node = apart.is_none();
    let obstacle = apart.or_else(|| reach::prepare(known_by));
    let (limit, _) = policy::message_limits(info, options);
    let completion = policy.describe(obstacle.as_deref().map_or(Ok(()), Err), limit);
    let attaches = obstacle.is_none();
    let segment = attaches.then(|| Segment::make(known_by.value));
    let segment = segment.and_then(|made| {
        made.inspect_err(|e| {
            tracing::info!("no segment for atomics; they go as to other nodes: {e}")
        })
        .ok()
    });
    let node = Node {
        id: liveness::node(),
        own: ProcessId::own(),
        probe,
        word: None,
        key: 0,
        same_node,
        attaches,
        has_rings: segment.is_some(),
        uses_fabric: AtomicBool::new(false),
        networks: Networks::default(),
        address: Vec::new(),
    };
    (node, segment, completion)
}

/// The published address of this process, in bytes.
fn address(
    (info, name): (InfoRef<'_>, Vec<u8>),
    registrar: &Registrar,
    node: &Node,
    (segment, rails): (Option<&Segment>, &Rails),
    policy: &Policy,
) -> Result<Vec<u8>, Error> {
    let probe = known_by(&node.probe);
    let word = node.word.as_ref();
    let word = word.and_then(|word| target_of_word(word, registrar.virtual_addresses));
    let blob = Blob {
        virtual_addresses: registrar.virtual_addresses,
        same_node: node.same_node,
        messages: policy.messages,
        two_sided: policy.two_sided,
        node: node.id,
        process: node.own,
        probe_address: probe.address,
        probe_value: probe.value,
        segment: segment.map(Segment::descriptor),
        key: node.key,
        provider: info.provider(),
        format: info.raw().addr_format,
        address: name,
        networks: node.networks.clone(),
        word,
        rails: rails.published(),
    };
    Ok(blob.encode())
}

/// Makes the transmit contexts; the first one has the rings.
fn make_contexts(
    device: &Device,
    threaded: bool,
    segment: Option<Segment>,
    policy: &Policy,
) -> Result<Box<[Context]>, Error> {
    let info = device.info();
    let (provider, claimed) = (info.provider(), info.claims_contexts());
    let mut contexts = Vec::new();
    let lanes = device.lanes();
    let shares = share::number(lanes.len(), threaded);
    for (number, (tx, cq)) in lanes.into_iter().enumerate() {
        let share = match shares {
            1 => Share::ONLY,
            _ => Share::of_several(number),
        };
        let queue = (claimed, device.tells_lengths(number));
        // SAFETY: the transport holds the device, which keeps the endpoints and queues live.
        let context = unsafe { Context::new(tx, cq, &provider, (threaded, share), queue)? };
        contexts.push(context);
    }
    if let (Some(segment), Some(context)) = (segment, contexts.first()) {
        let mut state = context.state.lock();
        state.channel = Some(Box::new(Channel::new(segment)));
        state.carriers = match policy.polls_kernel {
            true => Carriers::RingsAndKernel,
            false => Carriers::Rings,
        };
    }
    if policy.by_order {
        contexts.iter_mut().for_each(Context::put_by_order);
    }
    Ok(contexts.into_boxed_slice())
}

/// Opens the messages of the first context.
fn open_messages(
    device: &Device,
    options: &Options,
    (counters, key): (CountersRef, u64),
) -> Result<Box<Messages>, Error> {
    let (lanes, rx) = (device.lanes(), device.receiver());
    let (Some((tx, _)), Some(rx)) = (lanes.first().copied(), rx) else {
        return Err(Error::Invalid {
            what: "endpoint",
            reason: String::from("not open"),
        });
    };
    let provider = msg::Provider {
        tx,
        rx,
        addresses: Arc::clone(device.addresses()),
        format: device.info().raw().addr_format,
        address: device.name()?.to_vec(),
        key,
        receives: options.messages.receives,
        two_sided: options.two_sided(),
        answer: policy::longest_answer(device.info()),
        longest: policy::longest_batch(device.info()),
        claims_contexts: device.info().claims_contexts(),
        counters,
    };
    device.addresses().count();
    // SAFETY: the transport holds the device, which keeps its objects live longer than the contexts use them.
    let messages = unsafe { Messages::open(provider) }?;
    Ok(Box::new(messages))
}

/// Logs the choices, and the requested features that are missing.
fn announce(options: &Options, device: &Device, capabilities: &Capabilities, networks: &Networks) {
    let (contexts, provider) = (capabilities.contexts, device.info().provider());
    if options.contexts.number > contexts {
        let why = if options.contexts.disable_sep {
            String::from(": btl_ofi_disable_sep is set")
        } else if device.is_scalable() {
            format!(": provider {provider} has no more")
        } else {
            format!(": provider {provider} has no scalable endpoint")
        };
        tracing::warn!(
            "{} contexts were asked for, {contexts} are used{why}",
            options.contexts.number
        );
    }
    for (name, why) in &capabilities.passed_over {
        tracing::info!("passed over {name}: {why}");
    }
    tracing::info!(
        "using provider {provider}, domain {}{}, {contexts} context(s): {}",
        capabilities.domain.to_string_lossy(),
        networks.place(),
        capabilities.completion.to_string_lossy()
    );
}

/// Milliseconds between two liveness checks. At most a quarter of the peer timeout, so that a failure is found at most a
/// quarter late.
fn check_interval(options: &Options) -> u64 {
    let interval = u64::from(options.peers.check_ms);
    match options.peers.timeout_ms {
        0 => interval,
        limit => interval.min(u64::from(limit).div_ceil(4)),
    }
}
