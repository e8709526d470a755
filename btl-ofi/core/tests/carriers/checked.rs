//! Puts and gets with handles of registrations that may have ended: targets refuse them; if no target would check, the call
//! refuses.

use crate::common::prelude::*;

/// The number of words of a transfer that is too long for a message.
const LONG: usize = 1 << 17;
const CHECKED: TransferFlags = TransferFlags::CHECKED;

fn submit(t: &Transport, peer: NonNull<Endpoint>, op: Op<'_>, done: &Seen) -> Status {
    // SAFETY: callers keep the peer and the buffers until the submitted operation has ended.
    unsafe { t.submit(peer, &op.with_completion(done.completion())) }
}

/// A put and a get of all words of `ours`, at the beginning of a region.
fn both<'a>(h: &'a Handle, ours: &mut [u64]) -> [Op<'a>; 2] {
    let local = (ours.as_mut_ptr().cast::<c_void>(), ptr::null_mut());
    [Op::put, Op::get].map(|op| op(h, h.base(), local, size_of_val(ours)).with_flags(CHECKED))
}

#[test]
fn targets_of_messages_refuse_a_handle_that_ended() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &[]));
        let peer = a.connect(b.address(), 1).unwrap();
        let mut theirs = vec![1u64; LONG];
        // The same memory is registered again, as after a detach and an attach.
        let ended = register(&b, &mut theirs, Access::all());
        let old = ended.handle();
        drop(ended);
        let region = register(&b, &mut theirs, Access::all());
        let h = region.handle();
        let (good, bad) = (Seen::default(), Seen::default());
        let (mut ours, mut long) = ([2u64; 8], vec![3u64; LONG]);
        attended(&b, || {
            for op in both(&old, &mut ours) {
                insist(&a, || submit(&a, peer, op, &bad));
            }
            a.flush(None);
            assert_eq!(
                (bad.both(), bad.status()),
                ((0, 2), Status::PERM),
                "{provider}"
            );
            assert_eq!(ours, [2; 8], "{provider}: nothing came");
            for op in both(&h, &mut ours) {
                insist(&a, || submit(&a, peer, op, &good));
                assert_eq!(a.flush(None), Status::SUCCESS);
            }
            assert_eq!(good.both(), (2, 0), "{provider}");
            for op in both(&h, &mut long) {
                assert_eq!(
                    submit(&a, peer, op, &bad),
                    Status::NOT_SUPPORTED,
                    "{provider}"
                );
                let unchecked = op.with_flags(TransferFlags::empty());
                insist(&a, || submit(&a, peer, unchecked, &good));
                assert_eq!(a.flush(None), Status::SUCCESS);
            }
            assert_eq!((good.both(), bad.both()), ((4, 0), (0, 2)), "{provider}");
        });
        assert!(theirs.iter().all(|word| *word == 3), "{provider}");
        close([region], [a, b]);
    }
}

/// The kernel copies any bytes at an address.
#[test]
fn peers_of_this_node_are_reached_by_memory() {
    let [a, b] = [(); 2].map(|()| open(near(), ThreadLevel::Single, &[]));
    let pair = Pair::of(a, b, vec![1; 8]);
    let (mut ours, seen) = ([2u64; 8], Seen::default());
    for op in both(&pair.region.handle(), &mut ours) {
        assert_eq!(submit(&pair.a, pair.peer, op, &seen), Status::NOT_SUPPORTED);
    }
    pair.a.flush(None);
    assert_eq!(seen.both(), (0, 0));
    assert_eq!((pair.close(), ours), (vec![1; 8], [2; 8]));
}
