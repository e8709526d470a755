//! Messages: the carrier of commands between nodes.
//!
//! Providers that execute RMA and atomics in software send a request and an acknowledgement for each operation. Here many
//! operations share one message, and one answer covers them all. An origin has a [`Line`] to each target. Commands gather in
//! the line's current [`Batch`]. The batch is sent when it is full, or by the next progress call while few batches are
//! unanswered: a single operation is sent at once, and with more operations, more of them gather. The target's progress hands
//! the commands to its responder (`op::responder`), which also serves the rings.
//!
//! **Complete means visible**: the answer is sent after the target's processor has executed the batch.
//!
//! **Order.** Batches are numbered. The target executes them in the order of their numbers, and keeps a batch that arrives
//! early until its turn. So the commands of one origin are executed in the order in which they were issued. The transport does
//! not request `FI_ORDER_SAS`: rxm offers it, but lets a short message overtake a message that rxm sends in parts (1.17).
//!
//! **Room.** A line has at most [`WINDOW`](line::WINDOW) unanswered batches and at most [`MOST_WAITING`](line::MOST_WAITING)
//! waiting ones; then it refuses commands for the moment. Over TCP within a machine, the line also sends nothing while
//! `btl_ofi_stream_window` bytes are unanswered (reason: `engine::compound::streams`). The provider keeps messages for which no
//! receive is posted (`FI_RM_ENABLED`), and returns `FI_EAGAIN` to the sender if it cannot; a later progress sends the rest.
//!
//! **Introduction.** A target also answers origins that it did not connect itself: an origin's first batch carries the origin's
//! key and endpoint address, and is sent alone; the answer gives the origin its client number.
//!
//! **Strangers.** Providers over TCP accept messages from any process. Each process has a random key, published with its
//! address. Every message to the process begins with the key; other messages are ignored. The provider reports the length of a
//! message.
//!
//! **Sends.** The host's own messages (two-sided) travel in the same batches. Their bytes are copied when they are sent, so no
//! operation waits for them. Most batches that hold only sends are not answered: the answer to a later batch covers them, or a
//! receipt. At the target they go to the [inbox](inbox), from which progress hands them to the host without the lock.
//!
//! **Notifications.** A put and the notification behind it travel in one batch. The target executes the notification after
//! the put, and only if the put succeeded.
//!
//! **Buffers.** The origin copies results out of the answer, so the operations of a failed peer can be reported at once. Only
//! the message itself stays until the provider has sent it.
//!
//! All of this is used under the lock of the first context.

mod batch;
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
pub(crate) use self::origin::{Broken, Heard};
use self::origin::{HANDED_ON, Origin};
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
    /// Whether the host sends and receives messages of its own.
    pub(crate) two_sided: bool,
    /// Words of the longest answer, and of most batches: [`MOST_WORDS`](wire::MOST_WORDS) or
    /// [`MOST_ANSWER`](wire::MOST_ANSWER).
    pub(crate) answer: usize,
    /// Words of the longest batch of large commands, no less than `answer`.
    pub(crate) longest: usize,
    /// Bytes on the way to a peer after which it is sent nothing before an answer.
    pub(crate) window: usize,
    pub(crate) counters: CountersRef,
}

/// The messages of one transport.
pub(crate) struct Messages {
    port: Port,
    receives: Receives,
    origin: Origin,
    target: Target,
    /// This process's key: the first word of every message to it.
    key: u64,
    /// Whether a message came without the key.
    has_met_strangers: bool,
}

// SAFETY: the pointers are the provider's objects and the endpoints of peers, which are tied to no thread. They are used
// only under the context's lock.
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
            window,
            counters,
        } = provider;
        let doing = || String::from("posting receives for messages");
        let words = longest.max(wire::longest(two_sided) / 8);
        // SAFETY: the caller guarantees the endpoints.
        let port = unsafe { Port::new(tx, rx) }.doing(doing)?;
        let known = Arc::clone(&addresses);
        let mut target = Target::new(addresses, (format, address.clone()), answer);
        target.inbox = two_sided.then(|| Box::new(Inbox::new(receives)));
        let limits = (answer, longest, window);
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

    /// The batch that gathers for a peer, if the last command was for it too, and a command of this form fits without beginning
    /// another batch and without allocating; nor does [`expect`](Batch::expect) allocate then.
    #[inline(always)]
    pub(crate) fn gathering(
        &mut self,
        endpoint: NonNull<Endpoint>,
        form: &Form,
        is_expected: bool,
    ) -> Option<&mut Batch> {
        let Origin { last, batches, .. } = &mut self.origin;
        branch();
        if last.endpoint != Some(endpoint) {
            return None;
        }
        let batch = batches.get_mut(last.batch as usize)?;
        batch.takes_at_once(form, is_expected).then_some(batch)
    }

    /// The batch for a peer, with room for a command of this form: [`Batch::push`] must follow. The flag says that this began
    /// another batch, because one was full. An error comes before side effects: [`Status::TEMP_OUT_OF_RESOURCE`] if there is
    /// no room at the moment.
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

    /// Adds a put and, behind it in the same batch, a notification: an update with one word by value. They are one operation:
    /// [`Batch::count`] or [`Batch::expect`] must follow. Otherwise as [`batch`](Self::batch).
    ///
    /// # Safety
    /// As for [`batch`](Self::batch); the operands of the put, whose form it is, are readable.
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

    /// Sends bytes of the host with a tag: at once if the line to the peer is idle, else gathered with others. They are
    /// copied, so nothing of the caller's is used afterwards. After an error nothing is sent; [`Leaves::Now`] may have called `fill`.
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

    /// Whether a send to a peer has left.
    pub(crate) fn has_sent(&self, endpoint: NonNull<Endpoint>, sent: Sent) -> bool {
        self.origin.has_sent(endpoint, sent)
    }

    /// Sends of peers that this thread, which has a number, is to hand to the host now; `None` if there are none, or if a
    /// thread is doing so. [`next_delivery`](Self::next_delivery) must follow.
    #[inline]
    pub(crate) fn begin_delivery(&mut self, thread: usize) -> Option<Arrived> {
        self.target.inbox.as_mut()?.begin(thread)
    }

    /// The number of the thread that is handing sends to the host.
    #[inline]
    pub(crate) fn deliverer(&self) -> Option<usize> {
        self.target.inbox.as_ref()?.deliverer()
    }

    /// Takes back the buffer of a message that the host has processed, and returns the next message; `None` ends the delivery.
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

    /// Whether so much waits for the host that nothing more is to be received.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.target.inbox.as_ref().is_some_and(|i| i.is_full())
    }

    /// Notes the address of a connected peer's endpoint, so that its sends name it.
    pub(crate) fn connect(&mut self, endpoint: NonNull<Endpoint>) {
        self.target.connect(endpoint);
    }

    /// Whether something is to be sent or posted.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.origin.has_work() || self.target.has_unsent() || self.receives.has_unposted()
    }

    /// Sends what may be sent, and posts receives that had no room before.
    #[inline(never)]
    pub(crate) fn send_waiting(&mut self) {
        self.receives.post_waiting(&self.port);
        self.target.send_waiting(&self.port);
        self.origin.send_waiting(&self.port, Asker::Progress);
    }

    /// Sends what gathered, as far as the lines have room: peers wait for it.
    pub(crate) fn send_for_peers(&mut self) {
        self.origin.send_waiting(&self.port, Asker::Peers);
    }

    /// Handles the completion of a message; `bytes` is the size of a received message. Executes the commands of a batch, or
    /// ends the operations that an answer covers; the caller then [takes](Self::ended) them.
    pub(crate) fn completed(
        &mut self,
        (message, bytes): (Message, usize),
        regions: &Lock<Regions>,
    ) {
        match message {
            Message::Receive(number) => {
                self.received((number, bytes), regions);
                if self.target.keeps(number) {
                    // It is posted when the host has taken what came.
                } else if self.target.has_sends() {
                    // The host waits for what came: the next progress posts the receive again.
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
        // SAFETY: the receive to the buffer has ended, and what handles its content does not use the buffers.
        let buffer = unsafe { self.receives.words(number) };
        let handled = match Header::read(buffer, bytes, self.key) {
            Err(Unread::Stranger) => {
                self.meet_stranger();
                return;
            }
            Err(Unread::Wrong(why)) => Err(why),
            Ok((header, words)) => match header.kind {
                Kind::Batch | Kind::Unanswered => {
                    let buffer = Buffer {
                        receive: number,
                        words: self.receives.first_word(number),
                    };
                    let batch = (header, words);
                    self.target.execute(&self.port, batch, buffer, regions)
                }
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

    /// Notes a message of a process that does not know this one's key. It is told once: who sends one may send many.
    #[cold]
    #[inline(never)]
    fn meet_stranger(&mut self) {
        if !std::mem::replace(&mut self.has_met_strangers, true) {
            tracing::warn!(
                "a message of a process that is not of this job is ignored; further ones are without a word"
            );
        }
    }

    /// Operations that are over and were not taken yet.
    #[inline]
    pub(crate) fn ended(&mut self) -> &mut Ended {
        &mut self.origin.ended
    }

    /// Whether operations or peers failed that were not taken yet.
    #[inline]
    pub(crate) fn has_failures(&self) -> bool {
        self.origin.has_failures()
    }

    /// The endpoints are closed: nothing is sent or posted any more.
    #[cold]
    pub(crate) fn close(&mut self) {
        self.port.closed = true;
        self.receives.close();
        self.origin.close();
        self.target.close();
    }

    /// A peer to which a message could not be sent, or was lost.
    pub(crate) fn take_broken(&mut self) -> Option<(NonNull<Endpoint>, Broken)> {
        self.origin.broken.pop()
    }

    /// Ends all operations to a peer as failed, and returns them.
    #[cold]
    pub(crate) fn abandon(&mut self, endpoint: NonNull<Endpoint>, status: Status) -> Ended {
        self.origin.abandon(endpoint, status)
    }

    /// Removes the line to a peer that is released. Returns the operations that were not over, which fail.
    pub(crate) fn remove(&mut self, endpoint: NonNull<Endpoint>, status: Status) -> Ended {
        self.target.disconnect(endpoint);
        self.origin.remove(&self.port, endpoint, status)
    }

    /// Asks peers whose answers are late for receipts, to learn whether the connection still stands, and whether something was
    /// lost with an earlier one; `all`: also peers with batches of which no answer is due.
    #[cold]
    pub(crate) fn send_alive(&mut self, all: bool) {
        self.origin.send_alive(&self.port, all);
    }

    /// Peers that were heard over messages: they answered this process, or sent it a batch.
    pub(crate) fn heard(&self) -> Heard {
        self.origin.heard(self.target.origins().collect())
    }

    /// Peers that were asked by heartbeats and have not answered since.
    pub(crate) fn asked(&self) -> impl Iterator<Item = NonNull<Endpoint>> {
        self.origin.asked()
    }

    /// Sends a heartbeat to a peer: an empty batch, which its process answers in its progress.
    ///
    /// # Safety
    /// `endpoint` is live until [`remove`](Self::remove).
    #[cold]
    pub(crate) unsafe fn ask(&mut self, endpoint: NonNull<Endpoint>) {
        // SAFETY: the caller guarantees the endpoint.
        unsafe { self.origin.ask(&self.port, endpoint) };
    }

    /// Removes the line to a peer that left, if heartbeats alone are unanswered there. Returns whether it was so.
    #[cold]
    pub(crate) fn remove_idle(&mut self, endpoint: NonNull<Endpoint>) -> bool {
        self.origin.remove_idle(&self.port, endpoint)
    }

    /// Whether there is a line of messages to a peer.
    pub(crate) fn has_line(&self, endpoint: NonNull<Endpoint>) -> bool {
        self.origin.has_line(endpoint)
    }

    /// Peers for which the provider took no message when it was asked last.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = NonNull<Endpoint>> {
        self.origin.stuck()
    }

    /// Tells peers what was executed here and not answered yet, because this process leaves.
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

    /// Whether answers or sends are not sent yet, or the provider still reads them: sends to one peer, or all of both. No
    /// count of operations has them.
    pub(crate) fn is_sending(&self, endpoint: Option<NonNull<Endpoint>>) -> bool {
        let answers = endpoint.is_none() && self.target.owes_answers();
        !self.port.closed && (answers || self.origin.is_sending(endpoint))
    }
}
