//! Puts that go by order: posting the reads that confirm them, and their end (`fabric::confirmation`).
//!
//! Each progress posts the reads that are due before it looks for completions, so a flush posts them too, and puts with a
//! callback need none. The counts of a put are lowered when it is confirmed, so flush, notifications and staged operations
//! wait for the confirmation without code of their own.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use plugin_api::{Access, Status};

use crate::base::error::{Error, peer_is_gone, status_of};
use crate::base::lock::Guard;
use crate::base::params::MAX_CQ_READ;
use crate::core::context::{Context, State};
use crate::core::failures::Reporting;
use crate::core::state::Core;
use crate::detector::Cause;
use crate::fabric::confirmation::{Confirmations, Puts};
use crate::fabric::msg::Messages;
use crate::fabric::policy::Policy;
use crate::fabric::region::Region;
use crate::fabric::registration::Registrar;
use crate::mem::handle::Target;
use crate::op::completion::Finished;
use crate::op::marked::Marked;
use crate::op::record::{Pool, Record};
use crate::op::tag::Tag;
use crate::peer::address::Blob;
use crate::peer::endpoint::Endpoint;

/// Size in bytes of the word that is read.
const WORD: usize = size_of::<u64>();

/// The puts that [`remove_puts`](Transport::remove_puts) removed.
#[derive(Default)]
pub(crate) struct Removed<'a> {
    /// The puts of each context.
    pub(crate) puts: Vec<(&'a Context, Puts)>,
    /// Total number of these puts.
    pub(crate) number: u32,
    /// Whether a read from the peer is outstanding; such a read may still name the endpoint.
    pub(crate) is_named: bool,
}

/// If puts go by order, registers the word that peers read to confirm their puts.
pub(crate) fn register_word(
    policy: &Policy,
    word: &AtomicU64,
    registrar: &Arc<Registrar>,
) -> Result<Option<Region>, Error> {
    if !policy.by_order {
        return Ok(None);
    }
    let word = registrar.register_own(word.as_ptr().cast(), WORD, Access::REMOTE_READ)?;
    Ok(Some(word))
}

/// The target of the peers' reads of this word.
pub(crate) fn target_of_word(word: &Region, virtual_addresses: bool) -> Option<Target> {
    let handle = word.handle();
    let target = handle.target(handle.base(), WORD as u64, virtual_addresses);
    target.ok()
}

impl Core {
    /// Reserves room for the puts to one more peer.
    pub(crate) fn expect_puts(&self) -> Result<(), Error> {
        if !self.policy.by_order {
            return Ok(());
        }
        let peers = self.lock_peers().known.len() + 1;
        for context in &self.contexts {
            let mut state = context.state.lock();
            if let Some(confirmations) = &mut state.confirmations {
                let room = confirmations.reserve(peers);
                room.map_err(|_| Error::OutOfMemory("another peer"))?;
            }
        }
        Ok(())
    }

    /// Refuses a peer if this process needs reads to confirm puts and the peer publishes no word.
    pub(crate) fn check_word(&self, blob: &Blob) -> Result<(), String> {
        if self.policy.by_order && blob.word.is_none() {
            return Err(format!(
                "it publishes no word to read, by which this process confirms puts over provider {}: its provider offers \
                 other completions there",
                blob.provider
            ));
        }
        Ok(())
    }

    /// Posts the reads that are due. Returns the guard; if puts ended, returns their number
    /// instead.
    #[inline(never)]
    pub(crate) fn post_confirmations<'a>(
        &self,
        context: &Context,
        mut state: Guard<'a, State>,
    ) -> Result<Guard<'a, State>, usize> {
        let mut left = state.confirmations.as_ref().map_or(0, |c| c.due());
        loop {
            let next = state.confirmations.as_ref().and_then(|c| c.next());
            let Some(endpoint) = next.filter(|_| left > 0) else {
                return Ok(state);
            };
            left -= 1;
            let status = match self.post_confirmation(context, &mut state, endpoint) {
                Status::SUCCESS => continue,
                again if again.is_again() => {
                    // This peer may have no connection yet. So the confirmations of other peers go
                    // first.
                    if let Some(confirmations) = &mut state.confirmations {
                        confirmations.put_off();
                    }
                    continue;
                }
                refused => refused,
            };
            let puts = match &mut state.confirmations {
                Some(confirmations) => confirmations.abandon(endpoint),
                None => Puts::default(),
            };
            // A release that waits for the puts keeps the endpoint until this report is over.
            let _reporting = (status == Status::UNREACH).then(|| Reporting::begin(&self.failures));
            drop(state);
            let ended = self.end_puts(
                context,
                puts,
                status,
                "the read that confirms it was refused",
            );
            if status == Status::UNREACH {
                self.fail_peer(
                    endpoint,
                    Cause::Gone,
                    status,
                    "the provider refuses to read from it",
                );
            }
            return Err(ended);
        }
    }

    /// Posts a read from a peer.
    fn post_confirmation(
        &self,
        context: &Context,
        state: &mut State,
        endpoint: NonNull<Endpoint>,
    ) -> Status {
        // SAFETY: endpoints outlive the operations that name them, here the reported puts.
        let peer = unsafe { endpoint.as_ref() };
        // The check is under the lock, because `close_endpoints_for` marks a peer as failed with all contexts
        // locked.
        if let Some(status) = peer.failure() {
            return status;
        }
        let Some(word) = self.lock_peers().words.get(&peer.proc).copied() else {
            // The peer was released.
            return Status::UNREACH;
        };
        let Some(record) = state.pool.take() else {
            return Status::OUT_OF_RESOURCE;
        };
        let none = ptr::null_mut();
        // SAFETY: the record was just taken; the endpoint is live; the scratch memory has room for the word and lives as
        // long as the provider, and nothing reads it.
        let rc = unsafe {
            Record::fill(record, Tag::new(endpoint, 0, 0), None, none, none.cast());
            (context.calls.read)(
                context.tx,
                self.scratch.pointer(),
                WORD,
                ptr::null_mut(),
                peer.address,
                word.address,
                word.key,
                Marked::Confirmation(record).context(),
            )
        };
        if rc != 0 {
            // SAFETY: the record was taken above, and the provider refused the read.
            unsafe { state.pool.give_back(record) };
            return i32::try_from(-rc).map_or(Status::ERROR, status_of);
        }
        if let Some(confirmations) = &mut state.confirmations {
            confirmations.begin(record);
        }
        Status::SUCCESS
    }

    /// Handles a completion that ends no operation by itself. `message` holds the bytes of a received message. Adds the
    /// puts that the completion confirms to the ended puts.
    pub(crate) fn take_marked(
        &self,
        (marked, length): (Marked, usize),
        pool: &mut Pool,
        messages: &mut Option<Box<Messages>>,
        confirmations: &mut Option<Box<Confirmations>>,
        confirmed: &mut Puts,
    ) {
        match (marked, messages, confirmations) {
            (Marked::Message(message), Some(messages), _) => {
                messages.completed((message, length), self.registrar.table());
            }
            // SAFETY: only records that this transport posted have this mark, and the lock is held. A record that is in
            // use is reported once, by the completion of its put.
            (Marked::Put(put), _, Some(confirmations)) => unsafe {
                if !Pool::is_free(put) {
                    confirmations.report(put);
                }
            },
            // SAFETY: only records that this transport posted have this mark, and the lock is held.
            (Marked::Confirmation(read), _, Some(confirmations)) => unsafe {
                if !Pool::is_free(read)
                    && let Some(peer) = NonNull::new(pool.give_back(read).tag.endpoint())
                {
                    confirmed.append(confirmations.end(peer, read));
                }
            },
            _ => {}
        }
    }

    /// Ends puts: runs the callbacks, and counts the puts as done. The caller holds no lock.
    pub(crate) fn end_puts(
        &self,
        context: &Context,
        mut puts: Puts,
        status: Status,
        what: &str,
    ) -> usize {
        let mut ended = 0;
        while !puts.is_empty() {
            let mut finished = [const { MaybeUninit::<Finished>::uninit() }; MAX_CQ_READ];
            let mut n = 0;
            {
                let mut state = context.state.lock();
                while n < MAX_CQ_READ
                    && let Some(put) = puts.pop()
                {
                    // SAFETY: records in the list are in use.
                    finished[n].write(unsafe { state.pool.give_back(put) });
                    n += 1;
                }
                match status.is_ok() {
                    true => state.counts.completed += n as u64,
                    false => state.counts.failed += n as u64,
                }
            }
            // SAFETY: the loop above wrote the first `n` elements.
            let finished =
                unsafe { std::slice::from_raw_parts(finished.as_ptr().cast::<Finished>(), n) };
            if !status.is_ok() {
                self.tell_failed(finished, status, what);
            }
            self.deliver(context, finished, status);
            ended += n;
        }
        ended
    }

    /// Ends the puts that a failed read covered.
    #[cold]
    pub(crate) fn not_confirmed(
        &self,
        context: &Context,
        mut state: Guard<'_, State>,
        read: NonNull<Record>,
        (code, status): (i32, Status),
        what: &str,
    ) -> usize {
        let state_now = &mut *state;
        let (Some(read), Some(confirmations)) = (
            state_now.pool.owns(read.as_ptr().cast()),
            &mut state_now.confirmations,
        ) else {
            return 0;
        };
        // SAFETY: `owns` found the record in use, and the lock is held.
        let tag = unsafe { state_now.pool.give_back(read) }.tag;
        let Some(endpoint) = NonNull::new(tag.endpoint()) else {
            return 0;
        };
        let puts = confirmations.end(endpoint, read);
        // A release that waits for the puts keeps the endpoint until this report is over.
        let _reporting = peer_is_gone(code).then(|| Reporting::begin(&self.failures));
        drop(state);
        let what = format!("the read that confirms it failed: {what}");
        let ended = self.end_puts(context, puts, status, &what);
        if peer_is_gone(code) {
            self.fail_peer(endpoint, Cause::Gone, status, &what);
        } else {
            self.check_peers(Some(endpoint));
        }
        ended
    }

    /// Takes the unconfirmed puts to a peer that is released, and removes the peer. The caller holds the locks of all
    /// contexts, whose states are `guards`, and then ends the puts.
    pub(crate) fn remove_puts<'a>(
        &'a self,
        guards: &mut [Guard<'_, State>],
        endpoint: NonNull<Endpoint>,
    ) -> Removed<'a> {
        let mut removed = Removed::default();
        for (context, state) in self.contexts.iter().zip(guards) {
            if let Some(confirmations) = &mut state.confirmations {
                let puts = confirmations.abandon(endpoint);
                removed.number += puts.count();
                removed.puts.push((context, puts));
                removed.is_named |= confirmations.remove(endpoint);
            }
        }
        removed
    }
}
