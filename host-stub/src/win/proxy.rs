//! The host's side of a device's ring ([`Ring`]): does what devices ask, with the windows it was given.

use plugin_api::{Datatype, Status};

use super::{Layout, Target, WinError, WinResult, Window};
use crate::base::Op;
use crate::device::{Command, CommandKind, Completion, Devices, HOST, Level, Ring};

/// Serves one ring. Whoever drives it has opened the epochs that the commands need.
pub struct Proxy<'a> {
    ring: &'a Ring,
    devices: &'a Devices,
    windows: &'a [&'a Window],
    level: Level,
    next: u64,
}

impl<'a> Proxy<'a> {
    /// Serves `ring` with `windows`, which commands name by their index. [`WinError::BadArgument`]:
    /// the level is below 3, at which devices start nothing.
    pub fn new(
        ring: &'a Ring,
        devices: &'a Devices,
        windows: &'a [&'a Window],
        level: Level,
    ) -> WinResult<Proxy<'a>> {
        if level < Level::DeviceOnDevice {
            return Err(WinError::BadArgument {
                call: "proxy",
                reason: format!("devices start operations from level 3 on; this is level {level}"),
            });
        }
        Ok(Proxy {
            ring,
            devices,
            windows,
            level,
            next: 0,
        })
    }

    /// Goes on after `count` commands that another proxy has done.
    pub fn skip(&mut self, count: u64) {
        self.next += count;
    }

    /// Does every command that is published, and answers it. Returns how many there were.
    pub fn serve(&mut self) -> usize {
        let mut served = 0;
        while let Some(command) = self.ring.next(self.next) {
            let completion = match self.execute(&command) {
                Ok(result) => Completion { status: 0, result },
                Err(error) => {
                    tracing::warn!("a command of a device failed: {error}");
                    let status = match error {
                        WinError::Transport { status, .. } => status,
                        _ => Status::BAD_PARAM,
                    };
                    Completion {
                        status: status.0,
                        result: 0,
                    }
                }
            };
            self.ring.answer(self.next, completion);
            self.next += 1;
            served += 1;
        }
        served
    }

    fn execute(&self, command: &Command) -> WinResult<u64> {
        let call = "a device's command";
        let bad = |reason: String| WinError::BadArgument { call, reason };
        let kind = CommandKind::of(command.kind)
            .ok_or_else(|| bad(format!("there is no command {}", command.kind)))?;
        let window = self
            .windows
            .get(command.window as usize)
            .ok_or_else(|| bad(format!("there is no window {}", command.window)))?;
        let rank = command.target as usize;
        if kind == CommandKind::Flush {
            window.flush(rank)?;
            return Ok(0);
        }
        if self.level < Level::DeviceOnBoth && !window.is_on_device(rank) {
            return Err(bad(format!(
                "rank {rank} of window {} is not known to be of a device; devices may use host memory \
                 from level 4 on",
                command.window
            )));
        }
        let datatype = Datatype::try_from(command.datatype).map_err(|e| bad(e.to_string()))?;
        let op = || {
            let op = Op::ALL.get(command.op as usize).copied();
            op.ok_or_else(|| bad(format!("there is no operation {}", command.op)))
        };
        let count = usize::try_from(command.count).unwrap_or(usize::MAX);
        let layout = Layout::contiguous(datatype, count);
        let target = Target {
            rank,
            displacement: command.displacement,
            layout: &layout,
        };
        let local = || self.local(command.local, layout.bytes());
        let displacement = command.displacement;
        // SAFETY: the device vouches for its buffer until the flush that completes the command; `fetch` vouches for the words.
        unsafe {
            match kind {
                CommandKind::Put => window.put(local()?, &layout, target)?,
                CommandKind::Get => window.get(local()?, &layout, target)?,
                CommandKind::Accumulate => window.accumulate(local()?, &layout, target, op()?)?,
                CommandKind::FetchOp => {
                    let op = op()?;
                    return fetch(window, command, |[operand, _, result]| {
                        window.fetch_and_op(operand, result, datatype, rank, displacement, op)
                    });
                }
                CommandKind::CompareSwap => {
                    return fetch(window, command, |[operand, compare, result]| {
                        window.compare_and_swap(
                            operand,
                            compare,
                            result,
                            datatype,
                            rank,
                            displacement,
                        )
                    });
                }
                CommandKind::Flush => {}
            }
        }
        Ok(0)
    }

    /// The buffer of a command, which at level 3 must be of a device.
    fn local(&self, value: u64, len: usize) -> WinResult<*mut u8> {
        let bad = |reason: String| WinError::BadArgument {
            call: "a device's command",
            reason,
        };
        let located = self.devices.locate(value, len);
        let location = located.map_err(|e| bad(e.to_string()))?;
        if location.device == HOST && self.level < Level::DeviceOnBoth {
            return Err(bad(String::from(
                "its buffer is host memory, which devices may use from level 4 on",
            )));
        }
        Ok(std::ptr::with_exposed_provenance_mut(value as usize))
    }
}

/// Issues an operation on words of its own (operand, compared value, result), and completes it. An operation that cannot be
/// completed may still write its result, so its words are never freed.
fn fetch(
    window: &Window,
    command: &Command,
    issue: impl FnOnce([*mut u8; 3]) -> WinResult<()>,
) -> WinResult<u64> {
    let mut words = Box::new([command.operand, command.compare, 0]);
    let at = words.as_mut_ptr();
    issue([0, 1, 2].map(|index| at.wrapping_add(index).cast()))?;
    if let Err(error) = window.flush(command.target as usize) {
        std::mem::forget(words);
        return Err(error);
    }
    Ok(words[2])
}
