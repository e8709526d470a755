//! Buffers on devices of collectives that the default algorithms run: host memory in their place, and copies in the plan.

use std::ops::Range;
use std::sync::Arc;

use super::{CollArgs, Collective};
use crate::comm::table::{Place, find};
use crate::comm::{Comm, CommError, CommResult};
use crate::device::Devices;
use crate::schedule::{OnDevice, Plan};

/// The buffers of one collective.
pub(super) struct Staged<'a> {
    /// The arguments with host memory only.
    args: CollArgs<'a>,
    devices: Arc<Devices>,
    there: Vec<(OnDevice, Vec<u64>)>,
    /// The receive buffer, if the host has it.
    result: Option<Range<usize>>,
}

impl<'a> Staged<'a> {
    /// Memory for buffers on devices.
    pub(super) fn new(
        comm: &Comm,
        collective: Collective,
        args: &CollArgs<'a>,
    ) -> CommResult<Staged<'a>> {
        let view = comm.view();
        // A layer may have changed them.
        args.check(collective, &view)?;
        let (call, devices) = (collective.name(), comm.job().devices());
        let span = args.span(collective, &view);
        let mut staged = Staged {
            args: CollArgs {
                on_device: false,
                ..*args
            },
            devices: Arc::clone(devices),
            there: Vec::new(),
            result: None,
        };
        match find(call, devices, args.send.cast_mut(), span.send)? {
            Place::Host(at) => staged.args.send = at,
            Place::Device { iface, address } => {
                staged.args.send = staged.room(call, (iface, address), span.send, true)?;
            }
        }
        match find(call, devices, args.recv, span.recv)? {
            Place::Host(at) => {
                staged.args.recv = at;
                staged.result = Some(at as usize..at as usize + span.recv);
            }
            Place::Device { iface, address } => {
                staged.args.recv = staged.room(call, (iface, address), span.recv, span.reads)?;
            }
        }
        Ok(staged)
    }

    fn room(
        &mut self,
        call: &'static str,
        (iface, address): (u32, u64),
        len: usize,
        read: bool,
    ) -> CommResult<*mut u8> {
        let (mut words, wanted) = (Vec::new(), len.div_ceil(8));
        words
            .try_reserve_exact(wanted)
            .map_err(|_| CommError::BadArgument {
                call,
                reason: format!("there is no host memory for {len} B of a device"),
            })?;
        words.resize(wanted, 0u64);
        let host = words.as_mut_ptr().cast();
        let buffer = OnDevice {
            host,
            len,
            iface,
            address,
            read,
        };
        self.there.push((buffer, words));
        Ok(host)
    }

    /// Adds the steps of the collective, and the copies between them.
    pub(super) fn build(self, plan: &mut Plan, add: impl FnOnce(&mut Plan, &CollArgs<'_>)) {
        let mut buffers = Vec::with_capacity(self.there.len());
        for (buffer, words) in self.there {
            plan.keep(words);
            buffers.push(buffer);
        }
        add(plan, &self.args);
        plan.stage(&self.devices, &buffers, self.result);
    }
}
