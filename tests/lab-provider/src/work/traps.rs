//! Traps for a user that accesses data of the provider before the completion.

use libfabric_sys as ffi;

use crate::base::config::Config;
use crate::base::report::violation;
use crate::reach::destinations::Destination;
use crate::reach::device;
use crate::reach::regions;
use crate::work::operation::{Local, Operation, Work};

/// The content of a destination until its data comes.
const SPOILT: u8 = 0xa5;

/// The data that an operation keeps for its work, and for detecting accesses of its user.
#[derive(Default)]
pub(crate) struct Traps {
    /// The operands and comparands at the time of the post.
    pub(crate) source: Vec<u8>,
    pub(crate) compared: Vec<u8>,
    /// The expected content of the destination; `None` if peers may write the destination.
    pub(crate) landed: Option<Vec<u8>>,
    /// The listed destination.
    pub(crate) destination: Option<Destination>,
    /// The position of the request in the peer's inbox.
    pub(crate) asked: Option<usize>,
}

impl Operation {
    fn reads_local(&self) -> bool {
        match self.work {
            Work::Write | Work::Send => true,
            Work::Read | Work::Receive => false,
            Work::Atomic { op, .. } => op != ffi::FI_ATOMIC_READ,
        }
    }

    /// The destination of the result; address 0 for none.
    pub(crate) fn destination(&self) -> Local {
        match self.work {
            Work::Read | Work::Receive => self.local,
            Work::Atomic { .. } => self.result,
            Work::Write | Work::Send => Local::default(),
        }
    }

    /// Whether another operation has the same destination. In that case, the user does not read the
    /// destination.
    pub(crate) fn shares_destination(&self) -> bool {
        let destination = self.traps.destination.as_ref();
        destination.is_some_and(Destination::is_shared)
    }

    fn pattern(&self) -> u64 {
        self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }

    /// Whether device memory comes with its descriptor, and descriptors with their memory.
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
        }
        Ok(())
    }

    /// Sets the traps: stores the source, overwrites the destination, writes the context. Fails if
    /// a buffer is invalid.
    ///
    /// # Safety
    /// The context belongs to the provider, as the calls' man pages say.
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
            // The destination is listed before it changes, so that another operation with the same destination does not
            // report the change as its user's.
            self.traps.destination = Some(Destination::list(destination));
            let spoilt = vec![SPOILT; self.length];
            device::write_local(destination, &spoilt).map_err(|code| unmapped(work, code))?;
            self.traps.landed = Some(spoilt);
        }
        for word in 0..config.context_bytes() / 8 {
            if self.context != 0 {
                // SAFETY: the caller guarantees that the context is valid.
                unsafe { (self.context as *mut u64).add(word).write(self.pattern()) };
            }
        }
        Ok(())
    }

    /// Checks the traps.
    ///
    /// # Safety
    /// The conditions of [`arm`](Self::arm), which was called before.
    pub(crate) unsafe fn inspect(&self, config: &Config) {
        // Changes in memory that peers may write are not reported.
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
        if self.reads_local() && changed(self.local, &self.traps.source) {
            report("source");
        }
        if !self.traps.compared.is_empty() && changed(self.compare, &self.traps.compared) {
            report("value to compare with");
        }
        let landed = self.traps.landed.as_ref();
        if landed.is_some_and(|landed| changed(self.destination(), landed))
            && !self.shares_destination()
        {
            report("destination");
        }
        for word in 0..config.context_bytes() / 8 {
            let at = (self.context as *const u64).wrapping_add(word);
            // SAFETY: the caller guarantees that the context is valid.
            if self.context != 0 && unsafe { at.read() } != self.pattern() {
                report("context");
                break;
            }
        }
    }
}
