//! A rank of a host: a process with a transport and a window, which executes the test's commands line by line, and
//! makes progress meanwhile.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use btl_ofi::{Endpoint, ErrorReport, Handle, Transport};
use mca_params::Value;
use plugin_api::{Access, BtlAtomicOp, Module, Status, ThreadLevel};

use crate::common::pair::{handle_of, handle_text, hex, unhex};
use crate::common::tally::Origin;
use crate::common::told::Ended;
use crate::common::{Calls as _, Patience, SAME_NODE, open};
use crate::counters::{connections, packets, repeats};

/// The size of a rank's window in words: for atomics, for one word of each small put, and for puts
/// that exceed a message.
pub(crate) const WINDOW: usize = 1024 * 1024;
/// The word that atomics add to.
pub(crate) const SUM: usize = 8;
/// The first word of small puts.
pub(crate) const PUTS: usize = 16;
const LARGE: usize = 8 * 1024;
/// Words of a large put.
const LARGE_WORDS: usize = 4 * 1024;

/// If large puts are posted, one of 16 operations is a large put.
const LARGE_PLACE: u64 = 14;

/// A posted operation with a callback.
#[derive(Default)]
struct Posted {
    succeeded: AtomicU32,
    failed: AtomicU32,
    /// The data of a put, or the result of an atomic.
    word: u64,
}

impl Ended for Posted {
    fn ended(&self, status: Status) {
        let count = if status.is_ok() {
            &self.succeeded
        } else {
            &self.failed
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of operations without callback that were reported as failed.
static LOST: AtomicU32 = AtomicU32::new(0);
static REPORTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn reported(
    _: *mut Module,
    _: u32,
    _: *mut plugin_api::Endpoint,
    _: u64,
    _: i32,
    info: *const c_char,
    _: *mut c_void,
) {
    // SAFETY: the transport passes a C string.
    let info = unsafe { CStr::from_ptr(info) }.to_string_lossy();
    if let Some((number, _)) = info.split_once(" operation(s) to process") {
        LOST.fetch_add(number.parse().unwrap(), Ordering::Relaxed);
    }
    REPORTS.lock().unwrap().push(info.into_owned());
}

pub(crate) struct Rank {
    pub(crate) t: Transport,
    window: &'static mut [u64],
    pub(crate) peers: HashMap<u64, (NonNull<Endpoint>, Handle)>,
    tracked: Vec<&'static Posted>,
    /// The number of operations posted so far; each small put has its own word.
    posts: u64,
    large: &'static [u64],
}

/// The rank's side of a test. This function does not return.
pub(crate) fn serve_as_rank() {
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lines().map_while(Result::ok);
        for line in lines {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    let first = hear.recv().unwrap_or_else(|_| std::process::exit(0));
    let mut rank = Rank::open(&first);
    let mut idle = 0;
    loop {
        // Idle ranks leave the processors to the others.
        let pause = Duration::from_micros(if idle < 200 { 0 } else { 100 });
        match hear.recv_timeout(pause) {
            Ok(line) => println!("@{}", rank.act(&line, &hear)),
            Err(RecvTimeoutError::Disconnected) => std::process::exit(0),
            Err(RecvTimeoutError::Timeout) if rank.t.progress() > 0 => idle = 0,
            Err(RecvTimeoutError::Timeout) => {
                idle += 1;
                std::thread::yield_now();
            }
        }
    }
}

/// The fields of a line.
pub(crate) fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(' ').map(|n| n.parse().unwrap())
}

impl Rank {
    /// `open PROVIDER TIMEOUT [INTERFACES [RAILS]]`.
    fn open(line: &str) -> Rank {
        let fields: Vec<&str> = line.split(' ').collect();
        let timeout = Value::Unsigned(fields[2].parse().unwrap());
        let include = fields.get(3).copied().unwrap_or_default();
        let include = Value::String(include.to_owned().into());
        let rails = fields.get(4).copied().unwrap_or("1");
        let rails = Value::String(rails.to_owned().into());
        let t = open(
            fields[1],
            ThreadLevel::Single,
            &[
                SAME_NODE,
                ("btl_ofi_peer_timeout", timeout),
                ("btl_ofi_if_include", include),
                ("btl_ofi_rails", rails),
            ],
        );
        t.on_error(Some(ErrorReport {
            function: reported,
            context: ptr::null_mut(),
        }));
        let window = vec![0u64; WINDOW].leak();
        // SAFETY: the window lives to the end of the process.
        let region =
            unsafe { t.register(window.as_mut_ptr().cast(), 8 * WINDOW, Access::all()) }.unwrap();
        let handle = handle_text(region.handle());
        std::mem::forget(region);
        println!("@{} {} {handle}", std::process::id(), hex(t.address()));
        Rank {
            t,
            window,
            peers: HashMap::new(),
            tracked: Vec::new(),
            posts: 0,
            large: vec![0x5a5a_5a5a; LARGE_WORDS].leak(),
        }
    }

    /// Executes a line, and returns the answer.
    fn act(&mut self, line: &str, hear: &mpsc::Receiver<String>) -> String {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "connect" => {
                let fields: Vec<&str> = rest.split(' ').collect();
                let proc = fields[0].parse().unwrap();
                let peer = match self.t.connect(&unhex(fields[1]), proc) {
                    Ok(peer) => peer,
                    Err(error) => return error.to_string().replace('\n', " "),
                };
                self.peers.insert(proc, (peer, handle_of(fields[2])));
                String::from("done")
            }
            "mix" => self.mix(rest, hear),
            "post" => self.post(rest),
            "flush" => {
                let status = match rest {
                    "" => self.t.flush(None),
                    proc => {
                        let (peer, _) = self.peers[&proc.parse().unwrap()];
                        // SAFETY: the rank never disconnects.
                        self.t.flush(Some(unsafe { peer.as_ref() }))
                    }
                };
                status.0.to_string()
            }
            "there" => self.there_and_back(rest),
            "speed" => self.speed(rest),
            "seen" => self.seen(),
            "reports" => REPORTS.lock().unwrap().join("; ").replace('\n', " "),
            "words" => {
                let at: Vec<u64> = numbers(rest).collect();
                let words = (at[0]..at[0] + at[1]).map(|i| {
                    // SAFETY: the word is inside the window, which peers may write.
                    unsafe { ptr::read_volatile(&raw const self.window[i as usize]) }.to_string()
                });
                words.collect::<Vec<_>>().join(" ")
            }
            "progress" => {
                for _ in 0..rest.parse().unwrap() {
                    self.t.progress();
                }
                String::from("done")
            }
            "checks" => {
                // The failure detector checks its peers every 250 ms.
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(600) {
                    self.t.progress();
                }
                String::from("done")
            }
            "watch" => {
                self.t.watch_idle_peers();
                String::from("done")
            }
            "packets" => packets(rest).to_string(),
            "connections" => connections().len().to_string(),
            "repeats" => u8::from(repeats()).to_string(),
            _ => panic!("{line}"),
        }
    }

    /// `mix SEED OPERATIONS ADDRESS HANDLE`: atomics to process 0. With 0 operations, the rank continues
    /// until a line comes.
    fn mix(&mut self, rest: &str, hear: &mpsc::Receiver<String>) -> String {
        let fields: Vec<&str> = rest.split(' ').collect();
        let (seed, wanted): (u64, u64) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
        let mut origin = Origin::new(&self.t, &unhex(fields[2]), handle_of(fields[3]), seed);
        let mut done = 0;
        loop {
            if wanted == 0 && hear.try_recv().is_ok() || wanted > 0 && done == wanted {
                return origin.tally.text();
            }
            origin.one();
            done += 1;
            // These calls make progress for origins that wait for this process.
            for _ in 0..20 {
                self.t.progress();
            }
            std::thread::yield_now();
        }
    }

    /// `post KIND PROC COUNT`: posts operations until there is no room; with the kind `steady`, until all are posted. The
    /// answer has the numbers of operations with and without callback, the number of puts that exceed a message, and the
    /// status of the last operation.
    fn post(&mut self, rest: &str) -> String {
        let fields: Vec<&str> = rest.split(' ').collect();
        let (peer, h) = self.peers[&fields[1].parse().unwrap()];
        let (mut tracked, mut untracked, mut large) = (0, 0, 0);
        let mut status = Status::SUCCESS;
        let (mut i, count) = (0, fields[2].parse::<u64>().unwrap());
        let deadline = Patience::new();
        while i < count {
            let (kind, place) = match fields[0] {
                "any" => (i % 4, i % 16),
                "puts" => (2, 0),
                "large" => (2, LARGE_PLACE),
                _ => (i % 4, 0),
            };
            let posted = Box::leak(Box::new(Posted {
                word: self.posts + 1,
                ..Posted::default()
            }));
            let has_callback = kind % 2 == 0;
            let done = has_callback.then(|| posted.completion()).flatten();
            let word: *mut c_void = (&raw const posted.word).cast_mut().cast();
            let add = BtlAtomicOp::Add;
            let sum = h.base() + 8 * SUM as u64;
            let mine = h.base() + 8 * (PUTS as u64 + self.posts);
            status = match (kind, place) {
                (0, _) => self.t.atomic_fop(peer, word, sum, &h, add, 1, done),
                (1, _) => self.t.atomic_op(peer, sum, &h, add, 1, done),
                (2, LARGE_PLACE) => {
                    let (from, at) = (self.large.as_ptr(), h.base() + 8 * LARGE as u64);
                    let from = from.cast_mut().cast();
                    self.t.put(peer, from, at, &h, 8 * LARGE_WORDS, done)
                }
                _ => self.t.put(peer, word, mine, &h, 8, done),
            };
            if status.is_again() && fields[0] == "steady" && deadline.lasts() {
                self.t.progress();
                continue;
            }
            i += 1;
            if status.is_again() && place == LARGE_PLACE {
                // The provider has no room before the connection exists; messages have room.
                continue;
            }
            if status != Status::SUCCESS {
                break;
            }
            self.posts += 1;
            large += u32::from(place == LARGE_PLACE);
            if has_callback {
                tracked += 1;
                self.tracked.push(posted);
            } else {
                untracked += 1;
            }
        }
        format!("{tracked} {untracked} {large} {}", status.0)
    }

    /// The numbers of operations with callback that succeeded, failed, were not reported, and were reported twice;
    /// and the number of operations without callback that were reported as failed.
    fn seen(&self) -> String {
        let (mut seen, lost) = ([0u32; 4], LOST.load(Ordering::Relaxed));
        for posted in &self.tracked {
            let (s, f) = (&posted.succeeded, &posted.failed);
            let kind = match (s.load(Ordering::Relaxed), f.load(Ordering::Relaxed)) {
                (1, 0) => 0,
                (0, 1) => 1,
                (0, 0) => 2,
                _ => 3,
            };
            seen[kind] += 1;
        }
        let [succeeded, failed, pending, twice] = seen;
        format!("{succeeded} {failed} {pending} {twice} {lost}")
    }
}
