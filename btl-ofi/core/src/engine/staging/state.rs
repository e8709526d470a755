//! A transport's state for device memory, and the driver of its operations.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plugin_api::Status;

use super::channel::Channel;
use super::local::Local;
use super::staged::{Staged, Work};
use crate::base::sys;
use crate::core::failures::Reporting;
use crate::core::slow::SlowWork;
use crate::engine::transport::Transport;
use crate::fabric::region::Region;
use crate::hmem::mailbox::Holder;
use crate::hmem::server::MailboxServer;
use crate::mem::handle::Handle;
use crate::op::record::Record;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{State, standing};

/// A transport's operations on device memory, and its mailbox.
#[derive(Default)]
pub(crate) struct Hmem {
    /// Operations that the driver has not accepted yet.
    incoming: Mutex<VecDeque<Box<Staged>>>,
    driver: Mutex<Driver>,
    /// Set after the first log message about a refused device registration.
    pub(super) said_fall_back: AtomicBool,
    serving: Mutex<Option<Serving>>,
}

/// The mailbox with its registration, its server, and its server's thread.
struct Serving {
    server: Arc<MailboxServer>,
    mailbox: Region,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Driver {
    work: Work,
    channels: Vec<Channel>,
    /// Channels of released peers whose memory the provider may still use.
    left: Vec<Channel>,
    locals: Vec<Local>,
}

/// After this time, a flush logs the operations that it waits for.
const LONG_COPY: Duration = Duration::from_secs(10);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hmem {
    /// The mailbox's server; `None` while another thread creates the server.
    fn server(&self) -> Option<Arc<MailboxServer>> {
        let serving = self.serving.try_lock().ok()?;
        serving.as_ref().map(|serving| Arc::clone(&serving.server))
    }

    /// Returns the mailbox for peers' requests on staged regions, and whether a thread serves it. The first
    /// call creates the mailbox.
    pub(super) fn mailbox(
        &self,
        slow: &SlowWork,
        make: impl FnOnce() -> Option<(MailboxServer, bool)>,
        register: impl FnOnce(&MailboxServer) -> Result<Region, crate::base::error::Error>,
    ) -> Result<Handle, crate::base::error::Error> {
        let mut serving = lock(&self.serving);
        if let Some(serving) = &*serving {
            return Ok(serving.mailbox.handle());
        }
        let no_memory = || crate::base::error::Error::OutOfMemory("the mailbox for device memory");
        let (server, thread) = make().ok_or_else(no_memory)?;
        let mailbox = register(&server)?;
        let handle = mailbox.handle();
        let server = Arc::new(server);
        let thread = if thread {
            let server = Arc::clone(&server);
            let named = std::thread::Builder::new().name(String::from("btl-ofi-hmem"));
            let spawned = sys::with_signals_blocked(|| named.spawn(move || server.run()));
            spawned
                .inspect_err(|e| tracing::warn!("no thread for device memory: {e}"))
                .ok()
        } else {
            None
        };
        slow.wake();
        *serving = Some(Serving {
            server,
            mailbox,
            thread,
        });
        Ok(handle)
    }

    /// Stops the mailbox's server and closes its registration. Buffers that the provider may still use are kept.
    pub(crate) fn close(&self) {
        let serving = lock(&self.serving).take();
        if let Some(Serving {
            server,
            mailbox,
            thread,
        }) = serving
        {
            server.stop();
            if let Some(thread) = thread
                && thread.join().is_err()
            {
                tracing::error!("the thread for device memory panicked");
            }
            if let Err(e) = mailbox.close() {
                tracing::warn!("{e}");
            }
        }
    }

    pub(super) fn issue(&self, op: Box<Staged>, slow: &SlowWork) -> Result<(), Box<Staged>> {
        let mut incoming = lock(&self.incoming);
        if incoming.try_reserve(1).is_err() {
            return Err(op);
        }
        incoming.push_back(op);
        slow.hold();
        Ok(())
    }
}

impl Hmem {
    /// [`Driver::close_channels`].
    pub(crate) fn close_channels(
        &self,
        endpoint: Option<NonNull<Endpoint>>,
        slow: &SlowWork,
        late: bool,
    ) -> (bool, usize) {
        lock(&self.driver).close_channels(endpoint, slow, late)
    }
}

impl Driver {
    /// Gives an operation to the channel of its mailbox, or to the local operations.
    fn accept(&mut self, op: Box<Staged>, own: Holder) {
        let (endpoint, remote) = (op.endpoint, op.remote);
        let index = self.work.ops.insert(op);
        if !remote.is_staged() {
            self.locals.push(Local::new(index));
            return;
        }
        let Some(op) = self.work.ops.at(index) else {
            return;
        };
        let mailbox = remote.as_live();
        let known = self.channels.iter_mut().find(|c| {
            c.endpoint == endpoint
                && c.mailbox.key() == mailbox.key()
                && c.mailbox.base() == mailbox.base()
        });
        match known {
            Some(channel) => channel.push(index, op),
            None => {
                let mut channel = Channel::new(endpoint, mailbox, own);
                channel.push(index, op);
                self.channels.push(channel);
            }
        }
    }

    fn advance(&mut self, t: &Transport) -> usize {
        let Driver {
            work,
            channels,
            locals,
            ..
        } = self;
        let mut steps = 0;
        locals.retain_mut(|local| {
            steps += local.advance(t, work);
            let is_over = work.ops.at(local.op).is_none_or(|op| op.is_over());
            if is_over {
                work.over.push_back(local.op);
            }
            !is_over
        });
        for channel in channels {
            steps += channel.advance(t, work);
            let busy = channel.is_busy();
            if busy && !channel.counted {
                t.slow.wake();
            } else if !busy && channel.counted {
                t.slow.rest();
            }
            channel.counted = busy;
        }
        steps
    }
}

impl Driver {
    /// Removes the channels of a peer, or of all peers, that have nothing left to do. With `late`, also removes channels
    /// that only have a lane to return. Returns whether all work is done, and how many lanes were not returned.
    fn close_channels(
        &mut self,
        endpoint: Option<NonNull<Endpoint>>,
        slow: &SlowWork,
        late: bool,
    ) -> (bool, usize) {
        let is_meant = |c: &Channel| endpoint.is_none_or(|endpoint| c.endpoint == endpoint);
        // SAFETY: the endpoint of a channel is connected, or was released while operations named it; such a release keeps
        // its memory.
        let is_living = |c: &Channel| unsafe { c.endpoint.as_ref() }.failure().is_none();
        let is_over = |c: &mut Channel| {
            let returns = c.is_busy() && is_living(c) && !late;
            is_meant(c) && !c.has_operations() && !returns
        };
        let mut lost = 0;
        for channel in self.channels.extract_if(.., is_over) {
            lost += usize::from(channel.is_busy() && is_living(&channel));
            if channel.counted {
                slow.rest();
            }
            if !channel.is_unused() {
                self.left.push(channel);
            }
        }
        let mut rest = self.channels.iter();
        (!rest.any(|c| is_meant(c) && is_living(c)), lost)
    }
}

impl Transport {
    /// Serves peers, and advances this process's operations on device memory as far as possible. If another
    /// thread drives the operations, only serves peers. Returns the number of steps.
    #[cold]
    #[inline(never)]
    pub(crate) fn drive(&self) -> usize {
        let mut steps = self.hmem.server().map_or(0, |server| server.serve());
        // The start of a transfer must not run callbacks while the driver is locked, because a callback may issue
        // operations on device memory.
        let Some(advanced) = self.quietly(|| self.advance_staged()) else {
            return steps;
        };
        steps += advanced;
        // Operations are taken one at a time, because a callback may wait for the next operation (`fail_staged`).
        while let Some(op) = self.take_staged() {
            self.slow.release();
            self.finish(&op);
            steps += 1;
        }
        steps
    }

    /// The driver; `None` while another thread has the driver.
    fn driver(&self) -> Option<MutexGuard<'_, Driver>> {
        match self.hmem.driver.try_lock() {
            Ok(driver) => Some(driver),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Advances operations on device memory. Returns the number of steps, or `None` while another
    /// thread advances them.
    fn advance_staged(&self) -> Option<usize> {
        let mut driver = self.driver()?;
        let own = Holder {
            node: self.node.id,
            process: self.node.own,
        };
        loop {
            let op = lock(&self.hmem.incoming).pop_front();
            let Some(op) = op else { break };
            driver.accept(op, own);
        }
        Some(driver.advance(self))
    }

    /// Returns a finished operation on device memory; `None` while another thread holds the driver.
    fn take_staged(&self) -> Option<Box<Staged>> {
        let mut driver = self.driver()?;
        let Work { over, ops, .. } = &mut driver.work;
        std::iter::from_fn(|| over.pop_front()).find_map(|i| ops.take_over(i))
    }

    /// Waits until the copies of operations on device memory to failed peers are over, and reports these operations. Until
    /// then, a copy uses the caller's buffer.
    #[cold]
    pub(crate) fn fail_staged(&self, deadline: Option<Instant>) {
        let mut warning = Some(Instant::now() + LONG_COPY);
        while self.slow.held() > 0 && self.has_failed_staged() {
            self.drive();
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return;
            }
            if warning.is_some_and(|warning| now >= warning) {
                warning = None;
                tracing::warn!(
                    "a flush waits for copies of device memory, for operations to a peer that failed, and the device does not end them"
                );
            }
            std::thread::yield_now();
        }
    }

    /// Whether operations on device memory to failed peers are in progress.
    fn has_failed_staged(&self) -> bool {
        self.contexts.iter().any(|context| {
            let state = context.state.lock();
            let records = state.pool.in_use(None);
            records.into_iter().any(|record| {
                // SAFETY: `in_use` found the record in use, and the lock is held. Endpoints outlive operations to them.
                unsafe {
                    self.is_staged(record)
                        && Record::endpoint(record).is_some_and(|e| e.as_ref().failure().is_some())
                }
            })
        })
    }

    /// Whether a record belongs to an operation on device memory that needs copies.
    ///
    /// # Safety
    /// The record is in use. The caller holds the lock of the record's pool.
    pub(crate) unsafe fn is_staged(&self, record: NonNull<Record>) -> bool {
        // SAFETY: the caller guarantees that the record is in use.
        unsafe { Record::tag(record) }.is_whole() && !self.compounds.has(record)
    }

    /// Releases lanes of dead processes. Only connected local peers are checked: the numbers in a request or an owner word
    /// do not prove that a process runs on this node.
    #[cold]
    pub(crate) fn release_lost_lanes(&self) {
        let Some(server) = self.hmem.server() else {
            return;
        };
        server.release_lost(|word| {
            let peers = self.lock_peers();
            let known = &peers.known;
            let mut local = known.iter_local();
            local.any(|peer| {
                peer.process().is_some_and(|process| {
                    let node = self.node.id;
                    // A failed peer may still live and continue in its lane.
                    let is_gone =
                        || standing(process, known.probe(peer.proc)).state() == State::Gone;
                    Holder { node, process }.has(word) && is_gone()
                })
            })
        });
    }

    /// Reports a completed operation.
    fn finish(&self, op: &Staged) {
        let context = &self.contexts[op.context];
        // A flush that sees the peer's failure waits for the callback.
        let _reporting = (!op.status.is_ok()).then(|| Reporting::begin(&self.failures));
        let finished = {
            let mut state = context.state.lock();
            if op.status.is_ok() {
                state.counts.completed += 1;
            } else {
                state.counts.failed += 1;
            }
            // SAFETY: the operation took the record from this pool when it was issued, and only this call gives
            // it back.
            unsafe { state.pool.give_back(op.record) }
        };
        let status = match op.status {
            s if s.is_ok() => Status::SUCCESS,
            // The operation is over: its status must not mean that the caller should retry.
            s if s.is_again() => Status::ERROR,
            s => s,
        };
        if !status.is_ok() {
            let proc = NonNull::new(finished.tag.endpoint())
                // SAFETY: endpoints outlive the operations whose tags name them.
                .map_or(u64::MAX, |e: NonNull<Endpoint>| unsafe { e.as_ref() }.proc);
            tracing::warn!(
                "{} on {} bytes of device memory, process {proc}: {} [{status}]",
                op.name(),
                op.size,
                op.what
            );
            self.tell_failed(&[finished], status, &op.what);
        }
        self.deliver(context, &[finished], status);
    }
}
