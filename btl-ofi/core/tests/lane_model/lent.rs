//! Records that are lent to a provider whose own thread writes their context.

use super::*;

/// A record between its post and its completion, while the provider's own thread writes its context. Each cell
/// represents the memory of a record and reports conflicting accesses.
struct Lent {
    lane: Lane,
    records: [UnsafeCell<u32>; 4],
    /// The contexts that the provider holds, and the contexts that it has completed.
    wire: Mutex<Vec<usize>>,
    done: Mutex<Vec<usize>>,
}

// SAFETY: loom checks each access to the cells.
unsafe impl Sync for Lent {}

impl Lent {
    fn new() -> Lent {
        Lent {
            lane: Lane::new(),
            records: Default::default(),
            wire: Mutex::new(Vec::new()),
            done: Mutex::new(Vec::new()),
        }
    }

    /// Neighbours in a chunk have separate cells.
    fn touch(&self, record: usize) {
        let cell = &self.records[record / size_of::<Record>() % self.records.len()];
        // SAFETY: loom checks that no other thread accesses the cell.
        cell.with_mut(|r| unsafe { *r += 1 });
    }

    fn post(&self, number: usize) {
        self.lane.post_by(number, |_, context| {
            self.touch(context.addr());
            self.wire.lock().unwrap().push(context.expose_provenance());
        });
    }

    /// The work of the provider's thread on one operation, if there is one.
    fn provide(&self) {
        let Some(context) = self.wire.lock().unwrap().pop() else {
            return;
        };
        self.touch(context);
        self.done.lock().unwrap().push(context);
    }

    fn poll(&self) {
        self.lane.poll_by(|_| {
            let context = self.done.lock().unwrap().pop()?;
            self.touch(context);
            Some(ptr::with_exposed_provenance_mut(context))
        });
    }
}

/// A record is reused only after the thread that completed it and the provider have released it. The provider's thread
/// writes contexts without a lock of the transport.
#[test]
fn a_record_is_the_providers_until_it_completes() {
    check(|| {
        let lent = Arc::new(Lent::new());
        lent.post(0);
        let provider = {
            let lent = Arc::clone(&lent);
            thread::spawn(move || {
                lent.provide();
                lent.provide();
            })
        };
        let helper = {
            let lent = Arc::clone(&lent);
            thread::spawn(move || lent.poll())
        };
        // The post uses the record of the first operation if the helper has returned that record.
        lent.post(1);
        provider.join().unwrap();
        helper.join().unwrap();
        lent.provide();
        while lent.lane.count.outstanding() > 0 {
            lent.poll();
        }
        lent.lane.is_done(0);
        lent.lane.is_done(1);
    });
}

/// The pool's last record is taken and a chunk is added while other threads complete operations and
/// return records.
#[test]
fn the_pool_grows_under_completions() {
    check(|| {
        let lane = Arc::new(Lane::new());
        {
            let mut state = lane.state.lock();
            // The test takes all but one of the first chunk's records.
            let taken = (1..256).filter_map(|_| state.pool.take());
            assert_eq!(taken.count(), 255);
        }
        let helper = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || {
                lane.poll();
                lane.post(1);
                lane.poll();
            })
        };
        lane.post(0);
        lane.flush();
        lane.is_done(0);
        helper.join().unwrap();
        lane.flush();
        lane.is_done(1);
        assert_eq!(lane.count.outstanding(), 0);
        let state = lane.state.try_lock().expect("nobody holds it");
        assert!(state.pool.in_use(None).is_empty());
    });
}
