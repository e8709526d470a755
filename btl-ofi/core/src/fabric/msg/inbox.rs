//! Sends that came from peers and wait until they are handed to the host, which happens without the lock.

use std::collections::HashMap;
use std::ptr::{self, NonNull};

use libfabric_sys::fi_addr_t;

use crate::peer::endpoint::Endpoint;

/// Words after which no more messages are received until the host has taken these.
const MOST_WORDS: usize = 128 * 1024;

/// Sends, each as two words (endpoint, tag and number of bytes) and its bytes, filled up to whole words.
#[derive(Default)]
pub(crate) struct Arrived(Vec<u64>);

/// A send of a peer.
pub(crate) struct Incoming<'a> {
    /// The peer; NULL if this process has not connected it.
    pub(crate) endpoint: *mut Endpoint,
    pub(crate) tag: u8,
    pub(crate) bytes: &'a [u8],
}

impl Arrived {
    /// The sends, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Incoming<'_>> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (&[endpoint, form], after) = rest.split_first_chunk()?;
            let size = (form >> 8) as usize;
            let (words, others) = after.split_at_checked(size.div_ceil(8))?;
            rest = others;
            // SAFETY: the words are initialised, and have at least `size` bytes.
            let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size) };
            Some(Incoming {
                endpoint: ptr::with_exposed_provenance_mut(endpoint as usize),
                tag: form as u8,
                bytes,
            })
        })
    }
}

/// The connected peer that sends, as of so many changes of the connected peers. Others may have been released since.
#[derive(Default)]
pub(super) struct Sender {
    peer: Option<NonNull<Endpoint>>,
    seen: u64,
}

/// What came and was not handed to the host yet.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Arrived,
    /// An empty list, so that its allocation is used again.
    spare: Arrived,
    /// Whether a thread hands sends to the host. One at a time does, so that they keep their order.
    delivering: bool,
    /// The connected peers, by their entries in the address vector, of which each endpoint has one.
    peers: HashMap<fi_addr_t, NonNull<Endpoint>>,
    /// How often they changed.
    changes: u64,
}

impl Inbox {
    #[inline]
    pub(super) fn push(
        &mut self,
        from: Option<NonNull<Endpoint>>,
        tag: u8,
        (words, size): (&[u64], usize),
    ) {
        let endpoint = from.map_or(0, |peer| peer.as_ptr().expose_provenance());
        let to = &mut self.waiting.0;
        to.extend([endpoint as u64, u64::from(tag) | (size as u64) << 8]);
        to.extend_from_slice(words);
    }

    /// Whether sends wait for the host.
    #[inline]
    pub(super) fn has_sends(&self) -> bool {
        !self.waiting.0.is_empty()
    }

    /// Whether nothing more is to be received.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.waiting.0.len() >= MOST_WORDS
    }

    /// What is to be handed to the host now, unless a thread does that already. [`next`](Self::next) must follow.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<Arrived> {
        if self.delivering || self.waiting.0.is_empty() {
            return None;
        }
        self.delivering = true;
        Some(self.take())
    }

    /// Takes back what was handed to the host. Returns what came meanwhile; `None` ends the delivery.
    pub(super) fn next(&mut self, mut done: Arrived) -> Option<Arrived> {
        done.0.clear();
        self.spare = done;
        if self.waiting.0.is_empty() {
            self.delivering = false;
            return None;
        }
        Some(self.take())
    }

    fn take(&mut self) -> Arrived {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.waiting, spare)
    }

    /// Notes a connected peer and its address.
    pub(super) fn connect(&mut self, address: fi_addr_t, endpoint: NonNull<Endpoint>) {
        self.changes += 1;
        self.peers.insert(address, endpoint);
    }

    /// Forgets a peer that is released.
    pub(super) fn disconnect(&mut self, address: fi_addr_t, endpoint: NonNull<Endpoint>) {
        self.changes += 1;
        if self.peers.get(&address) == Some(&endpoint) {
            self.peers.remove(&address);
        }
    }

    /// The connected peer of an address.
    #[inline]
    pub(super) fn peer(&self, address: fi_addr_t, known: &mut Sender) -> Option<NonNull<Endpoint>> {
        if known.seen != self.changes {
            *known = Sender {
                peer: self.peers.get(&address).copied(),
                seen: self.changes,
            };
        }
        known.peer
    }
}
