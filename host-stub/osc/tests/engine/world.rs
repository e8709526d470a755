//! Ranks that are threads of one process, and a transport between them that a seed drives.
//!
//! An operation is executed when its origin makes progress, in an order that the seed chooses. Only completion orders
//! operations, and the engine may rely on nothing else. If the world [carries](Carried) commands, atomics and commands of one
//! origin to one target are in order. Each region has its own key. An operation on a region that is no longer registered fails.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use osc_engine::door::{Context, Group, Pace, Until, Waiter};
use osc_engine::transport::{EndpointRef, Failures, Transport};
use osc_engine::win::WinResult;
use plugin_api::{
    APPLY_BYTES, APPLY_HEAD, APPLY_RUN, ApplyFn, ApplyRequest, ApplyRun, AtomicFlags, AtomicKind,
    AtomicOp, Attributes, BtlAtomicOp, CompletionFn, Component as RawComponent, Datatype, Endpoint,
    ErrorFlags, ErrorFn, Handle, MOST_APPLIED, Module, ModuleFlags, ModuleVtable, OpFlags, Stats,
    Status, TableHeader, ThreadLevel, TransferFlags, magic,
};

/// What an operation does when it is executed; its status.
type Effect = Box<dyn FnOnce(&World) -> i32 + Send>;

/// What becomes of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// There are none, and no order.
    Nothing,
    /// They are executed, in order with atomics.
    InOrder,
    /// They are refused for elements of atomics, as by a network card, and for puts and gets; so are puts and gets with keys that may
    /// have ended.
    Refused,
    /// Like [`InOrder`](Self::InOrder), but puts and gets with a run of more than [`LONGEST`] bytes are refused.
    Short,
    /// As [`InOrder`](Self::InOrder); puts and gets are over when their call returns.
    AtOnce,
}

/// Bytes of a run of a put or get that a world of [`Carried::Short`] carries, and of one with a key that may have ended.
pub(super) const LONGEST: u64 = 1024;

/// Which earlier operations to its target an operation follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Nothing,
    /// Atomics and commands.
    Commands,
    /// All ([`OpFlags::FENCE`]).
    All,
}

/// An operation under way.
struct Operation {
    order: Order,
    target: usize,
    effect: Effect,
    callback: CompletionFn,
    context: *mut c_void,
    data: *mut c_void,
}

// SAFETY: the pointers belong to the engine, whose callback runs on any thread that makes progress.
unsafe impl Send for Operation {}

/// What all ranks share.
pub(super) struct World {
    size: usize,
    /// Whether ranks may share memory.
    beside: bool,
    carried: Carried,
    /// The next key: registrations so far, and one.
    pub(super) keys: AtomicU64,
    /// Address of the word that was changed last.
    pub(super) changed_word: AtomicU64,
    /// Address and bytes of each region, by its key.
    regions: Mutex<HashMap<u64, (u64, usize)>>,
    /// The number of the exchange, and what the ranks gave.
    exchange: Mutex<Exchange>,
    changed: Condvar,
    /// Operations that were begun.
    pub(super) begun: AtomicUsize,
    /// Puts and gets that were refused: of several runs, and with keys that may have ended.
    pub(super) refused: AtomicUsize,
    lost: Mutex<Vec<usize>>,
    /// Held while elements that are not aligned are changed.
    changing: Mutex<()>,
}

#[derive(Default)]
struct Exchange {
    given: Vec<Option<Vec<u8>>>,
    taken: usize,
    /// Whether a rank failed, which the others would wait for.
    failed: bool,
    all: Option<Arc<Vec<Vec<u8>>>>,
}

impl World {
    pub(super) fn new(size: usize, beside: bool) -> Arc<World> {
        Self::carrying(size, beside, Carried::Nothing)
    }

    pub(super) fn carrying(size: usize, beside: bool, carried: Carried) -> Arc<World> {
        Arc::new(World {
            size,
            beside,
            carried,
            keys: AtomicU64::new(1),
            changed_word: AtomicU64::new(0),
            regions: Mutex::default(),
            exchange: Mutex::new(Exchange {
                given: vec![None; size],
                ..Exchange::default()
            }),
            changed: Condvar::new(),
            begun: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            lost: Mutex::default(),
            changing: Mutex::default(),
        })
    }

    fn allgather(&self, rank: usize, mine: &[u8]) -> Vec<Vec<u8>> {
        let mut exchange = self.exchange.lock().unwrap();
        // The one before may not be over for all.
        while exchange.all.is_some() {
            exchange = self.changed.wait(exchange).unwrap();
            assert!(!exchange.failed, "another rank failed");
        }
        exchange.given[rank] = Some(mine.to_vec());
        if exchange.given.iter().all(Option::is_some) {
            let all = exchange.given.iter_mut().map(|given| given.take().unwrap());
            exchange.all = Some(Arc::new(all.collect()));
            self.changed.notify_all();
        }
        let all = loop {
            match &exchange.all {
                Some(all) => break Arc::clone(all),
                None => exchange = self.changed.wait(exchange).unwrap(),
            }
            assert!(!exchange.failed, "another rank failed");
        };
        exchange.taken += 1;
        if exchange.taken == self.size {
            (exchange.taken, exchange.all) = (0, None);
            self.changed.notify_all();
        }
        (*all).clone()
    }

    /// Whether a range is registered under a key.
    fn holds(&self, key: u64, address: u64, size: usize) -> bool {
        let regions = self.regions.lock().unwrap();
        regions.get(&key).is_some_and(|(base, len)| {
            let offset = address.checked_sub(*base);
            offset.is_some_and(|offset| offset + size as u64 <= *len as u64)
        })
    }

    /// A rank is gone: operations to it fail from now on.
    pub(super) fn lose(&self, rank: usize) {
        self.lost.lock().unwrap().push(rank);
    }
}

/// The component of one rank, which is also its module.
#[repr(C)]
struct Sim {
    module: Module,
    world: Arc<World>,
    state: Mutex<State>,
}

struct State {
    random: u64,
    under_way: Vec<Operation>,
    listener: Option<(ErrorFn, *mut c_void)>,
    reported: usize,
}

/// Frees a component when its last transport is gone.
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

fn transport(world: &Arc<World>, seed: u64) -> Transport {
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
            random: seed | 1,
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

unsafe fn sim<'a>(module: *mut Module) -> &'a Sim {
    // SAFETY: the caller passes a module of `transport`.
    unsafe { &*module.cast::<Sim>() }
}

unsafe fn post_ordered(
    order: Order,
    (module, endpoint): (*mut Module, *mut Endpoint),
    (callback, context, data): (Option<CompletionFn>, *mut c_void, *mut c_void),
    effect: impl FnOnce(&World) -> i32 + Send + 'static,
) -> Status {
    // SAFETY: as the caller's.
    let sim = unsafe { sim(module) };
    let mut state = sim.state.lock().unwrap();
    if state.under_way.len() >= 32 {
        return Status::OUT_OF_RESOURCE;
    }
    let target = endpoint.addr() / 8 - 1;
    let is_busy = || state.under_way.iter().any(|other| other.target == target);
    let order = match sim.world.carried {
        Carried::Nothing | Carried::Refused if order == Order::All && is_busy() => {
            return Status::NOT_SUPPORTED;
        }
        Carried::Nothing => Order::Nothing,
        _ => order,
    };
    sim.world.begun.fetch_add(1, Ordering::Relaxed);
    state.under_way.push(Operation {
        order,
        target,
        effect: Box::new(effect),
        callback: callback.unwrap(),
        context,
        data,
    });
    Status::SUCCESS
}

unsafe fn key(handle: *const Handle) -> u64 {
    // SAFETY: a handle of `register_mem`, or a copy.
    unsafe { handle.cast::<u64>().read() }
}

/// A pointer that travels in an effect.
#[derive(Clone, Copy)]
struct At(*mut u8);
// SAFETY: the engine keeps buffers until the completion.
unsafe impl Send for At {}

impl At {
    fn get(self) -> *mut u8 {
        self.0
    }
}

/// Posts a put or get of so many bytes. The effect says whether its region is registered.
unsafe fn post_transfer(
    (module, endpoint): (*mut Module, *mut Endpoint),
    told: (Option<CompletionFn>, *mut c_void, *mut c_void),
    (flags, size): (u32, usize),
    effect: impl FnOnce(&World) -> bool + Send + 'static,
) -> Status {
    // SAFETY: as the caller's.
    let world = &unsafe { sim(module) }.world;
    let is_checked = TransferFlags::from_bits_retain(flags).contains(TransferFlags::CHECKED);
    assert!(!is_checked || world.carried != Carried::Nothing);
    if is_checked && (world.carried == Carried::Refused || size as u64 > LONGEST) {
        world.refused.fetch_add(1, Ordering::Relaxed);
        return Status::NOT_SUPPORTED;
    }
    let effect = move |world: &World| match effect(world) {
        true => 0,
        false if is_checked => Status::PERM.0,
        false => Status::VALUE_OUT_OF_BOUNDS.0,
    };
    if is_checked && world.carried == Carried::AtOnce {
        world.begun.fetch_add(1, Ordering::Relaxed);
        return match effect(world) {
            0 => Status::COMPLETED,
            status => Status(status),
        };
    }
    // SAFETY: as the caller's.
    unsafe { post_ordered(Order::Nothing, (module, endpoint), told, effect) }
}

unsafe extern "C" fn put(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local: *mut c_void,
    remote: u64,
    _local_handle: *mut Handle,
    handle: *const Handle,
    size: usize,
    flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: the engine keeps the buffers; the region is checked when the bytes move.
    unsafe {
        let (key, from) = (key(handle), At(local.cast()));
        let told = (callback, context, data);
        post_transfer((module, endpoint), told, (flags, size), move |world| {
            if !world.holds(key, remote, size) {
                return false;
            }
            std::ptr::copy_nonoverlapping(from.get(), remote as *mut u8, size);
            true
        })
    }
}

unsafe extern "C" fn get(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local: *mut c_void,
    remote: u64,
    _local_handle: *mut Handle,
    handle: *const Handle,
    size: usize,
    flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: as in `put`.
    unsafe {
        let (key, to) = (key(handle), At(local.cast()));
        let told = (callback, context, data);
        post_transfer((module, endpoint), told, (flags, size), move |world| {
            if !world.holds(key, remote, size) {
                return false;
            }
            std::ptr::copy_nonoverlapping(remote as *const u8, to.get(), size);
            true
        })
    }
}

/// Changes a word by a function, and stores what was there.
unsafe fn change(
    order: Order,
    (module, endpoint): (*mut Module, *mut Endpoint),
    (remote, handle): (u64, *const Handle),
    result: *mut c_void,
    (callback, context, data): (Option<CompletionFn>, *mut c_void, *mut c_void),
    change: impl Fn(u64) -> u64 + Send + 'static,
) -> Status {
    // SAFETY: as in `put`; words are aligned.
    unsafe {
        let (key, to) = (key(handle), At(result.cast()));
        let world = &sim(module).world;
        world.changed_word.store(remote, Ordering::Relaxed);
        post_ordered(
            order,
            (module, endpoint),
            (callback, context, data),
            move |world| {
                if !world.holds(key, remote, 8) {
                    return Status::VALUE_OUT_OF_BOUNDS.0;
                }
                let word = &*(remote as *const AtomicU64);
                let before =
                    word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(change(old)));
                if !to.get().is_null() {
                    to.get()
                        .cast::<u64>()
                        .write(before.unwrap_or_else(|old| old));
                }
                0
            },
        )
    }
}

fn word_op(op: u32, operand: u64) -> impl Fn(u64) -> u64 + Send + 'static {
    let op = BtlAtomicOp::try_from(op).unwrap();
    move |old| match op {
        BtlAtomicOp::Add => old.wrapping_add(operand),
        BtlAtomicOp::Swap => operand,
        other => panic!("{other:?} is not served"),
    }
}

unsafe extern "C" fn atomic_op(
    module: *mut Module,
    endpoint: *mut Endpoint,
    remote: u64,
    handle: *const Handle,
    op: u32,
    operand: u64,
    flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let (there, told) = ((module, endpoint), (callback, context, data));
    let order = match OpFlags::from_bits_retain(flags).contains(OpFlags::FENCE) {
        true => Order::All,
        false => Order::Commands,
    };
    // SAFETY: as the caller's.
    unsafe {
        change(
            order,
            there,
            (remote, handle),
            std::ptr::null_mut(),
            told,
            word_op(op, operand),
        )
    }
}

unsafe extern "C" fn atomic_fop(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local: *mut c_void,
    remote: u64,
    _local_handle: *mut Handle,
    handle: *const Handle,
    op: u32,
    operand: u64,
    _flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let (there, told) = ((module, endpoint), (callback, context, data));
    // SAFETY: as the caller's.
    unsafe {
        change(
            Order::Commands,
            there,
            (remote, handle),
            local,
            told,
            word_op(op, operand),
        )
    }
}

unsafe extern "C" fn atomic_cswap(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local: *mut c_void,
    remote: u64,
    _local_handle: *mut Handle,
    handle: *const Handle,
    compare: u64,
    value: u64,
    _flags: u32,
    _order: i32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let (there, told) = ((module, endpoint), (callback, context, data));
    let swap = move |old| if old == compare { value } else { old };
    // SAFETY: as the caller's.
    unsafe { change(Order::Commands, there, (remote, handle), local, told, swap) }
}

fn typed(op: u32, operand: u64) -> impl Fn(u64) -> u64 + Send + 'static {
    let op = AtomicOp::try_from(op).unwrap();
    move |old| match op {
        AtomicOp::Sum => old.wrapping_add(operand),
        AtomicOp::Write => operand,
        AtomicOp::Read => old,
        other => panic!("{other:?} is not served"),
    }
}

unsafe extern "C" fn atomic_opv(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local: *const c_void,
    remote: u64,
    _local_handle: *mut Handle,
    handle: *const Handle,
    _datatype: u32,
    op: u32,
    _count: usize,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let (there, told) = ((module, endpoint), (callback, context, data));
    // SAFETY: as the caller's; one element at a time is offered.
    unsafe {
        let operand = local.cast::<u64>().read_unaligned();
        change(
            Order::Commands,
            there,
            (remote, handle),
            std::ptr::null_mut(),
            told,
            typed(op, operand),
        )
    }
}

unsafe extern "C" fn atomic_fopv(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local: *const c_void,
    result: *mut c_void,
    remote: u64,
    _local_handle: *mut Handle,
    _result_handle: *mut Handle,
    handle: *const Handle,
    _datatype: u32,
    op: u32,
    _count: usize,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let (there, told) = ((module, endpoint), (callback, context, data));
    // SAFETY: as in `atomic_opv`; a read has no operand.
    unsafe {
        let operand = match local.is_null() {
            true => 0,
            false => local.cast::<u64>().read_unaligned(),
        };
        change(
            Order::Commands,
            there,
            (remote, handle),
            result,
            told,
            typed(op, operand),
        )
    }
}

unsafe extern "C" fn atomic_cswapv(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    remote: u64,
    _result_handle: *mut Handle,
    handle: *const Handle,
    _datatype: u32,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let (there, told) = ((module, endpoint), (callback, context, data));
    // SAFETY: as in `atomic_opv`.
    unsafe {
        let (value, compare) = (
            local.cast::<u64>().read_unaligned(),
            compare.cast::<u64>().read_unaligned(),
        );
        let swap = move |old| if old == compare { value } else { old };
        change(Order::Commands, there, (remote, handle), result, told, swap)
    }
}

/// Changes words one after the other.
/// A put or get of several runs.
unsafe fn transfer_runs(
    (module, endpoint): (*mut Module, *mut Endpoint),
    (remote, handle): (u64, *const Handle),
    request: &ApplyRequest,
    told: (Option<CompletionFn>, *mut c_void, *mut c_void),
) -> Status {
    // SAFETY: as the caller's.
    let world = &unsafe { sim(module) }.world;
    // SAFETY: the engine passes that many runs.
    let runs = unsafe { std::slice::from_raw_parts(request.runs, request.run_count) };
    let is_long = |run: &ApplyRun| run.length > LONGEST;
    if world.carried == Carried::Refused
        || world.carried == Carried::Short && runs.iter().any(is_long)
    {
        world.refused.fetch_add(1, Ordering::Relaxed);
        return Status::NOT_SUPPORTED;
    }
    let puts = request.op == AtomicOp::Write as u32;
    assert!(puts || request.op == AtomicOp::Read as u32);
    assert_eq!((request.size, request.code), (1, 0));
    assert_eq!(request.results.is_null(), puts);
    // SAFETY: the engine passes operands for the runs, which are copied here.
    let (key, blocks, operands) = unsafe {
        let block = |run: ApplyRun, i| (remote + run.offset + i * run.stride, run.length as usize);
        let blocks: Vec<(u64, usize)> = runs
            .iter()
            .flat_map(|run| (0..run.count).map(|i| block(*run, i)))
            .collect();
        let bytes: usize = blocks.iter().map(|(_, length)| length).sum();
        assert!(APPLY_HEAD + APPLY_RUN * runs.len() + bytes <= MOST_APPLIED);
        let operands = match puts {
            true => std::slice::from_raw_parts(request.operands.cast::<u8>(), bytes).to_vec(),
            false => Vec::new(),
        };
        (key(handle), blocks, operands)
    };
    let results = At(request.results.cast());
    let effect = move |world: &World| {
        if !blocks
            .iter()
            .all(|(at, length)| world.holds(key, *at, *length))
        {
            return Status::VALUE_OUT_OF_BOUNDS.0;
        }
        let mut packed = 0;
        for (at, length) in blocks {
            // SAFETY: the region has the block, and the engine keeps the results.
            unsafe {
                match puts {
                    true => std::ptr::copy_nonoverlapping(
                        operands[packed..][..length].as_ptr(),
                        at as *mut u8,
                        length,
                    ),
                    false => std::ptr::copy_nonoverlapping(
                        at as *const u8,
                        results.get().add(packed),
                        length,
                    ),
                }
            }
            packed += length;
        }
        0
    };
    if world.carried == Carried::AtOnce {
        world.begun.fetch_add(1, Ordering::Relaxed);
        return match effect(world) {
            0 => Status::COMPLETED,
            status => Status(status),
        };
    }
    // SAFETY: as the caller's.
    unsafe { post_ordered(Order::Commands, (module, endpoint), told, effect) }
}

unsafe extern "C" fn apply(
    module: *mut Module,
    endpoint: *mut Endpoint,
    remote: u64,
    handle: *const Handle,
    request: *const ApplyRequest,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: as the caller's.
    let carried = unsafe { sim(module) }.world.carried;
    if carried == Carried::Nothing {
        return Status::NOT_SUPPORTED;
    }
    // SAFETY: the engine passes a request.
    if unsafe { (*request).datatype } == APPLY_BYTES {
        let told = (callback, context, data);
        // SAFETY: as the caller's.
        return unsafe { transfer_runs((module, endpoint), (remote, handle), &*request, told) };
    }
    // SAFETY: the engine passes runs and operands of words, which are copied here.
    let (key, places, operands, op) = unsafe {
        let request = &*request;
        assert!(request.results.is_null() && request.size == 8);
        let runs = std::slice::from_raw_parts(request.runs, request.run_count);
        let words = |run: &ApplyRun| {
            let run = *run;
            (0..run.count).flat_map(move |block| {
                let first = remote + run.offset + block * run.stride;
                (0..run.length / 8).map(move |word| first + 8 * word)
            })
        };
        let places: Vec<u64> = runs.iter().flat_map(words).collect();
        let operands: Vec<u64> = (0..places.len())
            .map(|i| request.operands.cast::<u64>().add(i).read_unaligned())
            .collect();
        (key(handle), places, operands, request.op)
    };
    let is_aligned = |place: &u64| place.is_multiple_of(8);
    if carried == Carried::Refused && places.iter().any(is_aligned) {
        return Status::NOT_SUPPORTED;
    }
    let told = (callback, context, data);
    // SAFETY: as in `put`.
    unsafe {
        post_ordered(Order::Commands, (module, endpoint), told, move |world| {
            if !places.iter().all(|place| world.holds(key, *place, 8)) {
                return Status::VALUE_OUT_OF_BOUNDS.0;
            }
            for (place, operand) in places.into_iter().zip(operands) {
                let change = typed(op, operand);
                if !is_aligned(&place) {
                    // One thread at a time, as the target's processor.
                    let _changing = world.changing.lock().unwrap();
                    let word = place as *mut u64;
                    word.write_unaligned(change(word.read_unaligned()));
                    continue;
                }
                let _ = (*(place as *const AtomicU64)).fetch_update(
                    Ordering::AcqRel,
                    Ordering::Acquire,
                    |old| Some(change(old)),
                );
            }
            0
        })
    }
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
    // SAFETY: as the caller's.
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
    // SAFETY: as the caller's.
    let world = &unsafe { sim(module) }.world;
    world.regions.lock().unwrap().remove(&key);
    Status::SUCCESS
}

unsafe extern "C" fn register_error(
    module: *mut Module,
    callback: Option<ErrorFn>,
    context: *mut c_void,
) -> Status {
    // SAFETY: as the caller's.
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

/// The first of the operations that one waits for, itself included.
fn first_before(under_way: &[Operation], mut chosen: usize) -> usize {
    loop {
        let Operation { order, target, .. } = under_way[chosen];
        let follows = |other: &Operation| match order {
            Order::Nothing => false,
            Order::Commands => other.target == target && other.order != Order::Nothing,
            Order::All => other.target == target,
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
    state.random ^= state.random << 13;
    state.random ^= state.random >> 7;
    state.random ^= state.random << 17;
    for _ in 0..state.random % 4 {
        if state.under_way.is_empty() {
            break;
        }
        let index = (state.random >> 8) as usize % state.under_way.len();
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

/// Of a world that carries commands.
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

/// Waits by making progress.
struct Loop(Transport);

impl Waiter for Loop {
    fn progress(&self) -> i32 {
        self.0.progress()
    }

    fn visit(&self) {
        self.0.progress();
        std::thread::yield_now();
    }

    fn wait(&self, what: &dyn Until) -> WinResult<()> {
        while !what.is_done() {
            what.look()?;
            self.visit();
        }
        Ok(())
    }

    fn step(&self, _pace: &mut Pace, what: &dyn Until) -> WinResult<()> {
        self.visit();
        what.look()
    }
}

/// One rank: a thread.
pub(super) struct Rank {
    context: Arc<Context>,
    world: Arc<World>,
    rank: usize,
    endpoints: Vec<EndpointRef>,
}

impl Rank {
    pub(super) fn new(world: &Arc<World>, rank: usize, seed: u64) -> Arc<Rank> {
        let transport = transport(
            world,
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ rank as u64,
        );
        let procs: Vec<u64> = (0..world.size as u64).collect();
        let endpoints = transport.connect(&procs).unwrap();
        let failures = Failures::of(&transport).unwrap();
        let waiter = Box::new(Loop(transport.clone()));
        Arc::new(Rank {
            context: Arc::new(Context::new(
                transport,
                failures,
                ThreadLevel::Multiple,
                waiter,
            )),
            world: Arc::clone(world),
            rank,
            endpoints: endpoints.into_iter().map(Option::unwrap).collect(),
        })
    }

    /// Makes progress once.
    pub(super) fn progress(&self) {
        self.context.transport().progress();
    }
}

impl Group for Rank {
    fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.size
    }

    fn process(&self, rank: usize) -> u64 {
        rank as u64
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        Ok(self.endpoints[rank])
    }

    fn node(&self, rank: usize) -> u32 {
        if self.world.beside { 0 } else { rank as u32 }
    }

    /// What is under way is over before this blocks: a rank that is met here makes no progress, and others may wait for it.
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        // SAFETY: the module is one of `transport`.
        let sim = unsafe { sim(self.context.transport().module()) };
        while !sim.state.lock().unwrap().under_way.is_empty() {
            self.progress();
        }
        Ok(self.world.allgather(self.rank, mine))
    }
}

/// Runs a function on each of `size` ranks, with and without memory that they share, and with several seeds.
pub(super) fn on_ranks(size: usize, run: impl Fn(&Arc<Rank>) + Sync) {
    for beside in [false, true] {
        for seed in 1..=16 {
            on_world(&World::new(size, beside), seed, &run);
            on_world(&World::carrying(size, beside, Carried::InOrder), seed, &run);
        }
    }
}

/// Lets the other ranks know of one whose function panics.
struct Failing<'a>(&'a World, usize);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lose(self.1);
            if let Ok(mut exchange) = self.0.exchange.lock() {
                exchange.failed = true;
            }
            self.0.changed.notify_all();
        }
    }
}

/// Runs a function on each rank of a world.
pub(super) fn on_world(world: &Arc<World>, seed: u64, run: &(impl Fn(&Arc<Rank>) + Sync)) {
    std::thread::scope(|scope| {
        for rank in 0..world.size {
            scope.spawn(move || {
                let _failing = Failing(world, rank);
                run(&Rank::new(world, rank, seed));
            });
        }
    });
}
