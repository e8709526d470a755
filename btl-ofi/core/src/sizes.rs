//! Sizes of messages and of what a transport keeps, for models of jobs that are larger than any at hand (`benches`, `model`).
//!
//! They come from the code that sends and stores, so a model that uses them cannot differ from it.

use std::mem::offset_of;

use plugin_api::AtomicKind;
use plugin_api::counters::{PeerCounters, SLOTS as COUNTED_PEERS, Share, start_of};

use crate::fabric::msg::{self, Form, Header, MOST_WORDS};
use crate::op::responder::{GET, PUT};
use crate::peer::endpoint::{Endpoint, LocalPeer};
use crate::sm::pool::BLOCKS;
use crate::sm::requester::RECORD;
use crate::sm::segment::{Front, PAGE, PAYLOAD, SLOTS};

const WORD: usize = size_of::<u64>();

/// Bytes with which each message begins, commands and answers alike.
pub const MESSAGE_HEADER: usize = Header::WORDS * WORD;
/// Bytes of the longest message.
pub const MESSAGE_MOST: usize = MOST_WORDS * WORD;
/// Bytes of a receive that is posted for messages.
pub const RECEIVE: usize = MESSAGE_MOST;
/// Bytes of a remote peer and of a local one, without their places in the index.
pub const REMOTE_PEER: usize = size_of::<Endpoint>();
/// See [`REMOTE_PEER`].
pub const LOCAL_PEER: usize = size_of::<LocalPeer>();
/// Local peers that have a ring at a process.
pub const RINGS: usize = crate::sm::ring::RINGS;
/// Bytes of a ring, at its target.
pub const RING: usize = 3 * PAGE;
/// Bytes of the records of a ring's commands, at their origin.
pub const RING_RECORDS: usize = SLOTS as usize * RECORD;
/// Bytes of a segment before its rings.
pub const SEGMENT_FRONT: usize = size_of::<Front>();
/// Bytes of the payloads that all rings of a segment share, once all are in use.
pub const SEGMENT_PAYLOADS: usize = BLOCKS * PAYLOAD;

/// A request that travels as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A put of so many bytes, or an accumulate without result.
    Put(usize),
    /// A get of so many bytes.
    Get(usize),
    /// An addition to one word.
    Add,
    /// The same with the old value as result.
    FetchAdd,
    /// A compare-and-swap of one word.
    CompareSwap,
    /// A put of so many bytes and the notification behind it.
    Notified(usize),
}

/// Bytes that a request adds to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSize {
    /// If it names its region.
    pub first: usize,
    /// If its region is that of the request before.
    pub next: usize,
    /// In the answer.
    pub answer: usize,
}

impl Request {
    /// The bytes of this request.
    pub fn size(self) -> RequestSize {
        let form = match self {
            Request::Put(bytes) | Request::Notified(bytes) => Form::known(PUT, bytes),
            Request::Get(bytes) => Form::known(GET, bytes),
            Request::Add => Form::word(AtomicKind::Update),
            Request::FetchAdd => Form::word(AtomicKind::Fetch),
            Request::CompareSwap => Form::word(AtomicKind::Compare),
        };
        // The counter lies in another region than the bytes.
        let notice = match self {
            Request::Notified(_) => Form::NOTICE.words() * WORD,
            _ => 0,
        };
        let words = form.words();
        RequestSize {
            first: words * WORD + notice,
            next: (words - msg::REGION_WORDS) * WORD + notice,
            answer: form.results * WORD,
        }
    }
}

/// Bytes of the counters of a transport with so many peers, by the pages that are allocated.
pub fn counters(peers: usize) -> usize {
    let slots = (peers + 1).min(COUNTED_PEERS) * size_of::<PeerCounters>();
    let share = offset_of!(Share, peers) + slots;
    // The last page gives the file its size.
    start_of(0) + share.next_multiple_of(PAGE) + PAGE
}
