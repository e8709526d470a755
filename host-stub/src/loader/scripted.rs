//! A transport for tests: all ranks are in one process, and the test decides when puts and gets complete, and how.
//!
//! The transport is a plugin without a file, so all other code of this module treats it like a real one.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};

use plugin_api::counters::Carrier;
use plugin_api::{
    Attributes, CompletionFn, Component as RawComponent, ComponentVtable, Endpoint, Handle,
    HostVtable, Module, ModuleFlags, ModuleVtable, Stats, Status, TableHeader, ThreadLevel, magic,
};

use super::{Component, HostServices, Plugin, Transport};
use crate::base::params::Params;

/// The decisions of the test.
pub(crate) struct Script {
    /// The return value of puts; a put that does not return success has no effect.
    pub(crate) put: Status,
    /// The completion status of accepted puts.
    pub(crate) put_ends: Status,
    /// Whether gets stay outstanding.
    pub(crate) hold_gets: bool,
    /// The number of gets that are still accepted; later gets are refused.
    pub(crate) gets_left: usize,
    /// The return value of registrations.
    pub(crate) register: Status,
    /// The number of living registrations.
    pub(crate) registrations: usize,
    /// The number that progress returns beyond its completed operations.
    pub(crate) served: i32,
    counts: Stats,
    under_way: Vec<Operation>,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            put: Status::SUCCESS,
            put_ends: Status::SUCCESS,
            hold_gets: false,
            gets_left: usize::MAX,
            register: Status::SUCCESS,
            registrations: 0,
            served: 0,
            counts: Stats::new(),
            under_way: Vec::new(),
        }
    }
}

impl Script {
    /// The number of outstanding gets.
    pub(crate) fn gets(&self) -> usize {
        self.under_way.iter().filter(|o| o.is_get).count()
    }
}

/// An outstanding put or get.
struct Operation {
    is_get: bool,
    from: *const u8,
    to: *mut u8,
    size: usize,
    status: Status,
    callback: CompletionFn,
    context: *mut c_void,
    data: *mut c_void,
}

/// The component, which is also its only module.
#[repr(C)]
struct Scripted {
    module: Module,
    script: Mutex<Script>,
}

/// A transport that follows a script.
pub(crate) fn transport() -> Transport {
    let services = HostServices {
        params: Arc::new(Params::from_system(&[]).unwrap()),
        published: Arc::default(),
    };
    let component = Component::open(Plugin::without_file(COMPONENT, services)).unwrap();
    // SAFETY: any thread may call the functions below.
    unsafe { component.init(ThreadLevel::Multiple) }
        .unwrap()
        .remove(0)
}

/// # Safety
/// `at` is a component of this file, which is its module too, and which is not closed before the guard is dropped.
unsafe fn locked<'a, T>(at: *mut T) -> MutexGuard<'a, Script> {
    // SAFETY: the caller guarantees the component.
    unsafe { &*at.cast::<Scripted>() }.script.lock().unwrap()
}

/// The script of a scripted transport.
pub(crate) fn script(transport: &Transport) -> MutexGuard<'_, Script> {
    // SAFETY: the transport is scripted and keeps its module.
    unsafe { locked(transport.module()) }
}

const COMPONENT: ComponentVtable = ComponentVtable {
    header: TableHeader::of::<ComponentVtable>(magic::COMPONENT),
    name: std::ptr::null(),
    version: std::ptr::null(),
    register_params: Some(register_params),
    open: Some(open),
    survey: None,
    init: Some(init),
    progress: Some(progress),
    close: Some(close),
};

static MODULE: ModuleVtable = ModuleVtable {
    header: TableHeader::of::<ModuleVtable>(magic::MODULE),
    add_procs: Some(add_procs),
    del_procs: absent(),
    register_mem: Some(register_mem),
    deregister_mem: Some(deregister_mem),
    put: Some(put),
    get: Some(get),
    atomic_op: absent(),
    atomic_fop: absent(),
    atomic_cswap: absent(),
    flush: absent(),
    register_error: absent(),
    atomic_query: absent(),
    atomic_opv: absent(),
    atomic_fopv: absent(),
    atomic_cswapv: absent(),
    stats: Some(stats),
    finalize: Some(finalize),
    set_overrides: absent(),
    register_hmem: Some(register_hmem),
    copy_from_hmem_iov: absent(),
    copy_to_hmem_iov: absent(),
    query_hmem: absent(),
    alloc: None,
    free: None,
    prepare_src: None,
    send: None,
    sendi: None,
    register_receive: None,
    put_notify: None,
    copy_from_hmem_strided: None,
    copy_to_hmem_strided: None,
    register_shared: None,
    apply: None,
    register_apply: None,
};

/// The longest get, bytes.
pub(crate) const GET_LIMIT: usize = 4096;

/// An entry that the host requires and no test calls.
const fn absent<F: Copy>() -> Option<F> {
    unsafe extern "C" fn unused() -> Status {
        Status::NOT_SUPPORTED
    }
    let unused: unsafe extern "C" fn() -> Status = unused;
    assert!(size_of::<F>() == size_of_val(&unused));
    // SAFETY: both types are function pointers, and no test calls this function.
    Some(unsafe { std::mem::transmute_copy(&unused) })
}

static ATTRIBUTES: Attributes = Attributes {
    header: TableHeader::of::<Attributes>(magic::ATTRIBUTES),
    flags: ModuleFlags::PUT
        .union(ModuleFlags::GET)
        .union(ModuleFlags::RDMA_REMOTE_COMPLETION)
        .bits(),
    atomic_flags: 0,
    put_limit: 0,
    get_limit: GET_LIMIT as u64,
    put_alignment: 0,
    get_alignment: 0,
    put_local_registration_threshold: u64::MAX,
    get_local_registration_threshold: u64::MAX,
    handle_size: size_of::<u64>() as u64,
    latency: 0,
    bandwidth: 0,
    exclusivity: 0,
    contexts: 1,
    provider: std::ptr::null(),
    domain: std::ptr::null(),
    completion: std::ptr::null(),
};

unsafe extern "C" fn register_params(_host: *const HostVtable) -> Status {
    Status::SUCCESS
}

unsafe extern "C" fn open(_host: *const HostVtable, out: *mut *mut RawComponent) -> Status {
    let scripted = Box::new(Scripted {
        module: Module {
            vtable: &MODULE,
            attributes: &ATTRIBUTES,
        },
        script: Mutex::default(),
    });
    // SAFETY: the host's argument is writable.
    unsafe { out.write(Box::into_raw(scripted).cast()) };
    Status::SUCCESS
}

unsafe extern "C" fn init(
    component: *mut RawComponent,
    _level: u32,
    modules: *mut *mut Module,
    count: *mut usize,
) -> Status {
    // SAFETY: the host's arguments are writable, and the array has room for at least one module.
    unsafe {
        modules.write(component.cast());
        count.write(1);
    }
    Status::SUCCESS
}

unsafe extern "C" fn close(component: *mut RawComponent) -> Status {
    // SAFETY: `open` made the component, which is closed once.
    drop(unsafe { Box::from_raw(component.cast::<Scripted>()) });
    Status::SUCCESS
}

unsafe extern "C" fn finalize(_module: *mut Module) -> Status {
    Status::SUCCESS
}

unsafe extern "C" fn stats(module: *mut Module, stats: *mut Stats) -> Status {
    // SAFETY: `init` returned the module; the host's argument is writable and of this version.
    unsafe { stats.write(locked(module).counts) };
    Status::SUCCESS
}

unsafe extern "C" fn add_procs(
    _module: *mut Module,
    count: usize,
    _procs: *const u64,
    endpoints: *mut *mut Endpoint,
) -> Status {
    for index in 0..count {
        // SAFETY: the host's array has room for `count` endpoints.
        unsafe { endpoints.add(index).write(std::ptr::dangling_mut()) };
    }
    Status::SUCCESS
}

unsafe extern "C" fn register_mem(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    _base: *mut c_void,
    _size: usize,
    _access: u32,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: `open` made the component, which is its module.
    let mut script = unsafe { locked(module) };
    if script.register == Status::SUCCESS {
        script.registrations += 1;
        // SAFETY: the host's argument is writable.
        unsafe { handle.write(Box::into_raw(Box::new(0_u64)).cast()) };
    }
    script.register
}

unsafe extern "C" fn register_hmem(
    module: *mut Module,
    endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    access: u32,
    _iface: u32,
    _device: u64,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: the host guarantees the conditions of `register_mem`.
    unsafe { register_mem(module, endpoint, base, size, access, handle) }
}

unsafe extern "C" fn deregister_mem(module: *mut Module, handle: *mut Handle) -> Status {
    // SAFETY: `init` returned the module; `register_mem` made the handle, which is deregistered
    // once.
    unsafe {
        locked(module).registrations -= 1;
        drop(Box::from_raw(handle.cast::<u64>()));
    }
    Status::SUCCESS
}

unsafe extern "C" fn put(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    local: *mut c_void,
    remote: u64,
    _local_handle: *mut Handle,
    _remote_handle: *const Handle,
    size: usize,
    _flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: `open` made the component, which is its module.
    let mut script = unsafe { locked(module) };
    if script.put != Status::SUCCESS {
        script.counts.again += u64::from(script.put.is_again());
        return script.put;
    }
    script.counts.operations[Carrier::Provider as usize] += 1;
    let status = script.put_ends;
    script.under_way.push(Operation {
        is_get: false,
        from: local.cast(),
        to: remote as *mut u8,
        size,
        status,
        callback: callback.unwrap(),
        context,
        data,
    });
    Status::SUCCESS
}

unsafe extern "C" fn get(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    local: *mut c_void,
    remote: u64,
    _local_handle: *mut Handle,
    _remote_handle: *const Handle,
    size: usize,
    _flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: `open` made the component, which is its module.
    let mut script = unsafe { locked(module) };
    if script.gets_left == 0 {
        return Status::UNREACH;
    }
    script.gets_left -= 1;
    script.under_way.push(Operation {
        is_get: true,
        from: remote as *const u8,
        to: local.cast(),
        size,
        status: Status::SUCCESS,
        callback: callback.unwrap(),
        context,
        data,
    });
    Status::SUCCESS
}

unsafe extern "C" fn progress(component: *mut RawComponent) -> i32 {
    // SAFETY: `open` made the component, which is its module.
    let mut script = unsafe { locked(component) };
    let (held, over): (Vec<_>, Vec<_>) = std::mem::take(&mut script.under_way)
        .into_iter()
        .partition(|operation| operation.is_get && script.hold_gets);
    script.under_way = held;
    script.counts.completed += over.len() as u64;
    let completed = over.len() as i32 + std::mem::take(&mut script.served);
    drop(script);
    for operation in over {
        // SAFETY: the host keeps the memory of both sides and the context until the callback.
        unsafe {
            if operation.status.is_ok() {
                std::ptr::copy_nonoverlapping(operation.from, operation.to, operation.size);
            }
            (operation.callback)(
                component.cast(),
                std::ptr::dangling_mut(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                operation.context,
                operation.data,
                operation.status.0,
            );
        }
    }
    completed
}
