//! The transport of one rank: its operations under way, and its table of functions.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use osc_engine::transport::Transport;
use plugin_api::{
    ApplyFn, AtomicFlags, AtomicKind, AtomicOp, Attributes, CompletionFn,
    Component as RawComponent, Datatype, Endpoint, ErrorFlags, ErrorFn, Handle, Module,
    ModuleFlags, ModuleVtable, Stats, Status, TableHeader, magic,
};

use super::operations::{
    apply, atomic_cswap, atomic_cswapv, atomic_fop, atomic_fopv, atomic_op, atomic_opv, get, put,
};
use super::{Carried, Random, World};

/// The effect of an operation when it is executed; returns its status.
type Effect = Box<dyn FnOnce(&World) -> i32 + Send>;

/// The earlier operations to its target that an operation follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Nothing,
    /// Atomics and commands.
    Commands,
    /// All ([`OpFlags::FENCE`]), and `copied`: none of them uses the origin's memory ([`OpFlags::COPIED`]).
    All {
        copied: bool,
    },
}

/// An operation under way.
pub(super) struct Operation {
    order: Order,
    target: usize,
    /// Whether the effect uses the origin's memory.
    is_local: bool,
    effect: Effect,
    callback: CompletionFn,
    context: *mut c_void,
    data: *mut c_void,
}

// SAFETY: the pointers belong to the engine, whose callback runs on any thread that makes progress.
unsafe impl Send for Operation {}

/// The component of one rank, which is also its module.
#[repr(C)]
pub(super) struct Sim {
    module: Module,
    pub(super) world: Arc<World>,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    random: Random,
    pub(super) under_way: Vec<Operation>,
    listener: Option<(ErrorFn, *mut c_void)>,
    reported: usize,
}

/// Frees a component after its last transport was dropped.
struct Owner(NonNull<Sim>);

// SAFETY: the component locks for itself.
unsafe impl Send for Owner {}
// SAFETY: as for Send.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: made by `transport`, and dropped once, when no transport is left.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

pub(super) fn transport(world: &Arc<World>, seed: u64) -> Transport {
    let sim = Box::new(Sim {
        module: Module {
            vtable: &MODULE,
            attributes: match world.carried {
                Carried::Nothing => &ATTRIBUTES,
                _ => &CARRYING,
            },
        },
        world: Arc::clone(world),
        state: Mutex::new(State {
            random: Random(seed | 1),
            under_way: Vec::new(),
            listener: None,
            reported: 0,
        }),
    });
    let sim = NonNull::from(Box::leak(sim));
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(Owner(sim));
    // SAFETY: the functions below keep to the contract, for any threads.
    unsafe { Transport::adopt(sim.cast(), progress, &[sim.as_ptr().cast()], owner) }
        .unwrap()
        .remove(0)
}

pub(super) unsafe fn sim<'a>(module: *mut Module) -> &'a Sim {
    // SAFETY: the caller passes a module of `transport`.
    unsafe { &*module.cast::<Sim>() }
}

pub(super) unsafe fn post_ordered(
    order: Order,
    (module, endpoint): (*mut Module, *mut Endpoint),
    (callback, context, data): (Option<CompletionFn>, *mut c_void, *mut c_void),
    (is_local, effect): (bool, impl FnOnce(&World) -> i32 + Send + 'static),
) -> Status {
    // SAFETY: the caller guarantees the same conditions.
    let sim = unsafe { sim(module) };
    let mut state = sim.state.lock().unwrap();
    if state.under_way.len() >= 32 {
        return Status::OUT_OF_RESOURCE;
    }
    let target = endpoint.addr() / 8 - 1;
    let orders = !matches!(sim.world.carried, Carried::Nothing | Carried::Refused);
    if let Order::All { copied } = order
        && (state.under_way.iter())
            .any(|other| other.target == target && (!orders || copied && other.is_local))
    {
        return Status::NOT_SUPPORTED;
    }
    let order = match sim.world.carried {
        Carried::Nothing => Order::Nothing,
        _ => order,
    };
    sim.world.begun.fetch_add(1, Ordering::Relaxed);
    state.under_way.push(Operation {
        order,
        target,
        is_local,
        effect: Box::new(effect),
        callback: callback.unwrap(),
        context,
        data,
    });
    Status::SUCCESS
}

pub(super) unsafe fn key(handle: *const Handle) -> u64 {
    // SAFETY: a handle of `register_mem`, or a copy.
    unsafe { handle.cast::<u64>().read() }
}

unsafe extern "C" fn register_apply(
    _module: *mut Module,
    _function: Option<ApplyFn>,
    _context: *mut c_void,
) -> Status {
    Status::SUCCESS
}

unsafe extern "C" fn atomic_query(
    _module: *mut Module,
    datatype: u32,
    op: u32,
    kind: u32,
    most: *mut usize,
) -> Status {
    let served = datatype == Datatype::Uint64 as u32
        && match AtomicKind::try_from(kind) {
            Ok(AtomicKind::Compare) => op == AtomicOp::Cswap as u32,
            _ => matches!(
                AtomicOp::try_from(op),
                Ok(AtomicOp::Sum | AtomicOp::Write | AtomicOp::Read)
            ),
        };
    if !served {
        return Status::NOT_SUPPORTED;
    }
    // SAFETY: the caller's place is writable.
    unsafe { most.write(1) };
    Status::SUCCESS
}

unsafe extern "C" fn register_mem(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    _access: u32,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: the caller guarantees the same conditions.
    let world = &unsafe { sim(module) }.world;
    let key = world.keys.fetch_add(1, Ordering::Relaxed);
    let mut regions = world.regions.lock().unwrap();
    regions.insert(key, (base as u64, size));
    // SAFETY: the caller's place is writable.
    unsafe { handle.write(Box::into_raw(Box::new(key)).cast()) };
    Status::SUCCESS
}

unsafe extern "C" fn deregister_mem(module: *mut Module, handle: *mut Handle) -> Status {
    // SAFETY: made by `register_mem`, and ended once.
    let key = unsafe { Box::from_raw(handle.cast::<u64>()) };
    // SAFETY: the caller guarantees the same conditions.
    let world = &unsafe { sim(module) }.world;
    world.regions.lock().unwrap().remove(&key);
    Status::SUCCESS
}

unsafe extern "C" fn register_error(
    module: *mut Module,
    callback: Option<ErrorFn>,
    context: *mut c_void,
) -> Status {
    // SAFETY: the caller guarantees the same conditions.
    let mut state = unsafe { sim(module) }.state.lock().unwrap();
    state.listener = callback.map(|callback| (callback, context));
    Status::SUCCESS
}

unsafe extern "C" fn stats(_module: *mut Module, stats: *mut Stats) -> Status {
    // SAFETY: the caller's place is writable, and of this version.
    unsafe { stats.write(Stats::new()) };
    Status::SUCCESS
}

unsafe extern "C" fn finalize(_module: *mut Module) -> Status {
    Status::SUCCESS
}

unsafe extern "C" fn add_procs(
    _module: *mut Module,
    count: usize,
    procs: *const u64,
    endpoints: *mut *mut Endpoint,
) -> Status {
    for index in 0..count {
        // SAFETY: both arrays have `count` elements.
        unsafe {
            let rank = procs.add(index).read() as usize;
            let name = std::ptr::without_provenance_mut((rank + 1) * 8);
            endpoints.add(index).write(name);
        }
    }
    Status::SUCCESS
}

unsafe extern "C" fn del_procs(
    _module: *mut Module,
    _count: usize,
    _endpoints: *const *mut Endpoint,
) -> Status {
    Status::SUCCESS
}

unsafe extern "C" fn flush(_module: *mut Module, _endpoint: *mut Endpoint) -> Status {
    Status::NOT_SUPPORTED
}

/// The first of the operations for which an operation waits, itself included.
fn first_before(under_way: &[Operation], mut chosen: usize) -> usize {
    loop {
        let Operation { order, target, .. } = under_way[chosen];
        let follows = |other: &Operation| match order {
            Order::Nothing => false,
            Order::Commands => other.target == target && other.order != Order::Nothing,
            Order::All { .. } => other.target == target,
        };
        match under_way[..chosen].iter().position(follows) {
            Some(earlier) => chosen = earlier,
            None => return chosen,
        }
    }
}

/// Executes some of the operations under way, and reports ranks that are gone.
unsafe extern "C" fn progress(component: *mut RawComponent) -> i32 {
    // SAFETY: made by `transport`.
    let sim = unsafe { &*component.cast::<Sim>() };
    let lost = sim.world.lost.lock().unwrap().clone();
    let mut done = Vec::new();
    let mut state = sim.state.lock().unwrap();
    let told = state.listener.zip(lost.get(state.reported).copied());
    state.reported += usize::from(told.is_some());
    let random = state.random.word();
    for _ in 0..random % 4 {
        if state.under_way.is_empty() || sim.world.is_silent.load(Ordering::Acquire) {
            break;
        }
        let index = (random >> 8) as usize % state.under_way.len();
        let first = first_before(&state.under_way, index);
        done.push(state.under_way.remove(first));
    }
    drop(state);
    if let Some(((report, context), rank)) = told {
        let endpoint = std::ptr::without_provenance_mut((rank + 1) * 8);
        let flags = ErrorFlags::empty().bits();
        let (status, info) = (Status::UNREACH.0, std::ptr::null());
        // SAFETY: the listener stays until `finalize`.
        unsafe {
            report(
                component.cast(),
                flags,
                endpoint,
                rank as u64,
                status,
                info,
                context,
            )
        };
    }
    let count = done.len() as i32;
    for operation in done {
        let status = match lost.contains(&operation.target) {
            true => Status::UNREACH.0,
            false => (operation.effect)(&sim.world),
        };
        let none = std::ptr::null_mut();
        // SAFETY: the engine keeps context and data until this call.
        unsafe {
            (operation.callback)(
                component.cast(),
                std::ptr::null_mut(),
                none,
                std::ptr::null_mut(),
                operation.context,
                operation.data,
                status,
            );
        }
    }
    count
}

static MODULE: ModuleVtable = ModuleVtable {
    header: TableHeader::of::<ModuleVtable>(magic::MODULE),
    add_procs: Some(add_procs),
    del_procs: Some(del_procs),
    register_mem: Some(register_mem),
    deregister_mem: Some(deregister_mem),
    put: Some(put),
    get: Some(get),
    atomic_op: Some(atomic_op),
    atomic_fop: Some(atomic_fop),
    atomic_cswap: Some(atomic_cswap),
    flush: Some(flush),
    register_error: Some(register_error),
    atomic_query: Some(atomic_query),
    atomic_opv: Some(atomic_opv),
    atomic_fopv: Some(atomic_fopv),
    atomic_cswapv: Some(atomic_cswapv),
    stats: Some(stats),
    finalize: Some(finalize),
    set_overrides: None,
    register_hmem: None,
    copy_from_hmem_iov: None,
    copy_to_hmem_iov: None,
    query_hmem: None,
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
    apply: Some(apply),
    register_apply: Some(register_apply),
};

/// The attributes in a world that carries commands.
static CARRYING: Attributes = Attributes {
    flags: ATTRIBUTES.flags
        | ModuleFlags::APPLIES
            .union(ModuleFlags::SCATTERS)
            .union(ModuleFlags::CHECKS_KEYS)
            .union(ModuleFlags::ATOMICS_ORDERED)
            .bits(),
    ..ATTRIBUTES
};

static ATTRIBUTES: Attributes = Attributes {
    header: TableHeader::of::<Attributes>(magic::ATTRIBUTES),
    flags: ModuleFlags::PUT
        .union(ModuleFlags::GET)
        .union(ModuleFlags::RDMA_REMOTE_COMPLETION)
        .bits(),
    atomic_flags: AtomicFlags::ADD.union(AtomicFlags::CSWAP).bits(),
    put_limit: 0,
    get_limit: 0,
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
