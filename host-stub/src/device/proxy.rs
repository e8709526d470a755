//! The host's side of the ring: does what devices ask, with the windows it was given.

use plugin_api::{Datatype, Status};

use super::level::Level;
use super::location::HOST;
use super::registry::Devices;
use super::ring::{Command, CommandKind, Completion, Ring};
use crate::win::{Layout, Op, Target, WinError, WinResult, Window};

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
        let (operand, compare) = (command.operand.to_ne_bytes(), command.compare.to_ne_bytes());
        let mut result = [0u8; 8];
        let local = || self.local(command.local, layout.bytes());
        // SAFETY: the device vouches for its buffer until the flush that completes the command; the
        // words here live until the flush below.
        unsafe {
            match kind {
                CommandKind::Put => window.put(local()?, &layout, target)?,
                CommandKind::Get => window.get(local()?, &layout, target)?,
                CommandKind::Accumulate => window.accumulate(local()?, &layout, target, op()?)?,
                CommandKind::FetchOp => {
                    window.fetch_and_op(
                        operand.as_ptr(),
                        result.as_mut_ptr(),
                        datatype,
                        rank,
                        command.displacement,
                        op()?,
                    )?;
                    window.flush(rank)?;
                }
                CommandKind::CompareSwap => {
                    window.compare_and_swap(
                        operand.as_ptr(),
                        compare.as_ptr(),
                        result.as_mut_ptr(),
                        datatype,
                        rank,
                        command.displacement,
                    )?;
                    window.flush(rank)?;
                }
                CommandKind::Flush => {}
            }
        }
        Ok(u64::from_ne_bytes(result))
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
