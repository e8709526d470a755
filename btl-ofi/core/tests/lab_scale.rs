//! Ten thousand peers, most at addresses without a process: the cost of connecting each peer, of one put to each and of its
//! release, in memory, in calls of the provider and in processor time. The bytes in docs/scale.md are from this test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use common::given::{Counting, given};
use lab::prelude::*;

const FEW: usize = 1_000;
const MANY: usize = 10_000;

#[global_allocator]
static GLOBAL: Counting = Counting;

/// A configuration that determines how operations reach remote peers.
struct Form {
    name: &'static str,
    /// The environment of the provider, and `btl_ofi_mode`.
    atomics: &'static str,
    mode: i32,
    /// The maximum bytes of a connected peer, and the maximum bytes of a peer after its first operation, at origin and
    /// target together.
    connected: usize,
    used: usize,
}

const FORMS: [Form; 3] = [
    Form {
        name: "provider",
        atomics: "1",
        mode: 0,
        connected: 64,
        used: 0,
    },
    Form {
        name: "messages",
        atomics: "0",
        mode: 0,
        connected: 80,
        used: 800,
    },
    Form {
        name: "sends",
        atomics: "0",
        mode: 2,
        connected: 112,
        used: 800,
    },
];

/// A transport, another transport as its target, and the target's window.
struct Pair {
    t: Transport,
    target: Transport,
    window: Vec<u64>,
}

fn pair(form: &Form) -> Pair {
    shape(&[("ATOMICS", form.atomics), ("TX_SIZE", "40000")]);
    let settings = [("btl_ofi_mode", Value::Int(form.mode))];
    let [t, target] = [(); 2].map(|()| open("lab", ThreadLevel::Single, &settings));
    let window = vec![0; MANY];
    Pair { t, target, window }
}

/// The position of the endpoint's address in a blob (`core/src/peer/address.rs`): behind a head of 52 bytes and the
/// provider's name.
fn place(blob: &[u8]) -> usize {
    52 + usize::from(u16::from_le_bytes([blob[44], blob[45]]))
}

/// The blob, changed to name another node.
fn elsewhere(blob: &[u8]) -> Vec<u8> {
    let mut blob = blob.to_vec();
    blob[8..16].iter_mut().for_each(|byte| *byte = !*byte);
    blob
}

/// A blob that no process published: its address names a process that does not exist.
fn pretended(blob: &[u8], number: usize) -> Vec<u8> {
    let mut blob = blob.to_vec();
    let at = place(&blob) + 8;
    blob[at..at + 8].copy_from_slice(&((number as u64 + 1) << 32).to_le_bytes());
    blob
}

impl Pair {
    /// Connects the peers from `first` on to the blobs.
    fn connect(
        &self,
        first: usize,
        blobs: impl Iterator<Item = Vec<u8>>,
    ) -> Vec<NonNull<Endpoint>> {
        let procs = first as u64..;
        let peers = procs.zip(blobs);
        peers
            .map(|(proc, blob)| self.t.connect(&blob, proc).unwrap())
            .collect()
    }

    /// Puts a number to each peer, all of which are the target, and waits until all puts have
    /// arrived.
    fn put(&mut self, peers: &[NonNull<Endpoint>]) {
        let region = register(&self.target, &mut self.window, Access::all());
        let h = region.handle();
        let values: Vec<u64> = (1..=peers.len() as u64).collect();
        let calls = AtomicU32::new(0);
        let deadline = Patience::new();
        let turn = || {
            self.t.progress();
            self.target.progress();
            assert!(deadline.lasts(), "{calls:?} of {}", peers.len());
        };
        for (i, peer) in peers.iter().enumerate() {
            let local = (&raw const values[i]).cast_mut().cast();
            let at = h.base() + 8 * i as u64;
            let post = || self.t.put(*peer, local, at, &h, 8, calls.completion());
            while post() != Status::SUCCESS {
                turn();
            }
        }
        while (calls.load(Ordering::Relaxed) as usize) < peers.len() {
            turn();
        }
        assert_eq!(
            calls.load(Ordering::Relaxed) as usize,
            peers.len(),
            "none failed"
        );
        assert_eq!(self.window[..peers.len()], values);
        region.close().unwrap();
    }

    fn disconnect(&self, peers: &[NonNull<Endpoint>]) {
        for peer in peers {
            // SAFETY: each peer was connected once.
            assert_eq!(unsafe { self.t.disconnect(*peer) }, Status::SUCCESS);
            self.target.progress();
        }
    }

    fn close(self) {
        self.t.close().unwrap();
        self.target.close().unwrap();
    }
}

/// Connects simulated peers and three real ones, puts to the real ones, and counts.
fn one_form(form: &Form) {
    let before = stats();
    assert!(before.is_empty(), "{before:?}");
    let mut pair = pair(form);
    let real = elsewhere(pair.target.address());
    let places = [0, MANY / 2, MANY - 1];
    let blobs = (0..MANY).map(|i| match places.contains(&i) {
        true => real.clone(),
        false => pretended(&real, i),
    });
    let (empty, began) = (given(), worked());
    let peers = pair.connect(0, blobs);
    let bytes = (given() - empty) - peers.capacity() * size_of::<NonNull<Endpoint>>();
    pair.put(&places.map(|i| peers[i]));
    let first = worked() - began;
    assert!(
        bytes <= form.connected * MANY,
        "{} bytes each",
        bytes / MANY
    );
    pair.disconnect(&peers);
    drop(peers);
    pair.close();
    let counts = stats();
    // With messages, equal addresses are inserted once, and the target inserts its origin's address.
    let inserted = if form.atomics == "1" {
        MANY
    } else {
        MANY - 2 + 1
    };
    assert_eq!(counts["inserted"], inserted as u64, "{counts:?}");
    // The last farewell may not have reached the target.
    let kept = inserted as u64 - counts["removed"];
    assert!(kept <= u64::from(form.atomics == "0"), "{counts:?}");
    // With messages, the transport reads names back when it inserts or removes an address, and when the table of names
    // grows.
    let looked = if form.atomics == "1" {
        0
    } else {
        5 * MANY as u64
    };
    assert!(counts["looked"] <= looked, "{counts:?}");
    assert!(counts["named"] <= 4, "{counts:?}");
    // The count covers the receives of both sides, the puts, and messages about them.
    assert!(counts["posted"] <= 64, "{counts:?}");
    announce(&format!(
        "scale, {}: {} bytes a connected peer, {:.2} us a peer to the first put ({MANY} peers)\n",
        form.name,
        bytes / MANY,
        first.as_secs_f64() * 1e6 / MANY as f64
    ));
}

/// The processor time and the bytes of connecting `n` simulated and `n` real peers, of one operation to each real peer, and
/// of the release.
fn cost(form: &Form, n: usize) -> (Duration, usize) {
    let mut pair = pair(form);
    let real = elsewhere(pair.target.address());
    let began = worked();
    let mut peers = pair.connect(0, (0..n).map(|i| pretended(&real, i)));
    let used = pair.connect(n, (0..n).map(|_| real.clone()));
    let before = given();
    pair.put(&used);
    let bytes = given() - before;
    peers.extend(used);
    pair.disconnect(&peers);
    let took = worked() - began;
    pair.close();
    (took, bytes / n)
}

/// Ten times as many peers take about ten times the processor time. If each peer checked all others, they would take up to
/// a hundred times as much. If the processor's caches no longer hold all data, each peer takes up to twice the time.
fn growth(form: &Form) {
    let few = (0..3).map(|_| cost(form, FEW).0).min().unwrap();
    let (many, bytes) = (0..2).map(|_| cost(form, MANY)).min().unwrap();
    let times = many.as_secs_f64() / few.as_secs_f64();
    announce(&format!(
        "scale, {}: {:.1} us a peer of {FEW}, {:.1} us of {MANY}; {bytes} bytes for its first operation\n",
        form.name,
        few.as_secs_f64() * 1e6 / (2 * FEW) as f64,
        many.as_secs_f64() * 1e6 / (2 * MANY) as f64,
    ));
    let linear = (MANY / FEW) as f64;
    assert!(
        times < 2.5 * linear,
        "{times} times as long for {linear} times as many"
    );
    assert!(bytes <= form.used, "{bytes} bytes each");
}

fn form(name: &str) -> &'static Form {
    FORMS.iter().find(|form| form.name == name).unwrap()
}

#[test]
fn pretended_peers_cost_their_address() {
    let names = FORMS.each_ref().map(|form| form.name);
    if let Some(tally) = isolated_as(&names, |name| one_form(form(name))) {
        tally.insist("pretended peers");
    }
}

#[test]
fn time_grows_with_the_number_of_peers() {
    // One after the other, because the time is measured.
    for name in FORMS.each_ref().map(|form| form.name) {
        let Some(tally) = isolated_as(&[name], |name| growth(form(name))) else {
            return;
        };
        tally.insist("time of many peers");
    }
}
