//! Puts that need a confirming read and get none: reads that fail, never end, or end late; and providers and peers
//! that are refused.

use crate::lab::prelude::*;

/// A read fails, or never ends: exactly the puts that it covers are reported as failed, once each.
#[test]
fn puts_that_nothing_confirms_fail_once() {
    alone(|| {
        // The second operation is the read.
        for (fault, flushed) in [("nth=2", Status::ERROR), ("silent=2", Status::FATAL)] {
            for with_callback in [true, false] {
                let faults = format!("seed=1,{fault}");
                shape(&[("CONFIRMS", "0"), ("READ_ORDER", "1"), ("FAULTS", &faults)]);
                let settings = [
                    ("btl_ofi_peer_check_interval", Value::Unsigned(20)),
                    ("btl_ofi_peer_timeout", Value::Unsigned(100)),
                ];
                let own = Own::new(open("lab", ThreadLevel::Single, &settings), 64);
                let (t, there, losses) = (&own.t, own.there(), Losses::default());
                t.on_error(Some(losses.report()));
                let calls = AtomicU32::new(0);
                let completion = with_callback.then(|| calls.completion()).flatten();
                there.insist(|there| there.put(0, &[7u64], completion));
                let wanted = match (with_callback, flushed) {
                    (true, Status::ERROR) => Status::SUCCESS,
                    _ => flushed,
                };
                let what = format!("{fault}, callback: {with_callback}");
                assert_eq!(t.flush(None), wanted, "{what}");
                assert_eq!(t.flush(None), Status::SUCCESS, "{what}: told once");
                assert_eq!(
                    calls.load(Ordering::Relaxed),
                    u32::from(with_callback) * FAILED,
                    "{what}"
                );
                let stats = t.stats();
                assert_eq!(
                    (stats.posted, stats.completed, stats.failed),
                    (1, 0, 1),
                    "{what}"
                );
                if flushed == Status::ERROR {
                    // The next read confirms the next put.
                    there.insist(|there| there.put(8, &[7u64], None));
                    assert_eq!(t.flush(None), Status::SUCCESS, "{what}");
                    assert_eq!(own.word(1), 7, "{what}");
                }
                there.release();
                own.close();
                assert_eq!(
                    calls.load(Ordering::Relaxed),
                    u32::from(with_callback) * FAILED,
                    "{what}"
                );
            }
        }
    });
}

/// A peer is released while a read from it is outstanding, which may end later: no other peer gets its place.
#[test]
fn a_released_peer_keeps_its_place_while_a_read_names_it() {
    alone(|| {
        // The read never ends.
        shape(&[
            ("CONFIRMS", "0"),
            ("READ_ORDER", "1"),
            ("FAULTS", "seed=1,silent=2"),
        ]);
        let settings = [
            ("btl_ofi_peer_check_interval", Value::Unsigned(20)),
            ("btl_ofi_peer_timeout", Value::Unsigned(0)),
        ];
        let own = Own::new(open("lab", ThreadLevel::Single, &settings), 64);
        let (t, there) = (&own.t, own.there());
        there.insist(|there| there.put(0, &[7u64], None));
        assert_ne!(there.release(), Status::SUCCESS);
        let stats = t.stats();
        assert_eq!((stats.posted, stats.failed), (1, 1));
        let other = t.connect(t.address(), 1).unwrap();
        assert_ne!(other, there.peer, "the read may still name the place");
        own.close();
    });
}

/// Providers and peers that cannot be used by order are refused, with the reason.
#[test]
fn what_cannot_go_by_order_is_refused() {
    alone(|| {
        let refused = |pairs: &[(&str, &str)], why: &str| {
            shape(pairs);
            let said = refusal("lab", &[]);
            assert!(said.contains(why), "{said}");
        };
        refused(&[("CONFIRMS", "0")], "FI_ORDER_RMA_RAW");
        let by_order = [("CONFIRMS", "0"), ("READ_ORDER", "1")];
        refused(
            &[by_order[0], by_order[1], ("MODE", "CONTEXT")],
            "claims the contexts",
        );
        // A peer whose puts its own provider confirms publishes no word for reads.
        shape(&[]);
        let other = open("lab", ThreadLevel::Single, &[]);
        shape(&by_order);
        let t = open("lab", ThreadLevel::Single, &[]);
        let why = t.connect(other.address(), 1).unwrap_err().to_string();
        assert!(
            why.contains("publishes no word") && why.contains("provider lab"),
            "{why}"
        );
        assert!(other.connect(t.address(), 1).is_ok());
        t.close().unwrap();
        other.close().unwrap();
    });
}
