//! The target's agent of staged windows: polls its mailbox for requests, executes them with the region's copier, and
//! writes the replies. It makes no provider call, so any thread may run it. One thread runs it at a time, which makes
//! atomics on device windows atomic with respect to each other.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plugin_api::{AtomicOp, Datatype, Status};

use super::mailbox::{
    HEAD, Holder, LOCKED, MAGIC, Plan, REPLY, REQUEST, Request, SLOTS, Task, after, seal_reply,
};
use super::pages::Pages;
use crate::mem::copy::CopyError;
use crate::mem::cuda;
use crate::mem::device_regions::{DeviceRegion, DeviceRegions};
use crate::mem::rights;
use crate::op::element::{self, Elements};
use crate::peer::liveness::State;

/// Time without a request after which the agent's thread sleeps between two polls.
const IDLE_TIME: Duration = Duration::from_micros(200);
const SLEEP: Duration = Duration::from_micros(50);

/// The agent's state of a lane.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// Number of the last request served.
    served: u64,
    /// Its requester.
    holder: Holder,
    /// The owner word and `served` at the last check for dead holders.
    before: (u64, u64),
    /// Whether the holder was gone at that check.
    suspect: bool,
}

/// State that only the serving thread uses.
struct Serving {
    lanes: Vec<Lane>,
    /// Old and new values of the target of an atomic.
    old: Vec<u8>,
    /// In words, so that elements of every type are aligned.
    elements: Vec<u64>,
}

/// A mailbox and its service.
pub(crate) struct Agent {
    pages: Pages,
    plan: Plan,
    regions: Arc<DeviceRegions>,
    serving: Mutex<Serving>,
    stop: AtomicBool,
}

impl Agent {
    /// A mailbox with `lanes` lanes, for transfers of at most `limit` bytes. `None` if memory is exhausted.
    pub(crate) fn new(lanes: usize, limit: usize, regions: Arc<DeviceRegions>) -> Option<Agent> {
        let plan = Plan::new(lanes, limit);
        let layout = Layout::from_size_align(plan.bytes(), 4096).ok()?;
        // SAFETY: the layout contains at least the header, so its size is not 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let agent = Agent {
            pages: Pages {
                base,
                layout,
                pinned: cuda::pin(base.as_ptr(), layout.size()),
            },
            plan,
            regions,
            serving: Mutex::new(Serving {
                lanes: vec![Lane::default(); plan.lanes],
                old: vec![0; plan.fragment],
                elements: vec![0; plan.fragment.div_ceil(8)],
            }),
            stop: AtomicBool::new(false),
        };
        for (index, value) in [MAGIC, plan.lanes as u64, plan.fragment as u64]
            .into_iter()
            .enumerate()
        {
            agent.word(index * 8).store(value, Ordering::Relaxed);
        }
        Some(agent)
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.pages.base.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.plan.bytes()
    }

    /// The word of the mailbox at `offset`, an offset of the plan.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.plan.bytes());
        // SAFETY: the word lies inside the mailbox, is aligned because the mailbox is page-aligned, and lives as long
        // as `self`. Peers write it through the provider, so a load may return a mixture of their bytes; the hashes
        // detect that.
        unsafe { AtomicU64::from_ptr(self.base().add(offset).cast()) }
    }

    /// Serves the requests that are there and returns their number. Returns 0 if another thread is serving.
    pub(crate) fn serve(&self) -> usize {
        let Ok(mut serving) = self.serving.try_lock() else {
            return 0;
        };
        let mut done = 0;
        for lane in 0..self.plan.lanes {
            for _ in 0..SLOTS {
                let number = after(serving.lanes[lane].served, 1);
                let slot = (number as usize) % SLOTS;
                let at = self.plan.request(lane, slot);
                // Acquire pairs with the store by which the provider makes the requester's put visible. The data of
                // the slot was complete before the request was put.
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
                serving.lanes[lane].served = number;
                serving.lanes[lane].holder = request.holder;
                done += 1;
            }
        }
        done
    }

    /// Frees lanes whose holders have died. A lane is freed if nothing changes in it between two checks and its
    /// holder is gone at both; requests that the holder put have arrived by then. `gone` decides for a holder that is
    /// not known from a request or runs on another node; it returns false if it cannot tell. Returns the number of
    /// freed lanes.
    pub(crate) fn release_lost(
        &self,
        node: u64,
        gone: impl Fn(&dyn Fn(Holder) -> bool) -> bool,
    ) -> usize {
        let Ok(mut serving) = self.serving.try_lock() else {
            return 0;
        };
        let mut released = 0;
        for index in 0..self.plan.lanes {
            let owner = self.word(self.plan.owner(index));
            // Acquire pairs with the requester's atomic that takes the lane.
            let word = owner.load(Ordering::Acquire);
            let lane = &mut serving.lanes[index];
            let now = (word, lane.served);
            let idle = word & LOCKED != 0 && lane.before == now;
            lane.before = now;
            let holder = lane.holder;
            let dead = idle
                && match holder.has(word) && holder.node == node && node != 0 {
                    true => holder.process.state() == State::Gone,
                    false => gone(&|holder| holder.has(word)),
                };
            if !(dead && lane.suspect) {
                lane.suspect = dead;
                continue;
            }
            // Skip the numbers of all requests that the holder may have put and that were not served.
            lane.served = after(lane.served, SLOTS);
            *lane = Lane {
                served: lane.served,
                ..Lane::default()
            };
            // Release pairs with the requester's atomic that takes the lane. Nobody else writes the owner word of a
            // taken lane.
            owner.store(lane.served, Ordering::Release);
            tracing::info!("freed lane {index} for device memory: its holder is gone");
            released += 1;
        }
        released
    }

    fn reply(&self, lane: usize, slot: usize, reply: &[u64; REPLY]) {
        let at = self.plan.reply(lane, slot);
        // Release: the slot's data is written before the reply. Pairs with the requester, which gets the data only
        // after it has read the reply.
        for (index, word) in reply.iter().enumerate().rev() {
            self.word(at + index * 8).store(*word, Ordering::Release);
        }
    }

    /// Executes one request. A short result is returned for the reply.
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
        if size > self.plan.fragment {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        allowed(&region, request.task)?;
        let inline: *const u8 = words[HEAD..].as_ptr().cast();
        let source = if request.inline {
            inline
        } else {
            data.cast_const()
        };
        let DeviceRegion { iface, copier, .. } = *region;
        match request.task {
            Task::Put => {
                // SAFETY: `source` is `size` bytes of the slot's data or of the request. The device range lies in
                // `region`, which stays registered while `_working` is held.
                unsafe { copier.write(iface, request.address, source, size) }.map_err(failed)?;
                Ok(0)
            }
            Task::Get if size <= 8 => {
                let mut word = [0; 8];
                // SAFETY: `word` holds the at most 8 bytes. The device range lies in `region`, which stays registered
                // while `_working` is held.
                unsafe { copier.read(iface, request.address, word.as_mut_ptr(), size) }
                    .map_err(failed)?;
                Ok(u64::from_ne_bytes(word))
            }
            Task::Get => {
                // SAFETY: the slot's data holds a fragment, and `size` is not larger. The device range lies in
                // `region`, which stays registered while `_working` is held.
                unsafe { copier.read(iface, request.address, data, size) }.map_err(failed)?;
                Ok(0)
            }
            Task::Atomic {
                datatype,
                op,
                fetch,
            } => {
                let what = (datatype, op, fetch);
                // SAFETY: `source` is `size` bytes of the slot's data or of the request, and `data` has room for a fragment.
                // The region stays registered while `_working` is held.
                unsafe { execute_atomic(serving, &region, request, what, (source, data, size)) }
            }
        }
    }

    /// Serves until [`stop`](Self::stop). Checks for dead holders of this node once per `interval` while idle.
    pub(crate) fn run(&self, node: u64, interval: Duration) {
        let (mut quiet, mut checked) = (Instant::now(), Instant::now());
        while !self.stop.load(Ordering::Relaxed) {
            if self.serve() > 0 {
                quiet = Instant::now();
            } else if quiet.elapsed() > IDLE_TIME {
                if checked.elapsed() > interval {
                    checked = Instant::now();
                    // Only the transport knows which peers are gone.
                    self.release_lost(node, |_| false);
                }
                std::thread::sleep(SLEEP);
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Makes [`run`](Self::run) return.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Executes an atomic on device memory: copies the elements, changes the copies, and copies them back.
///
/// # Safety
/// `source` is readable for `size` bytes, and `data` writable for a fragment, of which `size` is not more; the operands in
/// it are no longer needed when the results are copied there. The region stays registered.
unsafe fn execute_atomic(
    serving: &mut Serving,
    region: &DeviceRegion,
    request: &Request,
    (datatype, op, fetch): (Datatype, AtomicOp, bool),
    (source, data, size): (*const u8, *mut u8, usize),
) -> Result<u64, Status> {
    let whole = size.is_multiple_of(datatype.size())
        && request.address.is_multiple_of(datatype.size() as u64)
        && (op != AtomicOp::Cswap || size == datatype.size());
    if !whole || !element::serves(rights::kind_of(op, fetch), datatype, op) {
        return Err(Status::BAD_PARAM);
    }
    let at: *mut u8 = serving.elements.as_mut_ptr().cast();
    let elements = Elements {
        datatype,
        op,
        count: size / datatype.size(),
        at,
        operands: source,
        compare: request.compare,
        results: serving.old.as_mut_ptr(),
    };
    // SAFETY: `elements` and `old` have room for a fragment; the caller guarantees the rest.
    unsafe {
        region
            .copier
            .read(region.iface, request.address, at, size)
            .map_err(failed)?;
        element::apply(&elements)?;
        let new = std::slice::from_raw_parts(at.cast_const(), size);
        if new != &serving.old[..size] {
            region
                .copier
                .write(region.iface, request.address, at, size)
                .map_err(failed)?;
        }
        let mut word = [0; 8];
        if fetch && size <= 8 {
            std::ptr::copy_nonoverlapping(serving.old.as_ptr(), word.as_mut_ptr(), size);
        } else if fetch {
            std::ptr::copy_nonoverlapping(serving.old.as_ptr(), data, size);
        }
        Ok(u64::from_ne_bytes(word))
    }
}

/// Logs a failed copy.
fn failed(error: CopyError) -> Status {
    tracing::warn!("a peer's request for device memory failed: {error}");
    error.status()
}

/// Whether the region's access rights allow this task.
fn allowed(region: &DeviceRegion, task: Task) -> Result<(), Status> {
    let access = region.access;
    let allowed = match task {
        Task::Put => rights::allow_transfer(access, true),
        Task::Get => rights::allow_transfer(access, false),
        Task::Atomic { op, fetch, .. } => {
            rights::allow_atomic(access, rights::kind_of(op, fetch), op)
        }
    };
    if allowed { Ok(()) } else { Err(Status::PERM) }
}

#[cfg(test)]
mod tests;
