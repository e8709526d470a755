//! A provider that accepts no operation.

use super::*;

/// The provider never accepts an operation: posts return "again", and no flush waits for operations
/// that were never accepted.
#[test]
fn again_for_ever() {
    let tally = isolated_as(&[""], |_| {
        shape(&[("FAULTS", "seed=1,again=1000")]);
        let t = open("lab", ThreadLevel::Single, &[]);
        let peer = t.connect(t.address(), 0).unwrap();
        let mut window = [0u64; 8];
        let region = register(&t, &mut window);
        let (h, mut word) = (region.handle(), 1u64);
        let from = (&raw mut word).cast();
        for _ in 0..20_000 {
            let status = t.put(peer, from, h.base(), &h, 8, None);
            assert_eq!(status, Status::TEMP_OUT_OF_RESOURCE);
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
        let stats = t.stats();
        assert_eq!((stats.posted, stats.again), (0, 20_000));
        region.close().unwrap();
        t.close().unwrap();
    });
    if let Some(tally) = tally {
        tally.insist("again for ever");
        assert!(tally.faults >= 20_000, "{tally:?}");
    }
}
