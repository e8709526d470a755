//! The transport opens over a provider that fails at one of its calls: the error names the call and its
//! code, and no object stays open.

use crate::lab::prelude::*;

const ALL: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

/// Opens the transport over a provider whose `step` fails the `at`-th time with `code`, if the step is
/// reached.
fn open_failing(
    (step, contexts): (&str, &str),
    at: u64,
    code: i32,
) -> Result<Transport, btl_ofi::Error> {
    println!("@at {step} {contexts} {at} {code}");
    let faults = format!("open={step},openat={at},openerrno={code}");
    shape(&[("TX_CTX", contexts), ("FAULTS", &faults)]);
    let n = Value::Int(contexts.parse().unwrap());
    let o = options(&[
        ("btl_ofi_provider_include", Value::str("lab")),
        ("btl_ofi_num_contexts_per_module", n),
    ]);
    try_open(&o, ThreadLevel::Single)
}

/// The steps of opening, the calls of the steps, the contexts, and the number of times that each
/// step is taken.
const STEPS: [(&str, &str, &str, u64); 15] = [
    ("fabric", "fi_fabric", "1", 1),
    ("domain", "fi_domain", "1", 1),
    ("av", "fi_av_open", "1", 1),
    ("cq", "fi_cq_open", "1", 1),
    ("ep", "fi_endpoint", "1", 1),
    ("bind", "fi_ep_bind", "1", 2),
    ("enable", "fi_enable", "1", 1),
    ("getname", "fi_getname", "1", 1),
    ("cq", "fi_cq_open", "4", 4),
    ("sep", "fi_scalable_ep", "4", 1),
    ("tx", "fi_tx_context", "4", 4),
    ("rx", "fi_rx_context", "4", 1),
    ("bind", "fi_ep_bind", "4", 6),
    ("enable", "fi_enable", "4", 6),
    ("getname", "fi_getname", "4", 1),
];

/// Every call of opening fails once, with and without a scalable endpoint: the transport closes all
/// objects that were open.
#[test]
fn opening_fails_at_each_step() {
    alone(|| {
        let mut descriptors_before = None;
        for (step, call, contexts, times) in STEPS {
            for code in [12, 22, 38, 19] {
                let mut failed = 0;
                // The loop ends when the step is not reached that often, so the opening succeeds.
                let t = loop {
                    match open_failing((step, contexts), failed + 1, code) {
                        Ok(t) => break t,
                        Err(e) => {
                            let said = format!("{call} returned -{code}");
                            assert!(e.to_string().contains(&said), "{step}: {e}");
                        }
                    }
                    failed += 1;
                    assert!(failed < 100, "{step}: it is never opened");
                };
                t.close().unwrap();
                assert_eq!(failed, times, "{step} with {contexts} contexts");
                assert_eq!(
                    *descriptors_before.get_or_insert_with(descriptors),
                    descriptors()
                );
            }
        }
        for at in 1..=3 {
            let t = open_failing(("avinsert", "1"), at, 12).unwrap();
            for proc in 1..=3 {
                let connected = t.connect(t.address(), proc);
                assert_eq!(connected.is_err(), proc == at);
                if let Err(e) = connected {
                    assert!(e.to_string().contains("fi_av_insert returned -12"), "{e}");
                    assert_eq!(
                        t.stats().endpoints,
                        2 * u64::from(at == 3) + u64::from(at == 2)
                    );
                }
            }
            // A second try makes another call.
            t.connect(t.address(), at).unwrap();
            assert_eq!(t.stats().endpoints, 3);
            t.close().unwrap();
        }
        for (step, call) in [("mrbind", "fi_mr_bind"), ("mrenable", "fi_mr_enable")] {
            shape(&[("MR_MODE", "ENDPOINT"), ("FAULTS", &format!("open={step}"))]);
            let t = open("lab", ThreadLevel::Single, &[]);
            let mut memory = [0u64; 4];
            for _ in 0..3 {
                // SAFETY: the memory outlives the transport.
                let refused = unsafe { t.register(memory.as_mut_ptr().cast(), 32, ALL) };
                let e = refused.err().unwrap();
                assert_eq!(e.status(), Status::OUT_OF_RESOURCE);
                assert!(e.to_string().contains(call), "{e}");
            }
            assert_eq!(t.stats().registrations, 0);
            t.close().unwrap();
        }
    });
}

/// The transport skips endpoints of other types, and refuses the provider if it has no usable type.
#[test]
fn other_types_of_endpoints_are_refused() {
    alone(|| {
        let o = options(&[("btl_ofi_provider_include", Value::str("lab"))]);
        for offered in ["MSG", "DGRAM", "MSG,DGRAM"] {
            shape(&[("ENDPOINTS", offered)]);
            let why = refusal("lab", &[]);
            let refused = why.contains("lab: its endpoints are not FI_EP_RDM");
            assert!(refused, "{offered}: {why}");
            let found = Transport::survey(&o, ThreadLevel::Single).unwrap();
            let lab = found.iter().find(|c| c.name == "lab").unwrap();
            assert!(!lab.chosen && lab.refusal.is_some(), "{offered}: {lab:?}");
        }
        for offered in ["DGRAM,MSG,RDM", "RDM,MSG"] {
            shape(&[("ENDPOINTS", offered)]);
            try_open(&o, ThreadLevel::Single).unwrap().close().unwrap();
        }
    });
}

/// The transport posts `btl_ofi_rd_num` receives.
#[test]
fn as_many_receives_are_posted_as_asked_for() {
    alone(|| {
        // Messages carry the atomics.
        shape(&[("ATOMICS", "0")]);
        let mut before = 0;
        for number in [1, 3, 20] {
            let settings = [("btl_ofi_rd_num", Value::Int(number))];
            open("lab", ThreadLevel::Single, &settings).close().unwrap();
            let posted = stats()["unmet"];
            assert_eq!(posted - before, number as u64);
            before = posted;
        }
    });
}
