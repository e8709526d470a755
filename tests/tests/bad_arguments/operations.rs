//! NULL through the functions that move bytes.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;

use integration_tests::session::Session;
use plugin_api::{APPLY_BYTES, APPLY_OTHER, ApplyRequest, ApplyRun, AtomicOp, Status};

use crate::nulls::Null::{Allowed, Refused};
use crate::nulls::nulls;
use crate::{ADD, NO_ORDER, SUM, U64};

pub(crate) fn copy_functions(s: &mut Session, calls: &AtomicUsize) {
    let (t, module, endpoint, handle) = (s.table, s.module, s.endpoint, s.handle);
    let (local, remote) = (s.local(0), s.remote(8));
    let copy = s.handle_copy();
    let context: *mut c_void = (&raw const *calls).cast_mut().cast();
    // The places are module, endpoint, local address, local handle, remote handle, callback,
    // context and data.
    let places = [
        Refused, Refused, Refused, Allowed, Refused, Allowed, Allowed, Allowed,
    ];
    for (name, function) in [("put", t.put.unwrap()), ("get", t.get.unwrap())] {
        // SAFETY: pointers are NULL or valid until the flush that follows each call.
        nulls(s, name, &places, |p| unsafe {
            function(
                p.of(0, module),
                p.of(1, endpoint),
                p.of(2, local),
                remote,
                p.of(3, handle),
                p.constant(4, copy.as_ptr().cast()),
                8,
                0,
                NO_ORDER,
                p.callback(5),
                p.of(6, context),
                p.of(7, context),
            )
        });
    }
}

pub(crate) fn word_functions(s: &mut Session, calls: &AtomicUsize) {
    let (t, module, endpoint, handle) = (s.table, s.module, s.endpoint, s.handle);
    let (local, remote) = (s.local(0), s.remote(8));
    let copy = s.handle_copy();
    let context: *mut c_void = (&raw const *calls).cast_mut().cast();
    let places = [Refused, Refused, Refused, Allowed, Allowed, Allowed];
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "atomic_op", &places, |p| unsafe {
        t.atomic_op.unwrap()(
            p.of(0, module),
            p.of(1, endpoint),
            remote,
            p.constant(2, copy.as_ptr().cast()),
            ADD,
            1,
            0,
            NO_ORDER,
            p.callback(3),
            p.of(4, context),
            p.of(5, context),
        )
    });
    let places = [
        Refused, Refused, Refused, Allowed, Refused, Allowed, Allowed, Allowed,
    ];
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "atomic_fop", &places, |p| unsafe {
        t.atomic_fop.unwrap()(
            p.of(0, module),
            p.of(1, endpoint),
            p.of(2, local),
            remote,
            p.of(3, handle),
            p.constant(4, copy.as_ptr().cast()),
            ADD,
            1,
            0,
            NO_ORDER,
            p.callback(5),
            p.of(6, context),
            p.of(7, context),
        )
    });
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "atomic_cswap", &places, |p| unsafe {
        t.atomic_cswap.unwrap()(
            p.of(0, module),
            p.of(1, endpoint),
            p.of(2, local),
            remote,
            p.of(3, handle),
            p.constant(4, copy.as_ptr().cast()),
            0,
            1,
            0,
            NO_ORDER,
            p.callback(5),
            p.of(6, context),
            p.of(7, context),
        )
    });
}

pub(crate) fn typed_functions(s: &mut Session, calls: &AtomicUsize) {
    let (t, module, endpoint, handle) = (s.table, s.module, s.endpoint, s.handle);
    let (operand, compare, result) = (s.local(0), s.local(1), s.local(2));
    let remote = s.remote(8);
    let copy = s.handle_copy();
    let context: *mut c_void = (&raw const *calls).cast_mut().cast();
    let places = [
        Refused, Refused, Refused, Allowed, Refused, Allowed, Allowed, Allowed,
    ];
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "atomic_opv", &places, |p| unsafe {
        t.atomic_opv.unwrap()(
            p.of(0, module),
            p.of(1, endpoint),
            p.constant(2, operand),
            remote,
            p.of(3, handle),
            p.constant(4, copy.as_ptr().cast()),
            U64,
            SUM,
            1,
            p.callback(5),
            p.of(6, context),
            p.of(7, context),
        )
    });
    let places = [
        Refused, Refused, Refused, Refused, Allowed, Allowed, Refused, Allowed, Allowed, Allowed,
    ];
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "atomic_fopv", &places, |p| unsafe {
        t.atomic_fopv.unwrap()(
            p.of(0, module),
            p.of(1, endpoint),
            p.constant(2, operand),
            p.of(3, result),
            remote,
            p.of(4, handle),
            p.of(5, handle),
            p.constant(6, copy.as_ptr().cast()),
            U64,
            SUM,
            1,
            p.callback(7),
            p.of(8, context),
            p.of(9, context),
        )
    });
    let places = [
        Refused, Refused, Refused, Refused, Refused, Allowed, Refused, Allowed, Allowed, Allowed,
    ];
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "atomic_cswapv", &places, |p| unsafe {
        t.atomic_cswapv.unwrap()(
            p.of(0, module),
            p.of(1, endpoint),
            p.constant(2, operand),
            p.constant(3, compare),
            p.of(4, result),
            remote,
            p.of(5, handle),
            p.constant(6, copy.as_ptr().cast()),
            U64,
            p.callback(7),
            p.of(8, context),
            p.of(9, context),
        )
    });
}

/// The functions for applies, if the plugin has them.
pub(crate) fn apply_functions(s: &mut Session, calls: &AtomicUsize) {
    let (Some(apply), Some(register)) = (s.table.apply, s.table.register_apply) else {
        return;
    };
    let (module, endpoint) = (s.module, s.endpoint);
    let (operands, results) = (s.local(0), s.local(2));
    let remote = s.remote(8);
    let copy = s.handle_copy();
    let context: *mut c_void = (&raw const *calls).cast_mut().cast();
    let places = [
        Refused, Refused, Refused, Refused, Allowed, Allowed, Allowed, Refused, Refused, Allowed,
    ];
    // The element begins one byte behind the word, so that it is not aligned, with every carrier of
    // atomics.
    let runs = [ApplyRun {
        offset: 1,
        length: 8,
        stride: 0,
        count: 1,
    }];
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "apply", &places, |p| unsafe {
        let request = ApplyRequest {
            runs: p.constant(7, runs.as_ptr()),
            run_count: 1,
            operands: p.constant(8, operands),
            results: p.of(9, results),
            size: 8,
            datatype: U64,
            op: AtomicOp::Write as u32,
            code: 0,
        };
        apply(
            p.of(0, module),
            p.of(1, endpoint),
            remote,
            p.constant(2, copy.as_ptr().cast()),
            p.constant(3, &request),
            p.callback(4),
            p.of(5, context),
            p.of(6, context),
        )
    });
    let good = ApplyRequest {
        runs: runs.as_ptr(),
        run_count: 1,
        operands,
        results,
        size: 8,
        datatype: APPLY_OTHER,
        op: APPLY_OTHER,
        code: 1,
    };
    let bad = [
        ApplyRequest {
            datatype: 10,
            ..good
        },
        ApplyRequest { op: 13, ..good },
        ApplyRequest { size: 0, ..good },
        ApplyRequest { size: 7, ..good },
        ApplyRequest { size: 65, ..good },
        ApplyRequest {
            run_count: 0,
            ..good
        },
        ApplyRequest {
            size: 4,
            datatype: U64,
            ..good
        },
    ];
    for request in &bad {
        let handle = copy.as_ptr().cast();
        // SAFETY: the pointers are valid for the call; the function must refuse the other
        // arguments.
        let status = unsafe {
            apply(
                module, endpoint, remote, handle, request, None, context, context,
            )
        };
        assert_eq!(status, Status::BAD_PARAM, "{request:?}");
    }
    // A request that is no put or get of bytes is refused, with or without commands to the peer.
    let put = ApplyRequest {
        results: null_mut(),
        size: 1,
        datatype: APPLY_BYTES,
        op: AtomicOp::Write as u32,
        code: 0,
        ..good
    };
    let bad = [
        ApplyRequest { size: 8, ..put },
        ApplyRequest { code: 1, ..put },
        ApplyRequest { results, ..put },
        ApplyRequest {
            op: AtomicOp::Sum as u32,
            ..put
        },
        ApplyRequest {
            op: APPLY_OTHER,
            ..put
        },
        ApplyRequest {
            op: AtomicOp::Read as u32,
            ..put
        },
        ApplyRequest {
            operands: null_mut(),
            ..put
        },
    ];
    for request in &bad {
        let handle = copy.as_ptr().cast();
        // SAFETY: the pointers are valid for the call; the function must refuse the other
        // arguments.
        let status = unsafe {
            apply(
                module, endpoint, remote, handle, request, None, context, context,
            )
        };
        let refused = [Status::BAD_PARAM, Status::NOT_SUPPORTED].contains(&status);
        assert!(refused, "{request:?}: {status}");
    }
    // SAFETY: the module is NULL or live; no function is set.
    unsafe {
        assert_eq!(register(null_mut(), None, null_mut()), Status::BAD_PARAM);
        assert_eq!(register(module, None, null_mut()), Status::SUCCESS);
    }
}
