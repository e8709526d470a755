//! Atomics on their way from a door to a carrier.

use std::ffi::c_void;
use std::ptr;

use plugin_api::{AtomicOp, Datatype};

use crate::mem::handle::Target;
use crate::op::request::Operands;
use crate::op::responder::COUNT;

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

/// An atomic for a ring, checked against the supported operations and against its handle.
#[derive(Clone, Copy)]
pub(crate) struct AtomicCommand {
    /// Kind, type and operation ([`responder::what`]).
    pub(crate) what: u32,
    pub(crate) count: usize,
    /// Bytes of the elements.
    pub(crate) size: usize,
    /// The address in the peer's memory.
    pub(crate) address: u64,
    pub(crate) key: u64,
    pub(crate) cookie: u64,
    pub(crate) operands: Operands,
    pub(crate) compare: u64,
    /// Receives the old values; NULL for an update.
    pub(crate) result: *mut c_void,
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
    /// The update as a command for its target.
    pub(crate) fn command(&self) -> AtomicCommand {
        AtomicCommand {
            what: COUNT,
            count: 1,
            size: size_of::<u64>(),
            address: self.address,
            key: self.remote.target.key,
            cookie: self.cookie,
            operands: Operands::Value(self.add),
            compare: 0,
            result: ptr::null_mut(),
        }
    }
}
