//! Payloads that are too long for a message: offered by the sender, fetched by the receiver.

use plugin_api::Status;

use super::matching::Key;
use crate::loader::HandleCopy;
use crate::loader::{Registration, Transport};
use crate::mailbox::{Mailbox, Tracks, posted, track_done};

/// The number of words of an offer before the handle.
pub(super) const OFFER_WORDS: usize = 3;
/// The payload bytes of the message that confirms a fetch: the offer's name.
pub(super) const FETCHED: usize = size_of::<u64>();

/// The location of a payload in its sender's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) name: u64,
    address: u64,
    pub(super) len: usize,
    handle: HandleCopy,
}

impl Offer {
    /// Encodes an offer as a message's payload.
    pub(super) fn encode(name: u64, address: u64, len: usize, handle: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(OFFER_WORDS * size_of::<u64>() + handle.len());
        let words: [u64; OFFER_WORDS] = [name, address, len as u64];
        for word in words {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(handle);
        bytes
    }

    /// `None` for bytes that no rank sends.
    pub(super) fn decode(bytes: &[u8], handle_size: usize) -> Option<Offer> {
        let (words, handle) = bytes.split_first_chunk::<{ OFFER_WORDS * size_of::<u64>() }>()?;
        let word = |index: usize| {
            words[index * 8..index * 8 + 8]
                .try_into()
                .ok()
                .map(u64::from_ne_bytes)
        };
        if handle.len() != handle_size {
            return None;
        }
        Some(Offer {
            name: word(0)?,
            address: word(1)?,
            len: usize::try_from(word(2)?).ok()?,
            handle: HandleCopy::new(handle),
        })
    }
}

/// An offer of this rank that has not been fetched.
pub(super) struct Offered {
    pub(super) schedule: usize,
    pub(super) name: u64,
    pub(super) to: usize,
    /// The registration ends when the offer ends.
    pub(super) _registration: Registration,
}

/// A payload that this rank is fetching.
pub(super) struct Fetch {
    pub(super) from: usize,
    pub(super) key: Key,
    pub(super) offer: Offer,
    /// `None` after the schedule was given up; no further gets are posted then.
    pub(super) schedule: Option<usize>,
    pub(super) track: usize,
    at: *mut u8,
    asked: usize,
}

// SAFETY: the pointer belongs to the schedule, which any thread may advance.
unsafe impl Send for Fetch {}

impl Fetch {
    /// Prepares to fetch an offer to `at`, which has room for the payload.
    pub(super) fn new(
        from: usize,
        key: Key,
        offer: Offer,
        (schedule, track): (usize, usize),
        at: *mut u8,
    ) -> Fetch {
        Fetch {
            from,
            key,
            offer,
            schedule: Some(schedule),
            track,
            at,
            asked: 0,
        }
    }

    /// Posts gets for the rest of the payload, as far as the transport accepts them. True if the
    /// transport accepted a get.
    pub(super) fn ask(
        &mut self,
        transport: &Transport,
        mailbox: &Mailbox,
        tracks: &Tracks,
    ) -> Result<bool, Status> {
        let track = tracks.track(self.track);
        let mut moved = false;
        while self.schedule.is_some() && self.asked < self.offer.len {
            let piece = (self.offer.len - self.asked).min(transport.attributes().get_limit);
            track.begin();
            // SAFETY: the endpoint belongs to the job. The local bytes lie in the receive's buffer,
            // which stays until the schedule is done. The remote bytes lie in the memory that the
            // sender registered, which stays until this rank confirms the fetch. The callback gets
            // a track.
            let status = unsafe {
                transport.get(
                    mailbox.endpoint(self.from),
                    (self.at.add(self.asked), std::ptr::null_mut()),
                    (
                        self.offer.address + self.asked as u64,
                        self.offer.handle.as_ptr(),
                    ),
                    piece,
                    (Some(track_done), track.context(), std::ptr::null_mut()),
                )
            };
            if !posted(status, track)? {
                break;
            }
            self.asked += piece;
            moved = true;
        }
        Ok(moved)
    }

    /// Whether the whole payload has arrived, or the rest will never come.
    pub(super) fn is_done(&self, tracks: &Tracks) -> bool {
        (self.asked == self.offer.len || self.schedule.is_none())
            && tracks.track(self.track).is_idle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_travels() {
        let bytes = Offer::encode(7, 0x1000, 99, &[5; 32]);
        let offer = Offer::decode(&bytes, 32).unwrap();
        assert_eq!((offer.name, offer.address, offer.len), (7, 0x1000, 99));
        assert_eq!(offer.handle, HandleCopy::new(&[5; 32]));
        for len in 0..bytes.len() {
            assert_eq!(Offer::decode(&bytes[..len], 32), None);
        }
    }
}
