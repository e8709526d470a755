//! Several threads post, and several make progress.

use super::*;

/// Several threads post, and several make progress at each end; each callback runs once.
#[test]
fn threads() {
    const EACH: u32 = 5000;
    let [a, b] = [(); 2].map(|()| open(near(), ThreadLevel::Multiple, &[]));
    let mut window = [0u64; 1];
    let region = register(&b, &mut window, ALL);
    let h = region.handle();
    let peer = a.connect(b.address(), 0).unwrap().as_ptr() as usize;
    let seen = Seen::default();
    let mut old = vec![0u64; 3 * EACH as usize];
    attended(&b, || {
        attended(&b, || {
            thread::scope(|s| {
                for mine in old.chunks_mut(EACH as usize) {
                    let (a, h, seen) = (&a, &h, &seen);
                    s.spawn(move || {
                        let peer = NonNull::new(peer as *mut Endpoint).unwrap();
                        for out in mine {
                            insist(a, || add(a, peer, h, out, 1, seen.completion()));
                        }
                        assert_eq!(a.flush(None), Status::SUCCESS);
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
    assert_eq!(window[0], 3 * u64::from(EACH));
    close([region], [a, b]);
}
