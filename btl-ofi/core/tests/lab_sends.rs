//! Two-sided messages over the test provider: sends and receives refused, late and in any order, small queues, and errors. Each
//! message that was taken arrives once, complete and in order, as long as the peer lives.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ffi::c_void;
use std::ptr;
use std::time::Duration;

use btl_ofi::{Leaves, Receive, Transport};
use common::Calls as _;
use mca_params::Value;
use plugin_api::{Access, Status, ThreadLevel};

use common::{Patience, open, options, register, try_open};
use lab::dice::Dice;
use lab::{Tally, child, child_role, shape, violations};

const LIMIT: Duration = Duration::from_secs(180);
const SEEDS: u64 = 120;
const BATCH: u64 = 30;
const MANY: usize = 300;

/// What came, in order.
#[derive(Default)]
struct Came {
    next: usize,
    wrong: Vec<String>,
    sizes: Vec<usize>,
}

unsafe extern "C" fn take(
    _: *mut plugin_api::Module,
    _: *mut plugin_api::Endpoint,
    tag: u8,
    data: *const c_void,
    size: usize,
    context: *mut c_void,
) {
    // SAFETY: the context is the test's record, which one thread uses; the bytes are valid during the call.
    let (came, bytes) = unsafe {
        (
            &mut *context.cast::<Came>(),
            std::slice::from_raw_parts(data.cast::<u8>(), size),
        )
    };
    let i = came.next;
    came.next += 1;
    if tag != i as u8 || Some(&size) != came.sizes.get(i) || bytes.iter().any(|b| *b != i as u8) {
        came.wrong
            .push(format!("message {i}: tag {tag}, {size} bytes"));
    }
}

/// Random messages and puts to one target, with the faults of a seed.
fn one_seed(seed: u64) -> Tally {
    let mut dice = Dice(seed);
    let mut faults = vec![format!("seed={seed}")];
    for (name, values) in [
        ("again", &[0, 10, 200, 700][..]),
        ("burst", &[0, 3, 40]),
        ("sendagain", &[0, 2, 3]),
        ("recvagain", &[0, 2, 3]),
        ("delay", &[0, 3, 40]),
        ("reorder", &[0, 1]),
        ("stray", &[0, 0, 300]),
    ] {
        let value = dice.pick(values);
        faults.push(format!("{name}={value}"));
    }
    let atomics = dice.pick(&["0", "1"]);
    let (tx, rx) = (
        dice.pick(&["2", "16", "256"]),
        dice.pick(&["1", "2", "256"]),
    );
    let order = dice.pick(&["0", "1"]);
    let faults = faults.join(",");
    println!("@at seed {seed}: {faults}, atomics {atomics}, queues {tx} {rx}, order {order}");
    shape(&[
        ("ATOMICS", atomics),
        ("TX_SIZE", tx),
        ("RX_SIZE", rx),
        ("SEND_ORDER", order),
        ("FAULTS", &faults),
    ]);
    let settings = [
        ("btl_ofi_mode", Value::Int(2)),
        ("btl_ofi_rd_num", Value::Int(dice.pick(&[1, 2, 10]))),
    ];
    let [a, b] = [(); 2].map(|()| open("lab", ThreadLevel::Single, &settings));
    let mut came = Box::new(Came {
        sizes: (0..MANY)
            .map(|_| dice.pick(&[0, 1, 8, 100, 4000, 12 * 1024, 128 * 1024]))
            .collect(),
        ..Came::default()
    });
    let sizes = came.sizes.clone();
    b.on_receive(Some(Receive {
        function: take,
        context: (&raw mut *came).cast(),
    }));
    let mut window = vec![0u64; MANY];
    let region = register(&b, &mut window, Access::all());
    let h = region.handle();
    let peer = a.connect(b.address(), 1).unwrap();
    let values: Vec<u64> = (1..=MANY as u64).collect();
    let deadline = Patience::new();
    let insist = |post: &mut dyn FnMut() -> Status| loop {
        let status = post();
        if status.is_ok() {
            break;
        }
        assert!(status.is_again(), "seed {seed}: {status}");
        assert!(deadline.lasts(), "seed {seed}: no room");
        a.progress();
        b.progress();
    };
    let mut put = 0;
    for (i, size) in sizes.iter().enumerate() {
        // SAFETY: the endpoint is connected, and `fill` writes `size` bytes.
        insist(&mut || unsafe {
            let sent = a.send(peer, (i as u8, *size, Leaves::Later), |to| {
                ptr::write_bytes(to, i as u8, *size)
            });
            sent.err().unwrap_or(Status::SUCCESS)
        });
        if dice.below(4) == 0 {
            put += 1;
            let local = ptr::from_ref(&values[i]).cast_mut().cast();
            // SAFETY: the values outlive the flush.
            insist(&mut || unsafe {
                a.put(
                    peer,
                    local,
                    h.base() + 8 * i as u64,
                    ptr::null_mut(),
                    &h,
                    8,
                    None,
                )
            });
        }
    }
    // What is behind the last message also comes with a later one.
    let done = || window_is_done(&a);
    while came.next < MANY || !done() {
        assert!(
            deadline.lasts(),
            "seed {seed}: {} of {MANY} came",
            came.next
        );
        a.progress();
        b.progress();
    }
    assert_eq!(came.wrong, [""; 0], "seed {seed}");
    assert_eq!(a.flush(None), Status::SUCCESS, "seed {seed}");
    drop(region);
    let written = window.iter().filter(|w| **w != 0).count();
    assert_eq!(written, put, "seed {seed}");
    a.close().unwrap();
    b.close().unwrap();
    assert_eq!(violations(), "", "the provider's user broke its rules");
    Tally {
        run: 1,
        checked: (MANY + put) as u64,
        ..Tally::default()
    }
}

/// Whether no operation is outstanding.
fn window_is_done(t: &Transport) -> bool {
    let stats = t.stats();
    stats.completed + stats.failed == stats.posted
}

#[test]
#[ignore = "a child process of other tests, which start it"]
fn some_seeds() {
    let role = child_role();
    let (first, count) = role.split_once(' ').unwrap();
    let (first, count): (u64, u64) = (first.parse().unwrap(), count.parse().unwrap());
    for seed in first..first + count {
        one_seed(seed).tell();
    }
}

#[test]
fn messages_survive_faults() {
    let first: u64 = std::env::var("LAB_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let mut total = Tally::default();
    for begin in (first..first + SEEDS).step_by(BATCH as usize) {
        total += child("some_seeds", &format!("{begin} {BATCH}"), LIMIT);
    }
    total.summary(&format!("sends, {SEEDS} seeds from {first}"));
    assert_eq!(total.run, SEEDS);
}

/// Providers whose messages the transport cannot use are refused in the two-sided modes.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn refused_shapes() {
    child_role();
    for (name, value) in [("MAX_MSG", "15999"), ("MODE", "CONTEXT"), ("MESSAGES", "0")] {
        shape(&[("ATOMICS", "1"), (name, value)]);
        let of = |mode| {
            options(&[
                ("btl_ofi_provider_include", Value::str("lab")),
                ("btl_ofi_mode", Value::Int(mode)),
            ])
        };
        let said = match try_open(&of(1), ThreadLevel::Single) {
            Ok(_) => panic!("{name} {value}: it was opened"),
            Err(e) => e.to_string(),
        };
        assert!(said.contains("btl_ofi_mode"), "{name} {value}: {said}");
        let one_sided = try_open(&of(0), ThreadLevel::Single).unwrap();
        one_sided.close().unwrap();
    }
    let tally = Tally {
        run: 1,
        ..Tally::default()
    };
    tally.tell();
}

#[test]
fn unusable_messages() {
    assert_eq!(child("refused_shapes", "refused", LIMIT).run, 1);
}
