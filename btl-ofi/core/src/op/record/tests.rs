use super::*;
use crate::op::marked::Marked;

fn endpoint() -> NonNull<Endpoint> {
    NonNull::new(ptr::with_exposed_provenance_mut(0x1000)).unwrap()
}

#[test]
fn records_are_reused_and_told_apart() {
    for claimed in [false, true] {
        let mut pool = Pool::new(claimed);
        let tag = Tag::new(endpoint(), 0, 1);
        let mut taken = Vec::new();
        for _ in 0..FIRST_CHUNK + 10 {
            let r = pool.take().unwrap();
            // SAFETY: the record was just taken.
            unsafe { Record::fill(r, tag, None, ptr::null_mut(), ptr::null_mut()) };
            assert_eq!(pool.owns(r.as_ptr().cast()), Some(r));
            assert!(Tag::from_untracked(r.as_ptr().cast()).is_none());
            // SAFETY: the context is not claimed.
            assert_eq!(unsafe { Marked::of(r.as_ptr().cast()) }, None);
            taken.push(r);
        }
        assert_eq!(pool.in_use(Some(endpoint())).len(), FIRST_CHUNK + 10);
        for r in taken {
            // SAFETY: the record was taken above and not given back since.
            unsafe { pool.give_back(r) };
            assert!(pool.owns(r.as_ptr().cast()).is_none());
        }
        assert!(pool.in_use(None).is_empty());
        let mut stray = 0u64;
        assert!(pool.owns(ptr::from_mut(&mut stray).cast()).is_none());
        assert!(pool.owns(ptr::null_mut()).is_none());
    }
}

/// A provider that claims contexts may write to the whole context at any time until completion.
#[test]
fn a_claimed_context_overlaps_no_other_record() {
    let mut pool = Pool::new(true);
    let tag = Tag::new(endpoint(), 1, 0);
    let taken: Vec<_> = (0..3 * FIRST_CHUNK as u64)
        .map(|number| {
            let r = pool.take().unwrap();
            // SAFETY: the record was just taken, and its context belongs to it.
            unsafe {
                Record::fill(r, tag, None, ptr::null_mut(), ptr::null_mut());
                Record::operand(r.as_ptr(), number);
                r.cast::<u8>().write_bytes(0xff, size_of::<fi_context2>());
            }
            r
        })
        .collect();
    assert_eq!(pool.in_use(None).len(), taken.len());
    for (number, r) in taken.into_iter().enumerate() {
        // SAFETY: the record was taken above and not given back since.
        unsafe {
            assert_eq!((*r.as_ptr()).kept.operand, number as u64);
            assert_eq!(pool.give_back(r).tag.endpoint(), endpoint().as_ptr());
        }
    }
}

#[test]
fn an_operation_takes_what_is_promised() {
    for (claimed, bytes) in [(false, 64), (true, 128)] {
        let mut pool = Pool::new(claimed);
        pool.grow();
        let places: usize = pool.chunks.iter().map(|chunk| size_of_val(&**chunk)).sum();
        let spare = pool.chunks.len() * size_of::<Place>();
        assert_eq!((places - spare) / pool.records().count(), bytes);
    }
}
