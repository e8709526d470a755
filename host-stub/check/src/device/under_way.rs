//! Calls with packed buffers return while their operations are under way: the target makes no calls of the library, so
//! no operation can complete there. A call that waited would never return.

use std::path::PathBuf;

use plugin_api::{Datatype, HmemInfo, ModuleFlags, hmem_iface};

use crate::buffer::DeviceBuffer;
use crate::case::{Context, Outcome, ensure, same, say};
use host_stub::device::PretendedMemory;
use host_stub::win::{Assertion, Layout, Op, WinError, Window, unboxed};

/// Elements of each transfer: every second element of its buffer. The number is small, because each element is an
/// operation, and providers limit operations.
const COUNT: usize = 8;
const SPAN: usize = COUNT * 16;

fn gaps(on_device: bool) -> Result<Layout, Box<WinError>> {
    let layout = Layout::strided(Datatype::Uint64, COUNT, 1, 2)?;
    Ok(match on_device {
        true => layout.on_device(),
        false => layout,
    })
}

/// Runs `act` on rank 0 while rank 1 makes no calls of the library.
fn without_rank_1(context: &Context<'_>, act: impl FnOnce() -> Outcome) -> Outcome {
    let file = |what: &str| -> PathBuf {
        let name = context.name.replace('/', "-");
        std::env::temp_dir().join(format!("{name}-{what}-{:016x}", context.seed))
    };
    let (left, over) = (file("left"), file("over"));
    let wait = |path: &PathBuf| {
        while !path.exists() {
            std::thread::yield_now();
        }
    };
    match context.rank {
        0 => {
            wait(&left);
            let acted = act();
            std::fs::write(&over, "")?;
            acted
        }
        1 => {
            std::fs::write(&left, "")?;
            wait(&over);
            std::fs::remove_file(&left)?;
            std::fs::remove_file(&over)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether rank 1 itself serves its device memory in a window.
fn is_served_by_progress(context: &Context<'_>, window: &Window) -> bool {
    let threaded = context.job.params().value("btl_ofi_hmem_thread");
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    info.is_some_and(|info| info.staged > 0)
        && !window.is_opened(1)
        && threaded.and_then(|value| value.as_bool()) != Some(true)
}

/// Every second element of some bytes.
fn evens(bytes: &[u8]) -> Vec<u8> {
    let (words, _) = bytes.as_chunks::<16>();
    words.iter().flat_map(|word| word[..8].to_vec()).collect()
}

/// Strided puts, gets and accumulates, with and without a request.
pub(super) fn returns(context: &Context<'_>) -> Outcome {
    if context.size < 2 {
        return say(context, "there is one rank");
    }
    let window = context.allocate(4 * SPAN, 1)?;
    let devices = context.job.devices();
    let data = context.of_rank(0).bytes(SPAN);
    let initial = context.of_rank(1).bytes(4 * SPAN);
    // SAFETY: no operation is under way.
    unsafe { window.write_local(0, &initial) }?;
    let from = DeviceBuffer::new(devices, SPAN, 0)?;
    let (got, fetched) = (
        DeviceBuffer::new(devices, SPAN, 1)?,
        DeviceBuffer::new(devices, SPAN, 2)?,
    );
    from.write(0, &data)?;
    for buffer in [&got, &fetched] {
        buffer.write(0, &[0xee; SPAN])?;
    }
    let (there, plain) = (gaps(false)?, gaps(true)?);
    let part = |index: usize| there.at(1, (index * SPAN) as u64);
    let attributes = context.job.transport().attributes();
    let ordered =
        attributes.flags.contains(ModuleFlags::ATOMICS_ORDERED) && attributes.contexts <= 1;
    window.lock_all(Assertion::empty())?;
    context.meet()?;
    let mut requests = Vec::new();
    let issued = without_rank_1(context, || {
        // SAFETY: the buffers live until the epoch has ended.
        unsafe {
            requests.push(window.rput(from.pointer(0)?, &plain, part(0))?);
            requests.push(window.rget(got.pointer(0)?, &plain, part(1))?);
            window.accumulate(from.pointer(0)?, &plain, part(2), Op::Sum)?;
            // This accumulate must follow the first one: without an order of the transport, the
            // call waits for the first.
            if ordered {
                let (into, part) = (fetched.pointer(0)?, part(2));
                window.get_accumulate(from.pointer(0)?, &plain, into, &plain, part, Op::Sum)?;
            }
            window.put(from.pointer(0)?, &plain, part(3))?;
        }
        if is_served_by_progress(context, &window) {
            for request in &mut requests {
                let ended = request.test()?;
                ensure(!ended, || {
                    String::from("a request ended before its target made progress")
                })?;
            }
            // The operation has copied the bytes that it read: the program may not write there, but nothing
            // is read again.
            from.write(0, &[0; SPAN])?;
        }
        Ok(())
    });
    if context.rank == 0 {
        window.flush(1)?;
    }
    for request in requests {
        request.wait()?;
    }
    window.unlock_all()?;
    context.meet()?;
    issued?;
    let times = if ordered { 2 } else { 1 };
    let sums = |times: u64| {
        let (old, new) = (evens(&initial[2 * SPAN..3 * SPAN]), evens(&data));
        let (old, new) = (old.as_chunks::<8>().0, new.as_chunks::<8>().0);
        let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        let sum = |(a, b)| word(a).wrapping_add(word(b).wrapping_mul(times));
        let pairs = old.iter().zip(new);
        pairs
            .flat_map(|pair| sum(pair).to_ne_bytes())
            .collect::<Vec<u8>>()
    };
    if context.rank == 1 {
        let mut found = vec![0; 4 * SPAN];
        window.read_local(0, &mut found)?;
        let part = |index: usize| evens(&found[index * SPAN..(index + 1) * SPAN]);
        same("the put with a request", &part(0), &evens(&data))?;
        same("the accumulates", &part(2), &sums(times))?;
        same("the put", &part(3), &evens(&data))?;
    } else if context.rank == 0 {
        let mut found = vec![0; SPAN];
        got.read(0, &mut found)?;
        same("the get", &evens(&found), &evens(&initial[SPAN..2 * SPAN]))?;
        let between = evens(&found[8..]);
        ensure(between.iter().all(|byte| *byte == 0xee), || {
            String::from("bytes between the elements of a get were written")
        })?;
        if ordered {
            fetched.read(0, &mut found)?;
            same("what was fetched", &evens(&found), &sums(1))?;
        }
    }
    Ok(window.free()?)
}

/// The failure of a copy after its call returned is reported once: by the request, or by the next
/// flush without one.
pub(super) fn fails_later(context: &Context<'_>) -> Outcome {
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    let window = context.allocate(SPAN, 1)?;
    if context.size < 2
        || !is_served_by_progress(context, &window)
        || info.is_none_or(|info| info.overrides == HmemInfo::NONE)
    {
        window.free()?;
        return say(
            context,
            "there is one rank, or the operations end by themselves, or copies do not answer wrongly",
        );
    }
    let buffer = DeviceBuffer::new(context.job.devices(), SPAN, 0)?;
    let (there, layout) = (gaps(false)?, gaps(true)?);
    let whole = || there.at(1, 0);
    window.lock_all(Assertion::empty())?;
    for with_request in [true, false] {
        context.meet()?;
        let mut request = None;
        without_rank_1(context, || {
            // SAFETY: the buffer lives until the flush.
            unsafe {
                match with_request {
                    true => request = Some(window.rget(buffer.pointer(0)?, &layout, whole())?),
                    false => window.get(buffer.pointer(0)?, &layout, whole())?,
                }
            }
            PretendedMemory::misbehave(-i64::from(libc::EIO));
            Ok(())
        })?;
        if context.rank != 0 {
            continue;
        }
        let told = match request {
            Some(request) => request.wait(),
            None => window.flush(1),
        };
        PretendedMemory::misbehave(0);
        ensure(
            matches!(unboxed(&told), Err(WinError::Transport { .. })),
            || format!("a failed copy, with a request {with_request}, was told as {told:?}"),
        )?;
        window.flush(1)?;
    }
    window.unlock_all()?;
    context.meet()?;
    Ok(window.free()?)
}
