//! Large transfers over TCP: those whose copies would be slow are sent in two parts, others in one. All transfer the same
//! bytes, and complete once.

use crate::common::prelude::*;

const PAGE: usize = 4096;
const LARGE: usize = 128 * 1024;
const ROOM: usize = 2 * LARGE + 2 * PAGE;

/// Words that begin at a page boundary; `keep` owns the memory.
fn pages(keep: &mut Vec<u64>) -> &mut [u64] {
    keep.resize((ROOM + PAGE) / 8, 0);
    let skipped = keep.as_ptr().align_offset(PAGE);
    &mut keep[skipped..skipped + ROOM / 8]
}

/// A put or a get, with the offsets of its local and its remote side in their pages.
struct Case {
    put: bool,
    size: usize,
    local: usize,
    remote: usize,
    parts: u64,
}

const CASES: [Case; 12] = {
    const fn case(put: bool, size: usize, local: usize, remote: usize, parts: u64) -> Case {
        let parts = if cfg!(target_arch = "x86_64") {
            parts
        } else {
            1
        };
        Case {
            put,
            size,
            local,
            remote,
            parts,
        }
    }
    [
        // The peer sends the data of a get behind 16 bytes.
        case(false, LARGE, 0, 0, 2),
        case(false, LARGE, 2048, PAGE - 8, 2),
        case(false, LARGE, 0, 16, 1),
        case(false, LARGE, 2048, 2048, 1),
        // This process copies the data from there.
        case(false, LARGE, 40, 2048, 2),
        case(false, LARGE, 48, 2048, 1),
        // The data of a put comes behind 40 bytes.
        case(true, LARGE, 16, 0, 2),
        case(true, LARGE + 8, 24, 2048, 2),
        case(true, LARGE, 0, 0, 1),
        case(true, LARGE, 2048, 64, 2),
        case(true, LARGE, 2048, 72, 1),
        // Small transfers gain too little.
        case(false, LARGE - 8, 0, 0, 1),
    ]
};

/// Makes the transfer of a case, either with a callback or with a flush. Returns the number of the provider's operations.
fn transfer((a, b): (&Transport, &Transport), case: &Case, with_callback: bool, busy: bool) -> u64 {
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    let (mine, theirs) = (pages(&mut mine), pages(&mut theirs));
    let number = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (from, to) = match case.put {
        true => (&mut *mine, &mut *theirs),
        false => (&mut *theirs, &mut *mine),
    };
    (0..from.len()).for_each(|at| from[at] = number(at));
    to.fill(7);
    let region = register(b, theirs, Access::all());
    let h = region.handle();
    let peer = a.connect(b.address(), 1).unwrap();
    let local = mine.as_mut_ptr().wrapping_byte_add(case.local).cast();
    let remote = h.base() + case.remote as u64;
    let seen = Seen::default();
    let completion = with_callback.then(|| seen.completion()).flatten();
    let mut word = 0u64;
    let before = a.stats().operations[Carrier::Provider as usize];
    attended(b, || {
        if busy {
            let word = (&raw mut word).cast();
            insist(a, || a.get(peer, word, h.base(), &h, 8, None));
        }
        insist(a, || match case.put {
            true => a.put(peer, local, remote, &h, case.size, completion),
            false => a.get(peer, local, remote, &h, case.size, completion),
        });
        let deadline = Patience::new();
        while with_callback && seen.all() == 0 {
            assert!(deadline.lasts(), "no callback");
            a.progress();
        }
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    assert_eq!(seen.both(), (u32::from(with_callback), 0));
    let (first, start) = match case.put {
        true => (case.remote / 8, case.local / 8),
        false => (case.local / 8, case.remote / 8),
    };
    let to = if case.put { theirs } else { mine };
    for (at, found) in to.iter().enumerate() {
        let inside = (first..first + case.size / 8).contains(&at);
        let expected = if inside {
            number(at - first + start)
        } else {
            7
        };
        assert_eq!(*found, expected, "word {at}");
    }
    let made = a.stats().operations[Carrier::Provider as usize] - before;
    // SAFETY: connected once, and nothing is outstanding.
    assert_eq!(unsafe { a.disconnect(peer) }, Status::SUCCESS);
    region.close().unwrap();
    made
}

#[test]
fn slow_copies_are_made_in_two_parts() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let off = [("btl_ofi_same_node", Value::str("off"))];
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &off));
        for (number, case) in CASES.iter().enumerate() {
            for with_callback in [false, true] {
                let made = transfer((&a, &b), case, with_callback, false);
                assert_eq!(made, case.parts, "{provider}: case {number}");
            }
        }
        close([], [a, b]);
    }
}

/// The position of the data over a busy connection is not known.
#[test]
fn busy_connections_get_one_part() {
    let off = [("btl_ofi_same_node", Value::str("off"))];
    let [a, b] = [(); 2].map(|()| open("net", ThreadLevel::Single, &off));
    assert_eq!(transfer((&a, &b), &CASES[0], true, true), 1);
    close([], [a, b]);
}

/// The peer is killed while a transfer in two parts is outstanding: the transfer is reported once, as
/// failed.
#[test]
fn a_killed_peer_fails_it_once() {
    for provider in ["tcp;ofi_rxm", "net"] {
        for put in [false, true] {
            let off = [("btl_ofi_same_node", Value::str("off"))];
            let t = open(provider, ThreadLevel::Single, &off);
            let mut target = Target::start(&t, provider, false);
            let (peer, h) = (target.peer, target.handle);
            let mut keep = Vec::new();
            let mine = pages(&mut keep);
            let first = mine.as_mut_ptr().cast();
            insist(&t, || t.get(peer, first, h.base(), &h, LARGE, None));
            assert_eq!(t.flush(None), Status::SUCCESS);
            // Without a head, a get, which comes behind 16 bytes, would be copied slowly to byte 40 of a page, and
            // a put, which comes behind 40 bytes, from byte 16.
            let local = mine
                .as_mut_ptr()
                .wrapping_byte_add(if put { 16 } else { 40 });
            let local = local.cast();
            signal(target.child.id(), libc::SIGSTOP);
            let seen = Seen::default();
            let with = seen.completion();
            insist(&t, || match put {
                true => t.put(peer, local, h.base(), &h, LARGE, with),
                false => t.get(peer, local, h.base(), &h, LARGE, with),
            });
            for _ in 0..100 {
                t.progress();
            }
            assert_eq!(seen.all(), 0, "{provider}");
            target.kill();
            assert!(!t.flush(None).is_ok(), "{provider}");
            until(&[&t], format_args!("{provider}: never reported"), || {
                seen.all() != 0
            });
            assert_eq!((seen.all(), seen.failed()), (1, 1), "{provider}, {put}");
            // No operation is outstanding.
            assert_eq!(t.flush(None), Status::SUCCESS, "{provider}, {put}");
            drop(target);
            t.close().unwrap();
        }
    }
}
