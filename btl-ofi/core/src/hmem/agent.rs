//! The target's side of staged windows: looks for requests in its mailbox, does them with the region's
//! copier, and writes the replies. Calls nothing of the provider, so any thread may do it; one at a
//! time does, which makes atomics on device windows atomic with respect to each other.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plugin_api::{Access, AtomicOp, Datatype, Status};

use super::arithmetic::combine;
use super::copy::CopyError;
use super::mailbox::{HEAD, MAGIC, Plan, REPLY, REQUEST, Request, SLOTS, Task, seal_reply};
use super::region::{DeviceRegion, DeviceRegions};

/// Looks in vain after which the agent's thread sleeps between two.
const PATIENCE: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);

/// Page-aligned zeroed memory that peers write and read.
struct Pages {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: reached through raw pointers and atomics only.
unsafe impl Send for Pages {}
// SAFETY: as for Send.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// What only the one who serves uses.
struct Serving {
    /// Requests served, per lane.
    served: Vec<u64>,
    /// What was at the target of an atomic, and what goes there.
    old: Vec<u8>,
    new: Vec<u8>,
}

/// A mailbox and the one who works through it.
pub(crate) struct Agent {
    pages: Pages,
    plan: Plan,
    regions: Arc<DeviceRegions>,
    serving: Mutex<Serving>,
    stop: AtomicBool,
}

impl Agent {
    /// A mailbox with `lanes` lanes, for transfers of at most `limit` bytes; `None` when there is no
    /// memory for it.
    pub(super) fn new(lanes: usize, limit: usize, regions: Arc<DeviceRegions>) -> Option<Agent> {
        let plan = Plan::new(lanes, limit);
        let layout = Layout::from_size_align(plan.bytes(), 4096).ok()?;
        // SAFETY: the layout has at least the header's bytes.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let agent = Agent {
            pages: Pages { base, layout },
            plan,
            regions,
            serving: Mutex::new(Serving {
                served: vec![0; plan.lanes],
                old: vec![0; plan.piece],
                new: vec![0; plan.piece],
            }),
            stop: AtomicBool::new(false),
        };
        for (index, value) in [MAGIC, plan.lanes as u64, plan.piece as u64]
            .into_iter()
            .enumerate()
        {
            agent.word(index * 8).store(value, Ordering::Relaxed);
        }
        Some(agent)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.pages.base.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.plan.bytes()
    }

    /// A word of the mailbox, by its offset, which the plan gives.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.plan.bytes());
        // SAFETY: inside the mailbox, which is page-aligned and lives as long as `self`. Peers write
        // it from outside; a load sees some bytes of theirs, which the hashes judge.
        unsafe { AtomicU64::from_ptr(self.base().add(offset).cast()) }
    }

    /// Does what is asked now; gives way to another who is at it. Returns the requests served.
    pub(super) fn serve(&self) -> usize {
        let Ok(mut serving) = self.serving.try_lock() else {
            return 0;
        };
        let mut done = 0;
        for lane in 0..self.plan.lanes {
            for _ in 0..SLOTS {
                let number = serving.served[lane] + 1;
                let slot = (number as usize) % SLOTS;
                let at = self.plan.request(lane, slot);
                // Acquire pairs with whatever the provider uses to make the initiator's put visible:
                // the data of the slot was complete before the request was put.
                if self.word(at).load(Ordering::Acquire) != number {
                    break;
                }
                let mut words = [0; REQUEST];
                for (index, word) in words.iter_mut().enumerate() {
                    *word = self.word(at + index * 8).load(Ordering::Relaxed);
                }
                let Some(request) = Request::open(number, &words) else {
                    break;
                };
                let data = self.base().wrapping_add(self.plan.data(lane, slot));
                let (status, result) = match self.execute(&mut serving, &request, &words, data) {
                    Ok(result) => (0, result),
                    Err(status) => (status.0, 0),
                };
                self.reply(lane, slot, &seal_reply(number, status, result));
                serving.served[lane] = number;
                done += 1;
            }
        }
        done
    }

    fn reply(&self, lane: usize, slot: usize, reply: &[u64; REPLY]) {
        let at = self.plan.reply(lane, slot);
        // Release: the data of the slot is written before. Pairs with the initiator, which reads the
        // data only after it has read the reply.
        for (index, word) in reply.iter().enumerate().rev() {
            self.word(at + index * 8).store(*word, Ordering::Release);
        }
    }

    /// Does one request; a short result goes into the reply.
    fn execute(
        &self,
        serving: &mut Serving,
        request: &Request,
        words: &[u64; REQUEST],
        data: *mut u8,
    ) -> Result<u64, Status> {
        let _working = self.regions.work();
        let region = self.regions.find(request.region);
        let region = region.ok_or(Status::BAD_PARAM)?;
        region.covers(request.address, request.size)?;
        let size = usize::try_from(request.size).map_err(|_| Status::VALUE_OUT_OF_BOUNDS)?;
        if size > self.plan.piece {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        allowed(&region, request.task)?;
        let inline: *const u8 = words[HEAD..].as_ptr().cast();
        let source = if request.inline {
            inline
        } else {
            data.cast_const()
        };
        let failed = |error: CopyError| {
            tracing::warn!("a request of a peer for device memory failed: {error}");
            error.status()
        };
        let DeviceRegion { iface, copier, .. } = *region;
        match request.task {
            Task::Put => {
                // SAFETY: the data is `size` bytes of the slot or of the request; the target range
                // lies in a region that lives.
                unsafe { copier.write(iface, request.address, source, size) }.map_err(failed)?;
                Ok(0)
            }
            Task::Get if size <= 8 => {
                let mut word = [0; 8];
                // SAFETY: at most 8 bytes; as above.
                unsafe { copier.read(iface, request.address, word.as_mut_ptr(), size) }
                    .map_err(failed)?;
                Ok(u64::from_ne_bytes(word))
            }
            Task::Get => {
                // SAFETY: the slot's data holds a piece; as above.
                unsafe { copier.read(iface, request.address, data, size) }.map_err(failed)?;
                Ok(0)
            }
            Task::Atomic {
                datatype,
                op,
                fetch,
            } => {
                let whole = size.is_multiple_of(datatype.size())
                    && request.address.is_multiple_of(datatype.size() as u64)
                    && (op != AtomicOp::Cswap || size == datatype.size());
                if !whole {
                    return Err(Status::BAD_PARAM);
                }
                let (old, new) = (&mut serving.old[..size], &mut serving.new[..size]);
                // SAFETY: `size` bytes of our own; the range lies in a region that lives.
                unsafe { copier.read(iface, request.address, old.as_mut_ptr(), size) }
                    .map_err(failed)?;
                new.copy_from_slice(old);
                // SAFETY: the operands are `size` bytes of the slot or of the request, which the
                // initiator does not touch before the reply.
                let operands = unsafe { std::slice::from_raw_parts(source, size) };
                apply(datatype, op, request.compare, old, new, operands);
                if op != AtomicOp::Read && new != old {
                    // SAFETY: as above.
                    unsafe { copier.write(iface, request.address, new.as_ptr(), size) }
                        .map_err(failed)?;
                }
                let mut word = [0; 8];
                if fetch && size <= 8 {
                    word[..size].copy_from_slice(old);
                } else if fetch {
                    // SAFETY: the slot's data holds a piece, and the operands are used up.
                    unsafe { std::ptr::copy_nonoverlapping(old.as_ptr(), data, size) };
                }
                Ok(u64::from_ne_bytes(word))
            }
        }
    }

    /// Serves until told to stop.
    pub(super) fn run(&self) {
        let mut quiet = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            if self.serve() > 0 {
                quiet = Instant::now();
            } else if quiet.elapsed() > PATIENCE {
                std::thread::sleep(NAP);
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Has [`run`](Self::run) return.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The new values of an atomic; `new` holds the old ones.
fn apply(
    datatype: Datatype,
    op: AtomicOp,
    compare: u64,
    old: &[u8],
    new: &mut [u8],
    operands: &[u8],
) {
    if op == AtomicOp::Cswap {
        // Bits are compared, whatever the type.
        if old == &compare.to_ne_bytes()[..old.len()] {
            new.copy_from_slice(operands);
        }
    } else {
        combine(datatype, op, new, operands);
    }
}

/// Whether the region's owner lets peers do this.
fn allowed(region: &DeviceRegion, task: Task) -> Result<(), Status> {
    let wanted = match task {
        Task::Put => Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
        Task::Get => Access::REMOTE_READ | Access::REMOTE_ATOMIC,
        Task::Atomic { .. } => Access::REMOTE_ATOMIC,
    };
    if region.access.intersects(wanted) {
        Ok(())
    } else {
        Err(Status::PERM)
    }
}
