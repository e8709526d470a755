//! Several threads of one transport on mapped memory.

use super::*;

/// Some threads use one window, while other windows are registered and deregistered.
#[test]
fn one_window_and_others() {
    const THREADS: usize = 3;
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
                let there = There::new(&a, peer, h);
                s.spawn(move || {
                    for round in 0..ROUNDS {
                        let mut old = 0;
                        there.insist(|there| there.fetch_add(0, &mut old, None));
                        let (mine, place) = ([round; 3], 64 * (number + 1));
                        there.insist(|there| there.put(place, &mine, None));
                        let mut back = [0u64; 3];
                        there.insist(|there| there.get(place, &mut back, None));
                        assert_eq!(there.t.flush(None), Status::SUCCESS);
                        assert_eq!(back, mine);
                    }
                })
            })
            .collect();
        let (b, ended, first) = (&b, &ended, There::new(&a, peer, h));
        let others = s.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let other = Window::new(Memory::Memfd, 512);
                let region = register_window(b, &other, Access::all());
                let there = first.region(region.handle());
                there.insist(|there| there.put(0, &[5u64], None));
                assert_eq!(there.t.flush(None), Status::SUCCESS);
                assert_eq!(other.word(0), 5);
                region.close().unwrap();
                b.progress();
                first.t.progress();
                other.unmap();
            }
        });
        let results: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        ended.store(true, Ordering::Relaxed);
        others.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert_eq!(window.word(0), THREADS as u64 * ROUNDS);
    close([region], [a, b]);
}
