//! NULL through the component's functions, and through the functions of a module that move no
//! bytes.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr::{null, null_mut};

use integration_tests::host::TestHost;
use integration_tests::session::{ALL_ACCESS, Loaded, Session};
use plugin_api::{
    AtomicKind, Endpoint, Handle, HostVtable, Module, Provider, Stats, Status, SurveyFn, magic,
};

use crate::nulls::Null::{Allowed, Refused};
use crate::nulls::nulls;
use crate::{SUM, U64};

pub(crate) fn component_functions(path: &Path, host: &TestHost) {
    let loaded = Loaded::open(path, host);
    entry_function(&loaded, host);
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
            count = modules.len();
            assert!(!init(opened, level, modules.as_mut_ptr(), &mut count).is_ok());
        }
        count = 0;
        assert!(!init(opened, 0, modules.as_mut_ptr(), &mut count).is_ok());
        assert!(table.progress.unwrap()(null_mut()) < 0);
        assert!(!table.close.unwrap()(null_mut()).is_ok());
        assert_eq!(table.close.unwrap()(opened), Status::SUCCESS);
    }
}

/// The exported function: NULL, and tables that are none of this ABI's host; a newer host is taken.
fn entry_function(loaded: &Loaded, host: &TestHost) {
    let mut found = null();
    // SAFETY: the table is readable; a copy of it is as good.
    let good = unsafe { host.table().read() };
    let least = HostVtable::MIN_SIZE as u32;
    let mut entry = |change: fn(&mut HostVtable, u32)| {
        let mut changed = HostVtable { ..good };
        change(&mut changed, least);
        // SAFETY: the table lives during the call, and `found` is writable.
        unsafe { (loaded.entry)(&changed, &mut found) }
    };
    let refused = [
        entry(|host, _| host.header.magic = magic::MODULE),
        entry(|host, _| host.header.abi_major += 1),
        entry(|host, least| host.header.size = least - 1),
        entry(|host, _| host.modex_get = None),
    ];
    assert_eq!(refused, [Status::TYPE_MISMATCH; 4]);
    assert_eq!(entry(|host, _| host.header.abi_minor += 1), Status::SUCCESS);
    // SAFETY: NULL is refused; the host and `found` are valid.
    unsafe {
        assert_eq!((loaded.entry)(null(), &mut found), Status::TYPE_MISMATCH);
        assert!(!(loaded.entry)(host.table(), null_mut()).is_ok());
    }
}

pub(crate) fn memory_functions(s: &mut Session) {
    let (t, module) = (s.table, s.module);
    let page = vec![0u64; 512];
    let base: *mut c_void = page.as_ptr().cast_mut().cast();
    let size = size_of_val(page.as_slice());
    nulls(
        s,
        "register_mem",
        &[Refused, Refused, Refused],
        // SAFETY: each pointer is NULL, or valid for the call; successful calls are undone.
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
    // The C plugin has no such function.
    if let Some(register) = t.register_shared {
        shared_memory(s, register);
    }
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
    // SAFETY: a NULL endpoint in the list stands for an unreachable process.
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
    let mut wrong = Stats::new();
    wrong.header.magic = magic::MODULE;
    let mut handle = null_mut();
    // SAFETY: the memory is live; a handle that is gone is compared, and not read.
    unsafe {
        assert!(!t.stats.unwrap()(module, &mut wrong).is_ok());
        let status =
            t.register_mem.unwrap()(module, null_mut(), base, size, ALL_ACCESS, &mut handle);
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(t.deregister_mem.unwrap()(module, handle), Status::SUCCESS);
        assert_eq!(t.deregister_mem.unwrap()(module, handle), Status::BAD_PARAM);
        assert_eq!(
            t.deregister_mem.unwrap()(module, base.cast()),
            Status::BAD_PARAM
        );
    }
    // SAFETY: the only pointer is NULL.
    unsafe { assert!(!t.finalize.unwrap()(null_mut()).is_ok()) };
}

type RegisterShared = unsafe extern "C" fn(
    *mut Module,
    *mut Endpoint,
    *mut c_void,
    usize,
    u32,
    i32,
    u64,
    *mut *mut Handle,
) -> Status;

/// Memory of a file with one page.
fn shared_memory(s: &Session, register: RegisterShared) {
    let (deregister, module) = (s.table.deregister_mem.unwrap(), s.module);
    let (size, both) = (4096, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the arguments are a C string and numbers; the descriptor is new, and the mapping is
    // never removed.
    let (file, base) = unsafe {
        let file = OwnedFd::from_raw_fd(libc::memfd_create(c"page".as_ptr(), libc::MFD_CLOEXEC));
        let number = file.as_raw_fd();
        assert_eq!(libc::ftruncate(number, size as libc::off_t), 0);
        let base = libc::mmap(null_mut(), size, both, libc::MAP_SHARED, number, 0);
        assert_ne!(base, libc::MAP_FAILED);
        (file, base)
    };
    let places = [Refused, Refused, Refused];
    // SAFETY: each pointer is NULL, or valid for the call; successful calls are undone.
    nulls(s, "register_shared", &places, |p| unsafe {
        let (mut handle, none, file) = (null_mut(), null_mut(), file.as_raw_fd());
        let (module, base, out) = (p.of(0, module), p.of(1, base), p.of(2, &mut handle));
        let status = register(module, none, base, size, ALL_ACCESS, file, 0, out);
        if status.is_ok() {
            assert_eq!(deregister(module, handle), Status::SUCCESS);
        }
        status
    });
    let pipe = std::io::pipe().unwrap();
    for (descriptor, offset) in [
        (-1, 0),
        (i32::MIN, 0),
        (pipe.0.as_raw_fd(), 0),
        (file.as_raw_fd(), 4096),
        (file.as_raw_fd(), 8),
        (file.as_raw_fd(), u64::MAX - 4095),
    ] {
        let mut handle = null_mut();
        // SAFETY: the pointers are valid for the call; the function must refuse the other
        // arguments.
        let status = unsafe {
            let (none, out) = (null_mut(), &mut handle);
            register(
                module, none, base, size, ALL_ACCESS, descriptor, offset, out,
            )
        };
        let wanted = (Status::BAD_PARAM, true);
        assert_eq!((status, handle.is_null()), wanted, "{descriptor}, {offset}");
    }
}
