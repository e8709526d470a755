//! Puts, gets, atomics and applies of the transport, as effects that its progress executes.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use plugin_api::{
    APPLY_BYTES, APPLY_HEAD, APPLY_RUN, ApplyRequest, ApplyRun, AtomicOp, BtlAtomicOp,
    CompletionFn, Endpoint, Handle, MOST_APPLIED, Module, OpFlags, Status, TransferFlags,
};

use super::sim::{Order, key, post_ordered, sim};
use super::{Carried, LONGEST, World};

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

/// Posts a put or get of `size` bytes. The effect returns whether the region is registered.
unsafe fn post_transfer(
    (module, endpoint): (*mut Module, *mut Endpoint),
    told: (Option<CompletionFn>, *mut c_void, *mut c_void),
    (flags, size, is_local): (u32, usize, bool),
    effect: impl FnOnce(&World) -> bool + Send + 'static,
) -> Status {
    // SAFETY: the caller guarantees the same conditions.
    let world = &unsafe { sim(module) }.world;
    if world.is_full.load(Ordering::Acquire) {
        world.refused.fetch_add(1, Ordering::Release);
        return Status::TEMP_OUT_OF_RESOURCE;
    }
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
    // SAFETY: the caller guarantees the same conditions.
    unsafe { post_ordered(Order::Nothing, (module, endpoint), told, (is_local, effect)) }
}

pub(super) unsafe extern "C" fn put(
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
        // A world that orders commands carries puts likewise.
        let is_carried = sim(module).world.carried != Carried::Nothing && size as u64 <= LONGEST;
        let copy = is_carried.then(|| std::slice::from_raw_parts(from.get(), size).to_vec());
        let form = (flags, size, copy.is_none());
        post_transfer((module, endpoint), told, form, move |world| {
            if !world.holds(key, remote, size) {
                return false;
            }
            let from = copy.as_ref().map_or(from.get().cast_const(), Vec::as_ptr);
            std::ptr::copy_nonoverlapping(from, remote as *mut u8, size);
            true
        })
    }
}

pub(super) unsafe extern "C" fn get(
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
        post_transfer(
            (module, endpoint),
            told,
            (flags, size, true),
            move |world| {
                if !world.holds(key, remote, size) {
                    return false;
                }
                std::ptr::copy_nonoverlapping(remote as *const u8, to.get(), size);
                true
            },
        )
    }
}

/// Changes a word by a function, and stores the old value.
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
            (!result.is_null(), move |world: &World| {
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
            }),
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

pub(super) unsafe extern "C" fn atomic_op(
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
    let flags = OpFlags::from_bits_retain(flags);
    let copied = flags.contains(OpFlags::COPIED);
    let order = match copied || flags.contains(OpFlags::FENCE) {
        true => Order::All { copied },
        false => Order::Commands,
    };
    // SAFETY: the caller guarantees the same conditions.
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

pub(super) unsafe extern "C" fn atomic_fop(
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
    // SAFETY: the caller guarantees the same conditions.
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

pub(super) unsafe extern "C" fn atomic_cswap(
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
    // SAFETY: the caller guarantees the same conditions.
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

pub(super) unsafe extern "C" fn atomic_opv(
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
    // SAFETY: the caller guarantees the buffers; the transport offers one element at a time.
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

pub(super) unsafe extern "C" fn atomic_fopv(
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

pub(super) unsafe extern "C" fn atomic_cswapv(
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
    // SAFETY: the caller guarantees the same conditions.
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
    let effect = (!puts, effect);
    // SAFETY: the caller guarantees the same conditions.
    unsafe { post_ordered(Order::Commands, (module, endpoint), told, effect) }
}

pub(super) unsafe extern "C" fn apply(
    module: *mut Module,
    endpoint: *mut Endpoint,
    remote: u64,
    handle: *const Handle,
    request: *const ApplyRequest,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: the caller guarantees the same conditions.
    let carried = unsafe { sim(module) }.world.carried;
    if carried == Carried::Nothing {
        return Status::NOT_SUPPORTED;
    }
    // SAFETY: the engine passes a request.
    if unsafe { (*request).datatype } == APPLY_BYTES {
        let told = (callback, context, data);
        // SAFETY: the caller guarantees the same conditions.
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
    let effect = move |world: &World| {
        if !places.iter().all(|place| world.holds(key, *place, 8)) {
            return Status::VALUE_OUT_OF_BOUNDS.0;
        }
        for (place, operand) in places.into_iter().zip(operands) {
            let change = typed(op, operand);
            if !is_aligned(&place) {
                // One thread at a time, like the target's processor.
                let _changing = world.changing.lock().unwrap();
                let word = place as *mut u64;
                // SAFETY: the region has the word.
                unsafe { word.write_unaligned(change(word.read_unaligned())) };
                continue;
            }
            // SAFETY: the region has the word.
            let word = unsafe { &*(place as *const AtomicU64) };
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(change(old)));
        }
        0
    };
    // SAFETY: as in `put`.
    unsafe { post_ordered(Order::Commands, (module, endpoint), told, (false, effect)) }
}
