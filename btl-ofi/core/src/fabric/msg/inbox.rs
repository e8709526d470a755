//! Sends from peers that wait for the host. Progress passes these sends to the host without holding
//! the lock.

use std::collections::HashMap;
use std::ptr::{self, NonNull};

use libfabric_sys::fi_addr_t;

use crate::peer::endpoint::Endpoint;

/// After this many words, no more messages are received until the host has taken the waiting sends. Each send counts its
/// bytes and `WORDS_OF_ONE` words more.
const MOST_WORDS: usize = 128 * 1024;
const WORDS_OF_ONE: usize = size_of::<Sent>() / 8;

/// Sends of at least this many bytes stay in their receive buffer instead of being copied.
const KEPT: usize = 4096;

/// The location of a send's bytes.
enum Place {
    /// In [`Arrived::bytes`], beginning at this word.
    Copied(usize),
    /// In the buffer of a receive that is listed in [`Arrived::kept`].
    Received(*const u64),
}

struct Sent {
    endpoint: *mut Endpoint,
    tag: u8,
    size: usize,
    place: Place,
}

/// Sends, in the order of their arrival.
#[derive(Default)]
pub(crate) struct Arrived {
    sends: Vec<Sent>,
    bytes: Vec<u64>,
    /// Receives whose buffers hold sends. These receives are posted again after the host has taken these
    /// sends.
    kept: Vec<u32>,
}

/// A send of a peer.
pub(crate) struct Incoming<'a> {
    /// The peer; NULL if this process has not connected the peer.
    pub(crate) endpoint: *mut Endpoint,
    pub(crate) tag: u8,
    pub(crate) bytes: &'a [u8],
}

impl Arrived {
    /// The sends, in the order of their arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Incoming<'_>> {
        self.sends.iter().map(|sent| {
            let at = match sent.place {
                Place::Copied(first) => self.bytes[first..first + sent.size.div_ceil(8)].as_ptr(),
                Place::Received(at) => at,
            };
            Incoming {
                endpoint: sent.endpoint,
                tag: sent.tag,
                // SAFETY: the words have at least `size` bytes. The words of a receive are not written before `Inbox::next`
                // takes `self` back. The carrier lives as long as its transport, which passes the sends to the host.
                bytes: unsafe { std::slice::from_raw_parts(at.cast::<u8>(), sent.size) },
            }
        })
    }

    fn clear(&mut self) {
        self.sends.clear();
        self.bytes.clear();
        self.kept.clear();
    }
}

/// The buffer that received a message: its receive, and the message's first word.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub(super) receive: u32,
    pub(super) words: *const u64,
}

/// The connected peer that sends, valid while the inbox has counted this number of changes of its connected peers. After
/// more changes, the peer may have been released.
#[derive(Default)]
pub(super) struct Sender {
    peer: Option<NonNull<Endpoint>>,
    seen: u64,
}

/// Received sends that the host has not taken yet.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Arrived,
    /// An empty list, kept so that its allocation is reused.
    spare: Arrived,
    /// The thread that passes sends to the host. Only one thread at a time passes sends, so that they keep their order.
    deliverer: Option<usize>,
    /// Number of receives whose buffers are kept, and its maximum. The other receives are left for answers, on which the
    /// host's function may depend.
    kept: usize,
    most_kept: usize,
    /// The connected peers, by their entries in the address vector; each endpoint has one entry.
    peers: HashMap<fi_addr_t, NonNull<Endpoint>>,
    /// Number of changes of `peers`.
    changes: u64,
}

impl Inbox {
    /// An inbox of a carrier that has `receives` receives.
    pub(super) fn new(receives: usize) -> Inbox {
        Inbox {
            most_kept: receives / 2,
            ..Inbox::default()
        }
    }

    /// Adds a send of `size` bytes with the operands `words`. If the message is still in its receive buffer, `buffer` has
    /// the buffer and the word at which the operands begin.
    #[inline]
    pub(super) fn push(
        &mut self,
        (from, tag): (Option<NonNull<Endpoint>>, u8),
        (words, size): (&[u64], usize),
        buffer: Option<(Buffer, usize)>,
    ) {
        let place = match buffer {
            Some((buffer, at)) if size >= KEPT && self.keep(buffer.receive) => {
                Place::Received(buffer.words.wrapping_add(at))
            }
            _ => {
                let first = self.waiting.bytes.len();
                self.waiting.bytes.extend_from_slice(words);
                Place::Copied(first)
            }
        };
        self.waiting.sends.push(Sent {
            endpoint: from.map_or(ptr::null_mut(), NonNull::as_ptr),
            tag,
            size,
            place,
        });
    }

    /// Keeps the buffer of a receive, unless too many buffers are kept.
    fn keep(&mut self, receive: u32) -> bool {
        if self.keeps(receive) {
            return true;
        }
        if self.kept >= self.most_kept {
            return false;
        }
        self.kept += 1;
        self.waiting.kept.push(receive);
        true
    }

    /// Whether the buffer of this receive still holds sends of the latest message.
    #[inline]
    pub(super) fn keeps(&self, receive: u32) -> bool {
        self.waiting.kept.last() == Some(&receive)
    }

    /// Whether sends wait for the host.
    #[inline]
    pub(super) fn has_sends(&self) -> bool {
        !self.waiting.sends.is_empty()
    }

    /// Whether nothing more may be received.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        let Arrived { sends, bytes, .. } = &self.waiting;
        bytes.len() + WORDS_OF_ONE * sends.len() >= MOST_WORDS
    }

    /// Returns the sends that `thread` must pass to the host now; `None` while another thread passes sends. The
    /// caller must then call [`next`](Self::next).
    #[inline]
    pub(super) fn begin(&mut self, thread: usize) -> Option<Arrived> {
        if self.deliverer.is_some() || self.waiting.sends.is_empty() {
            return None;
        }
        self.deliverer = Some(thread);
        Some(self.take())
    }

    /// The thread that hands sends to the host.
    #[inline]
    pub(super) fn deliverer(&self) -> Option<usize> {
        self.deliverer
    }

    /// Takes back the sends that the host has taken, and calls `post` for each receive whose buffer was kept. Returns the
    /// sends that arrived meanwhile; `None` ends the delivery.
    pub(super) fn next(&mut self, mut done: Arrived, post: impl FnMut(u32)) -> Option<Arrived> {
        self.kept -= done.kept.len();
        done.kept.drain(..).for_each(post);
        done.clear();
        self.spare = done;
        if self.waiting.sends.is_empty() {
            self.deliverer = None;
            return None;
        }
        Some(self.take())
    }

    fn take(&mut self) -> Arrived {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.waiting, spare)
    }

    /// Adds a connected peer and its address.
    pub(super) fn connect(&mut self, address: fi_addr_t, endpoint: NonNull<Endpoint>) {
        self.changes += 1;
        self.peers.insert(address, endpoint);
    }

    /// Removes a peer that is released. The peer's waiting sends become sends of an unconnected process. Sends that a
    /// thread is passing to the host still name the endpoint, so the endpoint's memory is not reused meanwhile
    /// (`Transport::disconnect`).
    pub(super) fn disconnect(&mut self, address: fi_addr_t, endpoint: NonNull<Endpoint>) {
        self.changes += 1;
        for sent in &mut self.waiting.sends {
            if sent.endpoint == endpoint.as_ptr() {
                sent.endpoint = ptr::null_mut();
            }
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "tests fail by panicking")]

    use super::*;

    const LONG: usize = KEPT / 8;

    fn push(inbox: &mut Inbox, words: &[u64], receive: u32) {
        let buffer = Buffer {
            receive,
            words: words.as_ptr(),
        };
        inbox.push((None, 7), (words, 8 * words.len()), Some((buffer, 0)));
    }

    /// Long sends stay in up to half of the receives. Short sends and further long ones are copied. All arrive in
    /// order.
    #[test]
    fn half_of_the_receives_is_kept() {
        let messages: Vec<Vec<u64>> = (0..6)
            .map(|n| vec![n; if n == 1 { 3 } else { LONG }])
            .collect();
        let mut inbox = Inbox::new(5);
        for (words, receive) in messages.iter().zip(10..) {
            push(&mut inbox, words, receive);
            assert_eq!(inbox.keeps(receive), [10, 12].contains(&receive));
        }
        let arrived = inbox.begin(0).expect("sends came");
        let first_words = arrived.iter().map(|sent| sent.bytes[0]);
        assert!(first_words.eq(0..6), "order");
        for (sent, words) in arrived.iter().zip(&messages) {
            assert_eq!(sent.bytes.len(), 8 * words.len());
            let stays = std::ptr::eq(sent.bytes.as_ptr().cast(), words.as_ptr());
            assert_eq!(stays, [0, 2].contains(&words[0]), "{}", words[0]);
        }
        // A send that arrives meanwhile finds no receive that may be kept.
        push(&mut inbox, &messages[0], 20);
        assert!(!inbox.keeps(20));
        let mut posted = Vec::new();
        let arrived = inbox.next(arrived, |receive| posted.push(receive));
        assert_eq!(posted, [10, 12]);
        push(&mut inbox, &messages[0], 10);
        assert!(inbox.keeps(10), "there is room again");
        let arrived = inbox.next(arrived.expect("one more came"), |receive| {
            posted.push(receive);
        });
        assert_eq!(posted.len(), 2, "that one was copied");
        assert!(
            inbox
                .next(arrived.expect("and another"), |r| posted.push(r))
                .is_none()
        );
        assert_eq!(posted, [10, 12, 10]);
    }

    /// Several sends of one message keep its buffer only once.
    #[test]
    fn a_buffer_is_kept_once() {
        let words = vec![1u64; LONG];
        let mut inbox = Inbox::new(2);
        push(&mut inbox, &words, 3);
        push(&mut inbox, &words, 3);
        let arrived = inbox.begin(0).expect("sends came");
        assert!(
            arrived
                .iter()
                .all(|sent| std::ptr::eq(sent.bytes.as_ptr().cast(), words.as_ptr()))
        );
        let mut posted = Vec::new();
        assert!(inbox.next(arrived, |r| posted.push(r)).is_none());
        assert_eq!(posted, [3]);
    }
}
