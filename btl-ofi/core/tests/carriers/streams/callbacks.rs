//! Callbacks that post further transfers, while the queue of their peer is full.

use super::{PROVIDERS, SMALLEST};
use crate::common::prelude::*;

/// A transfer whose pieces need more room than the smallest pieces.
const LARGE: usize = 300_000;

/// The arguments of callbacks that post further puts.
struct Chain<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    handle: &'a Handle,
    local: *mut c_void,
    /// The counts of puts that callbacks may still post, of posted puts, of refusals, and of
    /// callbacks.
    left: Cell<u32>,
    posted: Cell<u32>,
    refused: Cell<u32>,
    ended: Cell<u32>,
    /// The number of nested running callbacks.
    depth: Cell<u32>,
}

impl Chain<'_> {
    /// Posts a put whose callback posts the next puts. Makes progress while there is no room.
    fn put(&self) {
        let completion = self.completion();
        let size = match self.posted.get() % 6 {
            4 => LARGE,
            _ => SMALLEST,
        };
        let deadline = Patience::new();
        loop {
            let (to, peer, handle) = (self.handle.base(), self.peer, self.handle);
            let status = self.t.put(peer, self.local, to, handle, size, completion);
            if status.is_ok() {
                return self.posted.set(self.posted.get() + 1);
            }
            assert!(status.is_again(), "{status}");
            assert!(deadline.lasts(), "nothing goes on");
            self.refused.set(self.refused.get() + 1);
            self.t.progress();
        }
    }
}

impl Ended for Chain<'_> {
    fn ended(&self, status: Status) {
        assert_eq!(status, Status::SUCCESS);
        self.ended.set(self.ended.get() + 1);
        // Deeper callbacks post nothing, because the progress in each callback runs further
        // callbacks.
        if self.depth.get() == 8 {
            return;
        }
        self.depth.set(self.depth.get() + 1);
        for _ in 0..2 {
            if let Some(left) = self.left.get().checked_sub(1) {
                self.left.set(left);
                self.put();
            }
        }
        self.depth.set(self.depth.get() - 1);
    }
}

/// Callbacks that post more than they complete fill the queue, and continue to post while it is full. The transfers that
/// they wait for proceed meanwhile.
#[test]
fn callbacks_post_into_a_full_queue() {
    const FIRST: u32 = 1024;
    const MORE: u32 = 1500;
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[]));
        let mut theirs = vec![0u64; LARGE / 8];
        let mut mine = vec![5u64; LARGE / 8];
        let region = register(&b, &mut theirs, Access::all());
        let chain = Chain {
            t: &a,
            peer: a.connect(b.address(), 1).unwrap(),
            handle: &region.handle(),
            local: mine.as_mut_ptr().cast(),
            left: Cell::new(MORE),
            posted: Cell::new(0),
            refused: Cell::new(0),
            ended: Cell::new(0),
            depth: Cell::new(0),
        };
        attended(&b, || {
            (0..FIRST).for_each(|_| chain.put());
            assert_eq!(a.flush(None), Status::SUCCESS);
            // Callbacks in the flush posted more puts.
            until(&[&a], "nothing goes on", || {
                chain.ended.get() >= chain.posted.get()
            });
        });
        assert_eq!(chain.ended.get(), chain.posted.get());
        assert!(chain.posted.get() > FIRST, "{provider}");
        assert!(chain.refused.get() > 0, "{provider}: it was never full");
        assert!(theirs.iter().all(|word| *word == 5), "{provider}");
        close([region], [a, b]);
    }
}
