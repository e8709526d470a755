//! A device's command: its checks, its request, and its end.

use plugin_api::{Datatype, Status};

use super::{Held, Served, State};
use crate::base::Op;
use crate::device::{Command, CommandKind, Completion, HOST, Level};
use crate::win::{Layout, Request, Target, WinError, WinResult, Window};

const CALL: &str = "a device's command";

fn bad(reason: String) -> Box<WinError> {
    Box::new(WinError::BadArgument { call: CALL, reason })
}

/// The status that a device gets for an error: libfabric's codes, which are the values of errno.
pub(super) fn errno(error: &WinError) -> i32 {
    match error {
        WinError::Transport { status, .. } if *status == Status::UNREACH => -libc::EHOSTUNREACH,
        WinError::Job { .. } => -libc::EHOSTUNREACH,
        WinError::Transport { .. } | WinError::DeviceCopy { .. } => -libc::EIO,
        WinError::Registration { .. } => -libc::ENOMEM,
        _ => -libc::EINVAL,
    }
}

/// A command that has begun and has no answer.
pub(super) struct UnderWay {
    pub(super) ticket: u64,
    pub(super) untracked: bool,
    window: u32,
    rank: u32,
    /// A request of a window of the state, which outlives the request; `None` for a flush.
    request: Option<Request<'static>>,
    /// Operand and result of a fetching command.
    words: Option<Box<[u64; 2]>>,
}

impl UnderWay {
    pub(super) fn target(&self) -> (u32, u32) {
        (self.window, self.rank)
    }

    /// Whether the command is complete. `waited` lists the targets of earlier commands that are not
    /// complete.
    pub(super) fn is_over(&self, waited: &[(u32, u32)]) -> bool {
        match &self.request {
            Some(request) => request.is_over(),
            None => !waited.contains(&self.target()),
        }
    }

    /// The answer to a complete command; only a flush calls `lost`.
    pub(super) fn end(&mut self, lost: impl FnOnce() -> i32) -> Completion {
        let outcome = self.request.as_mut().map(Request::end_complete);
        self.completion(outcome, lost)
    }

    /// Waits for the command and returns its answer; all earlier commands are complete.
    pub(super) fn finish(&mut self, lost: impl FnOnce() -> i32) -> Completion {
        let outcome = self.request.as_mut().map(Request::settle);
        if let Some(request) = self.request.take_if(|request| !request.is_ended()) {
            // The job failed, so the operation may never end; if it ends, it writes its result.
            std::mem::forget(request);
            std::mem::forget(self.words.take());
        }
        self.completion(outcome, lost)
    }

    fn completion(&self, outcome: Option<WinResult<()>>, lost: impl FnOnce() -> i32) -> Completion {
        let status = match outcome {
            None => lost(),
            Some(Ok(())) => 0,
            Some(Err(error)) => errno(&error),
        };
        let fetched = self.words.as_ref().map_or(0, |words| words[1]);
        Completion {
            status,
            result: if status == 0 { fetched } else { 0 },
        }
    }
}

impl State {
    /// Begins a command. `None` if the command is already answered.
    pub(super) fn begin(
        &self,
        served: &Served,
        command: &Command,
        ticket: u64,
    ) -> WinResult<Option<UnderWay>> {
        let kind = CommandKind::of(command.kind)
            .ok_or_else(|| bad(format!("there is no command {}", command.kind)))?;
        let window = self
            .windows
            .get(command.window as usize)
            .ok_or_else(|| bad(format!("there is no window {}", command.window)))?;
        let window: &Held = window.as_ref();
        let rank = command.target as usize;
        if rank >= window.size() {
            return Err(Box::new(WinError::NoSuchRank {
                call: CALL,
                rank,
                size: window.size(),
            }));
        }
        let mut under_way = UnderWay {
            ticket,
            untracked: command.untracked,
            window: command.window,
            rank: command.target,
            request: None,
            words: None,
        };
        if kind == CommandKind::Flush {
            return Ok(Some(under_way));
        }
        if served.level < Level::DeviceOnBoth && !window.is_on_device(rank) {
            return Err(bad(format!(
                "rank {rank} of window {} is not known to be of a device; devices may use host memory \
                 from level 4 on",
                command.window
            )));
        }
        let asked = Asked::new(command)?;
        if kind == CommandKind::CompareSwap {
            let result = asked.swap(window)?;
            let completion = Completion { status: 0, result };
            served.ring.answer(ticket, completion, command.untracked);
            return Ok(None);
        }
        if kind == CommandKind::FetchOp {
            under_way.words = Some(Box::new([command.operand, 0]));
        }
        let words = under_way.words.as_mut().map(|words| words.as_mut_ptr());
        // SAFETY: the borrowed window is kept in an `Arc` of the state. The state's windows are only added to,
        // are dropped after all outstanding commands, and are never borrowed mutably meanwhile.
        let window: &'static Window = unsafe { &*std::ptr::from_ref::<Window>(window) };
        under_way.request = Some(asked.issue(served, kind, window, words)?);
        Ok(Some(under_way))
    }
}

/// A command with a valid element type.
struct Asked<'c> {
    command: &'c Command,
    datatype: Datatype,
    layout: Layout,
}

impl Asked<'_> {
    fn new(command: &Command) -> WinResult<Asked<'_>> {
        let datatype = Datatype::try_from(command.datatype).map_err(|e| bad(e.to_string()))?;
        let count = match CommandKind::of(command.kind) {
            Some(CommandKind::FetchOp | CommandKind::CompareSwap) => 1,
            _ => usize::try_from(command.count).unwrap_or(usize::MAX),
        };
        Ok(Asked {
            command,
            datatype,
            layout: Layout::contiguous(datatype, count),
        })
    }

    fn op(&self) -> WinResult<Op> {
        let op = Op::ALL.get(self.command.op as usize).copied();
        op.ok_or_else(|| bad(format!("there is no operation {}", self.command.op)))
    }

    fn target(&self) -> Target<'_> {
        Target {
            rank: self.command.target as usize,
            displacement: self.command.displacement,
            layout: &self.layout,
        }
    }

    /// The local buffer, which at level 3 must be device memory.
    fn local(&self, served: &Served) -> WinResult<*mut u8> {
        let (value, len) = (self.command.local, self.layout.bytes());
        if value == 0 && len > 0 {
            return Err(bad(String::from("its buffer is NULL")));
        }
        let located = served.job.devices().locate(value, len);
        let location = located.map_err(|e| bad(e.to_string()))?;
        if location.device == HOST && served.level < Level::DeviceOnBoth {
            return Err(bad(String::from(
                "its buffer is host memory, which devices may use from level 4 on",
            )));
        }
        Ok(std::ptr::with_exposed_provenance_mut(value as usize))
    }

    /// Issues an operation with a request. `words` holds operand and result of a fetching operation, and
    /// stays until the operation has ended.
    fn issue(
        &self,
        served: &Served,
        kind: CommandKind,
        window: &'static Window,
        words: Option<*mut u64>,
    ) -> WinResult<Request<'static>> {
        let (layout, target) = (&self.layout, self.target());
        // SAFETY: the device guarantees that its buffer stays until its command is complete; the caller
        // guarantees that the words stay.
        unsafe {
            match (kind, words) {
                (CommandKind::Put, _) => window.rput(self.local(served)?, layout, target),
                (CommandKind::Get, _) => window.rget(self.local(served)?, layout, target),
                (CommandKind::Accumulate, _) => {
                    let op = self.op()?;
                    window.raccumulate(self.local(served)?, layout, target, op)
                }
                (CommandKind::FetchOp, Some(words)) => {
                    let (operand, result) = (words.cast(), words.add(1).cast());
                    window.rget_accumulate(operand, layout, result, layout, target, self.op()?)
                }
                _ => Err(bad(format!("{kind:?} has no request"))),
            }
        }
    }

    /// Performs a compare-and-swap to completion; returns the old value.
    fn swap(&self, window: &Window) -> WinResult<u64> {
        let Command {
            target,
            displacement,
            operand,
            compare,
            ..
        } = *self.command;
        let mut words = Box::new([operand, compare, 0]);
        let at = words.as_mut_ptr();
        let [operand, compare, result] = [0, 1, 2].map(|index| at.wrapping_add(index).cast());
        let rank = target as usize;
        // SAFETY: the words stay until the flush is over, even if it fails.
        unsafe {
            window.compare_and_swap(operand, compare, result, self.datatype, rank, displacement)?;
        }
        if let Err(error) = window.flush(rank) {
            std::mem::forget(words);
            return Err(error);
        }
        Ok(words[2])
    }
}
