//! Operations that a device starts: commands in rings, which the host's progress executes.

use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use plugin_api::Datatype;

use crate::buffer::DeviceBuffer;
use crate::case::{Context, Failure, Outcome, ensure, same};
use host_stub::device::{Command, CommandKind, Completion, Level, Ring};
use host_stub::win::{Assertion, Layout, Op, Proxy, Window};

/// The target of commands: a rank, in a window.
#[derive(Clone, Copy)]
pub(super) struct To {
    pub(super) window: u32,
    pub(super) rank: usize,
}

impl To {
    pub(super) fn command(
        self,
        kind: CommandKind,
        displacement: u64,
        local: u64,
        count: u64,
    ) -> Command {
        Command {
            kind: kind as u32,
            window: self.window,
            target: self.rank as u32,
            datatype: Datatype::Uint64 as u32,
            displacement,
            local,
            count,
            ..Command::default()
        }
    }
}

/// Waits for the threads in the place of a device. The progress thread serves these threads; without
/// one, this thread's progress serves them.
pub(super) fn served<T>(
    context: &Context<'_>,
    devices: Vec<ScopedJoinHandle<'_, T>>,
) -> Result<Vec<T>, Failure> {
    let engine = context.job.runtime().engine();
    while !engine.has_progress_thread() && !devices.iter().all(ScopedJoinHandle::is_finished) {
        if engine.progress() == 0 {
            std::thread::yield_now();
        }
    }
    let joined = devices.into_iter().map(ScopedJoinHandle::join);
    let all: Result<Vec<T>, _> = joined.collect();
    all.map_err(|_| Failure::new("a device's thread panicked"))
}

/// Runs one command after the other, as a device does.
pub(super) fn one_by_one(ring: &Ring, commands: &[Command]) -> Vec<Completion> {
    let run = |command: &Command| ring.wait(ring.submit(command));
    commands.iter().map(run).collect()
}

/// Lets one thread in the place of a device run commands.
pub(super) fn run(
    context: &Context<'_>,
    ring: &Ring,
    commands: &[Command],
) -> Result<Vec<(i32, u64)>, Failure> {
    let answers = std::thread::scope(|scope| {
        let device = scope.spawn(|| one_by_one(ring, commands));
        served(context, vec![device])
    })?;
    Ok(answers
        .iter()
        .flatten()
        .map(|a| (a.status, a.result))
        .collect())
}

/// Frees a window that no proxy uses any more.
pub(super) fn free(window: Arc<Window>) -> Outcome {
    match Arc::into_inner(window) {
        Some(window) => Ok(window.free()?),
        None => Err(Failure::new("a proxy that is gone keeps its window")),
    }
}

/// A zeroed window of 256 bytes in which the epoch of the commands is open.
pub(super) fn zeroed(context: &Context<'_>) -> Result<Arc<Window>, Failure> {
    zeroed_with(context, 8)
}

/// As [`zeroed`], with a displacement unit.
fn zeroed_with(context: &Context<'_>, unit: u32) -> Result<Arc<Window>, Failure> {
    let window = context.allocate(256, unit)?;
    // SAFETY: the window is new, and no operation is under way on it.
    unsafe { window.write_local(0, &[0; 256]) }?;
    context.meet()?;
    window.lock_all(Assertion::empty())?;
    Ok(Arc::new(window))
}

/// The first words of this rank's memory.
pub(super) fn words(window: &Window, count: usize) -> Result<Vec<u64>, Failure> {
    let mut found = vec![0; count * 8];
    window.read_local(0, &mut found)?;
    let words = found.as_chunks::<8>().0.iter();
    Ok(words.map(|b| u64::from_ne_bytes(*b)).collect())
}

/// The suite's device may start operations on host and device memory.
pub(super) fn level(context: &Context<'_>) -> Outcome {
    let support = context.job.device_support();
    ensure(support.level == Level::DeviceOnBoth, || {
        format!("level {}: {}", support.level, support.why)
    })
}

/// A thread in the place of a device writes commands, which the host executes.
pub(super) fn started(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let window = zeroed(context)?;
    let buffer = DeviceBuffer::new(devices, 64, 0)?;
    buffer.write(
        0,
        &(10..18u64).flat_map(u64::to_ne_bytes).collect::<Vec<u8>>(),
    )?;
    let of_the_host = [5u64; 4];
    let host_words = of_the_host.as_ptr() as u64;
    let device_words = buffer.pointer(0)? as u64;
    let ring = Arc::new(Ring::new(8));
    let proxy = Proxy::new(context.job, &ring, Level::DeviceOnBoth)?;
    let to = To {
        window: proxy.add_window(Arc::clone(&window))?,
        rank: context.next(),
    };
    commands(context, &ring, to, (device_words, host_words))?;
    drop(proxy);
    window.unlock_all()?;
    context.meet()?;
    let found = words(&window, 12)?;
    ensure(found == [99, 11, 22, 13, 0, 0, 0, 0, 5, 5, 5, 5], || {
        format!("the window holds {found:?}")
    })?;
    let mut got = [0; 16];
    buffer.read(32, &mut got)?;
    same(
        "what was got",
        &got,
        &[99u64.to_ne_bytes(), 11u64.to_ne_bytes()].concat(),
    )?;
    let low = Proxy::new(context.job, &ring, Level::HostOnBoth);
    ensure(low.is_err(), || String::from("a device started at level 2"))?;
    context.meet()?;
    free(window)
}

/// The commands of the thread in the place of the device, and their answers. `device_words` and `host_words` are eight
/// words on the device and four of the host.
fn commands(
    context: &Context<'_>,
    ring: &Ring,
    to: To,
    (device_words, host_words): (u64, u64),
) -> Outcome {
    let fetch = Command {
        operand: 7,
        op: 0,
        ..to.command(CommandKind::FetchOp, 0, 0, 1)
    };
    let swap = Command {
        operand: 99,
        compare: 17,
        ..to.command(CommandKind::CompareSwap, 0, 0, 1)
    };
    let untracked = Command {
        untracked: true,
        ..to.command(CommandKind::Put, 8, host_words, 4)
    };
    let all = [
        to.command(CommandKind::Put, 0, device_words, 4),
        fetch,
        swap,
        to.command(CommandKind::Accumulate, 2, device_words, 1),
        to.command(CommandKind::Get, 0, device_words + 32, 2),
        to.command(CommandKind::Flush, 0, 0, 0),
    ];
    let answers = std::thread::scope(|scope| {
        let device = scope.spawn(|| {
            // More commands than slots, and no thread takes their answers.
            for _ in 0..20 {
                ring.submit(&untracked);
            }
            one_by_one(ring, &all)
        });
        served(context, vec![device])
    })?;
    let seen: Vec<(i32, u64)> = answers
        .iter()
        .flatten()
        .map(|a| (a.status, a.result))
        .collect();
    let wanted = [0, 10, 17, 0, 0, 0].map(|result| (0, result));
    ensure(seen == wanted, || format!("answers {seen:?}"))?;
    let counts = ring.counts();
    ensure(counts == (26, 0), || format!("counted {counts:?}"))
}

/// Level 3 keeps devices from host memory, as origin and as target.
pub(super) fn at_level_3(context: &Context<'_>) -> Outcome {
    let window = zeroed(context)?;
    let host = Arc::new(Window::allocate(context.job, 256, 8)?);
    host.lock_all(Assertion::empty())?;
    let buffer = DeviceBuffer::new(context.job.devices(), 64, 0)?;
    let of_the_host = [5u64; 4];
    let device_words = buffer.pointer(0)? as u64;
    let ring = Arc::new(Ring::new(8));
    let proxy = Proxy::new(context.job, &ring, Level::DeviceOnDevice)?;
    let rank = context.next();
    let [on_device, on_host] = [&window, &host].map(|window| {
        let number = proxy.add_window(Arc::clone(window));
        number.map(|window| To { window, rank })
    });
    let (on_device, on_host) = (on_device?, on_host?);
    let mut all = vec![(
        on_device.command(CommandKind::Put, 0, of_the_host.as_ptr() as u64, 1),
        false,
    )];
    for kind in [
        CommandKind::Put,
        CommandKind::FetchOp,
        CommandKind::CompareSwap,
    ] {
        all.push((on_device.command(kind, 4, device_words, 1), true));
        all.push((on_host.command(kind, 4, device_words, 1), false));
    }
    let asked: Vec<Command> = all.iter().map(|(command, _)| *command).collect();
    let answers = run(context, &ring, &asked)?;
    for ((command, taken), (status, _)) in all.iter().zip(answers) {
        let refused = if *taken { 0 } else { -libc::EINVAL };
        ensure(status == refused, || {
            format!("{command:?} answered {status} at level 3")
        })?;
    }
    drop(proxy);
    window.unlock_all()?;
    host.unlock_all()?;
    context.meet()?;
    free(host)?;
    free(window)
}

/// Adds one to words of rank 0, as the program does.
fn add_here(window: &Window, displacements: &[u64]) -> Outcome {
    let one = 1u64.to_ne_bytes();
    let word = Layout::contiguous(Datatype::Uint64, 1);
    for displacement in displacements {
        let target = word.at(0, *displacement);
        // SAFETY: the operand outlives the flush.
        unsafe { window.accumulate(one.as_ptr(), &word, target, Op::Sum) }?;
        window.flush(0)?;
    }
    Ok(())
}

/// Several rings with two threads each; all threads add to the same words: to an aligned word by the transport's atomics, and
/// to an unaligned word under the target's lock. The program adds to both meanwhile.
pub(super) fn several_rings(context: &Context<'_>) -> Outcome {
    const RINGS: usize = 3;
    const ADDS: u64 = 10;
    const ALIGNED: u64 = 0;
    const UNALIGNED: u64 = 17;
    let window = zeroed_with(context, 1)?;
    let mut rings = Vec::new();
    for _ in 0..RINGS {
        let ring = Arc::new(Ring::new(2));
        let proxy = Proxy::new(context.job, &ring, Level::DeviceOnBoth)?;
        let number = proxy.add_window(Arc::clone(&window))?;
        rings.push((ring, proxy, number));
    }
    let add = |window, displacement| Command {
        operand: 1,
        ..To { window, rank: 0 }.command(CommandKind::FetchOp, displacement, 0, 1)
    };
    let answers = std::thread::scope(|scope: &Scope<'_, '_>| {
        let mut devices = Vec::new();
        for (ring, _, number) in rings.iter().chain(&rings) {
            let both = [add(*number, ALIGNED), add(*number, UNALIGNED)];
            let all = both.repeat(ADDS as usize);
            devices.push(scope.spawn(move || one_by_one(ring, &all)));
        }
        let added = add_here(&window, &[ALIGNED, UNALIGNED].repeat(ADDS as usize));
        let answers = served(context, devices)?;
        added?;
        Ok::<_, Failure>(answers)
    })?;
    let failed = answers.iter().flatten().find(|answer| answer.status != 0);
    ensure(failed.is_none(), || format!("answered {failed:?}"))?;
    drop(rings);
    window.unlock_all()?;
    context.meet()?;
    let wanted = (2 * RINGS as u64 + 1) * ADDS * context.size as u64;
    for displacement in [ALIGNED, UNALIGNED] {
        let mut found = [0; 8];
        window.read_local(displacement as usize, &mut found)?;
        let sum = u64::from_ne_bytes(found);
        ensure(context.rank != 0 || sum == wanted, || {
            format!("the sum at {displacement} is {sum}, not {wanted}")
        })?;
    }
    context.meet()?;
    free(window)
}
