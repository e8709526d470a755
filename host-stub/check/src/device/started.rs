//! Operations that a device starts: commands in a ring, which the host does.

use std::sync::atomic::{AtomicBool, Ordering};

use plugin_api::Datatype;

use crate::buffer::DeviceBuffer;
use crate::case::{Context, Outcome, ensure, same};
use host_stub::device::{Command, CommandKind, Level, Ring};
use host_stub::win::{Assertion, Proxy, Window};

/// The rank that commands go to.
struct To(u32);

impl To {
    fn command(&self, kind: CommandKind, displacement: u64, local: u64, count: u64) -> Command {
        Command {
            kind: kind as u32,
            target: self.0,
            datatype: Datatype::Uint64 as u32,
            displacement,
            local,
            count,
            ..Command::default()
        }
    }
}

/// A thread in the place of a device writes commands, which the host does.
pub(super) fn started(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let window = context.allocate(256, 8)?;
    // SAFETY: the window is new, and no operation is under way on it.
    unsafe { window.write_local(0, &[0; 256]) }?;
    let buffer = DeviceBuffer::new(devices, 64, 0)?;
    let next = (context.rank + 1) % context.size;
    buffer.write(
        0,
        &(10..18u64).flat_map(u64::to_ne_bytes).collect::<Vec<u8>>(),
    )?;
    let words = [5u64; 4];
    let host_words = words.as_ptr() as u64;
    let device_words = buffer.pointer(0)? as u64;
    let ring = Ring::new(8);
    let level = context.job.device_support().level;
    context.meet()?;
    window.lock_all(Assertion::empty())?;
    let windows = [&window];
    let mut proxy = Proxy::new(&ring, devices, &windows, level)?;
    let to = To(next as u32);
    commands(context, &ring, &mut proxy, &to, (device_words, host_words))?;
    window.unlock_all()?;
    context.meet()?;
    let mut found = [0; 96];
    window.read_local(0, &mut found)?;
    let words: Vec<u64> = found
        .as_chunks::<8>()
        .0
        .iter()
        .map(|b| u64::from_ne_bytes(*b))
        .collect();
    ensure(words == [99, 11, 22, 13, 0, 0, 0, 0, 5, 5, 5, 5], || {
        format!("the window holds {words:?}")
    })?;
    let mut got = [0; 16];
    buffer.read(32, &mut got)?;
    same(
        "what was got",
        &got,
        &[99u64.to_ne_bytes(), 11u64.to_ne_bytes()].concat(),
    )?;
    at_level_3(context, &ring, &window, &to, (device_words, host_words))?;
    let low = Proxy::new(&ring, devices, &windows, Level::HostOnBoth);
    ensure(low.is_err(), || String::from("a device started at level 2"))?;
    context.meet()?;
    Ok(window.free()?)
}

/// What the thread in the place of the device commands, and how that is answered. `device_words` and `host_words` are eight
/// words on the device and four of the host.
fn commands(
    context: &Context<'_>,
    ring: &Ring,
    proxy: &mut Proxy<'_>,
    to: &To,
    (device_words, host_words): (u64, u64),
) -> Outcome {
    let over = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let device = scope.spawn(|| {
            let run = |command: &Command| ring.wait(ring.submit(command));
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
            let answers = [
                run(&to.command(CommandKind::Put, 0, device_words, 4)),
                run(&to.command(CommandKind::Put, 8, host_words, 4)),
                run(&to.command(CommandKind::Flush, 0, 0, 0)),
                run(&fetch),
                run(&swap),
                run(&to.command(CommandKind::Accumulate, 2, device_words, 1)),
                run(&to.command(CommandKind::Get, 0, device_words + 32, 2)),
                run(&to.command(CommandKind::Flush, 0, 0, 0)),
                run(&Command {
                    window: 3,
                    ..to.command(CommandKind::Flush, 0, 0, 0)
                }),
            ];
            over.store(true, Ordering::Release);
            answers
        });
        while !over.load(Ordering::Acquire) {
            if proxy.serve() == 0 {
                context.job.transport().progress();
                std::thread::yield_now();
            }
        }
        device.join()
    });
    let answers = answers.map_err(|_| crate::case::Failure::new("the device's thread panicked"))?;
    let seen: Vec<(i32, u64)> = answers.iter().map(|a| (a.status, a.result)).collect();
    let fetched = [0, 0, 0, 10, 17, 0, 0, 0].map(|result| (0, result));
    ensure(seen[..8] == fetched, || format!("answers {seen:?}"))?;
    ensure(seen[8].0 < 0, || {
        String::from("a window that is none was flushed")
    })
}

/// Level 3 keeps devices from host memory, as origin and as target. Nine commands went through the ring before.
fn at_level_3(
    context: &Context<'_>,
    ring: &Ring,
    window: &Window,
    to: &To,
    (device_words, host_words): (u64, u64),
) -> Outcome {
    let devices = context.job.devices();
    let alone = [window];
    let mut proxy = Proxy::new(ring, devices, &alone, Level::DeviceOnDevice)?;
    proxy.skip(9);
    let ticket = ring.submit(&to.command(CommandKind::Put, 0, host_words, 1));
    proxy.serve();
    ensure(ring.wait(ticket).status < 0, || {
        String::from("host memory was used at level 3")
    })?;
    // The targets too: this window is on the device, another on the host.
    let host = Window::allocate(context.job, 256, 8)?;
    host.lock_all(Assertion::empty())?;
    let both = [window, &host];
    window.lock_all(Assertion::empty())?;
    let mut proxy = Proxy::new(ring, devices, &both, Level::DeviceOnDevice)?;
    proxy.skip(10);
    for kind in [
        CommandKind::Put,
        CommandKind::FetchOp,
        CommandKind::CompareSwap,
    ] {
        for (index, taken) in [(0, true), (1, false)] {
            let ticket = ring.submit(&Command {
                window: index,
                ..to.command(kind, 4, device_words, 1)
            });
            proxy.serve();
            let status = ring.wait(ticket).status;
            ensure((status == 0) == taken, || {
                format!("{kind:?} on window {index} answered {status} at level 3")
            })?;
        }
    }
    window.unlock_all()?;
    host.unlock_all()?;
    context.meet()?;
    Ok(host.free()?)
}
