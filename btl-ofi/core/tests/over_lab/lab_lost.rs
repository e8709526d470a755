//! Messages whose sends complete, but that never arrive, as when a connection breaks without notice to the sender.
//! Whichever message was lost, the sender gives up the peer, so no call waits forever. The provider has no atomics.

use crate::lab::prelude::*;

/// Milliseconds between two checks of the peers; the time is long enough that no check sends a question before the lost
/// message.
const CALM: u64 = 150;

/// A transport with a mode, over a provider with the given faults, that checks its peers every `interval` milliseconds.
fn single(faults: &str, mode: i32, interval: u64) -> Transport {
    let shape: Shape = vec![
        ("ATOMICS", "0".to_owned()),
        ("FAULTS", faults.to_owned()),
        ("SEND_ORDER", "0".to_owned()),
    ];
    let settings = [
        ("btl_ofi_mode", Value::Int(mode)),
        ("btl_ofi_peer_check_interval", Value::Unsigned(interval)),
    ];
    opened(&shape, ThreadLevel::Single, &settings)
}

fn failure(peer: NonNull<Endpoint>) -> Option<Status> {
    // SAFETY: the tests pass only connected peers.
    unsafe { peer.as_ref() }.failure()
}

/// The number of messages that arrived.
#[derive(Default)]
struct Came(AtomicUsize);

impl Receives for Came {
    fn receive(&self, _: *mut plugin_api::Endpoint, _: u8, _: &[u8]) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Came {
    fn of(t: &Transport) -> Box<Came> {
        let came: Box<Came> = Box::default();
        came.receive_of(t);
        came
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn send(t: &Transport, peer: NonNull<Endpoint>) {
    // SAFETY: the endpoint is connected, and the message has no bytes.
    let sent = || unsafe { t.send(peer, (1, 0, Leaves::Later), |_| ()) };
    insist(t, || sent().err().unwrap_or(Status::SUCCESS));
}

/// Makes progress of all transports for `milliseconds` milliseconds.
fn wait(ts: &[&Transport], milliseconds: u64) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {
        ts.iter().for_each(|t| {
            t.progress();
        });
    }
}

/// Puts; the first introduces the origin. A batch or an answer is lost.
#[test]
fn lost_batches_and_answers_are_noticed() {
    alone(|| {
        for (origin, target, done) in [
            ("lose=1", "", 0),
            ("lose=3", "", 2),
            ("", "lose=1", 0),
            ("", "lose=3", 2),
            ("lose=2,delay=20,reorder=1,seed=3", "delay=20,reorder=1", 1),
        ] {
            println!("@at {origin}; {target}");
            let (b, a) = (single(target, 0, CALM), single(origin, 0, CALM));
            let reports = Reports::of(&a);
            let pair = Pair::of(a, b, vec![0; 8]);
            let (a, there) = (&pair.a, pair.there());
            attended(&pair.b, || {
                for i in 0..=done {
                    there.insist(|there| there.put(8 * i, &[7u64], None));
                    let expected = match i < done {
                        true => Status::SUCCESS,
                        false => Status::UNREACH,
                    };
                    assert_eq!(a.flush(None), expected, "{origin}; {target}: put {i}");
                }
            });
            assert_eq!(there.failure(), Some(Status::UNREACH));
            assert!(reports.say("lost on the way"), "{:?}", reports.all());
            pair.close();
        }
    });
}

/// Messages of the host; one is lost: the checks detect the loss although no caller waits
/// for an answer.
#[test]
fn lost_messages_of_the_host_are_noticed() {
    alone(|| {
        for (lost, sent) in [(1, 1), (2, 1), (2, 2), (3, 6)] {
            println!("@at message {lost}, {sent} sent");
            let (b, a) = (
                single("", 2, CALM),
                single(&format!("lose={lost}"), 2, CALM),
            );
            let came = Came::of(&b);
            let reports = Reports::of(&a);
            let peer = a.connect(b.address(), 1).unwrap();
            if lost > 1 {
                // The first message introduces the sender.
                send(&a, peer);
                until(&[&a, &b], "nothing came", || came.count() == 1);
                // The answer to the first message arrives too, so the next messages are sent one by
                // one.
                for _ in 0..1000 {
                    a.progress();
                    b.progress();
                }
            }
            (0..sent).for_each(|_| send(&a, peer));
            let is_lost = || failure(peer) == Some(Status::UNREACH);
            until(&[&a, &b], "the loss is not noticed", is_lost);
            assert!(reports.say("lost on the way"), "{:?}", reports.all());
            let before: usize = lost - 1;
            assert_eq!(came.count(), before);
            close([], [a, b]);
        }
    });
}

/// Lost questions and receipts do no harm, nor do messages that overtake each other.
#[test]
fn questions_do_no_harm() {
    alone(|| {
        for (origin, target) in [
            // The question is the third message of the origin, the receipt the second message of the
            // target.
            ("lose=3", ""),
            ("", "lose=2"),
            ("delay=30,reorder=1,seed=8", "delay=30,reorder=1,seed=9"),
            ("again=300,burst=3,seed=4", "again=300,burst=3,seed=5"),
        ] {
            println!("@at {origin}; {target}");
            let (b, a) = (single(target, 2, 10), single(origin, 2, 10));
            let came = Came::of(&b);
            let peer = a.connect(b.address(), 1).unwrap();
            for n in 1..=12 {
                send(&a, peer);
                until(&[&a, &b], "nothing came", || came.count() == n);
                wait(&[&a, &b], if n == 2 { 300 } else { 30 });
            }
            wait(&[&a, &b], 300);
            assert_eq!(failure(peer), None, "{origin}; {target}");
            close([], [a, b]);
        }
    });
}

/// A peer ends while the host's messages to it are unanswered, and this process waits. A peer that closed its transport has
/// left, and is not reported as lost before the next message to it. A peer that did not close its transport is reported as
/// lost.
#[test]
fn peers_that_leave_are_not_missed() {
    alone(|| {
        for in_order in [true, false] {
            println!("@at in order: {in_order}");
            // The checks come after the end of the peer.
            let (b, a) = (single("", 2, CALM), single("", 2, CALM));
            let came = Came::of(&b);
            let reports = Reports::of(&a);
            let peer = a.connect(b.address(), 1).unwrap();
            for n in 1..=4 {
                send(&a, peer);
                until(&[&a, &b], "nothing came", || came.count() == n);
            }
            if in_order {
                b.close().unwrap();
                // The time includes heartbeats; the first comes after two seconds.
                wait(&[&a], 3500);
                assert_eq!(failure(peer), None);
                assert!(reports.all().is_empty(), "{:?}", reports.all());
                send(&a, peer);
            } else {
                drop(b);
            }
            until(&[&a], "the peer is not missed", || {
                failure(peer) == Some(Status::UNREACH)
            });
            a.close().unwrap();
        }
    });
}
