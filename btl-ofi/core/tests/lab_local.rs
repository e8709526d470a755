//! A provider that requires local buffers to be registered (FI_MR_LOCAL), under `btl_ofi_mr_local`: messages from and to
//! registered memory, larger puts and gets with the descriptors of their local handles. The lab provider checks that every
//! buffer comes with the descriptor of a live registration that covers it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ptr;
use std::time::Duration;

use mca_params::Value;
use plugin_api::{Access, ModuleFlags, Status, ThreadLevel, hmem_iface};

use common::attending::attended;
use common::{Calls as _, insist, open, options, register, try_open};
use lab::group::{Plan, Shape, judged, opened};
use lab::{Tally, child, child_role, shape};

const LIMIT: Duration = Duration::from_secs(180);
const ALL: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);
const MODES: [&str; 4] = [
    "LOCAL",
    "LOCAL,VIRT_ADDR",
    "LOCAL,PROV_KEY,ENDPOINT",
    "LOCAL,VIRT_ADDR,ALLOCATED,PROV_KEY,ENDPOINT,COLLECTIVE",
];

fn allowed() -> (&'static str, Value) {
    ("btl_ofi_mr_local", Value::Bool(true))
}

fn of(mode: &str, more: &[(&'static str, &str)]) -> Shape {
    let pairs = [("MR_MODE", mode)];
    let pairs = pairs.iter().chain(more);
    pairs.map(|(n, v)| (*n, (*v).to_owned())).collect()
}

/// Random operations that are small enough for messages, with faults that lose none.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn random_messages() {
    let mode = child_role();
    let mut tally = Tally::default();
    for seed in 1..=12u64 {
        println!("@at {mode} {seed}");
        let threads = [1, 4][seed as usize % 2];
        let faults = format!(
            "seed={seed},delay={},reorder=1,again=50,burst=3",
            seed % 3 * 5
        );
        // More messages than slots to send them from are under way.
        let size = ["256", "64", "2"][seed as usize % 3];
        // Without the provider's atomics too.
        let atomics = ["0", "1"][seed as usize % 2];
        let shape = of(
            &mode,
            &[("FAULTS", &faults), ("TX_SIZE", size), ("ATOMICS", atomics)],
        );
        tally += judged(&Plan {
            seed,
            threads,
            epochs: 4,
            peers: 2,
            faults: false,
            gone: false,
            settings: vec![allowed(), ("btl_ofi_same_node", Value::str("off"))],
            origin: shape.clone(),
            target: shape,
        });
    }
    tally.tell();
}

#[test]
fn small_operations_in_every_mode() {
    let mut total = Tally::default();
    for mode in MODES {
        total += child("random_messages", mode, LIMIT);
    }
    total.summary("registered local buffers, messages");
    assert_eq!(total.run, 4 * 12);
}

/// Puts and gets above the threshold: with the handle of their buffer they are made, without one they are refused.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn large_transfers() {
    let mode = child_role();
    let mut tally = Tally::default();
    // Where the provider has no delivery-complete, reads behind puts confirm them.
    for confirms in ["1", "0"] {
        let shape = of(&mode, &[("CONFIRMS", confirms), ("READ_ORDER", "1")]);
        let settings = [
            allowed(),
            ("btl_ofi_message_limit", Value::Unsigned(1000)),
            ("btl_ofi_same_node", Value::str("off")),
        ];
        let level = ThreadLevel::Single;
        let target = opened(&shape, level, &settings);
        let t = opened(&shape, level, &settings);
        assert_eq!(t.capabilities().local_threshold, 1000);
        let mut window = vec![0u64; 8192];
        let region = register(&target, &mut window, ALL);
        let (h, none) = (region.handle(), ptr::null_mut());
        let peer = t.connect(target.address(), 0).unwrap();
        attended(&target, || {
            let mut source: Vec<u64> = (1..=8192).collect();
            let mut back = vec![0u64; 8192];
            let own = register(&t, &mut source, Access::LOCAL_WRITE);
            let into = register(&t, &mut back, Access::LOCAL_WRITE);
            assert_eq!(t.stats().registrations, 2);
            let mut handles = [own.handle(), into.handle()];
            let [from, to] = handles.each_mut().map(|h| ptr::from_mut(h).cast());
            for words in [1, 125, 126, 1000, 8192] {
                let size = words * 8;
                let (local, result) = (source.as_mut_ptr().cast(), back.as_mut_ptr().cast());
                // SAFETY: buffers and handles outlive the flushes.
                unsafe {
                    insist(&t, || t.put(peer, local, h.base(), from, &h, size, None));
                    assert_eq!(t.flush(None), Status::SUCCESS);
                    insist(&t, || t.get(peer, result, h.base(), to, &h, size, None));
                    assert_eq!(t.flush(None), Status::SUCCESS);
                    // The threshold is 1000 bytes.
                    let without = match size {
                        0..=1000 => Status::SUCCESS,
                        _ => Status::BAD_PARAM,
                    };
                    assert_eq!(t.put(peer, local, h.base(), none, &h, size, None), without);
                    assert_eq!(t.get(peer, result, h.base(), none, &h, size, None), without);
                    assert_eq!(t.flush(None), Status::SUCCESS);
                }
                assert_eq!(back[..words], source[..words], "{mode}: {words} words");
                back.fill(0);
                tally.checked += 6;
            }
            // A handle whose registration has ended, and one that does not cover the buffer.
            let (at, size) = (source.as_mut_ptr().cast(), 8192);
            own.close().unwrap();
            // SAFETY: the buffers outlive the calls, which are refused.
            unsafe {
                assert_eq!(
                    t.put(peer, at, h.base(), from, &h, size, None),
                    Status::BAD_PARAM
                );
                let refused = t.put(peer, at, h.base(), to, &h, size, None);
                assert_eq!(refused, Status::VALUE_OUT_OF_BOUNDS);
            }
            into.close().unwrap();
            tally.checked += 2;
            // SAFETY: connected once.
            assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
        });
        let stats = t.stats();
        assert_eq!((stats.registrations, stats.failed), (0, 0));
        t.close().unwrap();
        region.close().unwrap();
        target.close().unwrap();
        tally.run += 1;
    }
    tally.tell();
}

#[test]
fn large_transfers_come_with_their_handles() {
    let mut total = Tally::default();
    for mode in MODES {
        total += child("large_transfers", mode, LIMIT);
    }
    total.summary("registered local buffers, large transfers");
    assert_eq!(total.run, 4 * 2);
}

/// The whole of a message memory is released: also when the transport is dropped without being closed.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn ends() {
    child_role();
    shape(&[("MR_MODE", "LOCAL,ENDPOINT")]);
    for mode in [0, 2] {
        let settings = [allowed(), ("btl_ofi_mode", Value::Int(mode))];
        let t = open("lab", ThreadLevel::Multiple, &settings);
        assert_eq!(
            t.capabilities().flags.contains(ModuleFlags::SEND),
            mode == 2
        );
        drop(t);
        open("lab", ThreadLevel::Single, &settings).close().unwrap();
    }
    let t = open("lab", ThreadLevel::Single, &[allowed()]);
    let mut device = [0u64; 8];
    // SAFETY: the memory outlives the call, which is refused.
    let refused =
        unsafe { t.register_hmem(device.as_mut_ptr().cast(), 64, ALL, hmem_iface::CUDA, 0) };
    let why = refused.err().unwrap().to_string();
    assert!(why.contains("FI_MR_LOCAL"), "{why}");
    t.close().unwrap();
    // Rails would need registrations of their own: there are none, and the transport works.
    shape(&[("MR_MODE", "LOCAL"), ("DOMAINS", "2")]);
    let t = open(
        "lab",
        ThreadLevel::Single,
        &[allowed(), ("btl_ofi_rails", Value::str("2"))],
    );
    assert_eq!(t.capabilities().domain.to_str(), Ok("lab0"));
    t.close().unwrap();
    // What messages cannot serve is refused.
    for shaped in [("MESSAGES", "0"), ("MODE", "CONTEXT"), ("MAX_MSG", "8000")] {
        shape(&[("MR_MODE", "LOCAL"), shaped]);
        let o = options(&[("btl_ofi_provider_include", Value::str("lab")), allowed()]);
        let why = match try_open(&o, ThreadLevel::Single) {
            Ok(_) => panic!("{shaped:?}: it was opened"),
            Err(why) => why.to_string(),
        };
        assert!(why.contains("and it has no messages"), "{shaped:?}: {why}");
    }
    let tally = Tally {
        run: 1,
        ..Tally::default()
    };
    tally.tell();
}

#[test]
fn registered_memory_ends_with_its_transport() {
    child("ends", "ends", LIMIT).insist("the end of registered memory");
}

/// A provider that serves without registered local buffers is used so, also where they are allowed.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn not_required() {
    child_role();
    shape(&[("MR_MODE", "VIRT_ADDR")]);
    let t = open("lab", ThreadLevel::Single, &[allowed()]);
    assert_eq!(t.capabilities().local_threshold, usize::MAX);
    t.close().unwrap();
    let tally = Tally {
        run: 1,
        ..Tally::default()
    };
    tally.tell();
}

#[test]
fn what_is_not_required_is_not_done() {
    child("not_required", "other", LIMIT).insist("a provider without FI_MR_LOCAL");
}
