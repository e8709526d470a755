//! Several threads notify one counter.

use super::*;

/// Several threads notify one counter and flush: each notification counts once.
#[test]
fn threads_share_a_counter() {
    const THREADS: usize = 3;
    const MANY: usize = 150;
    for (provider, same_node) in ways() {
        let (a, b, peer) = pair(provider, same_node, ThreadLevel::Multiple);
        let mut window = vec![0u64; THREADS * 1024 + 1];
        let region = register(&b, &mut window, Access::all());
        let there = There::new(&a, peer, region.handle());
        attended(&b, || {
            std::thread::scope(|s| {
                for thread in 0..THREADS {
                    s.spawn(move || {
                        for i in 0..MANY {
                            let from = content(5, i, fit(there.t, [8, 4096, 5000][i % 3]));
                            let (at, counter) = (8 + thread * 8192, (&there.h, 0, 1));
                            there.insist(|to| to.put_notify(at, &from, counter, None));
                            assert_eq!(there.t.flush(None), Status::SUCCESS);
                        }
                    });
                }
            });
        });
        drop(region);
        assert_eq!(window[0], (THREADS * MANY) as u64, "{provider}");
        close([], [a, b]);
    }
}
