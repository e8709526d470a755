//! Functions of the plugin's table between two modules of a process: arguments of callbacks, and
//! messages.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use integration_tests::fixtures::ofi_plugin;
use integration_tests::host::TestHost;
use integration_tests::session::Session;
use plugin_api::{BtlAtomicOp, Endpoint, Handle, Module, ModuleFlags, Status};

/// A module, and its endpoint to the other one.
struct Side<'host> {
    session: Session<'host>,
    other: *mut Endpoint,
}

impl Drop for Side<'_> {
    fn drop(&mut self) {
        // SAFETY: the module lives, and the endpoint is used for the last time.
        unsafe { self.session.table.del_procs.unwrap()(self.session.module, 1, &self.other) };
    }
}

/// Hosts of modules that reach each other by the provider alone, and take messages.
fn hosts() -> [TestHost; 2] {
    let settings = [
        ("btl_ofi_provider_include", "tcp;ofi_rxm"),
        ("btl_ofi_same_node", "off"),
        ("btl_ofi_mode", "2"),
    ];
    [TestHost::new(&settings), TestHost::new(&settings)]
}

fn pair(hosts: &[TestHost; 2]) -> [Side<'_>; 2] {
    let sessions = hosts
        .each_ref()
        .map(|host| Session::new(ofi_plugin(), host));
    for (host, other) in [(&hosts[0], &hosts[1]), (&hosts[1], &hosts[0])] {
        host.set_peer(1, other.published().into_values().next().unwrap());
    }
    sessions.map(|session| {
        let mut other = null_mut();
        // SAFETY: the module lives; there is room for one endpoint.
        let status = unsafe { session.table.add_procs.unwrap()(session.module, 1, &1, &mut other) };
        assert!(status.is_ok() && !other.is_null(), "{status}");
        Side { session, other }
    })
}

fn progress(sides: &[Side<'_>; 2]) {
    for side in sides {
        side.session.progress();
    }
}

/// Repeats a call while the module has no room, with progress of both sides.
fn retried(sides: &[Side<'_>; 2], mut call: impl FnMut() -> Status) -> Status {
    loop {
        let status = call();
        if status != Status::TEMP_OUT_OF_RESOURCE {
            return status;
        }
        progress(sides);
    }
}

/// The arguments of a callback.
type Told = (usize, usize, usize, usize, usize, i32);

unsafe extern "C" fn told(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    let (module, endpoint) = (module.addr(), endpoint.addr());
    let (local, handle) = (local_address.addr(), local_handle.addr());
    // SAFETY: the context is the list of the test, which outlives its operations.
    let list = unsafe { &*context.cast::<RefCell<Vec<Told>>>() };
    list.borrow_mut()
        .push((module, endpoint, local, handle, data.addr(), status));
}

#[test]
fn callbacks_get_the_arguments_of_their_call() {
    let hosts = hosts();
    let mut sides = pair(&hosts);
    let list = RefCell::new(Vec::<Told>::new());
    let context: *mut c_void = (&raw const list).cast_mut().cast();
    let (copy, remote) = (sides[1].session.handle_copy(), sides[1].session.remote(8));
    let local = sides[0].session.local(0);
    let (table, module) = (sides[0].session.table, sides[0].session.module);
    let (endpoint, handle) = (sides[0].other, sides[0].session.handle);
    let data: *mut c_void = (&raw const hosts).cast_mut().cast();
    let (to, add, none) = (copy.as_ptr().cast(), BtlAtomicOp::Add as u32, 255);
    // SAFETY: the objects, the buffer and the list live until the callback.
    let calls: [(&str, &dyn Fn() -> Status); 3] = unsafe {
        [
            ("put", &|| {
                table.put.unwrap()(
                    module,
                    endpoint,
                    local,
                    remote,
                    handle,
                    to,
                    8,
                    0,
                    none,
                    Some(told),
                    context,
                    data,
                )
            }),
            ("get", &|| {
                table.get.unwrap()(
                    module,
                    endpoint,
                    local,
                    remote,
                    handle,
                    to,
                    8,
                    0,
                    none,
                    Some(told),
                    context,
                    data,
                )
            }),
            ("fetch", &|| {
                table.atomic_fop.unwrap()(
                    module,
                    endpoint,
                    local,
                    remote,
                    handle,
                    to,
                    add,
                    1,
                    0,
                    none,
                    Some(told),
                    context,
                    data,
                )
            }),
        ]
    };
    let wanted = (
        module.addr(),
        endpoint.addr(),
        local.addr(),
        handle.addr(),
        data.addr(),
        0,
    );
    for (name, call) in calls {
        assert_eq!(retried(&sides, call), Status::SUCCESS, "{name}");
        while list.borrow().is_empty() {
            progress(&sides);
        }
        assert_eq!(list.take(), [wanted], "{name}");
    }
}

const TAG: u8 = 7;
const HEADER: usize = 24;
const MESSAGES: usize = 300;

fn message(number: usize) -> Vec<u8> {
    let size = HEADER + number * 13 % 3000;
    (0..size).map(|at| (number + at * 7) as u8).collect()
}

/// The messages that came, each with its sender and tag.
type Received = RefCell<Vec<(*mut Endpoint, u8, Vec<u8>)>>;

unsafe extern "C" fn receive(
    _module: *mut Module,
    from: *mut Endpoint,
    tag: u8,
    data: *const c_void,
    size: usize,
    context: *mut c_void,
) {
    // SAFETY: the context is the list of the test, and the bytes are readable during the call.
    let (list, bytes) = unsafe {
        (
            &*context.cast::<Received>(),
            std::slice::from_raw_parts(data.cast::<u8>(), size),
        )
    };
    list.borrow_mut().push((from, tag, bytes.to_vec()));
}

/// Sends a message in one of the three ways.
fn send(side: &Side<'_>, number: usize, bytes: &[u8]) -> Status {
    let (t, module, to) = (side.session.table, side.session.module, side.other);
    let (header, payload) = bytes.split_at(HEADER);
    let (rest, mut size) = (payload.as_ptr().cast::<c_void>(), payload.len());
    // SAFETY: the objects live, the bytes are readable, and the descriptor's memory is writable for its size.
    unsafe {
        let (descriptor, copied) = match number % 3 {
            0 => {
                let first = header.as_ptr().cast();
                return t.sendi.unwrap()(module, to, first, HEADER, rest, size, TAG);
            }
            1 => (t.alloc.unwrap()(module, to, bytes.len()), bytes),
            _ => (
                t.prepare_src.unwrap()(module, to, rest, HEADER, &mut size),
                header,
            ),
        };
        assert_eq!((size, (*descriptor).size), (payload.len(), copied.len()));
        let at: *mut u8 = (*descriptor).data.cast();
        at.copy_from_nonoverlapping(copied.as_ptr(), copied.len());
        let status = t.send.unwrap()(module, to, descriptor, TAG);
        assert_eq!(t.free.unwrap()(module, descriptor), Status::SUCCESS);
        status
    }
}

#[test]
fn messages_arrive_whichever_way_they_are_sent() {
    let hosts = hosts();
    let sides = pair(&hosts);
    let received = Received::default();
    let context: *mut c_void = (&raw const received).cast_mut().cast();
    let (from, to) = (&sides[0].session, &sides[1].session);
    // SAFETY: the attributes live as long as the module.
    let flags = unsafe { (*(*from.module).attributes).flags };
    assert_ne!(flags & ModuleFlags::SEND.bits(), 0);
    let register = to.table.register_receive.unwrap();
    // SAFETY: the module lives, and the list lives until the function is removed.
    unsafe { assert!(register(to.module, TAG, Some(receive), context).is_ok()) };
    for number in 0..MESSAGES {
        let bytes = message(number);
        let status = retried(&sides, || send(&sides[0], number, &bytes));
        assert_eq!(status, Status::COMPLETED, "message {number}");
    }
    while received.borrow().len() < MESSAGES {
        progress(&sides);
    }
    for (number, came) in received.take().into_iter().enumerate() {
        assert_eq!(came, (sides[1].other, TAG, message(number)), "{number}");
    }
    refusals(&sides[0]);
    // SAFETY: the module lives.
    unsafe { assert!(register(to.module, TAG, None, null_mut()).is_ok()) };
}

/// Messages that are too long, and NULL.
fn refusals(side: &Side<'_>) {
    let (t, module, to) = (side.session.table, side.session.module, side.other);
    let (send, sendi, free) = (t.send.unwrap(), t.sendi.unwrap(), t.free.unwrap());
    let x: *const c_void = c"x".as_ptr().cast();
    // SAFETY: every pointer is NULL, which the functions must refuse, or valid for the call.
    unsafe {
        let longest = t.alloc.unwrap()(module, to, usize::MAX);
        let (data, size) = ((*longest).data, (*longest).size);
        assert!(size >= 4096, "{size}");
        let refused = [
            sendi(module, to, data, size, x, 1, TAG),
            sendi(module, null_mut(), x, 1, null(), 0, TAG),
            sendi(null_mut(), to, x, 1, null(), 0, TAG),
            sendi(module, to, null(), 1, null(), 0, TAG),
            sendi(module, to, x, 1, null(), 1, TAG),
            send(module, to, null_mut(), TAG),
            send(module, null_mut(), longest, TAG),
            free(module, null_mut()),
            free(null_mut(), longest),
            t.register_receive.unwrap()(null_mut(), TAG, Some(receive), null_mut()),
        ];
        assert_eq!(refused, [Status::BAD_PARAM; 10]);
        assert!(free(module, longest).is_ok());
        assert!(t.alloc.unwrap()(null_mut(), to, 1).is_null());
        assert!(t.prepare_src.unwrap()(module, to, x, 0, null_mut()).is_null());
    }
}
