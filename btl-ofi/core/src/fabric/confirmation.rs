//! Puts that go by order: their completion means only that they were sent, and a read that is posted behind them confirms
//! them.
//!
//! When the completion of a put arrives, the put keeps its record and counts as *reported*. One read per peer and
//! context confirms all puts to the peer that were reported before it was posted: the provider guarantees that the read
//! follows them. Puts that are reported while a read is outstanding wait for the next read.
//! `carrier::provider::confirmation` posts the reads and ends the puts.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, TryReserveError, VecDeque};
use std::ptr::NonNull;

use libfabric_sys as ffi;

use crate::op::marked::Marked;
use crate::op::record::Record;
use crate::peer::endpoint::Endpoint;

/// Replaces the provider's `fi_writemsg` if puts go by order. Marks the put and does not request delivery-complete: the
/// provider does not offer it, or completes before delivery.
///
/// # Safety
/// The conditions of `fi_writemsg`. The context of the message is a record.
pub(crate) unsafe extern "C" fn writemsg_to_confirm(
    endpoint: *mut ffi::fid_ep,
    message: *const ffi::fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the caller passes a complete message.
    let message = unsafe { &*message };
    let Some(record) = NonNull::new(message.context.cast::<Record>()) else {
        return -(ffi::FI_EINVAL as isize);
    };
    let marked = ffi::fi_msg_rma {
        context: Marked::Put(record).context(),
        ..*message
    };
    let flags = flags & !u64::from(ffi::FI_DELIVERY_COMPLETE);
    // SAFETY: the caller passes a live endpoint, whose table is valid, and a complete message.
    unsafe {
        match (*(*endpoint).rma).writemsg {
            Some(writemsg) => writemsg(endpoint, &marked, flags),
            None => -(ffi::FI_ENOSYS as isize),
        }
    }
}

/// Records of puts, in the order in which they were added. A record stays in use while it is in this list.
#[derive(Debug, Default)]
pub(crate) struct Puts {
    first: Option<NonNull<Record>>,
    last: Option<NonNull<Record>>,
}

// SAFETY: the records belong to the pool of the context that the list belongs to, and are used under its lock.
unsafe impl Send for Puts {}

impl Puts {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// # Safety
    /// The record is in use for a put, and in no list. The caller holds the pool's lock.
    unsafe fn push(&mut self, record: NonNull<Record>) {
        // SAFETY: the caller guarantees that the record is in use for a put, and holds the lock.
        unsafe { Record::link(record, None) };
        let added = Puts {
            first: Some(record),
            last: Some(record),
        };
        self.append(added);
    }

    /// Adds the records of another list. The caller holds the pool's lock.
    pub(crate) fn append(&mut self, other: Puts) {
        match self.last {
            _ if other.is_empty() => {}
            // SAFETY: `push` vouched for all records of the list, and the caller holds the lock.
            Some(last) => unsafe {
                Record::link(last, other.first);
                self.last = other.last;
            },
            None => *self = other,
        }
    }

    /// Number of records. The caller holds the pool's lock.
    pub(crate) fn count(&self) -> u32 {
        // SAFETY: `push` vouched for all records of the list, and the caller holds the lock.
        let next = |record: &NonNull<Record>| unsafe { Record::linked(*record) };
        std::iter::successors(self.first, next).map(|_| 1).sum()
    }

    /// Removes the first record. The caller holds the pool's lock.
    pub(crate) fn pop(&mut self) -> Option<NonNull<Record>> {
        let first = self.first?;
        // SAFETY: `push` vouched for all records of the list, and the caller holds the lock.
        self.first = unsafe { Record::linked(first) };
        if self.first.is_none() {
            self.last = None;
        }
        Some(first)
    }
}

/// The unconfirmed puts to one peer.
#[derive(Debug, Default)]
struct Unconfirmed {
    /// Puts that were reported, and that no read covers.
    reported: Puts,
    /// Puts that the outstanding read covers.
    covered: Puts,
    /// The read whose end confirms the covered puts.
    read: Option<NonNull<Record>>,
    /// Outstanding reads: this read, and reads whose puts were removed by `abandon`.
    outstanding: u32,
}

/// The unconfirmed puts of one context. The context's lock guards these puts.
#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    peers: HashMap<NonNull<Endpoint>, Unconfirmed>,
    /// Peers to which a read must be posted.
    due: VecDeque<NonNull<Endpoint>>,
}

// SAFETY: endpoints are shared between threads, and records are used under the lock of their pool.
unsafe impl Send for Confirmations {}

impl Confirmations {
    /// Reserves room for `peers` peers, so that reported puts allocate nothing.
    pub(crate) fn reserve(&mut self, peers: usize) -> Result<(), TryReserveError> {
        self.peers
            .try_reserve(peers.saturating_sub(self.peers.len()))?;
        self.due.try_reserve(peers.saturating_sub(self.due.len()))
    }

    /// Adds a put that the provider completed.
    ///
    /// # Safety
    /// The record is in use for a put, and was not reported before. The caller holds the pool's lock.
    pub(crate) unsafe fn report(&mut self, record: NonNull<Record>) {
        // SAFETY: the caller guarantees that the record is in use, and holds the lock.
        let Some(endpoint) = (unsafe { Record::endpoint(record) }) else {
            return;
        };
        let unconfirmed = self.peers.entry(endpoint).or_default();
        if unconfirmed.reported.is_empty() && unconfirmed.read.is_none() {
            self.due.push_back(endpoint);
        }
        // SAFETY: the caller guarantees a put that was not reported, so it is in no list, and holds the
        // lock.
        unsafe { unconfirmed.reported.push(record) };
    }

    /// Whether a read must be posted.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The number of peers to which a read must be posted.
    pub(crate) fn due(&self) -> usize {
        self.due.len()
    }

    /// Moves the [`next`](Self::next) peer behind the other peers.
    pub(crate) fn put_off(&mut self) {
        if !self.due.is_empty() {
            self.due.rotate_left(1);
        }
    }

    /// The peer to which the next read must be posted.
    pub(crate) fn next(&self) -> Option<NonNull<Endpoint>> {
        self.due.front().copied()
    }

    /// Records that the read to the [`next`](Self::next) peer was posted with this operation
    /// record.
    pub(crate) fn begin(&mut self, read: NonNull<Record>) {
        let next = self.due.pop_front();
        if let Some(unconfirmed) = next.and_then(|peer| self.peers.get_mut(&peer)) {
            unconfirmed.covered = std::mem::take(&mut unconfirmed.reported);
            unconfirmed.read = Some(read);
            unconfirmed.outstanding += 1;
        }
    }

    /// Records that a read to a peer ended, and returns the puts that the read covered.
    pub(crate) fn end(&mut self, peer: NonNull<Endpoint>, read: NonNull<Record>) -> Puts {
        let Some(unconfirmed) = self.peers.get_mut(&peer) else {
            return Puts::default();
        };
        unconfirmed.outstanding = unconfirmed.outstanding.saturating_sub(1);
        if unconfirmed.read != Some(read) {
            return Puts::default();
        }
        unconfirmed.read = None;
        if !unconfirmed.reported.is_empty() {
            self.due.push_back(peer);
        }
        std::mem::take(&mut unconfirmed.covered)
    }

    /// Returns all unconfirmed puts to a peer. An outstanding read then confirms nothing.
    pub(crate) fn abandon(&mut self, peer: NonNull<Endpoint>) -> Puts {
        let Some(unconfirmed) = self.peers.get_mut(&peer) else {
            return Puts::default();
        };
        unconfirmed.read = None;
        self.due.retain(|due| *due != peer);
        let mut puts = std::mem::take(&mut unconfirmed.covered);
        puts.append(std::mem::take(&mut unconfirmed.reported));
        puts
    }

    /// Removes a peer without unconfirmed puts. Returns whether a read to the peer is outstanding, because such a read
    /// may still name the peer.
    pub(crate) fn remove(&mut self, peer: NonNull<Endpoint>) -> bool {
        match self.peers.entry(peer) {
            Entry::Occupied(entry) if entry.get().outstanding > 0 => true,
            Entry::Occupied(entry) => {
                entry.remove();
                false
            }
            Entry::Vacant(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
