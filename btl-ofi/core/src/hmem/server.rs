//! Serves the mailbox of this process: finds the requests of peers, has the responder execute them, and writes the replies.
//!
//! The server makes no provider call, so any thread may run it. One thread runs the server at a
//! time.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plugin_api::Status;

use super::mailbox::{
    HEAD, INLINE, LOCKED, MAGIC, Plan, REPLY, REQUEST, Request, SLOTS, Words, after, seal_reply,
};
use super::pages::Pages;
use crate::mem::cuda;
use crate::mem::device_regions::DeviceRegions;
use crate::op::responder::{self, Responder};

/// Time without a request after which the server's thread sleeps between two polls.
const IDLE_TIME: Duration = Duration::from_micros(200);
const SLEEP: Duration = Duration::from_micros(50);

/// The server's state of a lane.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// Number of the last request served.
    served: u64,
    /// The owner word and `served` at the previous check for dead holders.
    before: (u64, u64),
    /// Whether the holder was dead at that check.
    suspect: bool,
}

/// State that only the serving thread uses.
struct Serving {
    lanes: Vec<Lane>,
    responder: Responder,
}

/// A mailbox and its service.
pub(crate) struct MailboxServer {
    pages: Pages,
    plan: Plan,
    regions: Arc<DeviceRegions>,
    serving: Mutex<Serving>,
    stop: AtomicBool,
}

impl MailboxServer {
    /// A mailbox with `lanes` lanes, for transfers of at most `limit` bytes. `None` if memory is exhausted.
    pub(crate) fn new(
        lanes: usize,
        limit: usize,
        regions: Arc<DeviceRegions>,
    ) -> Option<MailboxServer> {
        let plan = Plan::new(lanes, limit);
        let layout = Layout::from_size_align(plan.bytes(), 4096).ok()?;
        // SAFETY: the layout contains at least the header, so its size is not 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let server = MailboxServer {
            pages: Pages {
                base,
                layout,
                pinned: cuda::pin(base.as_ptr(), layout.size()),
            },
            plan,
            regions,
            serving: Mutex::new(Serving {
                lanes: vec![Lane::default(); plan.lanes],
                responder: Responder::default(),
            }),
            stop: AtomicBool::new(false),
        };
        for (index, value) in [MAGIC, plan.lanes as u64, plan.fragment as u64]
            .into_iter()
            .enumerate()
        {
            server.word(index * 8).store(value, Ordering::Relaxed);
        }
        Some(server)
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.pages.base.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.plan.bytes()
    }

    /// The mailbox's word at `offset`, which is an offset of the plan.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.plan.bytes());
        // SAFETY: the word lies inside the mailbox, is aligned because the mailbox is page-aligned, and lives as long
        // as `self`. Peers write the mailbox through the provider, so a load may return a mixture of their bytes; the
        // hashes detect that.
        unsafe { AtomicU64::from_ptr(self.base().add(offset).cast()) }
    }

    /// Serves the requests that have arrived, and returns their number. Returns 0 if another thread is serving.
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
                // Acquire pairs with the store that the provider makes for the requester's put. The data of the
                // slot was complete before the request was put.
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
                let executed = self.execute(&mut serving.responder, &request, &mut words, data);
                let (status, result) = match executed {
                    Ok(result) => (0, result),
                    Err(status) => (status.0, 0),
                };
                self.reply(lane, slot, &seal_reply(number, status, result));
                serving.lanes[lane].served = number;
                done += 1;
            }
        }
        done
    }

    /// Frees lanes whose holders have died. A lane is freed after two checks, an interval apart, if nothing changes in the
    /// lane between them and `gone` returns at both checks that the holder of this owner word is dead. By then, all
    /// requests that the holder put have arrived. Returns the number of freed lanes.
    pub(crate) fn release_lost(&self, gone: impl Fn(u64) -> bool) -> usize {
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
            let dead = idle && gone(word);
            if !(dead && lane.suspect) {
                lane.suspect = dead;
                continue;
            }
            // Skips the numbers of all requests that the holder may have put and that were not served.
            lane.served = after(lane.served, SLOTS);
            *lane = Lane {
                served: lane.served,
                ..Lane::default()
            };
            // Release pairs with the requester's atomic that takes the lane. Only the holder writes the owner word
            // of a taken lane.
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

    /// Lets the responder execute a request, whose inline data is in `words`. Returns a result of at most a word for the
    /// reply. A longer result is in the slot's data buffer.
    fn execute(
        &self,
        responder: &mut Responder,
        request: &Request,
        words: &mut Words,
        data: *mut u8,
    ) -> Result<u64, Status> {
        let here = words[HEAD..].as_mut_ptr().cast::<u8>();
        let inline = request.inline > 0;
        let mut long = 0;
        let place = |size| {
            if inline || size <= 8 {
                long = if size > 8 { size } else { 0 };
                return (size <= INLINE).then_some(here);
            }
            (size <= self.plan.fragment).then_some(data)
        };
        // SAFETY: the place is `size` bytes of the request's words or of the slot's data buffer, which has room for a
        // fragment. Both places are aligned to words, and neither is device memory.
        unsafe { responder.execute_on_device(&self.regions, &request.command, place) }?;
        if long > 0 && responder::returns(request.command.what) {
            // SAFETY: `long` bytes are in the request's words; `Plan` gives the data buffer room for all of these
            // bytes.
            unsafe { std::ptr::copy_nonoverlapping(here.cast_const(), data, long) };
        }
        Ok(words[HEAD])
    }

    /// Serves until [`stop`](Self::stop) is called. Does not free lanes, because only the transport knows which
    /// holders are dead.
    pub(crate) fn run(&self) {
        let mut quiet = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            if self.serve() > 0 {
                quiet = Instant::now();
            } else if quiet.elapsed() > IDLE_TIME {
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

#[cfg(test)]
mod tests;
