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
use crate::fabric::msg::Form;
use crate::mem::handle::Handle;
use crate::op::completion::Completion;
use crate::op::request::{Caller, Request};
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
        // SAFETY: the caller guarantees `T`, that `endpoint` is live and that the buffer is valid until completion. The
        // endpoint's address does not change; `open_transfer` checked that the target's region allows all accesses; the
        // provider's message is used only while the context is locked.
        unsafe {
            let peer = endpoint.as_ref();
            if WAY == OTHER && !peer.sends_transfers_on_node::<T>() {
                if !peer.sends_transfers_by_message::<T>() {
                    return None;
                }
                let (address, (call, with, data)) = (remote_address, Completion::parts(completion));
                return self
                    .begin_batch::<PUT>(endpoint, local, remote, address, size, call, with, data);
            }
            let (puts, gets) = match WAY {
                MESSAGE => self.setup.message_limits,
                _ => self.setup.quick_limits,
            };
            let (buffer, limit) = ((local, size), if PUT { puts } else { gets });
            let virtual_addresses = self.quick.virtual_addresses;
            let target = remote.open_transfer(remote_address, buffer, limit, virtual_addresses)?;
            if WAY == MESSAGE {
                branch();
                if !peer.sends_transfers_by_message::<T>() {
                    return None;
                }
                let caller = Caller::plain(completion, local);
                let request = Request::transfer(PUT, local, remote, remote_address, size);
                let form = Form::known(request.command.what, size);
                return self.gather::<T>(endpoint, &caller, &request, &form);
            }
            if WAY == OTHER {
                if size <= MOST {
                    let to = (remote, remote_address);
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
