//! Collectives with large buffers on a device: the copy of one fragment overlaps the transfer of another, which is shown by
//! a copy that ends only when what was sent before it has come back to the device of the other rank. A collective that
//! copied its whole buffer first would never end.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_api::{Datatype, HmemInfo, IoVec, hmem_iface};

use crate::buffer::DeviceBuffer;
use crate::case::{Context, Failure, Outcome, ensure, same, say};
use host_stub::coll::{CollArgs, Collective};
use host_stub::comm::{Comm, CommError};
use host_stub::device::PretendedMemory;
use host_stub::win::Op;

/// Elements of the reduction, and bytes of the half that each of two ranks sends to the other first.
const COUNT: usize = 128 << 10;
const HALF: usize = COUNT * 8 / 2;

/// What a failed copy answers (-FI_EIO).
const FAILED: i32 = -5;

/// A copy that is made when its event is over.
#[derive(Clone, Copy)]
struct Later {
    /// Whether it is one from the device.
    reads: bool,
    device: IoVec,
    host: usize,
}

/// What the copy functions of this process have seen.
#[derive(Default)]
struct Seen {
    copies: Vec<Later>,
    /// The first copy of each way to appear here is told to the other rank by a file.
    tell: Option<PathBuf>,
    /// Copies from addresses before this one end when the other rank has told.
    held: (usize, Option<PathBuf>),
    /// Whether copies from the device fail in the end.
    fails: bool,
}

// SAFETY: the addresses are followed by the copy functions only.
unsafe impl Send for Seen {}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

fn seen() -> MutexGuard<'static, Option<Seen>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of a copy; its event is its number, from 1 on.
unsafe fn note(copy: Later, size: usize, event: *mut *mut c_void) -> isize {
    let mut guard = seen();
    let Some(seen) = guard.as_mut() else {
        return -11;
    };
    if !copy.reads
        && let Some(file) = seen.tell.take()
        && std::fs::write(file, "").is_err()
    {
        return -5;
    }
    seen.copies.push(copy);
    // SAFETY: the host gives a place for the event.
    unsafe { *event = std::ptr::without_provenance_mut(seen.copies.len()) };
    size as isize
}

unsafe extern "C" fn start_read(
    _stream: *mut c_void,
    dest: *mut c_void,
    size: usize,
    iov: *const IoVec,
    _iface: *const u32,
    _count: usize,
    _offset: u64,
    event: *mut *mut c_void,
) -> isize {
    // SAFETY: the host gives one run.
    let device = unsafe { *iov };
    let copy = Later {
        reads: true,
        device,
        host: dest as usize,
    };
    // SAFETY: passed on.
    unsafe { note(copy, size, event) }
}

unsafe extern "C" fn start_write(
    _stream: *mut c_void,
    iov: *const IoVec,
    _iface: *const u32,
    _count: usize,
    _offset: u64,
    src: *const c_void,
    size: usize,
    event: *mut *mut c_void,
) -> isize {
    // SAFETY: as above.
    let device = unsafe { *iov };
    let copy = Later {
        reads: false,
        device,
        host: src as usize,
    };
    // SAFETY: passed on.
    unsafe { note(copy, size, event) }
}

/// Makes the copy, unless it is held.
unsafe extern "C" fn query(event: *mut c_void) -> i32 {
    let guard = seen();
    let Some((seen, copy)) = guard
        .as_ref()
        .and_then(|seen| Some((seen, *seen.copies.get((event as usize).checked_sub(1)?)?)))
    else {
        return -22;
    };
    let (end, told) = &seen.held;
    let is_held = copy.reads && (copy.device.base as usize) < *end;
    if is_held && told.as_ref().is_some_and(|file| !file.exists()) {
        return 0;
    }
    if copy.reads && seen.fails {
        return FAILED;
    }
    let functions = PretendedMemory::overrides();
    let (device, len, kind) = (copy.device, copy.device.len, hmem_iface::CUDA);
    let host: *mut c_void = std::ptr::with_exposed_provenance_mut(copy.host);
    // SAFETY: both memories stay until the event is over, which it is after this.
    let done = unsafe {
        match (
            copy.reads,
            functions.copy_from_hmem_iov,
            functions.copy_to_hmem_iov,
        ) {
            (true, Some(from), _) => from(host, len, &device, &kind, 1, 0),
            (false, _, Some(to)) => to(&device, &kind, 1, 0, host, len),
            _ => -38,
        }
    };
    if done == len as isize { 1 } else { FAILED }
}

/// Calls of collectives with the functions above.
fn with_functions<R>(
    context: &Context<'_>,
    start: Seen,
    call: impl FnOnce() -> R,
) -> Result<(R, Vec<Later>), Failure> {
    let devices = context.job.devices();
    let later = PretendedMemory::overrides().with_async(
        Some(start_read),
        Some(start_write),
        Some(query),
        std::ptr::null_mut(),
    );
    *seen() = Some(start);
    // SAFETY: functions of this program, which are replaced below.
    let set = unsafe { devices.set_overrides(Some(&later)) };
    let called = call();
    // SAFETY: as above.
    let put_back = unsafe { devices.set_overrides(Some(&PretendedMemory::overrides())) };
    let copies = seen().take().unwrap_or_default().copies;
    ensure(set.is_ok() && put_back.is_ok(), || {
        format!("copy functions were refused: {set}, {put_back}")
    })?;
    Ok((called, copies))
}

/// Whether copies can be held here; says why not.
fn can_hold(context: &Context<'_>) -> Result<bool, Failure> {
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    let own = info.is_some_and(|info| info.overrides == HmemInfo::NONE);
    if own {
        say(context, "the device's own copy functions are not held")?;
    }
    Ok(!own)
}

/// Copies that fail after they were started: the request says so, once all of them are over.
pub(super) fn failing(context: &Context<'_>) -> Outcome {
    if !can_hold(context)? {
        return Ok(());
    }
    let alone = Comm::alone(context.job)?;
    let buffer = DeviceBuffer::new(context.job.devices(), 4 * HALF, 0)?;
    let args = CollArgs {
        send: buffer.pointer(0)?,
        recv: buffer.pointer(2 * HALF)?,
        count: COUNT,
        datatype: Datatype::Uint64,
        op: Op::Sum,
        ..CollArgs::default()
    };
    let start = Seen {
        fails: true,
        ..Seen::default()
    };
    let (done, copies) = with_functions(context, start, || {
        // SAFETY: the buffer lives until the call returns.
        unsafe { alone.collective(Collective::Allreduce, &args) }
    })?;
    let told = matches!(
        &done,
        Err(CommError::DeviceCopy { function: "copy_from_hmem_async", answer, .. })
            if *answer == i64::from(FAILED)
    );
    ensure(told && copies.iter().all(|copy| copy.reads), || {
        format!("{done:?} after {} copies", copies.len())
    })?;
    // The next works.
    let words = context.of_rank(context.rank).bytes(2 * HALF);
    buffer.write(0, &words)?;
    // SAFETY: as above.
    unsafe { alone.collective(Collective::Allreduce, &args) }?;
    let mut found = vec![0; 2 * HALF];
    buffer.read(2 * HALF, &mut found)?;
    same("the sum", &found, &words)?;
    Ok(alone.free()?)
}

/// Copies that fail at one rank: no rank waits for it, each hears of it, and the communicator serves on.
pub(super) fn failing_at_one(context: &Context<'_>) -> Outcome {
    if !can_hold(context)? {
        return Ok(());
    }
    if context.size < 2 {
        return say(context, "there is one rank");
    }
    let comm = Comm::world(context.job)?.dup()?;
    let buffer = DeviceBuffer::new(context.job.devices(), 4 * HALF, 0)?;
    for (count, at) in [(8, 0), (COUNT, 0), (COUNT, context.size - 1)] {
        let args = CollArgs {
            send: buffer.pointer(0)?,
            recv: buffer.pointer(2 * HALF)?,
            count,
            datatype: Datatype::Uint64,
            op: Op::Sum,
            ..CollArgs::default()
        };
        // The nonblocking form has the default's schedule, whatever layers there are.
        // SAFETY: the buffer lives until the wait is over.
        let sum = || unsafe { comm.start_collective(Collective::Allreduce, &args) }?.wait();
        let fails = context.rank == at;
        let (done, copies) = with_functions(context, Seen::default(), || {
            PretendedMemory::misbehave(if fails { FAILED.into() } else { 0 });
            let done = sum();
            PretendedMemory::misbehave(0);
            done
        })?;
        let told = match &done {
            Err(CommError::DeviceCopy { .. }) => fails,
            Err(CommError::Elsewhere { .. }) => !fails,
            _ => false,
        };
        // Nothing that is wrong goes to a device.
        ensure(told && copies.iter().all(|copy| copy.reads), || {
            format!("{count} elements, which fail at rank {at}: {done:?}")
        })?;
        let words = |value: usize| (value as u64).to_ne_bytes().repeat(count);
        buffer.write(0, &words(context.rank + 1))?;
        sum()?;
        let mut found = vec![0; 8 * count];
        buffer.read(2 * HALF, &mut found)?;
        let n = context.size;
        same("the sum", &found, &words(n * (n + 1) / 2))?;
    }
    Ok(comm.free()?)
}

/// A reduce_scatter over two ranks. Rank 0 sends its upper half first; its lower half, which it needs for what it receives,
/// comes from the device only when rank 1 has put a sum of upper halves on its device.
pub(super) fn overlap(context: &Context<'_>) -> Outcome {
    if !can_hold(context)? {
        return Ok(());
    }
    if context.size < 2 {
        return say(context, "there is one rank");
    }
    let world = Comm::world(context.job)?;
    let Some(pair) = world.split((context.rank < 2).then_some(0), 0)? else {
        return Ok(());
    };
    let devices = context.job.devices();
    let words = |rank: usize| -> Vec<u8> {
        let value = |at: usize| (at * (rank + 3)) as u64;
        (0..COUNT).flat_map(|at| value(at).to_ne_bytes()).collect()
    };
    let operand = DeviceBuffer::new(devices, 2 * HALF, 0)?;
    let result = DeviceBuffer::new(devices, HALF, 0)?;
    operand.write(0, &words(context.rank))?;
    let file = std::env::temp_dir().join(format!("fragments-{:016x}", context.seed));
    let start = match context.rank {
        0 => Seen {
            held: (operand.pointer(HALF)? as usize, Some(file.clone())),
            ..Seen::default()
        },
        _ => Seen {
            tell: Some(file.clone()),
            ..Seen::default()
        },
    };
    let args = CollArgs {
        send: operand.pointer(0)?,
        recv: result.pointer(0)?,
        count: COUNT / 2,
        datatype: Datatype::Uint64,
        op: Op::Sum,
        ..CollArgs::default()
    };
    pair.barrier()?;
    let (done, copies) = with_functions(context, start, || {
        // SAFETY: both buffers live until the request is done. Nonblocking: shared memory serves the blocking form.
        unsafe { pair.start_collective(Collective::ReduceScatter, &args) }
            .and_then(|request| request.wait())
    })?;
    pair.barrier()?;
    if context.rank == 0 {
        std::fs::remove_file(&file)?;
    }
    done?;
    let mut found = vec![0; HALF];
    result.read(0, &mut found)?;
    let sum = |at: usize| (at * 3 + at * 4) as u64;
    let first = context.rank * COUNT / 2;
    let mine = first..first + COUNT / 2;
    let wanted: Vec<u8> = mine.flat_map(|at| sum(at).to_ne_bytes()).collect();
    same("the sum", &found, &wanted)?;
    // Each byte once in each direction, in fragments, what is sent first first.
    let base = operand.pointer(0)? as usize;
    let read: Vec<usize> = copies
        .iter()
        .filter(|copy| copy.reads)
        .map(|copy| copy.device.base as usize - base)
        .collect();
    let (low, high): (Vec<usize>, Vec<usize>) = (0..2 * HALF)
        .step_by(256 << 10)
        .partition(|offset| *offset < HALF);
    let wanted = match context.rank {
        0 => [high, low].concat(),
        _ => [low, high].concat(),
    };
    ensure(read == wanted, || {
        format!("copies from {read:?} of the operand, wanted {wanted:?}")
    })?;
    let written: usize = copies
        .iter()
        .filter(|copy| !copy.reads)
        .map(|copy| copy.device.len)
        .sum();
    ensure(
        written == HALF && 2 * copies.len() == 3 * read.len(),
        || format!("{written} B in {} copies", copies.len()),
    )?;
    Ok(pair.free()?)
}
