//! Requests: operations that can be waited for one by one. The module `request_state` has the
//! states of requests.

use std::ptr::NonNull;

use plugin_api::Status;

use crate::door::Completion;
use crate::win::error::{WinError, WinResult};
use crate::win::link::Link;
use crate::win::peer::Peer;
use crate::win::request::request_state::{LastStep, RequestState};
use crate::win::window::Window;

/// Issues an operation without a request that runs a completion step. The next flush of the target reports its
/// failure. Returns while the operation is under way.
pub(in crate::win) fn issue_unasked(
    window: &Window,
    peer: &Peer,
    last: LastStep,
    issue: impl FnOnce(&RequestState) -> WinResult<()>,
) -> WinResult<()> {
    let pool = &window.parts.requests;
    let state = pool.take();
    // SAFETY: the pool keeps the state as long as the window.
    let fields = unsafe { state.as_ref() };
    let unasked = (NonNull::from(pool), NonNull::from(&peer.transfers));
    fields.leave(last, Some(unasked));
    let issued = issue(fields);
    if issued.is_err() {
        fields.refuse();
    }
    // Another operation may use the state after this.
    fields.finish(0);
    // A failure of the last step may have come after the last count fell.
    window.note(peer);
    issued
}

/// An operation under way. The operation is complete, at the origin and at the target, when
/// [`test`](Self::test) or [`wait`](Self::wait) returns so; until then its buffers belong to it.
/// Dropping the request waits, on any thread; afterwards the buffers belong to the program again.
/// If the operation failed, the next flush of the target reports it.
#[must_use = "a request that is dropped at once waits for its operation"]
pub struct Request<'w> {
    window: &'w Window,
    state: Option<NonNull<RequestState>>,
    call: &'static str,
    rank: u32,
    /// Whether the operation was empty, and its outcome was not taken yet.
    nothing: bool,
}

// SAFETY: the state is made of atomics in the window's pool, which outlives the borrow; any
// thread may end the request.
unsafe impl Send for Request<'_> {}
// SAFETY: as for Send; shared references give no access to the state.
unsafe impl Sync for Request<'_> {}

impl<'w> Request<'w> {
    /// Runs `issue` with a fresh state and makes a request of it. The last step, if there is one, runs before the
    /// request is complete.
    pub(in crate::win) fn issue(
        window: &'w Window,
        (call, rank): (&'static str, usize),
        last: Option<LastStep>,
        issue: impl FnOnce(&RequestState) -> WinResult<()>,
    ) -> WinResult<Request<'w>> {
        let state = window.parts.requests.take();
        let request = Request {
            window,
            state: Some(state),
            call,
            rank: rank as u32,
            nothing: false,
        };
        // SAFETY: the pool keeps the state as long as the window.
        let fields = unsafe { state.as_ref() };
        if let Some(step) = last {
            fields.leave(step, None);
        }
        let issued = issue(fields);
        if issued.is_err() {
            fields.refuse();
        }
        fields.finish(0);
        issued?;
        Ok(request)
    }

    /// A request of an operation that sent nothing.
    pub(in crate::win) fn done(window: &'w Window, call: &'static str, rank: usize) -> Request<'w> {
        Request {
            window,
            state: None,
            call,
            rank: rank as u32,
            nothing: true,
        }
    }

    /// A complete request, for a call to no rank (MPI_PROC_NULL).
    pub fn to_no_rank(window: &'w Window) -> Request<'w> {
        Request::done(window, "wait", 0)
    }

    pub(in crate::win) fn link(&self) -> &'w Link {
        &self.window.link
    }

    /// The completion of the request, unless the request was ended or its operation was empty.
    pub(in crate::win) fn completion(&self) -> Option<&'w Completion> {
        // SAFETY: the pool keeps the state as long as the window.
        self.state.map(|state| unsafe { (*state.as_ptr()).end() })
    }

    /// Whether its outcome was taken. An operation that sent nothing is complete from the start,
    /// and its outcome is taken like any other.
    pub fn is_ended(&self) -> bool {
        self.state.is_none() && !self.nothing
    }

    /// Whether the operation may still use its buffers.
    pub fn is_under_way(&self) -> bool {
        !self.is_over()
    }

    /// Whether the operation is complete.
    pub fn is_over(&self) -> bool {
        self.completion().is_none_or(Completion::is_complete)
    }

    /// Ends a request whose operation is complete; returns its failure, once.
    pub fn end_complete(&mut self) -> WinResult<()> {
        match self.state {
            Some(state) => self.end(state),
            None => {
                self.nothing = false;
                Ok(())
            }
        }
    }

    /// Makes progress, and returns whether the operation is complete. The first such call after
    /// completion returns a failure of the operation; later calls return true.
    pub fn test(&mut self) -> WinResult<bool> {
        let _entered = self.window.link.enter("test")?;
        let Some(state) = self.state else {
            self.nothing = false;
            return Ok(true);
        };
        // SAFETY: the pool keeps the state as long as the window.
        let fields = unsafe { state.as_ref() };
        if !fields.is_done() {
            self.window.link.progress(self.call)?;
            if !fields.is_done() {
                return Ok(false);
            }
        } else {
            self.visit();
        }
        self.end(state).map(|()| true)
    }

    /// Makes progress now and then. Waits for operations that end at once would otherwise make no
    /// progress, and a program that polls by such waits would never answer other ranks.
    #[inline]
    pub(in crate::win) fn visit(&self) {
        let link = self.link();
        if !link.is_quiet() {
            // A call that needs the progress reports its failure.
            let _ = link.waiter().progress();
        }
    }

    /// Frees the state of a complete request, and returns the outcome.
    fn end(&mut self, state: NonNull<RequestState>) -> WinResult<()> {
        self.state = None;
        // SAFETY: the pool keeps the state as long as the window.
        let failed = unsafe { state.as_ref() }.failed();
        self.window.parts.requests.give_back(state);
        if failed < 0 {
            return Err(Box::new(WinError::Transport {
                call: self.call,
                rank: self.rank as usize,
                status: Status(failed),
            }));
        }
        Ok(())
    }

    /// Waits until the operation is complete. [`WinError::Level`]: this thread may not call; the call
    /// waits nevertheless, as dropping the request does.
    pub fn wait(mut self) -> WinResult<()> {
        self.settle()
    }

    /// As [`wait`](Self::wait), but the caller keeps the request, which stays open after
    /// [`WinError::Level`].
    pub fn settle(&mut self) -> WinResult<()> {
        let _entered = self.window.link.enter("wait")?;
        self.visit();
        self.finish()
    }

    /// Waits for every request; reports the first failure after all have ended.
    pub fn wait_all(requests: impl IntoIterator<Item = Request<'w>>) -> WinResult<()> {
        let mut outcome = Ok(());
        for request in requests {
            let result = request.wait();
            if outcome.is_ok() {
                outcome = result;
            }
        }
        outcome
    }

    /// Waits on any thread. The buffers belong to the caller again only after the operation's end, so
    /// dropping a request has to work at every thread level.
    fn finish(&mut self) -> WinResult<()> {
        let Some(state) = self.state else {
            self.nothing = false;
            return Ok(());
        };
        // SAFETY: the pool keeps the state as long as the window.
        let fields = unsafe { state.as_ref() };
        self.window.link.wait_request(self.call, fields.end())?;
        self.end(state)
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if self.completion().is_none() {
            return;
        }
        if let Err(error) = self.finish() {
            // The state is not freed if the job failed: its callbacks may still come.
            tracing::warn!("a dropped request failed: {error}");
            // The next flush of the target reports the failure to programs that only check results
            // of calls.
            if let WinError::Transport { rank, status, .. } = *error
                && let Some(peer) = self.window.parts.peers.made(rank)
            {
                peer.transfers.fail(status);
                self.window.note(peer);
            }
        }
    }
}
