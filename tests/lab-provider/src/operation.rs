//! One operation: what it does, and the traps laid for a user that touches what is the provider's
//! until completion.

use libfabric_sys as ffi;

use crate::address::Name;
use crate::arithmetic;
use crate::config::Config;
use crate::counter::CounterObject;
use crate::device;
use crate::inbox::{self, Request};
use crate::memory::{self, Exclusive};
use crate::regions::{self, Place};
use crate::report::violation;

/// What a destination holds until its data comes.
const SPOILT: u8 = 0xa5;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Local bytes to the target.
    Write,
    /// The target's bytes to a local buffer.
    Read,
    /// An atomic: number of its kind (0 update, 1 fetch, 2 compare), type and operation.
    Atomic { kind: u32, datatype: u32, op: u32 },
}

/// A local buffer, with the descriptor that its user gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Local {
    pub(crate) address: u64,
    pub(crate) descriptor: u64,
}

/// What an operation remembers, to do its work and to notice what its user does meanwhile.
#[derive(Default)]
pub(crate) struct Traps {
    /// Operands and values to compare with, as they were at the post.
    source: Vec<u8>,
    compared: Vec<u8>,
    /// What the destination must hold; nothing where peers may write it.
    landed: Option<Vec<u8>>,
    /// Where its request lies in the peer's inbox.
    asked: Option<usize>,
}

/// An operation, accepted and not yet completed.
pub(crate) struct Operation {
    pub(crate) work: Work,
    pub(crate) peer: Name,
    /// The peer's position in the address vector.
    pub(crate) position: u64,
    pub(crate) address: u64,
    pub(crate) key: u64,
    pub(crate) length: usize,
    /// Source of a write, destination of a read, operands of an atomic.
    pub(crate) local: Local,
    pub(crate) compare: Local,
    pub(crate) result: Local,
    pub(crate) context: u64,
    /// Whether completion promises that the target's memory is changed.
    pub(crate) delivered: bool,
    /// Whether success leaves an entry in the queue.
    pub(crate) completes: bool,
    /// Whether the source was copied at the post.
    pub(crate) injected: bool,
    /// Set by the endpoint and the queue.
    pub(crate) endpoint: usize,
    pub(crate) number: u64,
    pub(crate) due: u64,
    pub(crate) fails: Option<i32>,
    pub(crate) nameless: bool,
    pub(crate) done: Option<Result<(), i32>>,
    pub(crate) traps: Traps,
    /// Where its end is counted.
    pub(crate) counter: Option<&'static CounterObject>,
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
            completes: true,
            injected: false,
            endpoint: 0,
            number: 0,
            due: 0,
            fails: None,
            nameless: false,
            done: None,
            traps: Traps::default(),
            counter: None,
        }
    }

    /// Counts its end where it is to be counted.
    pub(crate) fn count(&self, done: &Result<(), i32>) {
        if let Some(counter) = self.counter {
            counter.inner.count(done);
        }
    }

    fn reads_local(&self) -> bool {
        match self.work {
            Work::Write => true,
            Work::Read => false,
            Work::Atomic { op, .. } => op != ffi::FI_ATOMIC_READ,
        }
    }

    /// Where the result goes; address 0 for nowhere.
    fn destination(&self) -> Local {
        match self.work {
            Work::Read => self.local,
            Work::Atomic { .. } => self.result,
            Work::Write => Local::default(),
        }
    }

    fn pattern(&self) -> u64 {
        self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }

    /// Whether device memory comes with its descriptor, and descriptors with what they describe.
    fn check_descriptor(&self, config: &Config, local: Local) -> Result<(), i32> {
        let refuse = |what: &str| {
            violation(&format!("{:?}: {what}", self.work));
            Err(ffi::FI_EINVAL as i32)
        };
        if local.address == 0 || self.length == 0 {
            return Ok(());
        }
        if local.descriptor != 0 {
            let slot = local.descriptor as usize - 1;
            if !regions::covers(slot, local.address, self.length as u64) {
                return refuse("a descriptor that does not describe the buffer");
            }
        } else if config.described_devices() && device::at(local.address).is_some() {
            return refuse("device memory without the descriptor that FI_MR_HMEM asks for");
        } else if config.described_buffers() && !self.injected {
            return refuse("a buffer without the descriptor that FI_MR_LOCAL asks for");
        }
        if self.injected && config.described_devices() && device::at(local.address).is_some() {
            return refuse("device memory is not injected under FI_MR_HMEM");
        }
        Ok(())
    }

    /// Lays the traps: remembers the source, spoils the destination, writes the context. Fails when
    /// a buffer is not what it must be.
    ///
    /// # Safety
    /// The context is the provider's, as the calls' man pages say.
    pub(crate) unsafe fn arm(&mut self, config: &Config) -> Result<(), i32> {
        for local in [self.local, self.compare, self.result] {
            self.check_descriptor(config, local)?;
        }
        let unmapped = |work: Work, code: i32| {
            violation(&format!("{work:?}: a buffer is not mapped"));
            code
        };
        let work = self.work;
        if self.reads_local() {
            self.traps.source = device::read_local(self.local.address, self.length)
                .map_err(|code| unmapped(work, code))?;
        }
        if self.compare.address != 0 {
            self.traps.compared = device::read_local(self.compare.address, self.length)
                .map_err(|code| unmapped(work, code))?;
        }
        let destination = self.destination().address;
        let own = self.reads_local() && destination == self.local.address;
        if destination != 0 && !own && !regions::overlaps(destination, self.length as u64) {
            let spoilt = vec![SPOILT; self.length];
            device::write_local(destination, &spoilt).map_err(|code| unmapped(work, code))?;
            self.traps.landed = Some(spoilt);
        }
        for word in 0..config.context_bytes() / 8 {
            if self.context != 0 {
                // SAFETY: the caller vouches for the context.
                unsafe { (self.context as *mut u64).add(word).write(self.pattern()) };
            }
        }
        Ok(())
    }

    /// Looks at the traps.
    ///
    /// # Safety
    /// As for [`arm`](Self::arm), which was called before.
    pub(crate) unsafe fn inspect(&self, config: &Config) {
        // What peers may write is not this user's doing.
        let changed = |local: Local, then: &[u8]| {
            let length = then.len() as u64;
            device::read_local(local.address, then.len()).is_ok_and(|now| now != then)
                && !regions::overlaps(local.address, length)
        };
        let report = |what: &str| {
            violation(&format!(
                "{:?}: its {what} changed before it completed",
                self.work
            ));
        };
        if self.reads_local() && !self.injected && changed(self.local, &self.traps.source) {
            report("source");
        }
        if !self.traps.compared.is_empty() && changed(self.compare, &self.traps.compared) {
            report("value to compare with");
        }
        if self
            .traps
            .landed
            .as_ref()
            .is_some_and(|landed| changed(self.destination(), landed))
        {
            report("destination");
        }
        for word in 0..config.context_bytes() / 8 {
            let at = (self.context as *const u64).wrapping_add(word);
            // SAFETY: the caller vouches for the context.
            if self.context != 0 && unsafe { at.read() } != self.pattern() {
                report("context");
                break;
            }
        }
    }

    /// Whether the peer was asked to do the work, and its answer was not taken yet.
    pub(crate) fn is_asked(&self) -> bool {
        self.traps.asked.is_some() && self.done.is_none()
    }

    /// Does the work, once; `None` while it waits for the peer.
    pub(crate) fn perform(&mut self, config: &Config) -> Option<Result<(), i32>> {
        if self.done.is_none() {
            self.done = self.attempt(config).unwrap_or_else(|code| Some(Err(code)));
        }
        self.done
    }

    fn attempt(&mut self, config: &Config) -> Result<Option<Result<(), i32>>, i32> {
        let (read, write) = (
            u64::from(ffi::FI_REMOTE_READ),
            u64::from(ffi::FI_REMOTE_WRITE),
        );
        let rights = match self.work {
            Work::Write | Work::Atomic { kind: 0, .. } => write,
            Work::Read => read,
            Work::Atomic { op, .. } if op == ffi::FI_ATOMIC_READ => read,
            Work::Atomic { .. } => read | write,
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

    /// Does the target's side; gives what was read there, or `None` while the peer has not answered.
    fn reach(&mut self, place: Place) -> Result<Option<Vec<u8>>, i32> {
        if place.device {
            return self.reach_device(place);
        }
        let (pid, remote) = (self.peer.pid, place.address);
        match self.work {
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

    /// Puts what was read where it goes.
    fn land(&mut self, read: &[u8]) -> Result<(), i32> {
        let destination = self.destination();
        if destination.address == 0 {
            return Ok(());
        }
        if let Some(spoilt) = &self.traps.landed {
            let now = device::read_local(destination.address, spoilt.len())?;
            if now != *spoilt && !regions::overlaps(destination.address, now.len() as u64) {
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
