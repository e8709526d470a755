//! Invalid codes, and handles that no module made.

use std::ptr::null_mut;

use integration_tests::random::Random;
use integration_tests::session::Session;
use plugin_api::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, Handle};

use crate::{ADD, NO_ORDER, SUM, U64};

/// Invalid codes are refused; meaningless bits and orders do no harm.
pub(crate) fn codes(s: &mut Session) {
    let (t, module, endpoint, handle) = (s.table, s.module, s.endpoint, s.handle);
    let (local, remote) = (s.local(0), s.remote(8));
    let copy = s.handle_copy();
    let peer: *const Handle = copy.as_ptr().cast();
    let mut random = Random::new();
    for round in 0..200 {
        let code = match round {
            0..64 => round,
            _ => random.word() as u32,
        };
        let noise = random.word() as u32;
        // SAFETY: every pointer is valid until the flush below; only codes are invalid.
        unsafe {
            if BtlAtomicOp::try_from(code).is_err() {
                let status = t.atomic_op.unwrap()(
                    module,
                    endpoint,
                    remote,
                    peer,
                    code,
                    1,
                    0,
                    NO_ORDER,
                    None,
                    null_mut(),
                    null_mut(),
                );
                assert!(!status.is_ok(), "atomic_op with operation {code}: {status}");
                let status = t.atomic_fop.unwrap()(
                    module,
                    endpoint,
                    local,
                    remote,
                    handle,
                    peer,
                    code,
                    1,
                    0,
                    NO_ORDER,
                    None,
                    null_mut(),
                    null_mut(),
                );
                assert!(
                    !status.is_ok(),
                    "atomic_fop with operation {code}: {status}"
                );
            }
            for (datatype, op, kind) in [(code, SUM, 0), (U64, code, 0), (U64, SUM, code)] {
                let mut most = usize::MAX;
                let status = t.atomic_query.unwrap()(module, datatype, op, kind, &mut most);
                let known = Datatype::try_from(datatype).is_ok()
                    && AtomicOp::try_from(op).is_ok()
                    && AtomicKind::try_from(kind).is_ok();
                assert!(
                    known || !status.is_ok(),
                    "query {datatype} {op} {kind}: {status}"
                );
                assert!(!status.is_ok() || (1..usize::MAX).contains(&most));
            }
            for (datatype, op) in [(code, SUM), (U64, code)] {
                let status = t.atomic_opv.unwrap()(
                    module,
                    endpoint,
                    local,
                    remote,
                    handle,
                    peer,
                    datatype,
                    op,
                    1,
                    None,
                    null_mut(),
                    null_mut(),
                );
                let known = Datatype::try_from(datatype).is_ok() && AtomicOp::try_from(op).is_ok();
                assert!(known || !status.is_ok(), "opv {datatype} {op}: {status}");
            }
            if Datatype::try_from(code).is_err() {
                let status = t.atomic_cswapv.unwrap()(
                    module,
                    endpoint,
                    local,
                    local,
                    local,
                    remote,
                    handle,
                    peer,
                    code,
                    None,
                    null_mut(),
                    null_mut(),
                );
                assert!(!status.is_ok(), "cswapv {code}: {status}");
            }
            // Flags and orders are hints to puts and gets.
            s.put((local, remote), peer, 8, (noise, noise as i32));
            t.atomic_op.unwrap()(
                module,
                endpoint,
                remote,
                peer,
                ADD,
                1,
                noise,
                noise as i32,
                None,
                null_mut(),
                null_mut(),
            );
            let mut extra = null_mut();
            let access = t.register_mem.unwrap()(module, null_mut(), local, 8, noise, &mut extra);
            if access.is_ok() {
                assert!(t.deregister_mem.unwrap()(module, extra).is_ok());
            }
        }
        // Operations without callback may have failed; the next flush succeeds.
        s.flush();
        assert!(s.flush().is_ok());
    }
}

/// A peer's handle comes from another process: any bytes cause at most an error status or a failed
/// completion.
pub(crate) fn handles(s: &mut Session) {
    let (local, remote) = (s.local(0), s.remote(8));
    let good = s.handle_copy();
    let mut random = Random::new();
    let mut refused = 0;
    for round in 0..500 {
        let mut bad: Vec<u64> = good.clone();
        let word = random.below(bad.len());
        match round % 3 {
            0 => bad.iter_mut().for_each(|word| *word = random.word()),
            1 => bad[word] ^= 1 << random.below(64),
            _ => bad[word] = [0, u64::MAX][random.below(2)],
        }
        // SAFETY: the handle has the right size; all other arguments are valid until the flush.
        let status = unsafe { s.put((local, remote), bad.as_ptr().cast(), 8, (0, NO_ORDER)) };
        let flushed = s.flush();
        refused += usize::from(!status.is_ok() || !flushed.is_ok());
        assert!(s.flush().is_ok(), "a second flush after {bad:x?}");
    }
    assert!(
        refused > 250,
        "only {refused} of 500 bad handles were refused"
    );
}
