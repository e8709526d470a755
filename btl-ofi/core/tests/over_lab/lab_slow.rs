//! Living peers that need longer than `btl_ofi_peer_timeout` for one operation: peers behind a slow link, and peers that
//! copy slowly for their device memory.

use crate::lab::prelude::*;

/// The peer timeout, milliseconds.
const TIME: u64 = 100;

fn single(faults: &str, timeout: u64) -> Transport {
    let shape: Shape = vec![
        ("MAX_MSG", (32 << 20).to_string()),
        ("FAULTS", faults.to_owned()),
    ];
    let mut settings = DeviceWay::Progress.parameters();
    settings.extend([
        ("btl_ofi_peer_check_interval", Value::Unsigned(10)),
        ("btl_ofi_peer_timeout", Value::Unsigned(timeout)),
    ]);
    opened(&shape, ThreadLevel::Single, &settings)
}

/// A peer that never answers is given up after the timeout plus the time that a long put takes over a slow link.
#[test]
fn a_long_put_has_more_time() {
    alone(|| {
        for (bytes, least) in [(8, TIME), (4 << 20, 10 * TIME)] {
            let t = single("seed=1,silent=1", TIME);
            let target = single("", 0);
            let mut window = vec![0u64; (4 << 20) / 8];
            let region = register(&target, &mut window, Access::all());
            let there = There::of(&t, 1, &target, &region);
            let (source, seen) = (vec![1u64; bytes / 8], Seen::default());
            let (begun, patience) = (Instant::now(), Patience::new());
            there.insist(|there| there.put(0, &source, seen.completion()));
            while there.failure().is_none() {
                t.progress();
                assert!(patience.lasts(), "it is not noticed");
            }
            // The measured time may be less by an interval, which began before the put.
            let lasted = begun.elapsed().as_millis() as u64;
            assert!(lasted + 10 >= least, "{bytes} bytes after {lasted} ms");
            assert_eq!((seen.both(), seen.status()), ((0, 1), Status::UNREACH));
            close([region], [t, target]);
        }
    });
}

/// A put to device memory whose owner makes some fragments now and then: each fragment is in time, the
/// whole put is not.
#[test]
fn fragments_prove_life() {
    const BYTES: usize = 16 << 20;
    alone(|| {
        let t = single("", TIME);
        let target = single("", 0);
        target.set_overrides(Some(&device::copies()));
        let mut window = vec![0u64; BYTES / 8];
        let region = device::register(&target, &mut window, Access::all());
        let there = There {
            base: device::address(window.as_mut_ptr().cast()) as u64,
            ..There::of(&t, 1, &target, &region)
        };
        let (source, seen) = (vec![7u64; BYTES / 8], Seen::default());
        let put = || there.insist(|there| there.put(0, &source, seen.completion()));
        let begun = Instant::now();
        put();
        let mut served = begun;
        while seen.all() == 0 {
            t.progress();
            if served.elapsed().as_millis() as u64 >= TIME * 2 / 5 {
                served = Instant::now();
                target.progress();
            }
            assert!(begun.elapsed() < BLOCKED, "it does not end");
        }
        assert_eq!((seen.succeeded(), there.failure()), (1, None));
        assert!(begun.elapsed().as_millis() as u64 > 2 * TIME);
        assert!(window.iter().all(|word| *word == 7));
        // Some checks find no outstanding operation. Afterwards the owner makes no further
        // progress.
        let begun = Instant::now();
        while begun.elapsed().as_millis() < 50 {
            t.progress();
        }
        put();
        until(&[&t], "it is not noticed", || seen.all() != 1);
        assert_eq!((seen.failed(), seen.status()), (1, Status::UNREACH));
        t.close().unwrap();
        drop(region);
        target.close().unwrap();
    });
}
