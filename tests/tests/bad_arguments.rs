//! NULL through every pointer of every function, and codes that name nothing: a status each time,
//! never a crash, and a plugin that still works afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking, in its helpers too"
)]

use std::ffi::c_void;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use integration_tests::fixtures::{c_plugin, ofi_plugin};
use integration_tests::host::TestHost;
use integration_tests::random::Random;
use integration_tests::session::{ALL_ACCESS, Loaded, Session, count_calls};
use plugin_api::{
    AtomicKind, AtomicOp, BtlAtomicOp, CompletionFn, Datatype, Handle, Provider, Stats, Status,
    SurveyFn,
};

const NO_ORDER: i32 = 255;
const SUM: u32 = AtomicOp::Sum as u32;
const U64: u32 = Datatype::Uint64 as u32;
const ADD: u32 = BtlAtomicOp::Add as u32;

/// Whether a function may be called with NULL in some place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Null {
    /// It must be refused.
    Refused,
    /// It has a meaning, or none that harms.
    Allowed,
}
use Null::{Allowed, Refused};

/// A pointer argument that is NULL in one of the calls.
struct Place(Option<usize>);

impl Place {
    fn of<T>(&self, place: usize, pointer: *mut T) -> *mut T {
        if self.0 == Some(place) {
            null_mut()
        } else {
            pointer
        }
    }

    fn constant<T>(&self, place: usize, pointer: *const T) -> *const T {
        self.of(place, pointer.cast_mut())
    }

    fn callback(&self, place: usize) -> Option<CompletionFn> {
        (self.0 != Some(place)).then_some(count_calls)
    }
}

/// Calls a function once as it should be, which must succeed, and once with each pointer NULL.
fn nulls(session: &Session, name: &str, places: &[Null], call: impl Fn(Place) -> Status) {
    let status = retried(session, || call(Place(None)));
    assert!(status.is_ok(), "{name} as it should be: {status}");
    for (place, null) in places.iter().enumerate() {
        let status = retried(session, || call(Place(Some(place))));
        if *null == Refused {
            assert!(
                !status.is_ok(),
                "{name} with argument {place} NULL: {status}"
            );
        }
        assert!(session.flush().is_ok(), "flush after {name}, {place} NULL");
    }
}

/// Calls again while the plugin asks for progress first.
fn retried(session: &Session, call: impl Fn() -> Status) -> Status {
    loop {
        let status = call();
        if status != Status::TEMP_OUT_OF_RESOURCE {
            return status;
        }
        session.progress();
    }
}

fn plugin_and_host(name: &str) -> (std::path::PathBuf, TestHost) {
    match name {
        "cma" => (c_plugin(""), TestHost::new(&[])),
        provider => (ofi_plugin().to_owned(), TestHost::with_provider(provider)),
    }
}

fn component_functions(path: &Path, host: &TestHost) {
    let loaded = Loaded::open(path, host);
    let table = loaded.component;
    unsafe extern "C" fn ignore(_context: *mut c_void, _provider: *const Provider) {}
    let visit: SurveyFn = ignore;
    let mut component = null_mut();
    let mut modules = [null_mut(); 4];
    let mut count = modules.len();
    // SAFETY: every pointer is NULL, which the functions must refuse, or valid for the call.
    unsafe {
        assert!(!table.register_params.unwrap()(null()).is_ok());
        assert!(!table.open.unwrap()(null(), &mut component).is_ok());
        assert!(!table.open.unwrap()(host.table(), null_mut()).is_ok());
        assert!(component.is_null());
        let opened = loaded.open_component(host).unwrap();
        assert!(!table.survey.unwrap()(null_mut(), Some(visit), null_mut()).is_ok());
        assert!(!table.survey.unwrap()(opened, None, null_mut()).is_ok());
        assert!(table.survey.unwrap()(opened, Some(visit), null_mut()).is_ok());
        let init = table.init.unwrap();
        assert!(!init(null_mut(), 0, modules.as_mut_ptr(), &mut count).is_ok());
        assert!(!init(opened, 0, null_mut(), &mut count).is_ok());
        assert!(!init(opened, 0, modules.as_mut_ptr(), null_mut()).is_ok());
        for level in [4, 5, 255, u32::MAX] {
            assert!(!init(opened, level, modules.as_mut_ptr(), &mut count).is_ok());
        }
        assert!(table.progress.unwrap()(null_mut()) < 0);
        assert!(!table.close.unwrap()(null_mut()).is_ok());
        assert_eq!(table.close.unwrap()(opened), Status::SUCCESS);
    }
}

fn memory_functions(s: &mut Session) {
    let (t, module) = (s.table, s.module);
    let page = vec![0u64; 512];
    let base: *mut c_void = page.as_ptr().cast_mut().cast();
    let size = size_of_val(page.as_slice());
    nulls(
        s,
        "register_mem",
        &[Refused, Refused, Refused],
        |p| unsafe {
            let mut handle: *mut Handle = null_mut();
            let status = t.register_mem.unwrap()(
                p.of(0, module),
                null_mut(),
                p.of(1, base),
                size,
                ALL_ACCESS,
                p.of(2, &mut handle),
            );
            if status.is_ok() {
                assert_eq!(t.deregister_mem.unwrap()(module, handle), Status::SUCCESS);
            }
            status
        },
    );
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "deregister_mem", &[Refused, Refused], |p| unsafe {
        let mut handle: *mut Handle = null_mut();
        let register = t.register_mem.unwrap();
        assert!(register(module, null_mut(), base, size, ALL_ACCESS, &mut handle).is_ok());
        let status = t.deregister_mem.unwrap()(p.of(0, module), p.of(1, handle));
        if !status.is_ok() {
            assert_eq!(t.deregister_mem.unwrap()(module, handle), Status::SUCCESS);
        }
        status
    });
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "add_procs", &[Refused, Refused, Refused], |p| unsafe {
        let mut endpoint = null_mut();
        let status = t.add_procs.unwrap()(
            p.of(0, module),
            1,
            p.constant(1, &0),
            p.of(2, &mut endpoint),
        );
        if status.is_ok() {
            assert_eq!(t.del_procs.unwrap()(module, 1, &endpoint), Status::SUCCESS);
        }
        status
    });
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "del_procs", &[Refused, Refused], |p| unsafe {
        let mut endpoint = null_mut();
        assert!(t.add_procs.unwrap()(module, 1, &0, &mut endpoint).is_ok());
        let status = t.del_procs.unwrap()(p.of(0, module), 1, p.constant(1, &endpoint));
        if !status.is_ok() {
            assert_eq!(t.del_procs.unwrap()(module, 1, &endpoint), Status::SUCCESS);
        }
        status
    });
    // SAFETY: a NULL endpoint in the list is one that could not be reached.
    unsafe {
        t.del_procs.unwrap()(module, 1, &null_mut());
        assert!(t.del_procs.unwrap()(module, 0, null()).is_ok());
        assert!(t.add_procs.unwrap()(module, 0, null(), null_mut()).is_ok());
    }
    let endpoint = s.endpoint;
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "flush", &[Refused, Allowed], |p| unsafe {
        t.flush.unwrap()(p.of(0, module), p.of(1, endpoint))
    });
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "register_error", &[Refused], |p| unsafe {
        t.register_error.unwrap()(p.of(0, module), None, null_mut())
    });
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "stats", &[Refused, Refused], |p| unsafe {
        t.stats.unwrap()(p.of(0, module), p.of(1, &mut Stats::new()))
    });
    // SAFETY: each pointer is NULL, or valid until the flush that follows the call.
    nulls(s, "atomic_query", &[Refused, Refused], |p| unsafe {
        let query = t.atomic_query.unwrap();
        query(
            p.of(0, module),
            U64,
            SUM,
            AtomicKind::Fetch as u32,
            p.of(1, &mut 0),
        )
    });
    // SAFETY: NULL only.
    unsafe { assert!(!t.finalize.unwrap()(null_mut()).is_ok()) };
}

fn copy_functions(s: &mut Session, calls: &AtomicUsize) {
    let (t, module, endpoint, handle) = (s.table, s.module, s.endpoint, s.handle);
    let (local, remote) = (s.local(0), s.remote(8));
    let copy = s.handle_copy();
    let context: *mut c_void = (&raw const *calls).cast_mut().cast();
    // Module, endpoint, local address, local handle, remote handle, callback, context, data.
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

fn word_functions(s: &mut Session, calls: &AtomicUsize) {
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

fn typed_functions(s: &mut Session, calls: &AtomicUsize) {
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

/// Codes that name nothing are refused; bits and orders that mean nothing do no harm.
fn codes(s: &mut Session) {
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
        // SAFETY: every pointer is valid until the flush below; only codes are wrong.
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
            t.put.unwrap()(
                module,
                endpoint,
                local,
                remote,
                handle,
                peer,
                8,
                noise,
                noise as i32,
                None,
                null_mut(),
                null_mut(),
            );
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
        // Operations that went out without callback may have failed; the next flush is clean.
        s.flush();
        assert!(s.flush().is_ok());
    }
}

/// A peer's handle is bytes from elsewhere: whatever they are, a status or a failed completion.
fn handles(s: &mut Session) {
    let (t, module, endpoint) = (s.table, s.module, s.endpoint);
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
        // SAFETY: the handle has its size; everything else is valid until the flush.
        let status = unsafe {
            t.put.unwrap()(
                module,
                endpoint,
                local,
                remote,
                null_mut(),
                bad.as_ptr().cast(),
                8,
                0,
                NO_ORDER,
                None,
                null_mut(),
                null_mut(),
            )
        };
        let flushed = s.flush();
        refused += usize::from(!status.is_ok() || !flushed.is_ok());
        assert!(s.flush().is_ok(), "a second flush after {bad:x?}");
    }
    assert!(
        refused > 250,
        "only {refused} of 500 bad handles were refused"
    );
}

fn everything(name: &str) {
    let (path, host) = plugin_and_host(name);
    component_functions(&path, &host);
    let mut session = Session::new(&path, &host);
    let calls = AtomicUsize::new(0);
    memory_functions(&mut session);
    copy_functions(&mut session, &calls);
    word_functions(&mut session, &calls);
    typed_functions(&mut session, &calls);
    assert!(calls.load(Ordering::Relaxed) > 0);
    codes(&mut session);
    handles(&mut session);
    // It still works.
    session.memory[0] = 0x5eed;
    copy_functions(&mut session, &calls);
    assert!(session.flush().is_ok());
}

#[test]
fn cma() {
    everything("cma");
}

#[test]
fn shm() {
    everything("shm");
}

#[test]
fn sockets() {
    everything("sockets");
}
