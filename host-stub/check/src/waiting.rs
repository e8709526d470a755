//! Waiting in the mode of this run: completion of requests, and threads that wait for each other's
//! progress.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plugin_api::Datatype;

use super::case::{Case, Context, Failure, Outcome, ensure};
use host_stub::crt::{self, AttachError, Cond, Misuse, Mode};
use host_stub::win::{Assertion, Info, Layout, Request, TableChoice, WinError, Window};

mod collectives;
mod serving;

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("crt/mode", mode),
        Case::new("crt/wait", wait),
        Case::new("crt/wait_all", wait_all),
        Case::new("crt/wait_any", wait_any),
        Case::new("crt/conditions", conditions),
        Case::new("crt/misuse", misuse),
        Case::new("crt/detached", detached),
        Case::new("crt/threads", threads),
        Case::new("crt/signals", signals),
    ];
    cases.extend(collectives::cases());
    cases.extend(serving::cases());
    cases
}

/// A window over the transport, with an open epoch to all ranks.
struct Open(Window);

impl Open {
    fn new(context: &Context<'_>, len: usize) -> Result<Open, Failure> {
        let info = Info::new().with_table(TableChoice::Btl);
        let window = Window::allocate_with(context.job, len, 1, &info)?;
        window.lock_all(Assertion::empty())?;
        Ok(Open(window))
    }

    fn close(self, context: &Context<'_>) -> Outcome {
        self.0.unlock_all()?;
        context.meet()?;
        Ok(self.0.free()?)
    }

    fn put(&self, from: &[u8], rank: usize, at: usize) -> Result<Request<'_>, Failure> {
        let row = Layout::contiguous(Datatype::Uint8, from.len());
        let target = row.at(rank, at as u64);
        // SAFETY: the callers keep the bytes until they have waited for the request.
        Ok(unsafe { self.0.rput(from.as_ptr(), &row, target) }?)
    }

    fn get(
        &self,
        into: *mut u8,
        len: usize,
        rank: usize,
        at: usize,
    ) -> Result<Request<'_>, Failure> {
        let row = Layout::contiguous(Datatype::Uint8, len);
        let target = row.at(rank, at as u64);
        // SAFETY: as in `put`.
        Ok(unsafe { self.0.rget(into, &row, target) }?)
    }
}

const COUNT: usize = 200;
const LEN: usize = 16;

/// Puts each part of this rank's data to the next rank, ends the requests by `end`, then gets all
/// parts back and ends these requests by `end`, too.
fn there_and_back<'c>(
    context: &Context<'c>,
    mut end: impl FnMut(Vec<Request<'_>>) -> Outcome,
) -> Outcome {
    let window = Open::new(context, context.size * COUNT * LEN)?;
    let sent = context.of_rank(context.rank).bytes(COUNT * LEN);
    let place = context.rank * COUNT * LEN;
    let to = context.next();
    let puts = sent
        .chunks(LEN)
        .enumerate()
        .map(|(index, part)| window.put(part, to, place + index * LEN))
        .collect::<Result<_, _>>()?;
    end(puts)?;
    let mut back = vec![0u8; COUNT * LEN];
    let into = back.as_mut_ptr();
    let gets = (0..COUNT)
        .map(|index| {
            let at = index * LEN;
            window.get(into.wrapping_add(at), LEN, to, place + at)
        })
        .collect::<Result<_, _>>()?;
    end(gets)?;
    super::case::same("read back", &back, &sent)?;
    window.close(context)
}

/// The mode is the chosen one, or thread instead of task, because this program gives no hooks. The
/// mode does not change.
fn mode(context: &Context<'_>) -> Outcome {
    let runtime = context.job.runtime();
    let chosen = std::env::var(crt::EXTERNAL_ENV)
        .ok()
        .and_then(|name| Mode::from_name(&name));
    let mode = runtime.mode();
    let kept = chosen.map(|chosen| chosen.min(Mode::Thread));
    ensure(kept.is_none_or(|kept| kept == mode), || {
        format!("{mode:?} instead of {chosen:?}")
    })?;
    for other in [Mode::Master, Mode::Thread, Mode::Task] {
        ensure(!crt::set_external(other), || {
            format!("{other:?} was taken after init")
        })?;
    }
    ensure(crt::external() == mode, || "the mode changed".to_owned())?;
    ensure(
        chosen != Some(Mode::Task)
            || runtime.engine().has_progress_thread()
            || progress_thread_is_off(context),
        || "no progress thread where task mode was asked for".to_owned(),
    )
}

fn progress_thread_is_off(context: &Context<'_>) -> bool {
    let value = context.job.params().value("host_progress_thread");
    value.and_then(|value| value.as_int()) == Some(0)
}

fn wait(context: &Context<'_>) -> Outcome {
    there_and_back(context, |requests| {
        for request in requests {
            request.wait()?;
        }
        Ok(())
    })
}

fn wait_all(context: &Context<'_>) -> Outcome {
    there_and_back(context, |requests| Ok(Request::wait_all(requests)?))
}

fn wait_any(context: &Context<'_>) -> Outcome {
    there_and_back(context, |mut requests| {
        let mut ended = 0;
        while let Some((index, outcome)) = Request::wait_any(&mut requests) {
            outcome?;
            ended += 1;
            drop(requests.swap_remove(index));
        }
        ensure(ended == COUNT, || format!("{ended} of {COUNT} ended"))
    })?;
    let window = Open::new(context, LEN)?;
    let mut bytes = [0u8; 1];
    let into = bytes.as_mut_ptr();
    // Ended requests keep their index, and are not returned again; operations that send nothing end,
    // too.
    let mut requests = Vec::new();
    for len in [1, 0, 1, 0] {
        requests.push(window.get(into, len, context.next(), 0)?);
    }
    while !requests[0].test()? {}
    let mut given: Vec<u8> = Vec::new();
    while let Some((index, outcome)) = Request::wait_any(&mut requests) {
        outcome?;
        given.push(index as u8);
        ensure(given.len() <= requests.len(), || format!("{given:?}"))?;
    }
    given.sort_unstable();
    super::case::same("which were given", &given, &[1, 2, 3])?;
    drop(requests);
    window.close(context)
}

/// A condition attached to a request is signalled once, before the wait or during it.
fn conditions(context: &Context<'_>) -> Outcome {
    there_and_back(context, |requests| {
        let cond = Cond::new();
        for mut request in requests {
            // SAFETY: a wait on the condition ends before the condition is dropped.
            unsafe { crt::attach(&request, &cond) }?;
            crt::wait(&cond)?;
            ensure(request.test()?, || "signalled before its end".to_owned())?;
        }
        ensure(cond.is_on() && cond.destroy().is_ok(), || {
            "the condition is not as it was".to_owned()
        })
    })
}

fn misuse(context: &Context<'_>) -> Outcome {
    let cond = Cond::new();
    crt::signal(&cond)?;
    ensure(crt::signal(&cond) == Err(Misuse::TwoSignals), || {
        "two signals in a row".to_owned()
    })?;
    crt::wait(&cond)?;
    cond.destroy()?;
    ensure(crt::wait(&cond) == Err(Misuse::Destroyed), || {
        "a wait of a destroyed condition".to_owned()
    })?;
    // A request signals one condition; the second is refused and may be freed.
    let window = Open::new(context, LEN)?;
    let (first, second) = (Cond::new(), Cond::new());
    let mut byte = [0u8; 1];
    let mut request = window.get(byte.as_mut_ptr(), 1, context.next(), 0)?;
    // SAFETY: a wait below ends before the condition is dropped.
    unsafe { crt::attach(&request, &first) }?;
    // SAFETY: the call is refused, or signals at once because the request is complete.
    match unsafe { crt::attach(&request, &second) } {
        Err(AttachError::Request(refused)) if matches!(*refused, WinError::Taken) => {
            second.destroy()?
        }
        Ok(()) => crt::wait(&second)?,
        Err(other) => return Err(other.into()),
    }
    ensure(first.destroy() != Ok(()) || request.test()?, || {
        "a condition went while it was attached".to_owned()
    })?;
    if crt::wait(&first).is_err() {
        first.renew()?;
    }
    request.wait()?;
    window.close(context)
}

unsafe extern "C" fn count_down(data: *mut std::ffi::c_void, status: i32) {
    // SAFETY: `detached` keeps the counter until it is zero.
    let open = unsafe { &*data.cast::<AtomicUsize>() };
    if status == 0 {
        open.fetch_sub(1, Ordering::Release);
    }
}

/// Detached requests.
fn detached(context: &Context<'_>) -> Outcome {
    there_and_back(context, |requests| {
        let open = AtomicUsize::new(requests.len());
        let data = (&raw const open).cast_mut().cast();
        for request in requests {
            // SAFETY: window, buffers and counter stay until all are complete.
            let detached = unsafe { request.detach(count_down, data) };
            detached.map_err(|(_, error)| error)?;
        }
        let engine = context.job.runtime().engine();
        while open.load(Ordering::Acquire) > 0 {
            if engine.has_progress_thread() {
                std::thread::sleep(Duration::from_micros(50));
            } else {
                engine.progress();
            }
        }
        Ok(())
    })
}

/// Threads that wait for their own requests make progress for the requests of others.
fn threads(context: &Context<'_>) -> Outcome {
    const THREADS: usize = 4;
    const ROUNDS: usize = 50;
    let mode = context.job.runtime().mode();
    if mode == Mode::Master || context.job.runtime().provided() < crt::Level::Multiple {
        return there_and_back(context, |requests| Ok(Request::wait_all(requests)?));
    }
    let window = Open::new(context, context.size * THREADS * LEN)?;
    let to = context.next();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let window = &window;
                scope.spawn(move || -> Outcome {
                    let place = (context.rank * THREADS + thread) * LEN;
                    for round in 0..ROUNDS {
                        let sent = [(round * THREADS + thread) as u8; LEN];
                        let mut back = [0u8; LEN];
                        window.put(&sent, to, place)?.wait()?;
                        let get = window.get(back.as_mut_ptr(), LEN, to, place)?;
                        match round % 2 {
                            0 => get.wait()?,
                            _ => {
                                let (cond, mut get) = (Cond::new(), get);
                                // SAFETY: a wait on the condition ends before the condition is
                                // dropped.
                                unsafe { crt::attach(&get, &cond) }?;
                                crt::wait(&cond)?;
                                ensure(get.test()?, || "signalled too soon".to_owned())?;
                            }
                        }
                        super::case::same("read back", &back, &sent)?;
                        if round % 8 == 0 {
                            window.0.flush_all()?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread
                .join()
                .map_err(|_| Failure::new("a thread panicked"))??;
        }
        Ok::<(), Failure>(())
    })?;
    window.close(context)
}

/// Two threads that signal each other, while neither communicates.
fn signals(context: &Context<'_>) -> Outcome {
    if context.job.runtime().mode() == Mode::Master {
        return Ok(());
    }
    let (ping, pong) = (Cond::new(), Cond::new());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| -> Outcome {
            for _ in 0..500 {
                crt::wait(&ping)?;
                crt::signal(&pong)?;
            }
            Ok(())
        });
        for _ in 0..500 {
            crt::signal(&ping)?;
            crt::wait(&pong)?;
        }
        other
            .join()
            .map_err(|_| Failure::new("a thread panicked"))?
    })
}
