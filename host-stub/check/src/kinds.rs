//! Windows of the caller's memory, and dynamic windows.

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, ensure, same};
use super::memory::{Memory, addresses};
use super::regions;
use super::session::{Mode, Session};
use super::shape::Placed;
use host_stub::win::{Assertion, Block, Layout, Op, WinError, Window, unboxed};

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("window/create", create),
        Case::new("window/allocate_zeroed", zeroed),
        Case::new("window/many", many),
        Case::new("window/creation_refused", refused),
        Case::new("dynamic/attach_detach", attach_detach),
        Case::new("dynamic/reattach", reattach),
        Case::new("dynamic/several_regions", several),
        Case::new("dynamic/layouts", layouts),
        Case::new("dynamic/accumulate", dynamic_accumulate),
        Case::new("dynamic/detached", detached),
        Case::new("dynamic/arguments", arguments),
        Case::new("dynamic/many", regions::many),
    ]
}

fn create(context: &Context<'_>) -> Outcome {
    const LEN: usize = 100;
    let memory = Memory::new(&context.initial(context.rank, LEN));
    // SAFETY: the memory lives until the window was freed.
    let window = unsafe { Window::create_with(context.job, memory.base, LEN, 1, context.info) }?;
    let row = Placed::row(Datatype::Uint8, 40);
    let data = |rank: usize| context.of_rank(rank).bytes(40);
    let mut session = Session::open(context, &window, Mode::Fence)?;
    let from = session.buffer(&data(context.rank));
    let into = session.buffer(&[0; 40]);
    let target = |displacement| row.at(context.next(), displacement);
    session.put(from, &row, target(60))?;
    session.get(into, &row, target(0))?;
    session.close()?;
    let mut wanted = context.initial(context.rank, LEN);
    wanted[60..].copy_from_slice(&data(context.previous()));
    same("memory", &memory.bytes(), &wanted)?;
    let remote = context.initial(context.next(), LEN);
    same("got", &session.bytes(into)?, &remote[..40])?;
    drop(session);
    window.free()?;
    memory.release();
    Ok(())
}

fn zeroed(context: &Context<'_>) -> Outcome {
    let window = context.allocate(3000, 1)?;
    let outcome = context.verify(&window, &[0; 3000]);
    window.free()?;
    outcome
}

/// Windows that live at the same time have separate memory and epochs.
fn many(context: &Context<'_>) -> Outcome {
    let windows = (0..5)
        .map(|_| context.allocate(64, 1))
        .collect::<Result<Vec<_>, _>>()?;
    let row = Placed::row(Datatype::Uint8, 64);
    let mut sessions = Vec::new();
    for (index, window) in windows.iter().enumerate() {
        let mode = Mode::ALL[index % Mode::ALL.len()];
        let mut session = Session::open(context, window, mode)?;
        let from = session.buffer(&[index as u8 + 1; 64]);
        let target = row.at(context.next(), 0);
        session.put(from, &row, target)?;
        sessions.push(session);
    }
    for session in &mut sessions {
        session.close()?;
    }
    drop(sessions);
    for (index, window) in windows.into_iter().enumerate() {
        context.verify(&window, &[index as u8 + 1; 64])?;
        window.free()?;
    }
    Ok(())
}

/// When one rank cannot take part, every rank learns which, and none is left waiting.
fn refused(context: &Context<'_>) -> Outcome {
    let guilty = context.size - 1;
    let unit = u32::from(context.rank != guilty);
    match context.allocate(64, unit) {
        Err(error) => match *error {
            WinError::Creation { rank, .. } if rank == guilty => Ok(()),
            _ => Err(error.into()),
        },
        Ok(window) => {
            window.free()?;
            Err(Failure::new("a displacement unit of 0 was taken"))
        }
    }
}

/// Writes a rank's bytes to the next rank's memory at an address.
fn put_at(
    context: &Context<'_>,
    window: &Window,
    address: u64,
    data: &[u8],
) -> Result<(), Failure> {
    let row = Placed::row(Datatype::Uint8, data.len());
    let mut session = Session::open(context, window, Mode::LockAll)?;
    let from = session.buffer(data);
    let target = row.at(context.next(), address);
    session.put(from, &row, target)?;
    session.close()
}

fn attach_detach(context: &Context<'_>) -> Outcome {
    let window = context.dynamic()?;
    let memory = Memory::new(&[0; 256]);
    // SAFETY: the memory lives until it was detached.
    unsafe { window.attach(memory.base, 256) }?;
    let at = addresses(context, memory.address())?;
    let data = |rank: usize| context.of_rank(rank).bytes(100);
    put_at(
        context,
        &window,
        at[context.next()] + 50,
        &data(context.rank),
    )?;
    let mut wanted = vec![0; 256];
    wanted[50..150].copy_from_slice(&data(context.previous()));
    same("attached memory", &memory.bytes(), &wanted)?;
    window.detach(memory.base)?;
    context.meet()?;
    window.free()?;
    memory.release();
    Ok(())
}

/// Memory that is detached and attached again is reached by its new key, never by the old one.
fn reattach(context: &Context<'_>) -> Outcome {
    let window = context.dynamic()?;
    let memory = Memory::new(&[0; 512]);
    let at = addresses(context, memory.address())?;
    for round in 0..6u8 {
        // Each turn has another start and length, and so another registration.
        let start = usize::from(round) * 8;
        let base = memory.base.wrapping_add(start);
        // SAFETY: the memory lives until it was detached.
        unsafe { window.attach(base, 512 - start) }?;
        context.meet()?;
        put_at(
            context,
            &window,
            at[context.next()] + 100,
            &[round + 1; 300],
        )?;
        same(
            "attached memory",
            &memory.bytes()[100..400],
            &[round + 1; 300],
        )?;
        window.detach(base)?;
        context.meet()?;
    }
    window.free()?;
    memory.release();
    Ok(())
}

/// Several regions at once: each is reached, and no range may span two.
fn several(context: &Context<'_>) -> Outcome {
    let window = context.dynamic()?;
    let memories: Vec<Memory> = (0..6).map(|_| Memory::new(&[0; 64])).collect();
    let mut tables = Vec::new();
    for memory in &memories {
        // SAFETY: the memory lives until the window was freed.
        unsafe { window.attach(memory.base, 64) }?;
        tables.push(addresses(context, memory.address())?);
    }
    for (index, at) in tables.iter().enumerate() {
        put_at(context, &window, at[context.next()], &[index as u8 + 1; 64])?;
    }
    for (index, memory) in memories.iter().enumerate() {
        same("region", &memory.bytes(), &[index as u8 + 1; 64])?;
    }
    window.free()?;
    for memory in memories {
        memory.release();
    }
    Ok(())
}

/// The elements of a layout must be attached; memory before the first of them need not be.
fn layouts(context: &Context<'_>) -> Outcome {
    let window = context.dynamic()?;
    let memory = Memory::new(&[0; 64]);
    // SAFETY: the memory lives until the window was freed.
    unsafe { window.attach(memory.base, 64) }?;
    let at = addresses(context, memory.address())?[context.next()];
    let blocks = [(140, 4), (100, 8)].map(|(displacement, length)| Block {
        displacement,
        length,
    });
    let layout = Layout::indexed(Datatype::Uint8, &blocks)?;
    let row = Layout::contiguous(Datatype::Uint8, 12);
    let target = |displacement| layout.at(context.next(), displacement);
    let data = context.of_rank(context.rank).bytes(12);
    let mut back = vec![0; 12];
    window.lock_all(Assertion::empty())?;
    // SAFETY: both buffers outlive the flushes.
    unsafe {
        window.put(data.as_ptr(), &row, target(at - 100))?;
        window.flush_all()?;
        window.get(back.as_mut_ptr(), &row, target(at - 100))?;
        window.flush_all()?;
    }
    same("what was got", &back, &data)?;
    // One byte before and one byte behind the attached memory.
    for displacement in [at - 101, at - 100 + 64 - 44 + 1] {
        // SAFETY: the buffer outlives the flush in unlock_all.
        let refused = unsafe { window.get(back.as_mut_ptr(), &row, target(displacement)) };
        ensure(
            matches!(unboxed(&refused), Err(WinError::NotAttached { .. })),
            || format!("a get at {displacement:#x}, with {at:#x} attached, gave {refused:?}"),
        )?;
    }
    window.unlock_all()?;
    context.meet()?;
    let theirs = context.of_rank(context.previous()).bytes(12);
    let mut wanted = [0; 64];
    wanted[..8].copy_from_slice(&theirs[4..]);
    wanted[40..44].copy_from_slice(&theirs[..4]);
    same("attached memory", &memory.bytes(), &wanted)?;
    window.free()?;
    memory.release();
    Ok(())
}

fn dynamic_accumulate(context: &Context<'_>) -> Outcome {
    let window = context.dynamic()?;
    let memory = Memory::new(&[0; 64]);
    // SAFETY: the memory lives until the window was freed.
    unsafe { window.attach(memory.base, 64) }?;
    let at = addresses(context, memory.address())?;
    let row = Placed::row(Datatype::Int64, 1);
    let mut session = Session::open(context, &window, Mode::LockAll)?;
    for address in [at[0] + 8, at[0] + 17] {
        let one = session.buffer(&1i64.to_le_bytes());
        let into = session.buffer(&[0; 8]);
        let target = row.at(0, address);
        session.accumulate(one, &row, target, Op::Sum)?;
        session.fetch_and_op(one, into, Datatype::Int64, (0, address), Op::Sum)?;
    }
    session.close()?;
    if context.rank == 0 {
        let count = (2 * context.size as i64).to_le_bytes();
        same("aligned sum", &memory.bytes()[8..16], &count)?;
        same("unaligned sum", &memory.bytes()[17..25], &count)?;
    }
    drop(session);
    window.free()?;
    memory.release();
    Ok(())
}

/// Memory never attached, detached, or only partly attached is refused before anything is sent.
fn detached(context: &Context<'_>) -> Outcome {
    let window = context.dynamic()?;
    let memory = Memory::new(&[0; 128]);
    // SAFETY: the memory lives until it was detached.
    unsafe { window.attach(memory.base, 128) }?;
    let at = addresses(context, memory.address())?[context.next()];
    put_at(context, &window, at, &[1; 128])?;
    let refuse = |address: u64, len: usize| -> Outcome {
        let row = Placed::row(Datatype::Uint8, len);
        let buffer = vec![0u8; len];
        let target = row.at(context.next(), address);
        // SAFETY: the call must be refused; otherwise the error below ends the test with the buffer
        // leaked.
        let refused = unsafe { window.put(buffer.as_ptr(), &row.layout, target) };
        // If the target checks the address, the flush reports the refusal.
        let refused = refused.and_then(|()| window.flush(context.next()));
        if matches!(unboxed(&refused), Err(WinError::NotAttached { .. })) {
            return Ok(());
        }
        std::mem::forget(buffer);
        Err(Failure::new(format!(
            "a put of {len} B to {address:#x} gave {refused:?}"
        )))
    };
    window.lock_all(host_stub::win::Assertion::empty())?;
    refuse(at + 1, 128)?;
    refuse(at - 1, 2)?;
    refuse(8, 1)?;
    window.unlock_all()?;
    context.meet()?;
    window.detach(memory.base)?;
    context.meet()?;
    window.lock_all(host_stub::win::Assertion::empty())?;
    refuse(at, 128)?;
    refuse(at, 1)?;
    window.unlock_all()?;
    same("memory", &memory.bytes(), &[1; 128])?;
    window.free()?;
    memory.release();
    Ok(())
}

fn arguments(context: &Context<'_>) -> Outcome {
    let window = context.dynamic()?;
    let memory = Memory::new(&[0; 32]);
    let refused = |result: Result<(), Box<WinError>>, what: &str| {
        ensure(
            matches!(unboxed(&result), Err(WinError::BadArgument { .. })),
            || format!("{what} gave {result:?}"),
        )
    };
    refused(window.detach(memory.base), "detach of nothing")?;
    let attach = |window: &Window, base, len| {
        // SAFETY: the memory lives until the window was freed; the common window takes none.
        unsafe { window.attach(base, len) }
    };
    refused(attach(&window, memory.base, 0), "attach of no bytes")?;
    attach(&window, memory.base, 16)?;
    let inside = memory.base.wrapping_add(8);
    refused(attach(&window, inside, 16), "attach of an overlap")?;
    refused(window.detach(inside), "detach of a part")?;
    window.detach(memory.base)?;
    refused(
        attach(context.window, memory.base, 16),
        "attach to a window that is not dynamic",
    )?;
    window.free()?;
    memory.release();
    Ok(())
}
