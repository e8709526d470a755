//! Devices that write invalid commands, or stop: only their own commands fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::started::{To, free, run, words, zeroed};
use crate::case::{Context, Outcome, ensure};
use host_stub::device::{Command, CommandKind, Level, Ring};
use host_stub::win::{Proxy, Window};

/// Makes a ring that is served, a window, and the target of its commands.
fn ring(
    context: &Context<'_>,
    window: &Arc<Window>,
) -> Result<(Arc<Ring>, Proxy, To), crate::case::Failure> {
    let ring = Arc::new(Ring::new(4));
    let proxy = Proxy::new(context.job, &ring, Level::DeviceOnBoth)?;
    let to = To {
        window: proxy.add_window(Arc::clone(window))?,
        rank: context.next(),
    };
    Ok((ring, proxy, to))
}

/// Commands with an invalid value in each field: each is answered with an error, and has no effect.
pub(super) fn commands(context: &Context<'_>) -> Outcome {
    let window = zeroed(context)?;
    let (ring, proxy, to) = ring(context, &window)?;
    let of_the_host = [7u64; 4];
    let local = of_the_host.as_ptr() as u64;
    let put = to.command(CommandKind::Put, 0, local, 4);
    let update = to.command(CommandKind::Accumulate, 0, local, 4);
    let fetch = to.command(CommandKind::FetchOp, 0, 0, 1);
    let swap = to.command(CommandKind::CompareSwap, 0, 0, 1);
    let (most, word) = (u32::MAX >> 8, u64::MAX);
    let wrong = [
        Command { kind: 0, ..put },
        Command {
            kind: u32::MAX >> 1,
            ..put
        },
        Command { window: 1, ..put },
        Command {
            window: u32::MAX,
            ..put
        },
        Command {
            target: context.size as u32,
            ..put
        },
        Command {
            target: u32::MAX,
            ..fetch
        },
        Command {
            target: u32::MAX,
            ..to.command(CommandKind::Flush, 0, 0, 0)
        },
        Command {
            displacement: 32,
            ..put
        },
        Command {
            displacement: word,
            ..put
        },
        Command {
            displacement: word,
            ..fetch
        },
        Command {
            displacement: 32,
            ..swap
        },
        Command { count: 33, ..put },
        Command { count: word, ..put },
        Command {
            count: word,
            ..update
        },
        Command { local: 0, ..put },
        Command {
            datatype: 10,
            ..put
        },
        Command {
            datatype: 0xff,
            ..swap
        },
        Command { op: 12, ..update },
        Command { op: most, ..fetch },
        // The operation cannot fetch, and is undefined on floating-point numbers.
        Command { op: 11, ..update },
        Command {
            datatype: 9,
            op: 9,
            ..fetch
        },
        Command {
            datatype: 8,
            ..swap
        },
    ];
    let answers = run(context, &ring, &wrong)?;
    for (command, answer) in wrong.iter().zip(answers) {
        ensure(answer == (-libc::EINVAL, 0), || {
            format!("{command:?} was answered {answer:?}")
        })?;
    }
    // No thread waits for the command: the next flush of its target reports the failure, once.
    let lost = Command {
        untracked: true,
        op: 12,
        ..update
    };
    let flush = to.command(CommandKind::Flush, 0, 0, 0);
    ring.submit(&lost);
    let answers = run(context, &ring, &[flush, flush])?;
    ensure(answers == [(-libc::EINVAL, 0), (0, 0)], || {
        format!("two flushes were answered {answers:?}")
    })?;
    let counts = ring.counts();
    ensure(counts == (1, wrong.len() as u64 + 2), || {
        format!("counted {counts:?}")
    })?;
    drop(proxy);
    window.unlock_all()?;
    context.meet()?;
    let found = words(&window, 32)?;
    ensure(found == [0; 32], || format!("the window holds {found:?}"))?;
    free(window)
}

/// A device that overwrites its ring, and one that dies with a command half written: the host or the
/// program closes the ring, waiters get an error, and another ring still works.
pub(super) fn rings(context: &Context<'_>) -> Outcome {
    let window = zeroed(context)?;
    let (broken, broken_proxy, to) = ring(context, &window)?;
    let (dead, dead_proxy, _) = ring(context, &window)?;
    let (sound, sound_proxy, _) = ring(context, &window)?;
    let flush = to.command(CommandKind::Flush, 0, 0, 0);
    // SAFETY: both words are in the ring's memory: the tickets, and the first slot's number after the head.
    let [ticket, number] = [(&dead, 0), (&broken, 128)]
        .map(|(ring, offset)| unsafe { AtomicU64::from_ptr(ring.memory().0.add(offset).cast()) });
    number.store(1 << 40, Ordering::Release);
    // A ticket is drawn, but no command follows.
    ticket.fetch_add(1, Ordering::Relaxed);
    let late = dead.submit(&flush);
    let answers = run(context, &sound, &[flush, flush])?;
    ensure(answers == [(0, 0); 2], || {
        format!("the sound ring answered {answers:?}")
    })?;
    let waits = |ring: &Ring, ticket| {
        std::thread::scope(|scope| scope.spawn(|| ring.wait(ticket)).join())
            .map_or(0, |completion| completion.status)
    };
    let closed = [&broken, &dead, &sound].map(|ring| ring.is_closed());
    ensure(closed == [true, false, false], || {
        format!("closed: {closed:?}")
    })?;
    let told = waits(&broken, broken.submit(&flush));
    drop(dead_proxy);
    let told = [told, waits(&dead, late), waits(&dead, dead.submit(&flush))];
    ensure(told == [-libc::ECANCELED; 3], || {
        format!("answered {told:?}")
    })?;
    drop((broken_proxy, sound_proxy));
    ensure(sound.is_closed(), || {
        String::from("a ring outlives its proxy")
    })?;
    window.unlock_all()?;
    context.meet()?;
    free(window)
}
