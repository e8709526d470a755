//! Processes that a target does not know: processes outside the job that know only its port, and processes that know its
//! key but send messages that no origin would send.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
#[path = "strangers/stranger.rs"]
mod stranger;
#[path = "strangers/wire.rs"]
mod wire;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use btl_ofi::{Endpoint, Handle, Region, Transport};
use common::Calls as _;
use plugin_api::{Access, Status, ThreadLevel};

use common::attending::attended;
use common::reference::Numbers;
use common::{Patience, insist, open, register};
use stranger::Stranger;
use wire::{
    ALIVE, APPLY, BATCH, FAREWELL, GET, HEADER, Line, PUT, UNANSWERED, UNKNOWN, introduction,
    message,
};

/// Providers over TCP, whose port any process may know.
const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "net"];

/// The bytes that this program's allocator has allocated. libfabric has another allocator.
static GIVEN: AtomicUsize = AtomicUsize::new(0);
/// The tests run one after the other, because each reads [`GIVEN`].
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        GIVEN.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        GIVEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees that `pointer` came from this allocator, so from the system's, with `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// The key in answers to strangers.
const OWN_KEY: u64 = 0x0dd_ba11;
/// A message of an honest origin: one word.
const WORD: u64 = 0x7777_7777_7777_7777;

/// A target with a window, an honest origin in the same process, and a stranger.
struct Scene {
    region: Option<Region>,
    window: Box<[u64; 2048]>,
    target: Transport,
    honest: Transport,
    peer: NonNull<Endpoint>,
    stranger: Stranger,
}

impl Scene {
    fn new(provider: &str) -> Scene {
        let [target, honest] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[]));
        let mut window = Box::new([0; 2048]);
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let region = register(&target, &mut window[..], access);
        let peer = honest.connect(target.address(), 1).unwrap();
        let stranger = Stranger::open(provider, parts(target.address()).0);
        Scene {
            region: Some(region),
            window,
            target,
            honest,
            peer,
            stranger,
        }
    }

    fn handle(&self) -> Handle {
        self.region.as_ref().unwrap().handle()
    }

    /// The target's key.
    fn key(&self) -> u64 {
        parts(self.target.address()).1
    }

    /// Makes progress of target, origin and stranger.
    fn poll(&mut self) {
        self.target.progress();
        self.honest.progress();
        self.stranger.poll();
    }

    /// Sends words as soon as the provider accepts them.
    fn send(&mut self, words: &[u64]) {
        let patience = Patience::new();
        while !self.stranger.try_to_send(words) {
            assert!(patience.lasts(), "the provider takes nothing");
            self.poll();
        }
    }

    /// Waits until the sent messages have left, and until the target has had time to answer.
    fn settle(&mut self) {
        let patience = Patience::new();
        while self.stranger.is_sending() {
            assert!(patience.lasts(), "it does not leave");
            self.poll();
        }
        for _ in 0..3 {
            self.put(WORD);
        }
        (0..1000).for_each(|_| self.poll());
    }

    /// The honest origin puts a word to the window, and waits for the put.
    fn put(&mut self, word: u64) {
        let (h, peer, honest) = (self.handle(), self.peer, &self.honest);
        let local = ptr::from_ref(&word).cast_mut().cast();
        attended(&self.target, || {
            insist(honest, || honest.put(peer, local, h.base(), &h, 8, None));
            assert_eq!(honest.flush(None), Status::SUCCESS);
        });
        assert_eq!(self.window[0], word);
    }

    /// Introduces the stranger with the target's key. Returns the stranger's line.
    fn join(&mut self, number: u32) -> Line {
        let line = Line {
            key: self.key(),
            cookie: 0x5eed + u64::from(number),
            number,
            client: UNKNOWN,
        };
        let own = introduction(OWN_KEY, &self.stranger.name());
        let before = self.stranger.came.len();
        self.send(&message(line, (BATCH, 0), (0, 0), &own));
        let patience = Patience::new();
        while self.stranger.came.len() == before {
            assert!(patience.lasts(), "it is not answered");
            self.poll();
        }
        let answer = &self.stranger.came[before];
        assert_eq!(answer[0], OWN_KEY, "answers carry the origin's key");
        let client = (answer[3] >> 32) as u32;
        Line { client, ..line }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.region.take());
    }
}

/// The address of a blob's endpoint, and its key (`core/src/peer/address.rs`).
fn parts(blob: &[u8]) -> (&[u8], u64) {
    let length = |at: usize| usize::from(u16::from_le_bytes([blob[at], blob[at + 1]]));
    let at = 52 + length(44);
    let end = at + length(50);
    let key = blob[end + 16..end + 24].try_into().unwrap();
    (&blob[at..end], u64::from_le_bytes(key))
}

/// Runs a test over each provider.
fn over_each(test: impl Fn(&mut Scene)) {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    for provider in PROVIDERS {
        test(&mut Scene::new(provider));
    }
}

/// A stranger without the key gets no answer, and the target keeps no data of it, whatever the
/// stranger sends.
#[test]
fn the_key_is_asked_for_first() {
    over_each(|scene| {
        scene.put(1);
        let right = scene.key();
        assert_ne!(right, 0);
        let own = introduction(OWN_KEY, &scene.stranger.name());
        let before = GIVEN.load(Ordering::Relaxed);
        let mut numbers = Numbers(7);
        for round in 0..1000u32 {
            let key = match round {
                0..64 => right ^ 1 << round,
                64 => 0,
                _ => numbers.word(),
            };
            let line = Line {
                key,
                cookie: u64::from(round),
                number: round,
                client: if round % 3 == 0 { round % 4 } else { UNKNOWN },
            };
            let kind = [BATCH, ALIVE, UNANSWERED, FAREWELL][round as usize % 4];
            let words = message(line, (kind, 0), (0, 0), &own);
            match round & 4 {
                0 => scene.send(&words),
                _ => scene.send(&wire::without_keys(&words)),
            }
            let bytes = 1 + numbers.below(40);
            let noise: Vec<u64> = (0..bytes).map(|_| numbers.word()).collect();
            scene.send(&noise);
        }
        scene.settle();
        assert!(scene.stranger.came.is_empty(), "{:?}", scene.stranger.came);
        scene.stranger.forget();
        let kept = GIVEN.load(Ordering::Relaxed).saturating_sub(before);
        assert!(kept < 64 << 10, "{kept} bytes are kept");
    });
}

/// The target reads only the message itself, even if its header claims the length of an earlier
/// message in the same buffer.
#[test]
fn earlier_messages_are_not_executed_again() {
    over_each(|scene| {
        let line = scene.join(1);
        // After this loop, every receive buffer has held the word.
        for _ in 0..40 {
            scene.put(WORD);
        }
        scene.window[0] = 0;
        for sequence in 1..20 {
            // A put of one word in the same region; the words are: code, address, key, cookie,
            // word.
            let mut claims = message(line, (BATCH, sequence), (1, 0), &[0; 5]);
            claims.truncate(HEADER);
            scene.send(&claims);
            let long = message(line, (BATCH, sequence), (0, 0), &[]);
            scene.send(&[&long[..], &[0]].concat());
        }
        let patience = Patience::new();
        while scene.stranger.is_sending() {
            assert!(patience.lasts(), "it does not leave");
            scene.poll();
        }
        (0..1000).for_each(|_| scene.poll());
        assert_eq!(scene.window[0], 0, "it was executed again");
        assert_eq!(scene.stranger.came.len(), 1, "{:?}", scene.stranger.came);
        // The line still works.
        scene.send(&message(line, (BATCH, 1), (0, 0), &[]));
        scene.settle();
        assert_eq!(scene.stranger.came.len(), 2);
    });
}

/// An origin that receives no answers gets only few, however many it asks for, and the target serves
/// others.
#[test]
fn answers_that_nobody_takes_are_few() {
    const BYTES: u32 = 12_000;
    over_each(|scene| {
        let h = scene.handle();
        // SAFETY: a handle is plain words: base, length, key, cookie.
        let words: [u64; Handle::SIZE / 8] = unsafe { std::mem::transmute(h) };
        let line = scene.join(1);
        scene.put(1);
        scene.stranger.takes = false;
        let before = GIVEN.load(Ordering::Relaxed);
        let get = wire::command(GET, BYTES, h.base(), (words[2], words[3]));
        for sequence in 1..2000 {
            scene.send(&message(line, (BATCH, sequence), (1, BYTES / 8), &get));
            scene.target.progress();
        }
        (0..1000).for_each(|_| scene.poll());
        scene.put(2);
        scene.stranger.drop_sent();
        let kept = GIVEN.load(Ordering::Relaxed).saturating_sub(before);
        assert!(kept < 1 << 20, "{kept} bytes are kept");
    });
}

/// The target keeps a bounded number of batches that come before their turn.
#[test]
fn batches_that_wait_are_few() {
    const LINES: u32 = 90;
    const WORDS: usize = 1900;
    over_each(|scene| {
        let before = GIVEN.load(Ordering::Relaxed);
        let body = vec![0; WORDS - HEADER];
        for number in 0..LINES {
            let line = scene.join(number);
            for sequence in 2..64 {
                scene.send(&message(line, (BATCH, sequence), (1, 0), &body));
            }
        }
        scene.settle();
        scene.stranger.drop_sent();
        let kept = GIVEN.load(Ordering::Relaxed).saturating_sub(before);
        assert!(kept > 32 << 20, "{kept} bytes: they did not come");
        assert!(kept < 66 << 20, "{kept} bytes are kept");
    });
}

/// A stranger can pass a key directly to the provider, without the transport. The keys of regions
/// cannot be guessed.
#[test]
fn keys_of_regions_are_no_small_numbers() {
    over_each(|scene| {
        scene.put(WORD);
        let h = scene.handle();
        let (target, honest) = (&scene.target, &scene.honest);
        let mut progress = || {
            target.progress();
            honest.progress();
        };
        let mut word = 0;
        for key in 0..20 {
            for offset in [0, h.base()] {
                let place = (key, offset);
                let reads = (&mut word, false);
                let is_read = scene.stranger.access(reads, place, &mut progress);
                assert!(!is_read, "key {key}, offset {offset:#x}");
                // The provider may report the write as complete once it is sent.
                let writes = (&mut !WORD, true);
                let _ = scene.stranger.access(writes, place, &mut progress);
            }
        }
        (0..1000).for_each(|_| progress());
        assert_eq!((word, scene.window[0]), (0, WORD));
    });
}

/// The target cannot answer messages of origins that it cannot reach. The target serves other origins
/// meanwhile.
#[test]
fn lines_of_nobody_hold_up_nobody() {
    const LINES: u32 = 200;
    over_each(|scene| {
        let before = GIVEN.load(Ordering::Relaxed);
        for number in 0..LINES {
            let line = Line {
                key: scene.key(),
                cookie: u64::from(number),
                number,
                client: UNKNOWN,
            };
            let mut nobody = scene.stranger.name();
            // A port of this machine without a listener.
            nobody[2..4].copy_from_slice(&(2 + number as u16).to_be_bytes());
            let own = introduction(OWN_KEY, &nobody);
            scene.send(&message(line, (BATCH, 0), (0, 0), &own));
        }
        scene.settle();
        scene.stranger.drop_sent();
        let kept = GIVEN.load(Ordering::Relaxed).saturating_sub(before);
        assert!(kept < LINES as usize * 4096, "{kept} bytes are kept");
    });
}

/// Makes a put or get of two runs, which may lie anywhere. Returns its operands, the bytes that the command carries, and
/// the words of its results.
fn scattered(numbers: &mut Numbers) -> (Vec<u64>, u32, u32) {
    let gets = numbers.below(2) == 0;
    // The word contains the size, no type, the operation, and that the command is no atomic.
    let op = if gets { 10 } else { 11 };
    let first = 1 << 32 | 0xff << 40 | op << 48 | 1 << 56;
    if numbers.below(2) == 0 {
        return listed(numbers, gets, first | 1 << 57);
    }
    let mut words = vec![first, 2];
    let mut bytes = 0;
    for _ in 0..2 {
        let (length, count) = (1 + numbers.below(40) as u64, 1 + numbers.below(20) as u64);
        bytes += length * count;
        let far = |n: u64, numbers: &mut Numbers| match numbers.below(8) {
            0 => numbers.word(),
            _ => n,
        };
        let offset = numbers.below(2000) as u64;
        let stride = numbers.below(300) as u64;
        words.extend([
            far(offset, numbers),
            length | count << 32,
            far(stride, numbers),
        ]);
    }
    let head = 8 * words.len() as u64;
    let (operands, results) = if gets { (0, bytes) } else { (bytes, 0) };
    words.extend((0..operands.div_ceil(8)).map(|_| numbers.word()));
    let carried = (head + operands) as u32 | (results as u32) << 16;
    (words, carried, results.div_ceil(8) as u32)
}

/// The same with four listed runs of one length.
fn listed(numbers: &mut Numbers, gets: bool, first: u64) -> (Vec<u64>, u32, u32) {
    let length = 1 + numbers.below(40) as u64;
    let mut words = vec![first, 4 | length << 32];
    for _ in 0..2 {
        let places = (numbers.below(2000) as u64, numbers.below(2000) as u64);
        words.push(match numbers.below(8) {
            0 => numbers.word(),
            _ => places.0 | places.1 << 32,
        });
    }
    let head = 8 * words.len() as u64;
    let (operands, results) = if gets {
        (0, 4 * length)
    } else {
        (4 * length, 0)
    };
    words.extend((0..operands.div_ceil(8)).map(|_| numbers.word()));
    let carried = (head + operands) as u32 | (results as u32) << 16;
    (words, carried, results.div_ceil(8) as u32)
}

/// Messages with the right key and random contents. The target refuses or executes them, and serves others.
#[test]
fn random_messages_do_no_harm() {
    const MESSAGES: u32 = 4000;
    over_each(|scene| {
        let h = scene.handle();
        // SAFETY: a handle is plain words: base, length, key, cookie.
        let words: [u64; Handle::SIZE / 8] = unsafe { std::mem::transmute(h) };
        let region = (words[2], words[3]);
        let mut numbers = Numbers(11);
        let (mut line, mut sequence) = (scene.join(0), 1);
        for round in 1..=MESSAGES {
            if round % 200 == 0 {
                // The last line may lack a message.
                (line, sequence) = (scene.join(round), 1);
                scene.put(u64::from(round));
            }
            let (mut body, mut entries, mut results) = (Vec::new(), 0, 0);
            for _ in 0..numbers.below(6) {
                entries += 1;
                // The address lies behind the word that the honest origin writes.
                let address = h.base() + 64 + numbers.below(20_000) as u64;
                let region = match numbers.below(4) {
                    0 => (numbers.word(), region.1),
                    _ => region,
                };
                let code = [
                    PUT,
                    GET,
                    5 << 16,
                    6 << 16,
                    0x1_0702,
                    0x2_070d,
                    APPLY,
                    numbers.word(),
                ];
                let code = code[numbers.below(8)] & 0xffff_ffff;
                if code == APPLY {
                    let (words, carried, returned) = scattered(&mut numbers);
                    body.extend(wire::command(APPLY, carried, address, region));
                    body.extend(words);
                    results += returned;
                    continue;
                }
                let count = [1, 8, 24, numbers.below(60_000) as u32][numbers.below(4)];
                body.extend(wire::command(code, count, address, region));
                let operands = if code == GET {
                    0
                } else {
                    count.div_ceil(8).min(300)
                };
                body.extend((0..operands).map(|_| numbers.word()));
                results += match code {
                    GET => count.div_ceil(8),
                    0x1_0702 => count,
                    _ => 0,
                };
            }
            body.truncate(1900);
            if numbers.below(10) == 0 {
                (entries, results) = (numbers.below(10) as u32, numbers.below(100) as u32);
            }
            let kind = match numbers.below(8) {
                0 => numbers.below(9) as u32,
                1 => UNANSWERED,
                _ => BATCH,
            };
            let early = if numbers.below(3) == 0 {
                numbers.below(70) as u32
            } else {
                0
            };
            let mut words = message(line, (kind, sequence + early), (entries, results), &body);
            if numbers.below(8) == 0 {
                let at = 1 + numbers.below(words.len() - 1);
                words[at] ^= 1 << numbers.below(64);
            }
            scene.send(&words);
            scene.poll();
            if (kind == BATCH || kind == UNANSWERED) && early == 0 {
                sequence += 1;
            }
        }
        scene.settle();
    });
}
