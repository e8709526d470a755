//! The counts and slots of windows under the model checker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]
#![allow(
    dead_code,
    reason = "the files are built again here, and not all of them is used"
)]

/// The sources under test, with the modules that they use.
#[path = "../src/win"]
mod win {
    pub(super) mod busy;
    pub(super) mod pending;
    pub(super) mod slots;

    /// The part of control blocks that slots use.
    mod control {
        pub(super) struct Word(pub(super) usize);

        pub(super) struct ControlPlan;

        impl ControlPlan {
            pub(super) fn scratch(&self, index: usize) -> Word {
                Word(index)
            }
        }
    }

    /// loom's atomics. loom treats SeqCst loads and changes as acquire and release, and implements
    /// sequential consistency for fences only. A fence before each load and change gives them at
    /// least the order that C++ gives SeqCst accesses; an acquire load gets none.
    pub(super) mod sync {
        pub(super) use loom::sync::Mutex;
        use loom::sync::atomic;
        pub(super) use loom::sync::atomic::{AtomicI32, AtomicU64, Ordering, fence};

        #[derive(Default)]
        pub(in crate::win) struct AtomicUsize(atomic::AtomicUsize);

        fn ordered(order: Ordering) -> Ordering {
            if order == Ordering::SeqCst {
                fence(Ordering::SeqCst);
            }
            order
        }

        impl AtomicUsize {
            pub(in crate::win) fn load(&self, order: Ordering) -> usize {
                self.0.load(ordered(order))
            }

            pub(in crate::win) fn store(&self, value: usize, order: Ordering) {
                self.0.store(value, ordered(order));
            }

            pub(in crate::win) fn fetch_add(&self, by: usize, order: Ordering) -> usize {
                self.0.fetch_add(by, ordered(order))
            }

            pub(in crate::win) fn fetch_sub(&self, by: usize, order: Ordering) -> usize {
                self.0.fetch_sub(by, ordered(order))
            }

            pub(in crate::win) fn fetch_and(&self, by: usize, order: Ordering) -> usize {
                self.0.fetch_and(by, ordered(order))
            }

            pub(in crate::win) fn compare_exchange_weak(
                &self,
                from: usize,
                to: usize,
                success: Ordering,
                failure: Ordering,
            ) -> Result<usize, usize> {
                self.0
                    .compare_exchange_weak(from, to, ordered(success), failure)
            }
        }
    }
    mod models {
        use loom::cell::UnsafeCell;
        use loom::sync::Arc;
        use loom::sync::atomic::{AtomicUsize, Ordering};
        use loom::thread;

        use super::busy::{BusyPeers, Listed};
        use super::pending::{Cell, KeptBack, Pending};
        use super::slots::Slots;
        use super::sync::Mutex;

        fn check(test: impl Fn() + Send + Sync + 'static) {
            let mut model = loom::model::Builder::new();
            model.preemption_bound = Some(3);
            model.check(test);
        }

        fn flush(pending: &Pending) {
            if pending.is_idle() {
                return;
            }
            let flush = pending.flush();
            while !flush.is_done() {
                thread::yield_now();
            }
        }

        /// One operation's effect; loom reports a race if a flush does not order it.
        struct Effect(UnsafeCell<u32>);

        // SAFETY: loom checks each access.
        unsafe impl Sync for Effect {}

        /// Counts and failures share a word: concurrent changes lose no failure and no count.
        #[test]
        fn a_failure_beside_another_leaves_the_count() {
            check(|| {
                let pending = Arc::new(Pending::default());
                let other = {
                    let pending = Arc::clone(&pending);
                    thread::spawn(move || pending.begin().finish(-5))
                };
                pending.begin().finish(-7);
                other.join().unwrap();
                assert!(pending.is_idle());
                assert!(matches!(pending.take_failure().unwrap().0, -5 | -7));
                assert_eq!(pending.unsettled(), 0);
            });
        }

        /// A thread issues an operation during another thread's flush, then flushes itself: its
        /// flush waits for the operation in either cell, and sees the writes of the completing
        /// thread.
        #[test]
        fn a_flush_beside_another_waits_for_its_own() {
            check(|| {
                let pending = Arc::new(Pending::default());
                let effect = Arc::new(Effect(UnsafeCell::new(0)));
                let issued = Arc::new(AtomicUsize::new(0));
                let other = {
                    let (pending, effect) = (Arc::clone(&pending), Arc::clone(&effect));
                    let issued = Arc::clone(&issued);
                    thread::spawn(move || {
                        let first = pending.flush();
                        // The flush ends at once if it sees no operation, otherwise with the
                        // operation.
                        let first = (!first.is_done()).then_some(first);
                        let cell = loop {
                            match issued.load(Ordering::Acquire) {
                                0 => thread::yield_now(),
                                cell => break std::ptr::with_exposed_provenance::<Cell>(cell),
                            }
                        };
                        // SAFETY: loom checks each access.
                        effect.0.with_mut(|e| unsafe { *e = 1 });
                        // SAFETY: the cell lies in `pending`, which this thread shares.
                        unsafe { &*cell }.finish(0);
                        assert!(first.is_none_or(|flush| flush.is_done()));
                    })
                };
                let cell = std::ptr::from_ref(pending.begin());
                issued.store(cell.expose_provenance(), Ordering::Release);
                flush(&pending);
                // SAFETY: loom checks each access.
                assert_eq!(effect.0.with(|e| unsafe { *e }), 1);
                other.join().unwrap();
                assert!(pending.is_idle());
            });
        }

        /// A flush that is given up leaves an operation behind. The next flush, of any thread, waits for
        /// this operation.
        #[test]
        fn a_flush_waits_for_what_another_gave_up() {
            check(|| {
                let pending = Arc::new(Pending::default());
                let effect = Arc::new(Effect(UnsafeCell::new(0)));
                let cell = std::ptr::from_ref(pending.begin()).expose_provenance();
                let other = {
                    let (pending, effect) = (Arc::clone(&pending), Arc::clone(&effect));
                    thread::spawn(move || {
                        pending.flush().has_parted();
                        // SAFETY: loom checks each access.
                        effect.0.with_mut(|e| unsafe { *e = 1 });
                        let cell = std::ptr::with_exposed_provenance::<Cell>(cell);
                        // SAFETY: the cell lies in `pending`, which this thread shares.
                        unsafe { &*cell }.finish(0);
                    })
                };
                flush(&pending);
                // SAFETY: loom checks each access.
                assert_eq!(effect.0.with(|e| unsafe { *e }), 1);
                other.join().unwrap();
                assert!(pending.is_idle());
            });
        }

        /// Operations to one target that are kept back, and the command that counts them.
        #[derive(Default)]
        struct Place {
            kept: KeptBack,
            command: Mutex<Option<usize>>,
            pending: Pending,
        }

        impl Place {
            fn keep(&self) {
                let mut command = self.command.lock().unwrap();
                command.get_or_insert_with(|| {
                    let cell = self.kept.begin(0, &self.pending);
                    std::ptr::from_ref(cell).expose_provenance()
                });
            }

            /// Sends the kept operations, which complete at once.
            fn send(&self) {
                if self.kept.rank().is_none() {
                    return;
                }
                let mut command = self.command.lock().unwrap();
                if let Some(cell) = command.take() {
                    let cell = std::ptr::with_exposed_provenance::<Cell>(cell);
                    // SAFETY: the cell lies in `pending`.
                    unsafe { &*cell }.finish(0);
                }
                self.kept.end();
            }
        }

        /// A flush ends although another thread keeps an operation back meanwhile and sends
        /// nothing.
        #[test]
        fn a_flush_has_all_that_it_waits_for_sent() {
            check(|| {
                let place = Arc::new(Place::default());
                place.keep();
                let other = {
                    let place = Arc::clone(&place);
                    thread::spawn(move || place.keep())
                };
                let flush = place.pending.flush();
                place.send();
                while !flush.has_parted() {
                    thread::yield_now();
                }
                place.send();
                while !flush.is_done() {
                    thread::yield_now();
                }
                other.join().unwrap();
                place.send();
                assert!(place.pending.is_idle());
            });
        }

        /// A peer, and the list of a window that has it alone.
        #[derive(Default)]
        struct Peers {
            busy: BusyPeers,
            listed: Listed,
            pending: Pending,
        }

        impl Peers {
            fn issue(&self) -> &Cell {
                let cell = self.pending.begin();
                if !self.listed.is_set() {
                    self.busy.list(0, &self.listed);
                }
                cell
            }

            /// The first step of a flush of all.
            fn unsettled(&self) -> Vec<usize> {
                self.busy
                    .unsettled(|_| Some((&self.listed, self.pending.unsettled() == 0)))
            }
        }

        /// Two threads issue and flush all: each visits the peer while its own operation is under way, even if the
        /// other thread finds the peer settled meanwhile.
        #[test]
        fn a_flush_of_all_looks_at_what_this_thread_issued() {
            check(|| {
                let peers = Arc::new(Peers::default());
                let run = |peers: &Peers| {
                    let cell = peers.issue();
                    assert_eq!(peers.unsettled(), [0]);
                    cell.finish(0);
                    peers.unsettled();
                };
                let other = {
                    let peers = Arc::clone(&peers);
                    thread::spawn(move || run(&peers))
                };
                run(&peers);
                other.join().unwrap();
                assert!(peers.unsettled().is_empty());
                assert!(!peers.listed.is_set());
            });
        }

        /// Two threads take slots at the same time: never the same slot, and a thread that sees the end
        /// sees the result.
        #[test]
        fn slots_are_given_to_one_at_a_time() {
            check(|| {
                let slots = Arc::new(Slots::new());
                let other = {
                    let slots = Arc::clone(&slots);
                    thread::spawn(move || {
                        let taken = slots.take();
                        slots.slot(taken.unwrap()).arm();
                        taken
                    })
                };
                let own = slots.take();
                let theirs = other.join().unwrap();
                assert!(own.is_some() && own != theirs);
                slots.give_back(own.unwrap());
                assert_eq!(slots.take(), own);
            });
        }

        /// A thread that sees in the slot that the operation ended sees the fetched word.
        #[test]
        fn a_slot_orders_its_result() {
            check(|| {
                let slots = Arc::new(Slots::new());
                let effect = Arc::new(Effect(UnsafeCell::new(0)));
                let slot = slots.take().unwrap();
                slots.slot(slot).arm();
                let completer = {
                    let (slots, effect) = (Arc::clone(&slots), Arc::clone(&effect));
                    thread::spawn(move || {
                        // SAFETY: loom checks each access.
                        effect.0.with_mut(|e| unsafe { *e = 7 });
                        slots.slot(slot).finish(0);
                    })
                };
                while slots.slot(slot).status().is_none() {
                    thread::yield_now();
                }
                // SAFETY: loom checks each access.
                assert_eq!(effect.0.with(|e| unsafe { *e }), 7);
                completer.join().unwrap();
            });
        }
    }
}
