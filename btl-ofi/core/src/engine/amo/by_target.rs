//! AMOs that the target's processor executes: by its ring, or by message.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::{AtomicKind, Status};

use crate::base::hints::{MESSAGE, Way, branch};
use crate::engine::amo::table::RING;
use crate::engine::transport::Transport;
use crate::fabric::msg::Form;
use crate::mem::handle::Handle;
use crate::op::completion::Completion;
use crate::op::request::{Caller, Operands, Request};
use crate::op::responder::{self, Command};
use crate::peer::endpoint::Endpoint;

/// The operands of an AMO, without its target.
pub(super) struct WordOperands {
    pub(super) kind: AtomicKind,
    pub(super) operand: u64,
    pub(super) compare: u64,
}

impl Transport {
    /// The fast path of an AMO that its target executes. With `WAY` [`MESSAGE`], the AMO joins the peer's current batch;
    /// otherwise it goes to the peer's ring or into a new batch.
    ///
    /// # Safety
    /// `endpoint` is live, and `result` is NULL, or writable until completion; `T` is the transport's threading.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the parameters of an AMO")]
    pub(super) unsafe fn try_word_by_target<const T: bool, const WAY: Way>(
        &self,
        endpoint: NonNull<Endpoint>,
        codes: (u32, u32),
        address: u64,
        handle: &Handle,
        word_operands: &WordOperands,
        result: *mut c_void,
        completion: Option<Completion>,
    ) -> Option<Status> {
        if WAY == MESSAGE {
            branch();
            // SAFETY: the caller guarantees `T` and that `endpoint` is live.
            if !unsafe { endpoint.as_ref().sends_atomics_by_message::<T>() } {
                return None;
            }
        }
        let atomic = self.word_command(codes, address, handle, word_operands, result)?;
        let caller = Caller::plain(completion, result);
        // SAFETY: the caller guarantees `T`, that `endpoint` is live and that `result` is valid until completion.
        unsafe {
            match WAY {
                MESSAGE => {
                    let form = Form::word(word_operands.kind);
                    self.gather::<T>(endpoint, &caller, &atomic, &form)
                }
                _ => self.try_command(endpoint, &caller, &atomic),
            }
        }
    }

    /// Checks an AMO that its target executes, and returns it as the target's command.
    #[inline(always)]
    fn word_command(
        &self,
        codes: (u32, u32),
        address: u64,
        handle: &Handle,
        word_operands: &WordOperands,
        result: *mut c_void,
    ) -> Option<Request> {
        let bit = 1 << (word_operands.kind as u32 + RING);
        let (_, word) = self.word(bit, codes, handle, address)?;
        let what = responder::what(word_operands.kind, word.datatype as u32, word.op as u32);
        Some(Request {
            command: Command {
                compare: word_operands.compare,
                ..Command::on(handle, address, what, 1)
            },
            operands: Operands::Value(word_operands.operand),
            size: word.mask as usize + 1,
            result,
        })
    }
}
