//! One operation: what it does, and the traps laid for a user that touches what is the provider's
//! until completion.

use std::ptr;

use libfabric_sys as ffi;

use crate::address::Name;
use crate::arithmetic;
use crate::config::Config;
use crate::memory::{self, Exclusive};
use crate::regions;
use crate::report::violation;

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

/// An operation, accepted and not yet completed.
pub(crate) struct Operation {
    pub(crate) work: Work,
    pub(crate) peer: Name,
    pub(crate) address: u64,
    pub(crate) key: u64,
    pub(crate) length: usize,
    /// Source of a write, destination of a read, operands of an atomic.
    pub(crate) local: u64,
    pub(crate) compare: u64,
    pub(crate) result: u64,
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
    /// The source as it was at the post.
    pub(crate) source: Vec<u8>,
}

impl Operation {
    pub(crate) fn new(work: Work, peer: Name, address: u64, key: u64, length: usize) -> Operation {
        Operation {
            work,
            peer,
            address,
            key,
            length,
            local: 0,
            compare: 0,
            result: 0,
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
            source: Vec::new(),
        }
    }

    fn reads_local(&self) -> bool {
        match self.work {
            Work::Write => true,
            Work::Read => false,
            Work::Atomic { op, .. } => op != ffi::FI_ATOMIC_READ,
        }
    }

    fn pattern(&self) -> u64 {
        self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }

    /// Lays the traps: remembers the source, spoils the destination, writes the context.
    ///
    /// # Safety
    /// The buffers and the context are the provider's, as the calls' man pages say.
    pub(crate) unsafe fn arm(&mut self, config: &Config) {
        // SAFETY: the caller vouches for the buffers.
        unsafe {
            if self.reads_local() {
                let source = self.local as *const u8;
                self.source = std::slice::from_raw_parts(source, self.length).to_vec();
            }
            let destination = match self.work {
                Work::Read => self.local,
                Work::Atomic { .. } => self.result,
                Work::Write => 0,
            };
            let own = self.reads_local() && destination == self.local;
            if destination != 0 && !own && !regions::overlaps(destination, self.length as u64) {
                ptr::write_bytes(destination as *mut u8, 0xa5, self.length);
            }
            for word in 0..config.context_bytes() / 8 {
                if self.context != 0 {
                    (self.context as *mut u64).add(word).write(self.pattern());
                }
            }
        }
    }

    /// Looks at the traps.
    ///
    /// # Safety
    /// As for [`arm`](Self::arm), which was called before.
    pub(crate) unsafe fn inspect(&self, config: &Config) {
        // SAFETY: the caller vouches for the buffers.
        unsafe {
            if self.reads_local() && !self.injected {
                let now = std::slice::from_raw_parts(self.local as *const u8, self.length);
                // What peers may write is not this user's doing.
                let shared = regions::overlaps(self.local, self.length as u64);
                if now != self.source && !shared {
                    violation(&format!(
                        "{:?}: its source changed before it completed",
                        self.work
                    ));
                }
            }
            for word in 0..config.context_bytes() / 8 {
                let at = (self.context as *const u64).wrapping_add(word);
                if self.context != 0 && at.read() != self.pattern() {
                    violation(&format!(
                        "{:?}: its context changed before it completed",
                        self.work
                    ));
                    break;
                }
            }
        }
    }

    /// Does the work, once.
    pub(crate) fn perform(&mut self, config: &Config) -> Result<(), i32> {
        if let Some(done) = self.done {
            return done;
        }
        let done = self.attempt(config);
        self.done = Some(done);
        done
    }

    fn attempt(&self, config: &Config) -> Result<(), i32> {
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
        let remote = regions::find(&self.peer, &access).map_err(|(code, why)| {
            if !why.is_empty() {
                violation(&format!("{:?}: {why}", self.work));
            }
            code
        })?;
        let (pid, source) = (self.peer.pid, self.source.as_ptr() as u64);
        match self.work {
            Work::Write => memory::put(pid, remote, source, self.length),
            Work::Read => memory::get(pid, remote, self.local, self.length),
            Work::Atomic { datatype, op, .. } => self.modify(remote, datatype, op),
        }
    }

    fn modify(&self, remote: u64, datatype: u32, op: u32) -> Result<(), i32> {
        let size = arithmetic::size(datatype).ok_or(ffi::FI_EOPNOTSUPP as i32)?;
        if !remote.is_multiple_of(size as u64) {
            violation(&format!("{:?} at unaligned address {remote:#x}", self.work));
            return Err(ffi::FI_EINVAL as i32);
        }
        let compare = match self.compare {
            0 => Vec::new(),
            // SAFETY: compare values are the provider's until completion.
            at => unsafe { std::slice::from_raw_parts(at as *const u8, self.length).to_vec() },
        };
        let mut bytes = vec![0u8; self.length];
        let _alone = Exclusive::begin()?;
        memory::get(
            self.peer.pid,
            remote,
            bytes.as_mut_ptr() as u64,
            self.length,
        )?;
        if self.result != 0 {
            // SAFETY: the result buffer is the provider's until completion.
            unsafe { ptr::copy(bytes.as_ptr(), self.result as *mut u8, self.length) };
        }
        if op == ffi::FI_ATOMIC_READ {
            return Ok(());
        }
        for (i, element) in bytes.chunks_exact_mut(size).enumerate() {
            let at = i * size;
            let part = |from: &'_ Vec<u8>| from.get(at..at + size).map(<[u8]>::to_vec);
            let (operand, compare) = (part(&self.source), part(&compare));
            arithmetic::apply(
                datatype,
                op,
                element,
                &operand.unwrap_or_default(),
                &compare.unwrap_or_default(),
            );
        }
        memory::put(self.peer.pid, remote, bytes.as_ptr() as u64, self.length)
    }
}
