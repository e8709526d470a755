//! The fast paths of puts and gets. The slow path is in `transfers`.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::base::cma::{self, Refused};
use crate::base::guarded::guarded;
use crate::base::hints::{MESSAGE, NO_CALLBACK, OTHER, Way, branch};
use crate::carrier::ring::transfers::MOST;
use crate::engine::transport::Transport;
use crate::mem::handle::Handle;
use crate::op::completion::Completion;
use crate::peer::endpoint::Endpoint;

impl Transport {
    /// Fast path of a put (`PUT`) or get, for callers without local handle. Returns `None`, before side effects, for
    /// anything unusual; the caller then calls [`submit`](Self::submit). `T` is [`is_threaded`](Self::is_threaded). `WAY`
    /// selects the peers that the path serves: peers whose transfers the provider makes, peers with a current batch of
    /// messages, or else peers of this node and peers that need a new batch.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit); the constants have the values named above. With
    /// [`PROVIDER`](crate::hints::PROVIDER) and [`NO_CALLBACK`], the peer [sends transfers by the
    /// provider](Endpoint::sends_transfers_by_fabric); with `NO_CALLBACK`, `completion` is `None`.
    #[inline(always)]
    pub unsafe fn try_transfer<const T: bool, const WAY: Way, const PUT: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        remote: &Handle,
        size: usize,
        completion: Option<Completion>,
    ) -> Option<Status> {
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let to = (remote, remote_address);
        // SAFETY: the caller guarantees that `T` is the transport's threading.
        if WAY == OTHER && !unsafe { peer.sends_transfers_on_node::<T>() } {
            // SAFETY: the caller guarantees that `T` is the transport's threading.
            if unsafe { peer.sends_transfers_by_message::<T>() } {
                // SAFETY: the caller guarantees that `endpoint` is live and the buffer valid until completion.
                return unsafe {
                    self.try_tell_transfer::<PUT>(endpoint, local, to, size, completion)
                };
            }
            return None;
        }
        let (puts, gets) = match WAY {
            MESSAGE => self.setup.message_limits,
            _ => self.setup.quick_limits,
        };
        let (buffer, limit) = ((local, size), if PUT { puts } else { gets });
        let virtual_addresses = self.quick.virtual_addresses;
        let target = remote.open_transfer(remote_address, buffer, limit, virtual_addresses)?;
        if WAY == MESSAGE {
            // SAFETY: the caller guarantees `T`, that `endpoint` is live and the buffer valid until completion.
            return unsafe {
                self.gather_transfer::<T, PUT>(endpoint, local, to, size, completion)
            };
        }
        // SAFETY: the endpoint is live, and its address does not change; the local buffer is the caller's until
        // completion; `open_target` checked that the target's region allows all accesses; the message is used only
        // while the context is locked.
        unsafe {
            if WAY == OTHER {
                if size <= MOST {
                    let posted =
                        self.quick_ring_transfer::<T, PUT>(endpoint, local, to, size, completion);
                    if posted.is_some() {
                        return posted;
                    }
                }
                self.may_copy::<T>(peer, completion)?;
                let copied = match PUT {
                    true => cma::write(peer.pid(), local, remote_address, size),
                    false => self.read(endpoint, local, remote, remote_address, size),
                };
                return self.copied::<T>(endpoint, size, completion, copied);
            }
            let mut posting = match WAY {
                NO_CALLBACK => self.begin_untracked::<T>(endpoint, size)?,
                _ => self.begin::<T>(endpoint, (local, size), completion)?,
            };
            let (context, pointer) = (posting.context, posting.pointer);
            let at = (peer.address, target.address, remote.key());
            let rc = if PUT {
                let message = posting.state.message.put((local, size), at, pointer);
                // Read before the call is set up, so that `self` need not stay in its register.
                let delivered = self.quick.delivered;
                (context.calls.writemsg)(context.tx, message, delivered)
            } else {
                // A read completes when its data has arrived, so it needs no delivery flags.
                let (none, (peer, address, key)) = (ptr::null_mut(), at);
                (context.calls.read)(context.tx, local, size, none, peer, address, key, pointer)
            };
            self.end::<T>(posting, rc)
        }
    }

    /// Whether the fast path may copy inline.
    ///
    /// # Safety
    /// `T` is whether the transport was opened for threads.
    #[inline(always)]
    unsafe fn may_copy<const T: bool>(
        &self,
        peer: &Endpoint,
        completion: Option<Completion>,
    ) -> Option<()> {
        branch();
        if !self.copies_quickly(completion) {
            return None;
        }
        branch();
        // SAFETY: the caller guarantees that `T` is the transport's threading.
        unsafe { peer.is_well::<T>() }.then_some(())
    }

    /// The status of an inline copy; `None` if the caller must try another path.
    #[inline(always)]
    fn copied<const T: bool>(
        &self,
        endpoint: NonNull<Endpoint>,
        size: usize,
        completion: Option<Completion>,
        copied: Result<(), Refused>,
    ) -> Option<Status> {
        if let Err(refused) = copied {
            return self.not_copied_on_fast_path(endpoint, refused);
        }
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let carried = (unsafe { endpoint.as_ref() }, Carrier::Cma, size);
        if self.count_copy(self.context_as::<T>(), carried, T) {
            self.check_peers_between_copies();
        }
        Some(match completion {
            None => Status::SUCCESS,
            Some(_) => Status::COMPLETED,
        })
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn check_peers_between_copies(&self) {
        guarded(|| {
            self.check_peers_now_and_then();
            self.act_on_failures();
            Status::SUCCESS
        });
    }

    #[cold]
    #[inline(never)]
    fn not_copied_on_fast_path(
        &self,
        endpoint: NonNull<Endpoint>,
        refused: Refused,
    ) -> Option<Status> {
        let mut found = None;
        let outcome = guarded(|| {
            found = self.examine(endpoint, refused);
            self.act_on_failures();
            Status::SUCCESS
        });
        // The panic hook already reported a panic.
        if outcome.is_ok() {
            found
        } else {
            Some(outcome)
        }
    }
}
