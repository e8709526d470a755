//! Several threads of one transport on mapped memory.

use super::*;

/// Some threads use one window, while other windows are registered and deregistered.
#[test]
fn one_window_and_others() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 2000;
    let (a, b) = pair(ThreadLevel::Multiple);
    let window = Window::new(Memory::Memfd, 512);
    let region = register_window(&b, &window, Access::all());
    let peer = a.connect(b.address(), 0).unwrap();
    let ended = AtomicBool::new(false);
    let h = region.handle();
    thread::scope(|s| {
        let users: Vec<_> = (0..THREADS)
            .map(|number| {
                let (a, peer) = (&a, peer.as_ptr().expose_provenance());
                s.spawn(move || {
                    let peer = ptr::with_exposed_provenance_mut(peer);
                    let peer = NonNull::new(peer).unwrap();
                    let there = There { t: a, peer, h };
                    for round in 0..ROUNDS {
                        let mut old = 0;
                        insist(a, || there.fetch_add(0, &mut old, None));
                        let mine = [round, round, round];
                        let bytes: Vec<u8> = mine.iter().flat_map(|w| w.to_ne_bytes()).collect();
                        insist(a, || there.put(8 * (number + 1), &bytes, None));
                        let mut back = [0u8; 24];
                        insist(a, || there.get(8 * (number + 1), &mut back, None));
                        assert_eq!(a.flush(None), Status::SUCCESS);
                        assert_eq!(back[..], bytes[..]);
                    }
                })
            })
            .collect();
        let (a, b, ended) = (&a, &b, &ended);
        let peer = peer.as_ptr().expose_provenance();
        let others = s.spawn(move || {
            let peer = NonNull::new(ptr::with_exposed_provenance_mut(peer)).unwrap();
            while !ended.load(Ordering::Relaxed) {
                let other = Window::new(Memory::Memfd, 512);
                let region = register_window(b, &other, Access::all());
                let h = region.handle();
                let there = There { t: a, peer, h };
                insist(a, || there.put(0, &5u64.to_ne_bytes(), None));
                assert_eq!(a.flush(None), Status::SUCCESS);
                assert_eq!(other.word(0), 5);
                region.close().unwrap();
                b.progress();
                a.progress();
                other.unmap();
            }
        });
        let results: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        ended.store(true, Ordering::Relaxed);
        others.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert_eq!(window.word(0), THREADS * ROUNDS);
    close([region], [a, b]);
}
