//! The effect of each quirk on policy, refusal and limits.

use std::ffi::CString;

use mca_params::Value;

use super::*;
use crate::fabric::fids::{Hints, Info};

const LARGEST: usize = 1 << 30;

fn options(values: &[(&str, Value)]) -> Options {
    Options::resolve(|d| {
        let given = values.iter().find(|(name, _)| *name == d.name);
        Ok::<_, std::convert::Infallible>(given.map_or(d.default.clone(), |(_, v)| v.clone()))
    })
    .unwrap()
}

/// An offer of a provider with this name and version. `confirms` says whether the provider confirms
/// delivery.
fn offer(provider: &str, version: u32, confirms: bool) -> Info {
    let name = CString::new(provider).unwrap();
    let hints = Hints::new().unwrap().provider(&name).with(|h| {
        h.ep.max_msg_size = LARGEST;
        h.tx.op_flags = u64::from(ffi::FI_DELIVERY_COMPLETE) * u64::from(confirms);
        h.domain.data_progress = ffi::FI_PROGRESS_MANUAL;
    });
    let info = hints.into_info();
    // SAFETY: fi_allocinfo allocated the attribute, and `info` owns it.
    unsafe { (*(*info.as_ptr()).fabric_attr).prov_version = version };
    info
}

fn policy(provider: &str) -> Policy {
    decide(ordered(offer(provider, 0, true), LARGEST).get())
}

/// The names of all decisions that are true.
fn decisions(policy: &Policy) -> Vec<&'static str> {
    let all = [
        ("by_order", policy.by_order),
        ("processor_atomics", policy.processor_atomics),
        ("one_node", policy.one_node),
        ("serves_itself", policy.serves_itself),
        ("polls_kernel", policy.polls_kernel),
        ("hides_refusals", policy.hides_refusals),
        ("untracked", policy.untracked),
        ("updates_fetch", policy.updates_fetch),
        ("dead_peer_blocks", policy.dead_peer_blocks),
        ("reports_for_others", policy.reports_for_others),
        ("atomics_ordered", policy.atomics_ordered),
    ];
    let yes = all.into_iter().filter(|(_, decided)| *decided);
    yes.map(|(name, _)| name).collect()
}

#[test]
fn each_row_decides_its_policy() {
    let shm = [
        "processor_atomics",
        "one_node",
        "untracked",
        "updates_fetch",
        "dead_peer_blocks",
        "atomics_ordered",
    ];
    let sockets = [
        "processor_atomics",
        "polls_kernel",
        "untracked",
        "reports_for_others",
    ];
    let socket = ["polls_kernel", "hides_refusals", "untracked"];
    let rows: [(&str, &[&str]); 9] = [
        ("shm", &shm),
        ("sockets", &sockets),
        ("tcp", &socket),
        ("net", &socket),
        ("udp", &["polls_kernel", "untracked"]),
        ("efa", &["processor_atomics", "untracked"]),
        (
            "verbs;ofi_rxm",
            &[
                "by_order",
                "processor_atomics",
                "updates_fetch",
                "reports_for_others",
            ],
        ),
        (
            "tcp;ofi_rxm",
            &[
                "processor_atomics",
                "polls_kernel",
                "hides_refusals",
                "untracked",
            ],
        ),
        ("verbs", &["untracked"]),
    ];
    for (provider, expected) in rows {
        let policy = policy(provider);
        assert_eq!(decisions(&policy), expected, "{provider}");
    }
}

#[test]
fn efa_is_refused_before_its_confirmations_are_sound() {
    let judge = |provider, version| refusal(offer(provider, version, true).get());
    assert_eq!(
        judge("efa", ffi::version(111, 30)),
        Err(String::from(
            "its delivery-complete is unsound before libfabric 1.12 (this is 111.30)"
        ))
    );
    assert_eq!(judge("efa", ffi::version(112, 0)), Ok(()));
    assert_eq!(judge("verbs", ffi::version(111, 30)), Ok(()));
}

/// Adds a promised order of reads, for puts up to `most` bytes, to an offer.
fn ordered(info: Info, most: usize) -> Info {
    // SAFETY: fi_allocinfo allocated the attributes, and `info` owns them.
    unsafe {
        (*(*info.as_ptr()).tx_attr).msg_order = ffi::FI_ORDER_RMA_RAW;
        (*(*info.as_ptr()).ep_attr).max_order_raw_size = most;
    }
    info
}

#[test]
fn puts_go_by_order_where_nothing_else_confirms_them() {
    let by_order = |info: &Info| decide(info.get()).by_order;
    assert!(by_order(&ordered(offer("verbs;ofi_rxm", 0, true), LARGEST)));
    assert!(!by_order(&offer("verbs;ofi_rxm", 0, true)));
    assert!(by_order(&ordered(offer("other", 0, false), LARGEST)));
    assert!(!by_order(&ordered(offer("other", 0, true), LARGEST)));
    assert!(!by_order(&ordered(offer("sockets", 0, true), LARGEST)));
    let shm = ordered(offer("shm", 0, false), LARGEST);
    assert_eq!(by_order(&shm), is_set("FI_SHM_DISABLE_CMA"));
    for info in [
        ordered(offer("verbs;ofi_rxm", 0, true), LARGEST),
        ordered(offer("other", 0, false), 1),
    ] {
        assert_eq!(refusal(info.get()), Ok(()));
        // SAFETY: `info` owns the structure.
        unsafe { (*info.as_ptr()).mode = ffi::FI_CONTEXT };
        let why = refusal(info.get()).unwrap_err();
        assert!(why.contains("claims the contexts"), "{why}");
    }
}

/// Providers read this number from the environment when they are judged. No test sets the variable, because other
/// tests may read it at the same time.
#[test]
fn several_connections_lose_the_order() {
    assert_eq!(Quirks::of("tcp;ofi_rxm").loses_order_by(), None);
    let variable = Quirks::of("verbs;ofi_rxm").loses_order_by();
    assert_eq!(variable, Some("FI_OFI_RXM_NUM_MSG_EPS"));
    assert_eq!(number("FI_OFI_RXM_NUM_MSG_EPS"), 0);
}

#[test]
fn the_order_bounds_puts() {
    let of = |info: Info| limits(info.get(), &options(&[]));
    let (put, get) = of(offer("other", 0, true));
    assert_eq!(of(ordered(offer("other", 0, true), 64)), (put, get));
    assert_eq!(of(ordered(offer("other", 0, false), 64)), (64, get));
    assert_eq!(of(ordered(offer("verbs;ofi_rxm", 0, true), 64)), (64, get));
}

#[test]
fn a_provider_confirms_puts_or_keeps_reads_behind_them() {
    let judge = |provider| refusal(offer(provider, 0, false).get());
    let why = judge("tcp").unwrap_err();
    assert!(
        why.contains("FI_DELIVERY_COMPLETE") && why.contains("FI_ORDER_RMA_RAW"),
        "{why}"
    );
    // A confirmation of delivery has no effect if it only means that the data was sent.
    let sent = offer("verbs;ofi_rxm", 0, true);
    assert_eq!(refusal(sent.get()), Err(why));
    assert_eq!(refusal(ordered(sent, LARGEST).get()), Ok(()));
    let forbidden = is_set("FI_SHM_DISABLE_CMA");
    assert_eq!(judge("shm").is_err(), forbidden);
    let apart = keeps_apart(offer("shm", 0, true).get(), &options(&[]));
    assert_eq!(apart.is_some(), forbidden, "{apart:?}");
    let off = options(&[("btl_ofi_same_node", Value::str("off"))]);
    let apart = keeps_apart(offer("tcp", 0, true).get(), &off);
    assert_eq!(apart.as_deref(), Some("btl_ofi_same_node is off"));
    for (value, set) in [
        ("1", true),
        (" Yes ", true),
        ("0", false),
        ("off", false),
        ("No\n", false),
        ("", false),
    ] {
        assert_eq!(is_true(value), set, "{value:?}");
    }
}

#[test]
fn copies_replace_transfers_of_device_memory() {
    let of = |provider| {
        let info = offer(provider, 0, true);
        let takes = (takes_devices(info.get()), wants_atomic_order(info.get()));
        (takes, keeps_files(provider))
    };
    assert_eq!(of("shm"), ((false, false), true));
    assert_eq!(of("verbs"), ((true, true), false));
    let rxm = ordered(offer("verbs;ofi_rxm", 0, true), LARGEST);
    assert!(!takes_devices(rxm.get()));
}

#[test]
fn any_mode_word_claims_contexts() {
    for word in 0..3 {
        for claim in [ffi::FI_CONTEXT, ffi::FI_CONTEXT2] {
            let info = offer("other", 0, true);
            assert!(decide(info.get()).untracked);
            let entry = info.as_ptr();
            // SAFETY: fi_allocinfo allocated the attributes, and `info` owns them.
            unsafe {
                match word {
                    0 => (*entry).mode = claim,
                    1 => (*(*entry).domain_attr).mode = claim,
                    _ => (*(*entry).tx_attr).mode = claim,
                }
            }
            assert!(!decide(info.get()).untracked, "{word}");
        }
    }
}

#[test]
fn a_provider_that_does_not_do_what_it_says_is_refused() {
    for (name, what) in [
        ("opx", "FI_DELIVERY_COMPLETE"),
        ("opx;ofi_rxm", "FI_DELIVERY_COMPLETE"),
        ("udp;ofi_rxd", "results of fetching atomics"),
    ] {
        let why = serves(name).unwrap_err();
        assert!(why.contains(what), "{why}");
    }
    assert_eq!(serves("verbs;ofi_rxm"), Ok(()));
}

#[test]
fn atomics_that_lose_regions_are_forgone_and_nothing_else() {
    let options = options(&[]);
    let of = |name| {
        let info = offer(name, 0, true);
        let limits = message_limits(info.get(), &options);
        (forgoes_atomics(name), limits)
    };
    assert_eq!(of("verbs;ofi_rxm"), (true, (0, 0)));
    assert_eq!(of("verbs"), (false, (4096, 4096)));
    let told = |limit| {
        let policy = Policy {
            messages: true,
            ..policy("verbs;ofi_rxm")
        };
        policy.describe(Err("none"), limit)
    };
    assert!(told(0).contains("other atomics") && !told(0).contains("small puts"));
    assert!(told(0).contains("; puts are confirmed") && told(1).contains("; large puts"));
    assert!(told(1).contains("small puts"));
}
