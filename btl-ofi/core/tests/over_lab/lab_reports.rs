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

/// Puts a word.
fn put(own: &Own, done: Option<Completion>) -> Status {
    own.there().put(0, &[7u64], done)
}

/// The reports of a transport whose first operation, a put with a callback, fails, and whose second
/// succeeds.
fn reports(every: bool) -> Vec<String> {
    let (t, reports) = reporting("nth=1", every);
    let own = Own::new(t, 1);
    for expected in [Status::ERROR, Status::SUCCESS] {
        let seen = Seen::default();
        insist(&own.t, || put(&own, seen.completion()));
        assert_eq!(own.t.flush(None), Status::SUCCESS, "the callback says it");
        assert_eq!(seen.status(), expected);
    }
    assert_eq!(own.close(), [7]);
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
        let (own, seen) = (Own::new(t, 1), Seen::default());
        assert_eq!(put(&own, seen.completion()), Status::SUCCESS);
        assert_eq!(put(&own, None), Status::SUCCESS);
        assert_eq!(own.t.flush(None), Status::FATAL);
        assert_eq!(seen.status(), Status::FATAL);
        assert_eq!(put(&own, None), Status::FATAL);
        for _ in 0..100 {
            own.t.progress();
        }
        let reports = kept.all();
        let of_queue = |report: &&String| report.contains("fi_cq_read returned -5");
        assert_eq!(
            reports.iter().filter(of_queue).count(),
            2,
            "the peer and the module: {reports:?}"
        );
        own.close();
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
        let (own, blocked) = (Own::new(t, 1), Blocked::default());
        let t = &own.t;
        insist(t, || put(&own, blocked.completion()));
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
        own.close();
    });
}
