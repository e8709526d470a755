//! The transport's own functions, called by hand as a window over the transport calls them: each
//! operation is posted with a callback that counts, and a flush makes progress until all have been
//! counted.

use std::cell::Cell;
use std::ffi::c_void;

use host_stub::job::Job;
use host_stub::loader::{EndpointRef, Registration, Transport};
use plugin_api::{Access, AtomicOp, Datatype, Endpoint, Handle, Module, Status};

pub(super) struct Direct {
    transport: Transport,
    peer: EndpointRef,
    remote: u64,
    handle: Vec<u64>,
    posted: Cell<u64>,
    done: Cell<u64>,
    _registration: Registration,
}

unsafe extern "C" fn done(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    _status: i32,
) {
    // SAFETY: the context is the cell of a Direct that waits for this.
    let count = unsafe { &*context.cast::<Cell<u64>>() };
    count.set(count.get() + 1);
}

impl Direct {
    /// Registers memory of this rank and learns of the other's. Collective.
    pub(super) fn open(job: &Job, len: usize) -> Result<Direct, String> {
        let memory = vec![0u64; len / 8].leak();
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let base = memory.as_mut_ptr().cast();
        // SAFETY: leaked, so it outlives the registration; only peers use it.
        let registration =
            unsafe { job.transport().register(base, len, access) }.map_err(|e| e.to_string())?;
        let mut card = (base as u64).to_ne_bytes().to_vec();
        card.extend_from_slice(registration.handle_bytes());
        let cards = job.allgather(&card).map_err(|e| e.to_string())?;
        let other = 1 - job.rank() as usize;
        let words: Vec<u64> = cards[other]
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        Ok(Direct {
            transport: job.transport().clone(),
            peer: job.endpoint(other as u32).map_err(|e| e.to_string())?,
            remote: words[0],
            handle: words[1..].to_vec(),
            posted: Cell::new(0),
            done: Cell::new(0),
            _registration: registration,
        })
    }

    /// Waits until all that was posted is done.
    #[inline(always)]
    pub(super) fn flush(&self) -> Result<(), String> {
        while self.done.get() < self.posted.get() {
            self.transport.progress();
        }
        Ok(())
    }

    /// Posts until the transport takes it.
    #[inline(always)]
    fn post(&self, mut post: impl FnMut(*mut c_void) -> Status) -> Result<(), String> {
        let context = std::ptr::from_ref(&self.done).cast_mut().cast();
        loop {
            match post(context) {
                Status::SUCCESS => {
                    self.posted.set(self.posted.get() + 1);
                    return Ok(());
                }
                Status::COMPLETED => return Ok(()),
                status if status.is_again() => {
                    self.transport.progress();
                }
                status => return Err(format!("the transport answered {status}")),
            }
        }
    }

    #[inline(always)]
    pub(super) fn put(&self, from: *mut u8, len: usize) -> Result<(), String> {
        let none = std::ptr::null_mut();
        let handle = self.handle.as_ptr().cast();
        // SAFETY: the peer is connected, and both buffers live to the end of the process.
        self.post(|context| unsafe {
            let peer = self.peer;
            self.transport.put(
                peer,
                from,
                self.remote,
                none,
                handle,
                len,
                Some(done),
                context,
                none.cast(),
            )
        })
    }

    #[inline(always)]
    pub(super) fn get(&self, into: *mut u8, len: usize) -> Result<(), String> {
        let none = std::ptr::null_mut();
        let handle = self.handle.as_ptr().cast();
        // SAFETY: as in `put`.
        self.post(|context| unsafe {
            let peer = self.peer;
            self.transport.get(
                peer,
                into,
                self.remote,
                none,
                handle,
                len,
                Some(done),
                context,
                none.cast(),
            )
        })
    }

    #[inline(always)]
    pub(super) fn fetch_add(&self, from: *mut u8, into: *mut u8) -> Result<(), String> {
        let none = std::ptr::null_mut();
        let handle = self.handle.as_ptr().cast();
        // SAFETY: as in `put`.
        self.post(|context| unsafe {
            self.transport.atomic_fopv(
                self.peer,
                from,
                into,
                self.remote,
                none,
                none,
                handle,
                Datatype::Int64,
                AtomicOp::Sum,
                1,
                Some(done),
                context,
                none.cast(),
            )
        })
    }
}
