//! A peer dies while this process copies device memory to another peer: the transport holds no lock when it reports
//! the failure.

use crate::common::pair::WORDS;

use crate::common::prelude::*;

/// Puts from device memory to a living peer.
struct Puts<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    handle: Handle,
    from: *mut c_void,
    local: Handle,
    seen: Seen,
    /// The number of failure reports for the other peer's operation.
    failed: AtomicU32,
    /// The number of puts that completed meanwhile.
    completed: AtomicU32,
}

impl Puts<'_> {
    fn put(&self) {
        let (at, size) = (self.handle.base(), WORDS * 8);
        let mut with = self.local;
        insist(self.t, || {
            let with = (&raw mut with).cast();
            let done = self.seen.completion();
            self.t
                .put_with(self.peer, self.from, at, with, &self.handle, size, done)
        });
    }
}

/// The failure report of the operation to the dead peer; the report posts further puts to the
/// living peer.
impl Ended for Puts<'_> {
    fn ended(&self, status: Status) {
        assert!(!status.is_ok());
        self.failed.fetch_add(1, Ordering::Relaxed);
        let before = self.seen.succeeded();
        self.put();
        for _ in 0..1000 {
            self.t.progress();
        }
        let completed = self.seen.succeeded() - before;
        self.completed.store(completed, Ordering::Relaxed);
    }
}

/// The copies of a put from device memory check the peers now and then, and detect the death; the next progress reports it.
#[test]
fn reports_hold_no_lock() {
    let interval = ("btl_ofi_peer_check_interval", Value::Unsigned(1));
    let t = open(near(), ThreadLevel::Single, &[interval]);
    t.set_overrides(Some(&device::copies()));
    let mut source = vec![7u64; WORDS];
    let local = device::register(&t, &mut source, Access::LOCAL_WRITE);
    let from = device::address(source.as_mut_ptr().cast());
    let mut dead = Target::start_as(0, &t, near(), true);
    let mut living = Target::start_as(1, &t, near(), false);
    // From here on, the peer makes no progress.
    dead.sees(0, 0);
    let puts = Puts {
        t: &t,
        peer: living.peer,
        handle: living.handle,
        from,
        local: local.handle(),
        seen: Seen::default(),
        failed: AtomicU32::new(0),
        completed: AtomicU32::new(0),
    };
    dead.there().insist(|there| there.add(0, puts.completion()));
    dead.kill();
    std::thread::sleep(Duration::from_millis(5));
    puts.put();
    // The next progress acts on the death that the copies detected.
    t.progress();
    assert_eq!(
        puts.failed.load(Ordering::Relaxed),
        1,
        "the put did not find the death"
    );
    assert_eq!(
        puts.completed.load(Ordering::Relaxed),
        1,
        "the put of the report went on"
    );
    t.flush(None);
    assert_eq!(puts.seen.both(), (2, 0));
    assert_eq!(living.sees(0, WORDS - 1), (7, 7));
    living.end();
    local.close().unwrap();
    drop(dead);
    t.close().unwrap();
}
