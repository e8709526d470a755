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

use std::ptr::{self, NonNull};
use std::sync::Mutex;

use btl_ofi::{Endpoint, Handle, Region, Transport};
use common::Calls as _;
use plugin_api::{Access, Status, ThreadLevel};

use common::attending::attended;
use common::given::{Counting, given};
use common::numbers::Numbers;
use common::{Patience, insist, open, register};
use stranger::Stranger;
use wire::{ALIVE, BATCH, FAREWELL, GET, Line, PUT, UNANSWERED, UNKNOWN, introduction, message};

/// Providers over TCP, whose port any process may know.
const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "net"];

/// The tests run one after the other, because each reads [`given`].
static ALONE: Mutex<()> = Mutex::new(());

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
    let key = blob[end + 8..end + 16].try_into().unwrap();
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
        let before = given();
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
        let kept = given().saturating_sub(before);
        assert!(kept < 64 << 10, "{kept} bytes are kept");
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

/// Messages with the right key and random contents. The target refuses or executes these messages, and
/// serves others.
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
                    7 << 16,
                    0x1_0702,
                    0x2_070d,
                    numbers.word(),
                ];
                let code = code[numbers.below(8)] & 0xffff_ffff;
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
