//! Callbacks that post further transfers, while the queue of their peer is full.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use btl_ofi::{Completion, Endpoint, Handle, Transport};
use plugin_api::{Access, Status, ThreadLevel};

use crate::common::attending::attended;
use crate::common::{Calls as _, Patience, open, register};
use crate::{PROVIDERS, SMALLEST};

/// A transfer whose pieces need more room than the smallest.
const LARGE: usize = 300_000;

/// What callbacks that put again need.
struct Chain<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    handle: &'a Handle,
    local: *mut c_void,
    /// Puts that callbacks may still post, those that were posted, refusals, and callbacks.
    left: Cell<u32>,
    posted: Cell<u32>,
    refused: Cell<u32>,
    ended: Cell<u32>,
    /// Callbacks that run, one inside another.
    depth: Cell<u32>,
}

impl Chain<'_> {
    /// Posts a put whose callback posts the next ones. As long as there is no room it makes progress.
    fn put(&self) {
        let completion = Some(Completion {
            function: put_two_again,
            context: ptr::from_ref(self).cast_mut().cast(),
            data: ptr::null_mut(),
        });
        let size = match self.posted.get() % 6 {
            4 => LARGE,
            _ => SMALLEST,
        };
        let deadline = Patience::new();
        loop {
            // SAFETY: the buffers and the chain live until the flush, and the endpoint stays connected.
            let status = unsafe {
                let (to, none) = (self.handle.base(), ptr::null_mut());
                let (peer, handle) = (self.peer, self.handle);
                self.t
                    .put(peer, self.local, to, none, handle, size, completion)
            };
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

unsafe extern "C" fn put_two_again(
    _: *mut plugin_api::Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    // SAFETY: `Chain::put` passed the chain, which lives until the flush.
    let chain = unsafe { &*context.cast_const().cast::<Chain<'_>>() };
    assert_eq!(Status(status), Status::SUCCESS);
    chain.ended.set(chain.ended.get() + 1);
    // Deeper ones post nothing: the progress that each makes runs further callbacks.
    if chain.depth.get() == 8 {
        return;
    }
    chain.depth.set(chain.depth.get() + 1);
    for _ in 0..2 {
        if let Some(left) = chain.left.get().checked_sub(1) {
            chain.left.set(left);
            chain.put();
        }
    }
    chain.depth.set(chain.depth.get() - 1);
}

/// Callbacks that post more than they end fill the queue, and post on while it is full: what they wait for goes on around them.
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
            // Callbacks in the flush posted more.
            let deadline = Patience::new();
            while chain.ended.get() < chain.posted.get() {
                assert!(deadline.lasts(), "nothing goes on");
                a.progress();
            }
        });
        assert_eq!(chain.ended.get(), chain.posted.get());
        assert!(chain.posted.get() > FIRST, "{provider}");
        assert!(chain.refused.get() > 0, "{provider}: it was never full");
        assert!(theirs.iter().all(|word| *word == 5), "{provider}");
        region.close().unwrap();
        a.close().unwrap();
        b.close().unwrap();
    }
}
