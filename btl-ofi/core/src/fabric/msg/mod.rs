//! Messages: the carrier of commands between nodes.
//!
//! Providers that execute RMA and atomics in software send a request and an acknowledgement for each operation. In this
//! carrier many operations share one message, and one answer covers all of them. An origin has a [`Line`] to each target.
//! Commands are added to the line's current [`Batch`]. The batch is sent when it is full, or by the next progress call
//! while few batches are unanswered. So a single operation is sent at once, and with more operations, more of them share a
//! batch. The target's progress passes the commands to its responder (`op::responder`), which also serves the rings.
//!
//! **Complete means visible**: the answer is sent after the target's processor has executed the batch.
//!
//! **Order.** Batches are numbered. The target executes batches in the order of their numbers, and keeps a batch that
//! arrives early until its turn. So the commands of one origin are executed in the order in which they were issued. The
//! transport does not request `FI_ORDER_SAS`: rxm offers it, but lets a short message overtake a message that rxm sends
//! in parts (1.17).
//!
//! A line has at most [`WINDOW`](line::WINDOW) unanswered batches and at most [`MOST_WAITING`](line::MOST_WAITING) waiting
//! batches. Beyond these limits the line refuses commands for the moment. The provider keeps messages for which no receive
//! is posted (`FI_RM_ENABLED`). A provider that cannot keep a message returns `FI_EAGAIN` to the sender, and a later
//! progress sends the rest.
//!
//! **Introduction.** A target also answers origins that it did not connect itself. An origin's first batch carries the
//! origin's key and endpoint address, and is sent alone. The answer gives the origin its client number.
//!
//! **Strangers.** Providers over TCP accept messages from any process. Each process has a random key, published with its
//! address. Every message to the process begins with the key; other messages are ignored. The provider reports the
//! length of a message.
//!
//! **Sends.** The host's own messages (two-sided) travel in the same batches. The bytes of sends are copied into a batch, so no
//! operation waits for them. Most batches that hold only sends get no answer: the answer to a later batch, or a receipt,
//! covers them. At the target, sends go to the [inbox](inbox), and progress passes them to the host without the lock.
//!
//! **Notifications.** A put and the notification behind it travel in one batch. The target executes the notification after
//! the put, and only if the put succeeded.
//!
//! **Buffers.** The origin copies results out of the answer, so the operations of a failed peer can be reported at once.
//! Only the message itself is kept until the provider has sent it, with its context if the provider claims contexts
//! ([`claims`]).
//!
//! All of this code runs under the lock of the first context.

mod batch;
mod claims;
mod execute;
#[cfg(test)]
mod hostile;
mod inbox;
mod line;
mod origin;
mod places;
mod port;
mod receives;
mod target;
pub(crate) mod wire;

use std::ptr::NonNull;
use std::sync::Arc;

use libfabric_sys as ffi;
use plugin_api::Status;

pub(crate) use self::batch::{Batch, Ended};
pub(crate) use self::inbox::Arrived;
use self::inbox::{Buffer, Inbox};
use self::line::Asker;
use self::origin::HANDED_ON;
pub(crate) use self::origin::{Broken, Heard, Origin};
pub use self::origin::{Leaves, Sent};
use self::port::Port;
use self::receives::Receives;
use self::target::Target;
pub(crate) use self::wire::{Form, Header, LARGEST, LARGEST_SEND};
use self::wire::{Introduction, Kind, Unread};
use crate::base::error::{Doing, Error, describe};
use crate::base::hints::branch;
use crate::base::lock::Lock;
use crate::fabric::addresses::Addresses;
use crate::fabric::own::OwnMemory;
use crate::mem::regions::Regions;
use crate::op::marked::Message;
use crate::op::request::Request;
use crate::peer::counters::CountersRef;
use crate::peer::endpoint::Endpoint;

/// The endpoints of the first context, and other provider properties that messages need.
pub(crate) struct Provider {
    pub(crate) tx: *mut ffi::fid_ep,
    pub(crate) rx: *mut ffi::fid_ep,
    pub(crate) addresses: Arc<Addresses>,
    /// The address of this process's endpoint.
    pub(crate) address: Vec<u8>,
    /// This process's key: the first word of every message to it.
    pub(crate) key: u64,
    /// The format of addresses (`FI_ADDR_*`, `FI_SOCKADDR*`).
    pub(crate) format: u32,
    /// Number of receives to keep posted.
    pub(crate) receives: usize,
    /// Whether the host sends and receives two-sided messages.
    pub(crate) two_sided: bool,
    /// Maximum words of an answer and of most batches: [`MOST_WORDS`](wire::MOST_WORDS) or
    /// [`MOST_ANSWER`](wire::MOST_ANSWER).
    pub(crate) answer: usize,
    /// Maximum words of a batch of large commands, not less than `answer`.
    pub(crate) longest: usize,
    /// Whether the provider claims the contexts of messages (`FI_CONTEXT`, `FI_CONTEXT2`).
    pub(crate) claims_contexts: bool,
    pub(crate) counters: CountersRef,
}

/// The messages of one transport.
pub(crate) struct Messages {
    port: Port,
    receives: Receives,
    /// This transport as an origin, for calls that need no provider.
    pub(crate) origin: Origin,
    target: Target,
    /// This process's key: the first word of every message to it.
    key: u64,
    /// Whether a message without the key has arrived.
    has_met_strangers: bool,
}

// SAFETY: the pointers are the provider's objects and the endpoints of peers, and are tied to no thread. These pointers
// are used only under the context's lock.
unsafe impl Send for Messages {}

impl Messages {
    /// Posts the receives.
    ///
    /// # Safety
    /// The endpoints are live and enabled, and outlive the carrier or [its closing](Self::close).
    pub(crate) unsafe fn open(provider: Provider) -> Result<Messages, Error> {
        let Provider {
            tx,
            rx,
            addresses,
            address,
            key,
            format,
            receives,
            two_sided,
            answer,
            longest,
            claims_contexts,
            counters,
        } = provider;
        let doing = || String::from("posting receives for messages");
        let words = longest.max(wire::longest(two_sided) / 8);
        // SAFETY: the caller guarantees the endpoints.
        let port = unsafe { Port::new(tx, rx, claims_contexts) }.doing(doing)?;
        let known = Arc::clone(&addresses);
        let mut target = Target::new(addresses, (format, address.clone()), answer);
        target.inbox = two_sided.then(|| Box::new(Inbox::new(receives)));
        let limits = (answer, longest);
        let mut messages = Messages {
            port,
            receives: Receives::default(),
            origin: Origin::new(Introduction { key, address }, known, limits, counters),
            target,
            key,
            has_met_strangers: false,
        };
        for _ in 0..receives {
            let memory = OwnMemory::new(words);
            messages.receives.add(memory, &messages.port).doing(doing)?;
        }
        Ok(messages)
    }

    /// The peer's current batch, if the last command was to the same peer.
    #[inline(always)]
    pub(crate) fn current(&mut self, endpoint: NonNull<Endpoint>) -> Option<&mut Batch> {
        let Origin { last, batches, .. } = &mut self.origin;
        branch();
        match last.endpoint == Some(endpoint) {
            true => batches.get_mut(last.batch as usize),
            false => None,
        }
    }

    /// The batch for a peer, with room for a command of this form. The caller must then call [`Batch::push`]. The flag says
    /// that a new batch was begun because the last one was full. An error comes before side effects:
    /// [`Status::TEMP_OUT_OF_RESOURCE`] if there is no room at the moment.
    ///
    /// # Safety
    /// `endpoint` is live until [`remove`](Self::remove).
    pub(crate) unsafe fn batch(
        &mut self,
        endpoint: NonNull<Endpoint>,
        form: &Form,
    ) -> Result<(&mut Batch, bool), Status> {
        // SAFETY: the caller guarantees the endpoint.
        unsafe { self.origin.batch(&self.port, endpoint, form) }
    }

    /// Adds a put and, behind it in the same batch, a notification: an update with one word by value. The put and the
    /// notification are one operation, and the caller must then call [`Batch::count`] or [`Batch::expect`]. Otherwise
    /// the same as [`batch`](Self::batch).
    ///
    /// # Safety
    /// The conditions of [`batch`](Self::batch); the operands of the put are readable, and `form` is its form.
    pub(crate) unsafe fn gather_notified(
        &mut self,
        endpoint: NonNull<Endpoint>,
        put: (&Request, &Form),
        notice: &Request,
    ) -> Result<(&mut Batch, bool), Status> {
        // SAFETY: the caller guarantees the endpoint and the operands.
        unsafe {
            self.origin
                .gather_notified(&self.port, endpoint, put, notice)
        }
    }

    /// Sends bytes of the host with a tag. The bytes leave at once if the line to the peer is idle; otherwise they share a
    /// batch with other commands. The bytes are copied, so the transport does not use the caller's memory afterwards. After
    /// an error nothing is sent; [`Leaves::Now`] may have called `fill`.
    ///
    /// # Safety
    /// `endpoint` is live until [`remove`](Self::remove). The size is at most [`LARGEST_SEND`], and `fill` writes that
    /// many bytes.
    pub(crate) unsafe fn send(
        &mut self,
        endpoint: NonNull<Endpoint>,
        message: (u8, usize, Leaves),
        is_alone: bool,
        fill: impl FnOnce(*mut u8),
    ) -> Result<Sent, Status> {
        let is_alone = is_alone && self.target.owed_bytes() <= HANDED_ON;
        // SAFETY: the caller guarantees the endpoint and `fill`.
        unsafe {
            self.origin
                .send(&self.port, endpoint, message, is_alone, fill)
        }
    }

    /// Returns the sends of peers that this thread must pass to the host now; `None` if there are none, or while another
    /// thread passes sends. The caller must then call [`next_delivery`](Self::next_delivery).
    #[inline]
    pub(crate) fn begin_delivery(&mut self, thread: usize) -> Option<Arrived> {
        self.target.inbox.as_mut()?.begin(thread)
    }

    /// The number of the thread that is passing sends to the host.
    #[inline]
    pub(crate) fn deliverer(&self) -> Option<usize> {
        self.target.inbox.as_ref()?.deliverer()
    }

    /// Takes back the buffer of a message that the host has processed, and returns the next message; `None` ends the
    /// delivery.
    pub(crate) fn next_delivery(&mut self, done: Arrived) -> Option<Arrived> {
        let Messages {
            target,
            receives,
            port,
            ..
        } = self;
        let post = |receive| receives.post(receive, port);
        target.inbox.as_mut()?.next(done, post)
    }

    /// Whether so many sends wait for the host that nothing more may be received.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.target.inbox.as_ref().is_some_and(|i| i.is_full())
    }

    /// Records the address of a connected peer's endpoint, so that the peer's sends name it.
    pub(crate) fn connect(&mut self, endpoint: NonNull<Endpoint>) {
        self.target.connect(endpoint);
    }

    /// Whether something must be sent or posted.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.origin.has_work() || self.target.has_unsent() || self.receives.has_unposted()
    }

    /// Sends everything that may be sent, and posts receives that had no room before.
    #[inline(never)]
    pub(crate) fn send_waiting(&mut self) {
        self.receives.post_waiting(&self.port);
        self.target.send_waiting(&self.port);
        self.send_batches(Asker::Progress);
    }

    /// Sends batches, with the answers that are piggybacked on them.
    fn send_batches(&mut self, asker: Asker) {
        self.origin
            .send_waiting(&self.port, asker, Some(&mut self.target));
        self.target.send_late_answers(&self.port);
    }

    /// Sends the current batches as far as the lines have room, because peers wait for them.
    pub(crate) fn send_for_peers(&mut self) {
        self.send_batches(Asker::Peers);
    }

    /// Handles the completion of a message; `bytes` is the size of a received message. Executes the commands of a batch, or
    /// ends the operations that an answer covers. The caller then takes these operations from [`Origin::ended`].
    pub(crate) fn completed(
        &mut self,
        (message, bytes): (Message, usize),
        regions: &Lock<Regions>,
    ) {
        match message {
            Message::Receive(number) => {
                self.received((number, bytes), regions);
                if self.target.keeps(number) {
                    // The receive is posted again after the host has taken the sends in its buffer.
                } else if self.target.has_sends() {
                    // The host waits for the sends that arrived, so the receive is posted by the
                    // next progress.
                    self.receives.post_later(number);
                } else {
                    self.receives.post(number, &self.port);
                }
            }
            Message::Batch(number) => self.origin.sent(number),
            Message::Answer(number) => self.target.sent(number),
        }
        if self.target.has_held() {
            self.target.execute_held(&self.port, regions);
        }
    }

    /// Handles the failure of a message.
    #[cold]
    pub(crate) fn failed(&mut self, message: Message, code: i32) {
        match message {
            Message::Receive(number) => {
                tracing::warn!("a message could not be received: {}", describe(code));
                self.receives.post_later(number);
            }
            Message::Batch(number) => self.origin.failed(number, code),
            Message::Answer(number) => self.target.answer_failed(number, code),
        }
    }

    fn received(&mut self, (number, bytes): (u32, usize), regions: &Lock<Regions>) {
        // SAFETY: the receive to the buffer has ended, and the code that handles the content does not use the
        // buffers.
        let buffer = unsafe { self.receives.words(number) };
        let handled = match Header::read(buffer, bytes, self.key) {
            Err(Unread::Stranger) => {
                self.meet_stranger();
                return;
            }
            Err(Unread::Wrong(why)) => Err(why),
            Ok((header, words, behind)) => match header.kind {
                Kind::Batch | Kind::Patient | Kind::Unanswered => {
                    let buffer = Buffer {
                        receive: number,
                        words: self.receives.first_word(number),
                    };
                    let batch = (header, words);
                    let executed = self.target.execute(&self.port, batch, buffer, regions);
                    let answered = self.received_behind(behind);
                    executed.and(answered)
                }
                _ if !behind.is_empty() => Err("it is followed by another one"),
                Kind::Answer | Kind::Refusal => self.origin.answered(header, words),
                Kind::Farewell => self.target.remove_client(&header),
                Kind::Alive => self.target.asked(&self.port, &header, words),
                Kind::Receipt => self.origin.told(&header),
            },
        };
        if let Err(why) = handled {
            tracing::warn!("a message of another process is ignored: {why}");
        }
    }

    /// Handles the answers behind a batch.
    fn received_behind(&mut self, mut words: &mut [u64]) -> Result<(), &'static str> {
        while !words.is_empty() {
            let bytes = size_of_val(words);
            let Ok((header, answer, behind)) = Header::read(words, bytes, self.key) else {
                return Err("no message follows its batch");
            };
            if !matches!(header.kind, Kind::Answer | Kind::Refusal) {
                return Err("another message than an answer follows its batch");
            }
            self.origin.answered(header, answer)?;
            words = behind;
        }
        Ok(())
    }

    /// Records a message of a process that does not know this process's key. Only the first such message is logged,
    /// because its sender may send many.
    #[cold]
    #[inline(never)]
    fn meet_stranger(&mut self) {
        if !std::mem::replace(&mut self.has_met_strangers, true) {
            tracing::warn!(
                "a message of a process that is not of this job is ignored; further ones are without a word"
            );
        }
    }

    /// Ends all sends and posts. The caller has closed the endpoints.
    #[cold]
    pub(crate) fn close(&mut self) {
        self.port.closed = true;
        self.receives.close();
        self.origin.close();
        self.target.close();
    }

    /// Removes the line to a released peer. Returns its unfinished operations, which fail.
    pub(crate) fn remove(&mut self, endpoint: NonNull<Endpoint>, status: Status) -> Ended {
        self.target.disconnect(endpoint);
        self.origin.remove(&self.port, endpoint, status)
    }

    /// Asks peers with late answers for receipts, to learn whether the connection works and whether a message was lost on
    /// an earlier connection. With `all`, also asks peers whose unanswered batches have no answer due.
    #[cold]
    pub(crate) fn send_alive(&mut self, all: bool) {
        self.origin.send_alive(&self.port, all);
    }

    /// Peers that were heard over messages: they answered this process, or sent a batch to it.
    pub(crate) fn heard(&self) -> Heard {
        self.origin.heard(self.target.origins().collect())
    }

    /// Sends a heartbeat to a peer: an empty batch, which the peer's progress answers.
    ///
    /// # Safety
    /// `endpoint` is live until [`remove`](Self::remove).
    #[cold]
    pub(crate) unsafe fn ask(&mut self, endpoint: NonNull<Endpoint>) {
        // SAFETY: the caller guarantees the endpoint.
        unsafe { self.origin.ask(&self.port, endpoint) };
    }

    /// Removes the line to a peer that left, if only heartbeats are unanswered on it. Returns whether the line
    /// was removed.
    #[cold]
    pub(crate) fn remove_idle(&mut self, endpoint: NonNull<Endpoint>) -> bool {
        self.origin.remove_idle(&self.port, endpoint)
    }

    /// Whether the next call of progress suffices for a command that is added now and for the commands before it, and none of
    /// these has a result.
    #[cold]
    pub(crate) fn leaves_at_once(&self, endpoint: NonNull<Endpoint>) -> bool {
        self.target.owed_bytes() <= HANDED_ON && self.origin.leaves_at_once(endpoint)
    }

    /// Sends receipts for executed commands that no answer covers, because this process leaves.
    #[cold]
    pub(crate) fn part(&mut self) {
        if !self.port.closed {
            self.target.part(&self.port);
        }
    }

    /// Whether receipts are not sent yet, or the provider still reads them.
    pub(crate) fn owes_receipts(&self) -> bool {
        !self.port.closed && self.target.owes_receipts()
    }

    /// Whether answers or sends are not sent yet, or the provider still reads them. With `endpoint`, only sends to that
    /// peer count. These messages are in no count of operations.
    pub(crate) fn is_sending(&self, endpoint: Option<NonNull<Endpoint>>) -> bool {
        let answers = endpoint.is_none() && self.target.owes_answers();
        !self.port.closed && (answers || self.origin.is_sending(endpoint))
    }
}
