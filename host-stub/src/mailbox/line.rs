//! The mailbox of one rank: its region, and the state of the rings between it and every other.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use plugin_api::{Access, Endpoint, Handle, Module, ModuleFlags, Status};

use super::header::Header;
use super::layout::Layout;
use super::look::FAILED;
use super::packing::{all_there, pack, pack_bytes, unpack, unpack_bytes, words_of};
use super::track::{Track, track_done};
use crate::base::Pages;
use crate::loader::HandleCopy;
use crate::loader::{EndpointRef, Registration, Transport, TransportError};

/// The reason why a mailbox could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MailboxError {
    #[error("there is no memory of {0} B for mailboxes")]
    Memory(usize),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("mailboxes need {wanted} of the transport; {provider} has {found}")]
    Unfit {
        provider: String,
        wanted: &'static str,
        found: String,
    },
    #[error("the mailbox card of rank {rank} has {found} B, wanted {wanted}")]
    Card {
        rank: usize,
        found: usize,
        wanted: usize,
    },
}

/// This rank's data about the rings between it and a peer.
pub(super) struct Line {
    pub(super) endpoint: EndpointRef,
    /// The address of the peer's region in the peer's process.
    pub(super) base: u64,
    pub(super) handle: HandleCopy,
    /// The number of messages sent.
    sent: u64,
    /// The number of sent messages that the peer has reported as taken.
    taken_there: u64,
    /// The number of messages taken here.
    taken: u64,
    /// The number of messages that this rank has reported as taken.
    told: u64,
    /// Puts from the staging slots, one track each.
    staged: Box<[Track]>,
    /// The put that reports how many messages were taken.
    telling: Box<Track>,
    /// The gets that check whether the peer is alive.
    pub(super) looking: Box<Track>,
}

impl Line {
    /// The status of a failed put to the peer.
    pub(super) fn failure(&self) -> Option<Status> {
        let mut puts = self.staged.iter().chain([&*self.telling]);
        puts.find_map(Track::failure)
    }
}

/// The size of the put that carries a payload and a header word, in bytes.
const fn message(payload: usize) -> usize {
    (1 + words_of(payload)) * size_of::<u64>()
}

/// The mailbox of this rank, and its connections to the mailboxes of other ranks. Calls must not
/// overlap.
pub(crate) struct Mailbox {
    pub(super) transport: Transport,
    pub(super) me: usize,
    pub(super) layout: Layout,
    // Declared before `pages`: fields are dropped in this order, and a registration must not
    // outlive its memory.
    registration: Option<Registration>,
    pages: Option<Pages>,
    base: *mut AtomicU64,
    pub(super) lines: Vec<Line>,
    /// Whether every rank has left the job, so that none writes to this region any more.
    every_rank_left: bool,
}

// SAFETY: `base` points into `pages`, which belong to the mailbox; all other fields are Send.
unsafe impl Send for Mailbox {}

impl Mailbox {
    /// Makes a mailbox for a job of `ranks` ranks; unusable before [`connect`](Self::connect).
    pub(crate) fn new(
        transport: &Transport,
        me: usize,
        ranks: usize,
    ) -> Result<Mailbox, MailboxError> {
        let attributes = transport.attributes();
        let unfit = |wanted, found: String| MailboxError::Unfit {
            provider: attributes.provider.clone(),
            wanted,
            found,
        };
        let wanted = ModuleFlags::PUT | ModuleFlags::GET | ModuleFlags::RDMA_REMOTE_COMPLETION;
        if !attributes.flags.contains(wanted) {
            return Err(unfit(
                "put, get and remote completion",
                format!("{:?}", attributes.flags),
            ));
        }
        if attributes.put_alignment > 1 || attributes.get_alignment > 1 {
            let (put, get) = (attributes.put_alignment, attributes.get_alignment);
            return Err(unfit(
                "puts and gets of single bytes",
                format!("alignments of {put} and {get} B"),
            ));
        }
        let layout = Layout::new(ranks, attributes.put_limit);
        // An offer consists of an address, a length, a name and a handle.
        let least = 24 + attributes.handle_size;
        if layout.capacity() < least {
            return Err(unfit(
                "puts long enough for an offer",
                format!("a limit of {} B", attributes.put_limit),
            ));
        }
        let bytes = layout.bytes();
        let pages = Pages::new(bytes).ok_or(MailboxError::Memory(bytes))?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        // SAFETY: the pages live until after the registration ends (field order), and the bytes
        // that peers write are read only as atomics.
        let registration = unsafe { transport.register(pages.base(), bytes, access) }?;
        Ok(Mailbox {
            transport: transport.clone(),
            me,
            layout,
            base: pages.base().cast(),
            registration: Some(registration),
            pages: Some(pages),
            lines: Vec::new(),
            every_rank_left: false,
        })
    }

    /// The card of this rank: the data that every other rank needs.
    pub(crate) fn card(&self) -> Vec<u8> {
        let mut card = (self.base as u64).to_ne_bytes().to_vec();
        if let Some(registration) = &self.registration {
            card.extend_from_slice(registration.handle_bytes());
        }
        card
    }

    /// States that every rank has left the job. Otherwise the region's memory is never freed.
    pub(crate) fn every_rank_left(&mut self) {
        self.every_rank_left = true;
    }

    /// Learns the addresses of all ranks' regions from their cards.
    pub(crate) fn connect(
        &mut self,
        endpoints: &[EndpointRef],
        cards: &[Vec<u8>],
    ) -> Result<(), MailboxError> {
        let wanted = 8 + self.transport.attributes().handle_size;
        let mut lines = Vec::with_capacity(cards.len());
        for (rank, (endpoint, card)) in endpoints.iter().zip(cards).enumerate() {
            let (base, handle) = card
                .split_first_chunk::<8>()
                .filter(|_| card.len() == wanted)
                .ok_or(MailboxError::Card {
                    rank,
                    found: card.len(),
                    wanted,
                })?;
            lines.push(Line {
                endpoint: *endpoint,
                base: u64::from_ne_bytes(*base),
                handle: HandleCopy::new(handle),
                sent: 0,
                taken_there: 0,
                taken: 0,
                told: 0,
                staged: (0..self.layout.slots).map(|_| Track::default()).collect(),
                telling: Box::default(),
                looking: Box::default(),
            });
        }
        self.lines = lines;
        Ok(())
    }

    /// The maximum payload bytes of a message.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.layout.capacity()
    }

    /// The endpoint of a rank.
    #[inline]
    pub(crate) fn endpoint(&self, rank: usize) -> EndpointRef {
        self.lines[rank].endpoint
    }

    #[inline]
    pub(super) fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        debug_assert!((at + count) * 8 <= self.layout.bytes());
        // SAFETY: the layout's indices lie inside the region, which is page-aligned, zeroed, and
        // lives as long as `self`. Peers write the region from outside the process, which is valid
        // for atomics.
        unsafe { std::slice::from_raw_parts(self.base.add(at), count) }
    }

    /// Sends a message, whose payload is copied. False if there is no room now: the caller takes
    /// arrived messages, makes progress, and tries again. A rank never sends to itself.
    pub(crate) fn send(
        &mut self,
        to: usize,
        header: Header,
        payload: &[u8],
    ) -> Result<bool, Status> {
        debug_assert!(to != self.me && payload.len() <= self.capacity());
        let slots = self.layout.slots as u64;
        if self.lines[to].sent - self.lines[to].taken_there >= slots {
            let told = self.words(self.layout.credit(to), 1).as_ptr();
            // SAFETY: this is the first byte of a word of the region; a single byte is never torn.
            let told = unsafe { AtomicU8::from_ptr(told.cast_mut().cast()) };
            // Acquire pairs with the receiver's report, which follows the clearing of the slot.
            let told = told.load(Ordering::Acquire);
            let line = &mut self.lines[to];
            // A ring has at most 128 slots, so the difference is the number of newly taken
            // messages.
            line.taken_there += u64::from(told.wrapping_sub(line.taken_there as u8));
            if line.sent - line.taken_there >= slots {
                // A lost message is never taken, nor is any later message.
                return line.failure().map_or(Ok(false), Err);
            }
        }
        let line = &self.lines[to];
        let slot = (line.sent % slots) as usize;
        let track = &line.staged[slot];
        if !track.is_idle() {
            return Ok(false);
        }
        if let Some(status) = track.failure() {
            return Err(status);
        }
        let at = self.layout.staging(to, slot);
        let bytes = message(payload.len());
        let count = bytes / size_of::<u64>();
        // SAFETY: only this rank writes the staging slot, and no put reads it (the track is idle,
        // see above).
        let words = unsafe { std::slice::from_raw_parts_mut(self.base.add(at).cast(), count) };
        words[0] = pack(header.bits());
        pack_bytes(payload, &mut words[1..]);
        let remote = line.base + 8 * self.layout.inbox(self.me, slot) as u64;
        let sent = self.put(to, at, remote, bytes, track)?;
        if sent {
            self.lines[to].sent += 1;
        }
        Ok(sent)
    }

    /// Puts bytes of this region to a peer's region; false if the transport is busy.
    fn put(
        &self,
        to: usize,
        at: usize,
        remote: u64,
        len: usize,
        track: &Track,
    ) -> Result<bool, Status> {
        let line = &self.lines[to];
        let local = self.words(at, 1).as_ptr().cast::<u8>();
        let given_up = std::ptr::from_ref(self.given_up(to)).cast_mut();
        track.begin();
        // SAFETY: the endpoint belongs to the job. The local bytes stay until the track is idle.
        // The remote bytes lie in the peer's region, which has the same layout and lives until
        // every rank has left the job. The callback gets a track and a word of this region, which
        // both stay until the track is idle.
        let status = unsafe {
            self.transport.put(
                line.endpoint,
                (local, self.handle()),
                (remote, line.handle.as_ptr()),
                len,
                (Some(put_done), track.context(), given_up.cast()),
            )
        };
        posted(status, track)
    }

    pub(super) fn handle(&self) -> *mut Handle {
        self.registration
            .as_ref()
            .map_or(std::ptr::null_mut(), Registration::handle_ptr)
    }

    /// The header of the first message from a rank, if the message has arrived completely.
    #[inline]
    pub(crate) fn poll(&self, from: usize) -> Option<Result<Header, Status>> {
        let line = &self.lines[from];
        let at = self
            .layout
            .inbox(from, (line.taken % self.layout.slots as u64) as usize);
        let first = self.words(at, 1)[0].load(Ordering::Relaxed);
        let header = match Header::from_bits(unpack(first)?) {
            Some(header) if header.len <= self.capacity() => header,
            _ => return Some(Err(Status::ERROR)),
        };
        all_there(self.words(at + 1, words_of(header.len))).then_some(Ok(header))
    }

    /// Copies the payload of the message that [`poll`](Self::poll) found, and frees its slot.
    pub(crate) fn take(&mut self, from: usize, header: Header, into: &mut [u8]) {
        let slots = self.layout.slots as u64;
        let line = &self.lines[from];
        let at = self.layout.inbox(from, (line.taken % slots) as usize);
        let count = words_of(header.len);
        let words = self.words(at, 1 + count);
        unpack_bytes(&words[1..], into);
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        let line = &mut self.lines[from];
        line.taken += 1;
        if line.taken - line.told >= slots / 2 {
            self.tell(from);
        }
    }

    /// Whether this rank should report to `to` that messages were taken, because `to` may wait for
    /// the report.
    #[inline]
    pub(crate) fn owes(&self, to: usize) -> bool {
        let line = &self.lines[to];
        line.taken - line.told >= self.layout.slots as u64 / 2
    }

    /// Reports to a rank how many of its messages were taken, unless such a put is outstanding,
    /// because two such puts could overtake each other. The next look reports a failure.
    pub(crate) fn tell(&mut self, to: usize) {
        let line = &self.lines[to];
        if !line.telling.is_idle() {
            return;
        }
        let taken = line.taken;
        let at = self.layout.given(to);
        let remote = line.base + 8 * self.layout.credit(self.me) as u64;
        // The slots were cleared before. Release prevents that the peer sees a slot as taken before
        // the slot is cleared.
        self.words(at, 1)[0].store(u64::from_ne_bytes([taken as u8; 8]), Ordering::Release);
        if let Ok(true) = self.put(to, at, remote, 1, &line.telling) {
            self.lines[to].told = taken;
        }
    }

    fn is_idle(&self) -> bool {
        self.lines.iter().all(|line| {
            line.staged.iter().all(Track::is_idle)
                && line.telling.is_idle()
                && line.looking.is_idle()
        })
    }
}

/// The callback of puts to a rank: `data` is the word in which the callback records a failed put.
unsafe extern "C" fn put_done(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    if status < 0 {
        // SAFETY: `put` passed a word of the region, which stays until the track is idle; the track
        // becomes idle below.
        unsafe { &*data.cast::<AtomicU64>() }.store(FAILED, Ordering::Relaxed);
    }
    // SAFETY: the context is a track.
    unsafe {
        track_done(
            module,
            endpoint,
            local_address,
            local_handle,
            context,
            data,
            status,
        );
    }
}

/// Converts the result of a post: true if accepted, false if the transport is busy.
#[inline]
pub(crate) fn posted(status: Status, track: &Track) -> Result<bool, Status> {
    match status {
        Status::SUCCESS => Ok(true),
        // Any other status means that no callback runs.
        status => {
            track.end(0);
            if status.is_again() {
                return Ok(false);
            }
            status.ok().map(|_| true)
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if !self.is_idle() {
            // The rank gave up operations that may still access the memory, so the memory stays.
            tracing::warn!("a mailbox ended with operations under way; its memory stays");
            std::mem::forget(self.registration.take());
            std::mem::forget(std::mem::take(&mut self.lines));
            std::mem::forget(self.pages.take());
        } else if !self.every_rank_left {
            // A rank that was stopped, and believed lost, may write to the memory when it continues: on one node the kernel
            // copies to addresses, and knows of no registrations.
            self.registration = None;
            std::mem::forget(self.pages.take());
        }
    }
}
