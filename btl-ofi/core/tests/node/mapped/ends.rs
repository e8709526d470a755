//! The end of mapped memory: regions that are deregistered, and targets that die.

use super::*;

/// Makes the transport check local peers as often as possible.
const OFTEN: (&str, Value) = ("btl_ofi_peer_check_interval", Value::Unsigned(1));

fn all_fail(there: There<'_>) {
    let mut back = [7u8; 8];
    for _ in 0..3 {
        assert_eq!(there.put(0, &[1u8; 8], None), Status::PERM);
        assert_eq!(there.put(0, &[1u8; 100], None), Status::PERM);
        let put = there.put_notify(0, &[1u64], (&there.h, 64, 1), None);
        assert_eq!(put, Status::PERM);
        assert_eq!(there.get(0, &mut back, None), Status::PERM);
        assert_eq!(there.fetch_add(0, &mut 0, None), Status::PERM);
        assert_eq!(there.t.flush(None), Status::SUCCESS, "nothing was begun");
    }
    assert_eq!(back, [7; 8]);
}

/// Makes progress until at most `most` mappings are left. The checks in progress unmap the memory of deregistered
/// regions.
fn until_unmapped(t: &Transport, file: u64, most: usize) {
    until(&[t], "the memory stays mapped", || mappings(file) <= most);
}

/// A deregistered region is refused, whether it was mapped or not.
#[test]
fn a_deregistered_region() {
    for before in [false, true] {
        let t = open(near(), ThreadLevel::Single, &[OFTEN]);
        let mut target = Target::start_in(&t, near(), Memory::Memfd);
        let there = target.there();
        if before {
            assert_eq!(put_word(there, 0, 5), Status::SUCCESS);
        }
        let file = file_of(target.child.id());
        target.act("deregister");
        all_fail(there);
        assert_eq!(target.sees(0, 1), (if before { 5 } else { 0 }, 0));
        until_unmapped(&t, file, 0);
        all_fail(there);
        target.end();
        t.close().unwrap();
    }
}

/// Regions of one place after another: each operation accesses its own region, and mappings do not
/// accumulate.
#[test]
fn many_regions() {
    let open = || open(near(), ThreadLevel::Single, &[OFTEN]);
    let [a, b] = [(); 2].map(|()| open());
    let peer = a.connect(b.address(), 0).unwrap();
    let window = Window::new(Memory::Memfd, 512);
    for round in 0..200 {
        let region = register_window(&b, &window, Access::all());
        let h = region.handle();
        let there = There::new(&a, peer, h);
        assert_eq!(put_word(there, 0, round), Status::SUCCESS);
        assert_eq!(window.word(0), round);
        if round % 50 == 49 {
            until_unmapped(&a, window.file(), 2);
        }
        region.close().unwrap();
    }
    // There are more regions at a time than are announced, and than are mapped; the other regions
    // use ring and kernel.
    let regions: Vec<Region> = (0..540)
        .map(|_| register_window(&b, &window, Access::all()))
        .collect();
    attended(&b, || {
        for (round, region) in regions.iter().enumerate() {
            let (value, h) = (round as u64, region.handle());
            let there = There::new(&a, peer, h);
            let mut old = 0;
            assert_eq!(put_word(there, 0, value), Status::SUCCESS);
            there.insist(|there| there.fetch_add(0, &mut old, None));
            assert_eq!(a.flush(None), Status::SUCCESS);
            assert_eq!((old, window.word(0)), (value, value + 1));
        }
    });
    drop(regions);
    // SAFETY: connected once.
    assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
    assert_eq!(mappings(window.file()), 1, "the window itself");
    window.unmap();
    close([], [a, b]);
}

/// Writes until the transport detects the target's failure.
fn until_it_fails(there: There<'_>, file: u64) {
    let deadline = Patience::new();
    let mut value = 0u64;
    loop {
        value += 1;
        let status = there.put(0, &[value], None);
        if status == Status::UNREACH {
            break;
        }
        assert_eq!(status, Status::SUCCESS);
        there.t.progress();
        assert!(deadline.lasts(), "the target's end is not noticed");
    }
    assert_eq!(there.fetch_add(0, &mut 0, None), Status::UNREACH);
    assert_eq!(mappings(file), 0, "the memory of a peer that is gone");
}

/// Maps the memory of a target. Then `strike` ends the target's transport, the test writes until the failure is detected,
/// and `look` checks the rest.
fn struck(strike: impl FnOnce(&mut Target<'_>), look: impl FnOnce(&mut Target<'_>)) {
    let t = open(near(), ThreadLevel::Single, &[OFTEN]);
    t.watch_idle_peers();
    let mut target = Target::start_in(&t, near(), Memory::Memfd);
    let there = target.there();
    assert_eq!(put_word(there, 0, 5), Status::SUCCESS);
    let file = file_of(target.child.id());
    assert_eq!(mappings(file), 1);
    strike(&mut target);
    until_it_fails(there, file);
    look(&mut target);
    drop(target);
    t.close().unwrap();
}

#[test]
fn a_killed_target() {
    let kill = |target: &mut Target<'_>| {
        target.kill();
    };
    struck(kill, |_| ());
}

/// The target executes another program with other memory at the same address; no write reaches that memory.
#[test]
fn another_program() {
    let look = |target: &mut Target<'_>| assert_eq!(target.changed(), 0);
    struck(|target| target.act_unattended("exec"), look);
}
