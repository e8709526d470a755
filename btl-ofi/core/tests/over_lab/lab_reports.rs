//! The reports of the error function about failed operations whose callbacks report the failure
//! too.

use crate::lab::prelude::*;

/// A transport over the provider with these faults; the test keeps its reports.
fn reporting(faults: &str, every: bool) -> (Transport, Box<Reports>) {
    shape(&[("FAULTS", faults)]);
    let mut options = options(&[
        ("btl_ofi_provider_include", Value::str("lab")),
        ("btl_ofi_same_node", Value::str("off")),
    ]);
    if every {
        options.report_every_failure();
    }
    let t = try_open(&options, ThreadLevel::Single).unwrap();
    let reports = Reports::of(&t);
    (t, reports)
}

/// A window of a transport that is its own peer.
struct Own<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    // The region is closed before the window is freed.
    region: Region,
    window: Box<[u64]>,
    word: Box<u64>,
}

impl Own<'_> {
    fn of(t: &Transport) -> Own<'_> {
        let mut window = vec![0; 1].into_boxed_slice();
        Own {
            t,
            peer: t.connect(t.address(), 0).unwrap(),
            region: register(t, &mut window, Access::all()),
            window,
            word: Box::new(7),
        }
    }

    /// Puts the word to the window.
    fn put(&self, done: Option<Completion>) -> Status {
        let h = self.region.handle();
        let word = ptr::from_ref(&*self.word).cast_mut().cast();
        self.t.put(self.peer, word, h.base(), &h, 8, done)
    }
}

/// The reports of a transport whose first operation, a put with a callback, fails, and whose second
/// succeeds.
fn reports(every: bool) -> Vec<String> {
    let (t, reports) = reporting("nth=1", every);
    let own = Own::of(&t);
    for expected in [Status::ERROR, Status::SUCCESS] {
        let seen = Seen::default();
        insist(&t, || own.put(seen.completion()));
        assert_eq!(t.flush(None), Status::SUCCESS, "the callback says it");
        assert_eq!(seen.status(), expected);
    }
    assert_eq!(own.window[0], 7);
    drop(own);
    t.close().unwrap();
    reports.all()
}

#[test]
fn every_failure_is_reported_where_asked_for() {
    alone(|| {
        assert_eq!(reports(false), [""; 0], "its callback says it");
        let [report] = &reports(true)[..] else {
            panic!("one report")
        };
        assert!(
            report.starts_with("0: 1 operation(s) to process 0 failed: "),
            "{report}"
        );
    });
}

/// A queue can no longer be read: the operations posted before are reported, and so is the module,
/// once.
#[test]
fn a_queue_that_cannot_be_read_ends_the_module() {
    alone(|| {
        let (t, kept) = reporting("unreadable=2", false);
        let (own, seen) = (Own::of(&t), Seen::default());
        assert_eq!(own.put(seen.completion()), Status::SUCCESS);
        assert_eq!(own.put(None), Status::SUCCESS);
        assert_eq!(t.flush(None), Status::FATAL);
        assert_eq!(seen.status(), Status::FATAL);
        assert_eq!(own.put(None), Status::FATAL);
        for _ in 0..100 {
            t.progress();
        }
        let reports = kept.all();
        let of_queue = |report: &&String| report.contains("fi_cq_read returned -5");
        assert_eq!(
            reports.iter().filter(of_queue).count(),
            2,
            "the peer and the module: {reports:?}"
        );
        drop(own);
        t.close().unwrap();
    });
}

/// The state of a callback that waits for its host.
#[derive(Default)]
struct Blocked {
    entered: AtomicBool,
    released: AtomicBool,
}

impl Ended for Blocked {
    fn ended(&self, _: Status) {
        self.entered.store(true, Ordering::Release);
        while !self.released.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// A callback of a failed operation waits for its host; the host can still close the transport.
#[test]
fn a_callback_that_blocks_does_not_block_closing() {
    alone(|| {
        shape(&[("FAULTS", "nth=1,errno=108")]);
        let same_node = ("btl_ofi_same_node", Value::str("off"));
        let t = open("lab", ThreadLevel::Multiple, &[same_node]);
        let own = Own::of(&t);
        let blocked = Blocked::default();
        insist(&t, || own.put(blocked.completion()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !blocked.entered.load(Ordering::Acquire) {
                    t.progress();
                }
            });
            while !blocked.entered.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            t.flush_for_close();
            blocked.released.store(true, Ordering::Release);
        });
        drop(own);
        t.close().unwrap();
    });
}
