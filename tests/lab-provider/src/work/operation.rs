//! One operation: its effect, and the target's side of it.

use libfabric_sys as ffi;

use crate::base::arithmetic;
use crate::base::config::Config;
use crate::base::report::violation;
use crate::reach::device;
use crate::reach::inbox::{self, Request};
use crate::reach::mailbox;
use crate::reach::memory::{self, Exclusive};
use crate::reach::name::Name;
use crate::reach::regions::{self, Place};
use crate::work::traps::Traps;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Copies local bytes to the target.
    Write,
    /// Copies the target's bytes to a local buffer.
    Read,
    /// Executes an atomic: number of its kind (0 update, 1 fetch, 2 compare), type and operation.
    Atomic { kind: u32, datatype: u32, op: u32 },
    /// Puts a message into the peer's mailbox.
    Send,
    /// Copies a message of any peer to a local buffer.
    Receive,
}

/// A local buffer, with the descriptor that its user gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Local {
    pub(crate) address: u64,
    pub(crate) descriptor: u64,
}

/// An operation that was accepted and has not completed.
pub(crate) struct Operation {
    pub(crate) work: Work,
    pub(crate) peer: Name,
    /// The peer's position in the address vector.
    pub(crate) position: u64,
    pub(crate) address: u64,
    pub(crate) key: u64,
    pub(crate) length: usize,
    /// The source of a write or a send, the destination of a read or a receive, or the operands of
    /// an atomic.
    pub(crate) local: Local,
    pub(crate) compare: Local,
    pub(crate) result: Local,
    pub(crate) context: u64,
    /// Whether completion guarantees that the target's memory is changed.
    pub(crate) delivered: bool,
    /// The endpoint and the queue set these fields.
    pub(crate) endpoint: usize,
    pub(crate) number: u64,
    pub(crate) due: u64,
    pub(crate) fails: Option<i32>,
    /// Whether the operation has no effect, and succeeds.
    pub(crate) lost: bool,
    pub(crate) nameless: bool,
    pub(crate) done: Option<Result<(), i32>>,
    /// The read of the queue at which the peer's mailbox was full.
    pub(crate) held: Option<u64>,
    pub(crate) traps: Traps,
}

impl Operation {
    pub(crate) fn new(work: Work, peer: Name, address: u64, key: u64, length: usize) -> Operation {
        Operation {
            work,
            peer,
            position: 0,
            address,
            key,
            length,
            local: Local::default(),
            compare: Local::default(),
            result: Local::default(),
            context: 0,
            delivered: false,
            endpoint: 0,
            number: 0,
            due: 0,
            fails: None,
            lost: false,
            nameless: false,
            done: None,
            held: None,
            traps: Traps::default(),
        }
    }

    /// Whether both are sends of one endpoint to one peer.
    pub(crate) fn goes_with(&self, other: &Operation) -> bool {
        (self.work, other.work) == (Work::Send, Work::Send)
            && self.endpoint == other.endpoint
            && self.peer == other.peer
    }

    /// Whether the peer was asked to do the work, and its answer was not taken yet.
    pub(crate) fn is_asked(&self) -> bool {
        self.traps.asked.is_some() && self.done.is_none()
    }

    /// Does the work once; `None` while the operation waits for the peer.
    pub(crate) fn perform(&mut self, config: &Config) -> Option<Result<(), i32>> {
        if self.done.is_none() {
            self.done = self.attempt(config).unwrap_or_else(|code| Some(Err(code)));
        }
        self.done
    }

    fn attempt(&mut self, config: &Config) -> Result<Option<Result<(), i32>>, i32> {
        if self.lost {
            return Ok(Some(Ok(())));
        }
        let (read, write) = (
            u64::from(ffi::FI_REMOTE_READ),
            u64::from(ffi::FI_REMOTE_WRITE),
        );
        let rights = match self.work {
            Work::Write | Work::Atomic { kind: 0, .. } => write,
            Work::Read => read,
            Work::Atomic { op, .. } if op == ffi::FI_ATOMIC_READ => read,
            Work::Atomic { .. } => read | write,
            Work::Send => {
                let bytes = &self.traps.source;
                let taken = mailbox::deposit(&self.peer, self.endpoint as u64, bytes)?;
                return Ok(taken.then_some(Ok(())));
            }
            // `receiver` delivers the message.
            Work::Receive => return Ok(None),
        };
        let access = regions::Access {
            address: self.address,
            length: self.length as u64,
            key: self.key,
            rights,
            virtual_addresses: config.virtual_addresses(),
        };
        let place = regions::find(&self.peer, &access).map_err(|(code, why)| {
            if !why.is_empty() {
                violation(&format!("{:?}: {why}", self.work));
            }
            code
        })?;
        if let Work::Atomic { datatype, .. } = self.work {
            let size = arithmetic::size(datatype).ok_or(ffi::FI_EOPNOTSUPP as i32)?;
            if !place.address.is_multiple_of(size as u64) {
                violation(&format!(
                    "{:?} at unaligned address {:#x}",
                    self.work, place.address
                ));
                return Err(ffi::FI_EINVAL as i32);
            }
        }
        match self.reach(place) {
            Ok(Some(read)) => Ok(Some(self.land(&read))),
            Ok(None) => Ok(None),
            Err(code) => Err(code),
        }
    }

    /// Does the target's side. Returns the read bytes, or `None` while the peer has not answered.
    fn reach(&mut self, place: Place) -> Result<Option<Vec<u8>>, i32> {
        if place.device {
            return self.reach_device(place);
        }
        let (pid, remote) = (self.peer.pid, place.address);
        match self.work {
            // These operations use no region.
            Work::Send | Work::Receive => Ok(None),
            Work::Write => {
                memory::put(pid, remote, self.traps.source.as_ptr() as u64, self.length)?;
                Ok(Some(Vec::new()))
            }
            Work::Read => {
                let mut bytes = vec![0u8; self.length];
                memory::get(pid, remote, bytes.as_mut_ptr() as u64, self.length)?;
                Ok(Some(bytes))
            }
            Work::Atomic { datatype, op, .. } => {
                let mut old = vec![0u8; self.length];
                let _alone = Exclusive::begin()?;
                memory::get(pid, remote, old.as_mut_ptr() as u64, self.length)?;
                if op != ffi::FI_ATOMIC_READ {
                    let new = arithmetic::apply_all(
                        datatype,
                        op,
                        &old,
                        &self.traps.source,
                        &self.traps.compared,
                    );
                    memory::put(pid, remote, new.as_ptr() as u64, self.length)?;
                }
                Ok(Some(old))
            }
        }
    }

    fn reach_device(&mut self, place: Place) -> Result<Option<Vec<u8>>, i32> {
        if let Some(index) = self.traps.asked {
            let Some(answer) = inbox::answer(&self.peer, index, self.length)? else {
                return Ok(None);
            };
            return answer.map(Some);
        }
        if self.length > inbox::LARGEST {
            return Err(ffi::FI_EMSGSIZE as i32);
        }
        let (work, datatype, op) = match self.work {
            Work::Write => (0, 0, 0),
            Work::Read => (1, 0, 0),
            Work::Atomic { datatype, op, .. } => (2, datatype, op),
            // These operations use no region.
            Work::Send | Work::Receive => return Ok(None),
        };
        let request = Request {
            domain: self.peer.domain,
            key: self.key,
            address: place.address,
            length: self.length as u64,
            work,
            datatype: u64::from(datatype),
            op: u64::from(op),
        };
        self.traps.asked = inbox::ask(
            &self.peer,
            &request,
            &self.traps.source,
            &self.traps.compared,
        )?;
        Ok(None)
    }

    /// Writes the read bytes to their destination.
    pub(crate) fn land(&mut self, read: &[u8]) -> Result<(), i32> {
        let destination = self.destination();
        if destination.address == 0 {
            return Ok(());
        }
        if let Some(spoilt) = &self.traps.landed {
            let now = device::read_local(destination.address, spoilt.len())?;
            if now != *spoilt
                && !self.shares_destination()
                && !regions::overlaps(destination.address, now.len() as u64)
            {
                violation(&format!(
                    "{:?}: its destination changed before it completed",
                    self.work
                ));
            }
            self.traps.landed = Some(read.to_vec());
        }
        device::write_local(destination.address, read)
    }
}
