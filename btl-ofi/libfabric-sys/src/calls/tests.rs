//! The calls against tables made here, as libraries of several releases would have them.

use super::*;

/// The number of words that the newer release of these tests adds.
const NEWER: usize = 12;

#[repr(C)]
struct NewerEntry {
    known: fi_cq_err_entry,
    newer: [u64; NEWER],
}

#[repr(C)]
struct NewerAttr {
    known: fi_mr_attr,
    newer: [u64; NEWER],
}

/// A provider with a larger entry, which it writes completely.
unsafe extern "C" fn write_newer(
    _cq: *mut fid_cq,
    entry: *mut fi_cq_err_entry,
    _flags: u64,
) -> isize {
    let newer = NewerEntry {
        known: fi_cq_err_entry {
            err: 5,
            ..Default::default()
        },
        newer: [u64::MAX; NEWER],
    };
    // SAFETY: `fi_cq_readerr` passes a `Padded`, which has space for `NewerEntry`; the test checks this.
    unsafe { entry.cast::<NewerEntry>().write(newer) };
    1
}

/// A provider with a larger attribute, which it reads completely.
unsafe extern "C" fn read_newer(
    _fid: *mut fid,
    attr: *const fi_mr_attr,
    _flags: u64,
    _mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: `fi_mr_regattr` passes a `Padded`, which has space for `NewerAttr`; the test checks this.
    let attr = unsafe { attr.cast::<NewerAttr>().read() };
    let clean = attr.newer == [0; NEWER] && attr.known.requested_key == 7;
    if clean { 0 } else { -1 }
}

#[test]
fn newer_error_entries_do_not_overwrite_what_stands_behind() {
    // SAFETY: the structures hold numbers, pointers and optional functions; zero is a valid value of each.
    let (mut cq, mut ops) = unsafe {
        (
            std::mem::zeroed::<fid_cq>(),
            std::mem::zeroed::<fi_ops_cq>(),
        )
    };
    ops.readerr = Some(write_newer);
    cq.ops = &mut ops;
    let mut place = NewerEntry {
        known: fi_cq_err_entry::default(),
        newer: [0; NEWER],
    };
    let entry = ptr::from_mut(&mut place).cast();
    // SAFETY: the queue's table has the one function that this call uses.
    assert_eq!(unsafe { fi_cq_readerr(&mut cq, entry) }, 1);
    assert_eq!(place.known.err, 5);
    assert_eq!(place.newer, [0; NEWER]);
}

#[test]
fn newer_fields_of_registrations_are_zero() {
    // SAFETY: the structures hold numbers, pointers and optional functions; zero is a valid value of each.
    let (mut domain, mut ops) = unsafe {
        (
            std::mem::zeroed::<fid_domain>(),
            std::mem::zeroed::<fi_ops_mr>(),
        )
    };
    ops.regattr = Some(read_newer);
    domain.mr = &mut ops;
    let attr = NewerAttr {
        known: fi_mr_attr {
            requested_key: 7,
            ..Default::default()
        },
        newer: [u64::MAX; NEWER],
    };
    let mut mr = ptr::null_mut();
    // SAFETY: the domain's table has the one function that this call uses.
    let code = unsafe { fi_mr_regattr(&mut domain, ptr::from_ref(&attr).cast(), 0, &mut mr) };
    assert_eq!(code, 0);
}
