//! Processes that a target does not know: those that are not of the job, and know its port alone; and those that know its key, and do
//! not send what an origin would.

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
use wire::{ALIVE, BATCH, FAREWELL, HEADER, Line, UNANSWERED, UNKNOWN, introduction, message};

/// Providers over TCP, of which anybody may know the port.
const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "net"];

/// Bytes that this program's allocator has given out. libfabric has another one.
static GIVEN: AtomicUsize = AtomicUsize::new(0);
/// The tests run one after the other, because each looks at [`GIVEN`].
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
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

/// The key that strangers are answered with.
const OWN_KEY: u64 = 0x0dd_ba11;
/// A message of an honest origin: one word.
const WORD: u64 = 0x7777_7777_7777_7777;

/// A target with a window, an honest origin in the same process, and a stranger.
struct Scene {
    region: Option<Region>,
    window: Box<[u64; 64]>,
    target: Transport,
    honest: Transport,
    peer: NonNull<Endpoint>,
    stranger: Stranger,
}

impl Scene {
    fn new(provider: &str) -> Scene {
        let [target, honest] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[]));
        let mut window = Box::new([0; 64]);
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

    /// All make progress.
    fn poll(&mut self) {
        self.target.progress();
        self.honest.progress();
        self.stranger.poll();
    }

    /// Sends words, as soon as the provider takes them. The stranger has so many on the way at most.
    fn send(&mut self, words: &[u64]) {
        let patience = Patience::new();
        while !self.stranger.try_to_send(words) {
            assert!(patience.lasts(), "the provider takes nothing");
            self.poll();
        }
    }

    /// Waits until what was sent has left, and for as long as it takes the target to answer what it answers.
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

    /// The honest origin writes a word to the window, and waits for it.
    fn put(&mut self, word: u64) {
        let (h, peer, honest) = (self.handle(), self.peer, &self.honest);
        let local = ptr::from_ref(&word).cast_mut().cast();
        attended(&self.target, || {
            insist(honest, || {
                // SAFETY: the word stays until the flush is over, and the peer is connected.
                unsafe { honest.put(peer, local, h.base(), ptr::null_mut(), &h, 8, None) }
            });
            assert_eq!(honest.flush(None), Status::SUCCESS);
        });
        assert_eq!(self.window[0], word);
    }

    /// Introduces the stranger with the target's key. Returns its line.
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

/// Who does not know the key gets no answer and makes the target keep nothing, whatever it sends.
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

/// A header that claims to be as long as what came before in the same buffer is all that is looked at.
#[test]
fn earlier_messages_are_not_executed_again() {
    over_each(|scene| {
        let line = scene.join(1);
        // Every receive has had it.
        for _ in 0..40 {
            scene.put(WORD);
        }
        scene.window[0] = 0;
        for sequence in 1..20 {
            // A put of one word in the same region: what, address, key, cookie, word.
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
        // The line goes on.
        scene.send(&message(line, (BATCH, 1), (0, 0), &[]));
        scene.settle();
        assert_eq!(scene.stranger.came.len(), 2);
    });
}
