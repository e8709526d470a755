//! Several threads notify one counter.

use super::*;

/// Several threads notify one counter and flush: each notification counts once.
#[test]
fn threads_share_a_counter() {
    const THREADS: usize = 3;
    const MANY: usize = 150;
    struct Shared(NonNull<Endpoint>);
    // SAFETY: at this thread level, any thread may call the transport with the endpoint.
    unsafe impl Sync for Shared {}
    for (provider, same_node) in ways() {
        let (a, b, peer) = pair(provider, same_node, ThreadLevel::Multiple);
        let peer = Shared(peer);
        let mut window = vec![0u64; THREADS * 1024 + 1];
        let region = register(&b, &mut window, Access::all());
        let h = region.handle();
        attended(&b, || {
            std::thread::scope(|s| {
                for thread in 0..THREADS {
                    let (a, peer, h) = (&a, &peer, &h);
                    s.spawn(move || {
                        let peer = peer;
                        for i in 0..MANY {
                            let from = content(5, i, fit(a, [8, 4096, 5000][i % 3]));
                            let put = Put {
                                to: (h, 8 + thread * 8192),
                                counter: (h, 0),
                                add: 1,
                            };
                            insist(a, || put.post(a, peer.0, &from, None));
                            assert_eq!(a.flush(None), Status::SUCCESS);
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
