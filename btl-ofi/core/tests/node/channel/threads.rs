//! Several threads post, and several make progress.

use super::*;

/// Several threads post, and several make progress at each end; each callback runs once.
#[test]
fn threads() {
    const EACH: u32 = 5000;
    let pair = Pair::new(1, || open(near(), ThreadLevel::Multiple, &[]));
    let (b, there) = (&pair.b, pair.there());
    let seen = Seen::default();
    let mut old = vec![0u64; 3 * EACH as usize];
    attended(b, || {
        attended(b, || {
            thread::scope(|s| {
                for mine in old.chunks_mut(EACH as usize) {
                    let seen = &seen;
                    s.spawn(move || {
                        for out in mine {
                            there.insist(|there| there.fetch_add(0, out, seen.completion()));
                        }
                        assert_eq!(there.t.flush(None), Status::SUCCESS);
                    });
                }
            });
        });
    });
    assert_eq!(seen.both(), (3 * EACH, 0));
    for mine in old.chunks(EACH as usize) {
        assert!(mine.is_sorted(), "a thread's additions keep their order");
    }
    old.sort_unstable();
    assert!(old == (0..3 * u64::from(EACH)).collect::<Vec<_>>());
    assert_eq!(pair.close(), [3 * u64::from(EACH)]);
}
