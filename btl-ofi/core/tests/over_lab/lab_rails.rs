//! Large transfers over several rails of a provider that fails by script on all rails but the first: every transfer is
//! reported once, and those that succeed have all their bytes.

use crate::lab::prelude::*;

const SEEDS: u64 = 120;
const BATCH: u64 = 30;
/// The bytes of a slot of the window; each transfer has its own slot.
const SLOT: usize = 400_000;
const SLOTS: usize = 6;
const EPOCHS: usize = 3;
/// The errors are EIO, EINVAL, ECONNRESET and ESHUTDOWN.
const ERRORS: [u32; 4] = [5, 22, 104, 108];

/// A shape, which depends only on a seed.
fn script(seed: u64) -> Vec<(&'static str, String)> {
    let mut dice = Dice(seed);
    let bits = ["VIRT_ADDR", "ALLOCATED", "PROV_KEY", "ENDPOINT"];
    let modes: Vec<_> = bits.into_iter().filter(|_| dice.below(2) == 0).collect();
    let mut faults = vec![
        format!("seed={seed}"),
        format!("errno={}", dice.pick(&ERRORS)),
    ];
    for (name, values) in [
        ("error", &[0, 0, 20, 200, 1000]),
        ("nth", &[0, 0, 1, 5, 40]),
        ("nameless", &[0, 0, 0, 300, 1000]),
        ("again", &[0, 0, 200, 700, 1000]),
        ("delay", &[0, 3, 40, 200, 0]),
        ("reorder", &[0, 1, 0, 1, 0]),
        ("keyrejected", &[0, 0, 0, 0, 300]),
    ] {
        faults.push(format!("{name}={}", dice.pick(values)));
    }
    if dice.below(12) == 0 {
        faults.push(format!("open={}", dice.pick(&["domain", "ep", "cq", "av"])));
    }
    let first = format!(
        "delay={},again={}",
        dice.pick(&[0, 20]),
        dice.pick(&[0, 100])
    );
    vec![
        ("DOMAINS", dice.pick(&["2", "3", "4"]).to_owned()),
        ("MR_MODE", modes.join(",")),
        ("MODE", dice.pick(&["", "CONTEXT", "CONTEXT2"]).to_owned()),
        ("TX_SIZE", dice.pick(&["2", "16", "256"]).to_owned()),
        ("KEYS", dice.pick(&["low", "high", "random"]).to_owned()),
        ("FAULTS", first),
        ("RAIL_FAULTS", faults.join(",")),
    ]
}

/// A transfer to or from one slot, with its expected bytes.
struct Transfer {
    put: bool,
    slot: usize,
    bytes: Vec<u8>,
    expected: Vec<u8>,
    seen: Seen,
}

/// Transfers of one thread to its slots.
struct Worker<'a> {
    t: &'a Transport,
    peers: Vec<usize>,
    handle: Handle,
    slots: std::ops::Range<usize>,
    dice: Dice,
    /// The expected content of the worker's slots; `None` after a put failed.
    model: Vec<Option<Vec<u8>>>,
}

impl Worker<'_> {
    /// Makes transfers to all slots at the same time, and a flush. Returns the number of transfers that succeeded.
    fn epoch(&mut self) -> u64 {
        let slots = self.slots.clone();
        let mut transfers: Vec<Transfer> = slots
            .map(|slot| {
                let at = slot - self.slots.start;
                let put = self.dice.below(2) == 0;
                // A put overwrites bytes whose contents are not known.
                let put = put || self.model[at].is_none();
                let size = match self.model[at] {
                    None => SLOT,
                    Some(_) => self
                        .dice
                        .pick(&[SLOT, SLOT - 1, 131_072, 131_071, 200_000, 8]),
                };
                let random = self.dice.next();
                let fresh: Vec<u8> = (0..size as u64)
                    .map(|i| (random.rotate_left(i as u32 % 61) ^ i) as u8)
                    .collect();
                let expected = match &self.model[at] {
                    Some(model) if !put => model[..size].to_vec(),
                    _ => fresh.clone(),
                };
                Transfer {
                    put,
                    slot,
                    expected,
                    bytes: if put { fresh } else { vec![0; size] },
                    seen: Seen::default(),
                }
            })
            .collect();
        for transfer in &mut transfers {
            self.post(transfer);
        }
        // A flush reports the failure of a peer on a rail with the transfers.
        let _ = self.t.flush(None);
        until(&[self.t], "a transfer is not reported", || {
            transfers.iter().all(|transfer| transfer.seen.all() > 0)
        });
        for transfer in &transfers {
            let (slot, at) = (transfer.slot, transfer.slot - self.slots.start);
            let window = self.handle.base() as usize + slot * SLOT;
            // SAFETY: the window outlives the transport, and no operation that writes to this slot is
            // outstanding.
            let held = unsafe { std::slice::from_raw_parts(window as *const u8, SLOT) };
            match (transfer.seen.both(), transfer.put) {
                ((1, 0), true) => {
                    let model = self.model[at].get_or_insert_with(|| vec![0; SLOT]);
                    model[..transfer.expected.len()].copy_from_slice(&transfer.expected);
                }
                ((1, 0), false) => {
                    let right = transfer.bytes == transfer.expected;
                    assert!(right, "the buffer of slot {slot}");
                }
                ((0, 1), true) => self.model[at] = None,
                ((0, 1), false) => {}
                (calls, _) => panic!("callbacks: {calls:?}"),
            }
            let right = self.model[at].as_deref().is_none_or(|model| held == model);
            assert!(right, "slot {slot}");
        }
        let succeeded = transfers.iter().map(|t| u64::from(t.seen.succeeded()));
        succeeded.sum()
    }

    fn post(&mut self, transfer: &mut Transfer) {
        let peer: NonNull<Endpoint> = NonNull::new(self.dice.pick(&self.peers) as *mut _).unwrap();
        let at = self.handle.base() + (transfer.slot * SLOT) as u64;
        let completion = transfer.seen.completion();
        let (local, size) = (transfer.bytes.as_mut_ptr().cast(), transfer.bytes.len());
        let h = self.handle;
        loop {
            let status = match transfer.put {
                true => self.t.put(peer, local, at, &h, size, completion),
                false => self.t.get(peer, local, at, &h, size, completion),
            };
            if status.is_again() {
                self.t.progress();
                continue;
            }
            if status != Status::SUCCESS {
                transfer.seen.ended(status);
            }
            return;
        }
    }
}

/// Runs one script. Returns the number of transfers that succeeded.
fn run(script: &[(&str, String)], seed: u64) -> u64 {
    let pairs: Vec<_> = script.iter().map(|(n, v)| (*n, v.as_str())).collect();
    shape(&pairs);
    let threads = [1, 1, 3][seed as usize % 3];
    let level = match threads {
        1 => ThreadLevel::Single,
        _ => ThreadLevel::Multiple,
    };
    let t = open("lab", level, &[("btl_ofi_rails", Value::str("auto"))]);
    let peers = [0, 1].map(|proc| t.connect(t.address(), proc).unwrap().as_ptr() as usize);
    let mut window = vec![0u8; SLOTS * SLOT];
    // SAFETY: the window outlives the transport.
    let region = unsafe { t.register(window.as_mut_ptr().cast(), window.len(), Access::all()) };
    let region = region.unwrap();
    let share = SLOTS / threads;
    let done = std::thread::scope(|s| {
        let workers: Vec<_> = (0..threads)
            .map(|i| {
                let mut worker = Worker {
                    t: &t,
                    peers: peers.to_vec(),
                    handle: region.handle(),
                    slots: i * share..(i + 1) * share,
                    dice: Dice(seed * 7 + i as u64),
                    model: vec![Some(vec![0; SLOT]); share],
                };
                s.spawn(move || (0..EPOCHS).map(|_| worker.epoch()).sum::<u64>())
            })
            .collect();
        workers.into_iter().map(|w| w.join().unwrap()).sum()
    });
    close([region], [t]);
    done
}

#[test]
fn rails_fail() {
    let one_seed = |seed| {
        let script = script(seed);
        println!("@at seed {seed}: {script:?}");
        Tally {
            run: 1,
            checked: run(&script, seed),
            ..Tally::default()
        }
    };
    if let Some(total) = isolated_seeds((1, SEEDS), BATCH, one_seed) {
        total.summary(&format!("rails, {SEEDS} seeds"));
        assert_eq!(total.run, SEEDS);
        assert!(total.faults > 1000 && total.checked > 1000, "{total:?}");
    }
}

/// A rail that stops without an error fails its peer after the peer's time.
#[test]
fn silent_rails_fail_their_peer() {
    alone(|| {
        shape(&[("DOMAINS", "2"), ("RAIL_FAULTS", "seed=1,silent=1")]);
        let settings = [
            ("btl_ofi_rails", Value::str("auto")),
            ("btl_ofi_peer_check_interval", Value::Unsigned(20)),
            ("btl_ofi_peer_timeout", Value::Unsigned(300)),
        ];
        let own = Own::new(open("lab", ThreadLevel::Single, &settings), SLOT / 8);
        let (source, seen) = (vec![7u8; SLOT], Seen::default());
        let posted = own.there().put(0, &source, seen.completion());
        assert_eq!(posted, Status::SUCCESS);
        until(&[&own.t], "the transfer is not reported", || seen.all() > 0);
        assert_eq!(seen.both(), (0, 1));
        own.close();
    });
}

/// A peer is released with an operation outstanding, and connected again.
#[test]
fn rails_are_used_again() {
    alone(|| {
        // The first interface never answers the first operation.
        shape(&[("DOMAINS", "2"), ("FAULTS", "seed=1,silent=1")]);
        let rails = [("btl_ofi_rails", Value::str("auto"))];
        let t = open("lab", ThreadLevel::Single, &rails);
        let (mut window, source) = (vec![0u64; SLOT / 8], vec![7u64; SLOT / 8]);
        let region = register(&t, &mut window, Access::all());
        for (words, status) in [(1, Status::TIMEOUT), (SLOT / 8, Status::SUCCESS)] {
            let there = There::of(&t, 1, &t, &region);
            assert_eq!(there.put(0, &source[..words], None), Status::SUCCESS);
            assert_eq!(there.release(), status, "{words} words");
        }
        // The transfer was made in fragments, which only transfers over rails have.
        let completed = t.stats().completed;
        assert!(completed > 2, "{completed} operations");
        assert!(window == source);
        close([region], [t]);
    });
}
