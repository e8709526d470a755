//! The test's side of a rank.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver};

use plugin_api::Status;

use crate::common::pair::unhex;
use crate::common::tally::{Tally, WORDS};
use crate::common::{ANY, BLOCKED, is_stopped, kill};
use crate::namespaces::{Host, LINK};
use crate::rank::{PUTS, SUM};

/// A rank that the test controls.
pub(crate) struct Rank<'a> {
    /// The program that entered the host, whose child is the rank.
    entered: RefCell<Child>,
    to: ChildStdin,
    said: Receiver<String>,
    pub(crate) pid: u32,
    /// The published data of the rank as text: its address, and the handle of its window.
    pub(crate) address: String,
    pub(crate) handle: String,
    /// The host outlives its ranks.
    host: PhantomData<&'a Host>,
}

/// The numbers of operations that a rank posted, with and without a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) tracked: u32,
    pub(crate) untracked: u32,
    /// The number of the puts that exceed a message.
    pub(crate) large: u32,
    pub(crate) last: Status,
}

/// The outcomes of a rank's operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
    pub(crate) pending: u32,
    /// The number of operations that were reported more than once.
    pub(crate) twice: u32,
    /// The number of operations without callback that were reported as failed.
    pub(crate) lost: u32,
}

impl<'a> Rank<'a> {
    /// Starts a rank over the link.
    pub(crate) fn start(host: &'a Host, provider: &str, timeout: u32) -> Rank<'a> {
        Rank::open(host, (LINK, None), &format!("{provider} {timeout}"))
    }

    /// Starts a rank over loopback; its process id follows `before`.
    pub(crate) fn start_after(host: &'a Host, before: u32, provider: &str) -> Rank<'a> {
        Rank::open(host, ("lo", Some(before)), &format!("{provider} 0"))
    }

    /// Starts a rank that chooses its interface among those that `include` names; the number of rails may follow.
    pub(crate) fn start_free(host: &'a Host, provider: &str, include: &str) -> Rank<'a> {
        Rank::open(host, (ANY, None), &format!("{provider} 0 {include}"))
    }

    /// Starts a rank that chooses its interface; its process id follows `before`.
    pub(crate) fn start_free_after(host: &'a Host, before: u32, provider: &str) -> Rank<'a> {
        Rank::open(host, (ANY, Some(before)), &format!("{provider} 0"))
    }

    /// Starts a rank with the interface that an environment variable of libfabric names.
    pub(crate) fn start_over(host: &'a Host, provider: &str, interface: &str) -> Rank<'a> {
        Rank::open(host, (interface, None), &format!("{provider} 0"))
    }

    fn open(host: &'a Host, (interface, before): (&str, Option<u32>), options: &str) -> Rank<'a> {
        let mut entered = host.start(interface, before);
        let to = entered.stdin.take().unwrap();
        let from = BufReader::new(entered.stdout.take().unwrap());
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            // The test harness prints text before the rank's lines, without a newline.
            let lines = from.lines().map_while(Result::ok);
            for line in lines.filter_map(|line| Some(line.split_once('@')?.1.to_owned())) {
                let _ = tell.send(line);
            }
        });
        let mut rank = Rank {
            entered: RefCell::new(entered),
            to,
            said,
            pid: 0,
            address: String::new(),
            handle: String::new(),
            host: PhantomData,
        };
        let opened = rank.ask(&format!("open {options}"));
        let fields: Vec<&str> = opened.split(' ').collect();
        rank.pid = fields[0].parse().unwrap();
        (rank.address, rank.handle) = (fields[1].to_owned(), fields[2].to_owned());
        rank
    }

    /// Makes the rank begin an action, whose answer is awaited later.
    pub(crate) fn begin_to(&self, line: &str) {
        // A failed rank reports its failure itself.
        let _ = writeln!(&self.to, "{line}");
    }

    /// The next line of the rank. A transfer may wait for the timeout of a rail meanwhile.
    pub(crate) fn answer(&self) -> String {
        let line = self.said.recv_timeout(BLOCKED);
        line.unwrap_or_else(|e| panic!("rank {}: {e}", self.pid))
    }

    pub(crate) fn ask(&self, line: &str) -> String {
        self.begin_to(line);
        self.answer()
    }

    fn ask_numbers(&self, line: &str) -> Vec<i64> {
        let answer = self.ask(line);
        answer.split(' ').map(|n| n.parse().unwrap()).collect()
    }

    pub(crate) fn connect(&self, proc: u64, peer: &Rank<'_>) {
        self.connect_to(proc, &peer.address, &peer.handle);
    }

    pub(crate) fn connect_to(&self, proc: u64, address: &str, handle: &str) {
        assert_eq!(
            self.try_to_connect(proc, address, handle),
            "done",
            "{}",
            self.provider()
        );
    }

    /// The error of a refused connect.
    pub(crate) fn is_refused(&self, proc: u64, peer: &Rank<'_>) -> String {
        let said = self.try_to_connect(proc, &peer.address, &peer.handle);
        assert_ne!(said, "done");
        said
    }

    /// The IPv4 address of the rank's endpoint, which follows the provider's name.
    pub(crate) fn ip(&self) -> [u8; 4] {
        let bytes = unhex(&self.address);
        // Family and port precede the address.
        let at = 52 + self.provider().len() + 4;
        bytes[at..at + 4].try_into().unwrap()
    }

    /// The provider that the rank's address names, from byte 52 on.
    pub(crate) fn provider(&self) -> String {
        let bytes = unhex(&self.address);
        let length = usize::from(u16::from_le_bytes([bytes[44], bytes[45]]));
        String::from_utf8_lossy(&bytes[52..52 + length]).into_owned()
    }

    fn try_to_connect(&self, proc: u64, address: &str, handle: &str) -> String {
        self.ask(&format!("connect {proc} {address} {handle}"))
    }

    /// Posts up to `count` atomics and puts to a peer, until there is no room.
    pub(crate) fn post(&self, proc: u64, count: u32) -> Posted {
        self.post_some("any", proc, count)
    }

    /// Posts operations, but no puts that exceed a message.
    pub(crate) fn post_small(&self, proc: u64, count: u32) -> Posted {
        self.post_some("small", proc, count)
    }

    /// Posts only puts that exceed a message, which the provider makes.
    pub(crate) fn post_large(&self, proc: u64, count: u32) -> Posted {
        self.post_some("large", proc, count)
    }

    /// Posts all `count` operations, and retries when the provider has no room.
    pub(crate) fn post_all(&self, proc: u64, count: u32) -> Posted {
        self.post_some("steady", proc, count)
    }

    /// Posts only small puts with callback.
    pub(crate) fn put(&self, proc: u64, count: u32) -> Posted {
        self.post_some("puts", proc, count)
    }

    fn post_some(&self, kind: &str, proc: u64, count: u32) -> Posted {
        let n = self.ask_numbers(&format!("post {kind} {proc} {count}"));
        Posted {
            tracked: n[0] as u32,
            untracked: n[1] as u32,
            large: n[2] as u32,
            last: Status(n[3] as i32),
        }
    }

    pub(crate) fn flush(&self) -> Status {
        Status(self.ask_numbers("flush")[0] as i32)
    }

    pub(crate) fn seen(&self) -> Seen {
        let n = self.ask_numbers("seen");
        let at = |i: usize| n[i] as u32;
        Seen {
            succeeded: at(0),
            failed: at(1),
            pending: at(2),
            twice: at(3),
            lost: at(4),
        }
    }

    /// Makes the rank issue atomics to process 0, whose window is `peer`'s; with 0 operations, until the test ends
    /// it.
    pub(crate) fn mix(&self, peer: &Rank<'_>, seed: u64, operations: u32) {
        let (address, handle) = (&peer.address, &peer.handle);
        self.begin_to(&format!("mix {seed} {operations} {address} {handle}"));
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally::from_text(&self.answer())
    }

    /// Makes the rank make progress until its failure detector has checked its peers at least
    /// twice.
    pub(crate) fn wait_for_checks(&self) {
        assert_eq!(self.ask("checks"), "done");
    }

    /// The words that atomics change.
    pub(crate) fn counted(&self) -> [u64; WORDS] {
        self.words(0, WORDS).try_into().unwrap()
    }

    /// Makes the rank put bytes into a peer's window, and get them back. Returns the statuses of two flushes, and whether
    /// the bytes are equal.
    pub(crate) fn there_and_back(
        &self,
        proc: u64,
        offset: usize,
        size: usize,
    ) -> (Status, Status, bool) {
        let n = self.ask_numbers(&format!("there {proc} {offset} {size}"));
        (Status(n[0] as i32), Status(n[1] as i32), n[2] == 1)
    }

    /// The bandwidth of puts of `size` bytes, two at a time.
    pub(crate) fn megabytes_per_second(&self, proc: u64, size: usize, count: usize) -> f64 {
        let nanoseconds = self.ask_numbers(&format!("speed {proc} {size} {count}"))[0];
        (size * count) as f64 * 1e3 / nanoseconds as f64
    }

    /// The sum of the added values, and the number of small puts that arrived.
    pub(crate) fn received(&self) -> (u64, usize) {
        let puts = self.words(PUTS, 4096);
        let arrived = puts.iter().enumerate();
        let arrived = arrived.filter(|(i, word)| **word == *i as u64 + 1).count();
        let other = puts.iter().filter(|word| **word != 0).count();
        assert_eq!(arrived, other, "words that nobody put");
        (self.words(SUM, 1)[0], arrived)
    }

    fn words(&self, first: usize, count: usize) -> Vec<u64> {
        let answer = self.ask(&format!("words {first} {count}"));
        answer.split(' ').map(|n| n.parse().unwrap()).collect()
    }

    /// The number of packets that an interface of the rank's host has sent.
    pub(crate) fn packets(&self, interface: &str) -> i64 {
        self.ask_numbers(&format!("packets {interface}"))[0]
    }

    /// Whether TCP on the rank's host waited in vain for an answer.
    pub(crate) fn repeats(&self) -> bool {
        self.ask_numbers("repeats") == [1]
    }

    /// The number of TCP connections of the rank's host.
    pub(crate) fn connections(&self) -> i64 {
        self.ask_numbers("connections")[0]
    }

    /// Sends SIGSTOP, SIGCONT or SIGKILL to the rank. Waits until the rank has stopped or ended. The program that entered
    /// the host stops with the rank, and continues the rank when it is continued itself.
    pub(crate) fn signal(&self, number: i32) {
        let mut entered = self.entered.borrow_mut();
        let above = entered.id();
        let below = std::fs::read_to_string(format!("/proc/{above}/task/{above}/children"));
        let below = below.unwrap().trim().parse().unwrap();
        if number != libc::SIGCONT {
            kill(below, number);
        }
        if number != libc::SIGSTOP {
            kill(above, libc::SIGCONT);
        }
        match number {
            libc::SIGKILL => drop(entered.wait().unwrap()),
            libc::SIGSTOP => {
                while !is_stopped(above) {
                    std::thread::yield_now();
                }
            }
            _ => {}
        }
    }
}

impl Drop for Rank<'_> {
    fn drop(&mut self) {
        // The rank ends with its input, or with its host.
        let entered = self.entered.get_mut();
        let _ = entered.kill();
        let _ = entered.wait();
    }
}
