//! The test's side of a rank.

use plugin_api::Status;

use crate::common::pair::unhex;
use crate::common::tally::{Tally, WORDS};
use crate::namespaces::Host;
use crate::rank::{PUTS, SUM};

/// A rank that the test controls.
pub(crate) struct Rank<'a> {
    host: &'a Host,
    number: usize,
    pub(crate) pid: u32,
    /// The published data of the rank as text: its address, and the handle of its window.
    pub(crate) address: String,
    pub(crate) handle: String,
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
    /// Starts rank `number` of a host, over the link.
    pub(crate) fn start(host: &'a Host, number: usize, provider: &str, timeout: u32) -> Rank<'a> {
        Rank::begin(host, number, None, provider, timeout)
    }

    /// Starts a rank over loopback; its process id follows `before`.
    pub(crate) fn start_after(
        host: &'a Host,
        number: usize,
        before: u32,
        provider: &str,
    ) -> Rank<'a> {
        Rank::begin(host, number, Some(before), provider, 0)
    }

    /// Starts a rank that chooses its interface among those that `include` names.
    pub(crate) fn start_free(
        host: &'a Host,
        number: usize,
        provider: &str,
        include: &str,
    ) -> Rank<'a> {
        let pid = host.start_free(number, None);
        Rank::open(host, number, pid, &format!("{provider} 0 {include}"))
    }

    /// Starts a rank whose large transfers use several interfaces.
    pub(crate) fn start_with_rails(
        host: &'a Host,
        number: usize,
        provider: &str,
        (timeout, include, rails): (u32, &str, &str),
    ) -> Rank<'a> {
        let pid = host.start_free(number, None);
        let options = format!("{provider} {timeout} {include} {rails}");
        Rank::open(host, number, pid, &options)
    }

    /// Starts a rank that chooses its interface; its process id follows `before`.
    pub(crate) fn start_free_after(
        host: &'a Host,
        number: usize,
        before: u32,
        provider: &str,
    ) -> Rank<'a> {
        let pid = host.start_free(number, Some(before));
        Rank::open(host, number, pid, &format!("{provider} 0"))
    }

    /// Starts a rank with the interface that an environment variable of libfabric names.
    pub(crate) fn start_over(
        host: &'a Host,
        number: usize,
        provider: &str,
        interface: &str,
    ) -> Rank<'a> {
        let pid = host.start_over(number, None, interface);
        Rank::open(host, number, pid, &format!("{provider} 0"))
    }

    fn begin(
        host: &'a Host,
        number: usize,
        before: Option<u32>,
        provider: &str,
        timeout: u32,
    ) -> Rank<'a> {
        let pid = host.start(number, before);
        Rank::open(host, number, pid, &format!("{provider} {timeout}"))
    }

    fn open(host: &'a Host, number: usize, pid: u32, options: &str) -> Rank<'a> {
        host.tell(number, &format!("open {options}"));
        let said = host.answer(number);
        let (address, handle) = said.split_once(' ').unwrap();
        Rank {
            host,
            number,
            pid,
            address: address.to_owned(),
            handle: handle.to_owned(),
        }
    }

    /// Makes the rank begin an action, whose answer is awaited later.
    pub(crate) fn begin_to(&self, line: &str) {
        self.host.tell(self.number, line);
    }

    pub(crate) fn answer(&self) -> String {
        self.host.answer(self.number)
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

    pub(crate) fn signal(&self, signal: i32) {
        self.host.signal(self.number, signal);
    }
}
