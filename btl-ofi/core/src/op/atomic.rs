//! Atomics on their way from a door to a carrier.

use std::ptr;

use plugin_api::{AtomicOp, Datatype};

use crate::mem::handle::Target;
use crate::op::request::{Operands, Request};
use crate::op::responder::{COUNT, Command};

/// The target's part of an atomic, checked.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) target: Target,
    pub(crate) datatype: Datatype,
    pub(crate) op: AtomicOp,
    pub(crate) count: usize,
}

impl Remote {
    /// Bytes of the elements.
    pub(crate) fn size(&self) -> usize {
        self.count * self.datatype.size()
    }
}

/// The update that notifies, checked.
#[derive(Clone, Copy)]
pub(crate) struct Raise {
    pub(crate) remote: Remote,
    pub(crate) address: u64,
    pub(crate) cookie: u64,
    pub(crate) add: u64,
}

impl Raise {
    /// The update as a request for its target's processor.
    pub(crate) fn request(&self) -> Request {
        Request {
            command: Command {
                what: COUNT,
                count: 1,
                address: self.address,
                key: self.remote.target.key,
                cookie: self.cookie,
                compare: 0,
            },
            operands: Operands::Value(self.add),
            size: size_of::<u64>(),
            result: ptr::null_mut(),
        }
    }
}
