//! Waiting for collectives: in the mode of this run, by a progress thread alone, by threads that wait
//! for windows at the same time, and in layers of the program.

use super::*;

use host_stub::coll::{CollRequest, Pending};
use host_stub::comm::{Comm, CommResult};
use host_stub::win::Op;

/// The tests of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("crt/collectives/alone", alone),
        Case::new("crt/collectives/layer", layer),
        Case::new("crt/collectives/threads", threads),
    ]
}

/// More than fits into a message, so that completion depends on answers of the other ranks.
const COUNT: usize = 5000;

/// Begins a sum over all ranks, of every element.
fn sum(comm: &Comm, send: &[u64], recv: &mut [u64]) -> CommResult<CollRequest> {
    let (from, into) = (send.as_ptr().cast(), recv.as_mut_ptr().cast());
    // SAFETY: the callers keep both buffers until the request has ended.
    unsafe { comm.iallreduce(from, into, send.len(), Datatype::Uint64, Op::Sum) }
}

fn is_sum(context: &Context<'_>, recv: &[u64], round: u64) -> Outcome {
    let ranks = context.size as u64;
    let wanted = ranks * round + ranks * (ranks - 1) / 2;
    ensure(recv.iter().all(|found| *found == wanted), || {
        format!("round {round}: {:?}... instead of {wanted}", &recv[..1])
    })
}

/// With a progress thread, collectives end although no rank makes a call. Without one, the test
/// checks nothing.
fn alone(context: &Context<'_>) -> Outcome {
    let comm = Comm::world(context.job)?.dup()?;
    let send = vec![7 + context.rank as u64; COUNT];
    let mut recv = vec![0; COUNT];
    let last = recv.as_mut_ptr().wrapping_add(COUNT - 1);
    let request = sum(&comm, &send, &mut recv)?;
    if context.job.runtime().engine().has_progress_thread() {
        // If no thread advances the collective, the test's time limit ends the test. SAFETY: the
        // pointer is to an element of the buffer, which the progress thread fills at the end.
        while unsafe { last.read_volatile() } == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    request.wait()?;
    is_sum(context, &recv, 7)?;
    Ok(comm.free()?)
}

/// A layer's collective that completes after a number of tests. Some of the tests wait themselves,
/// which no layer should do.
struct Slow {
    comm: Comm,
    questions: u32,
}

impl Pending for Slow {
    fn test(&mut self) -> CommResult<bool> {
        self.questions += 1;
        if self.questions == 20 {
            self.comm.ibarrier()?.wait()?;
        }
        if self.questions == 30 {
            let cond = Cond::new();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Longer than any wait spins.
                    std::thread::sleep(Duration::from_millis(5));
                    crt::signal(&cond)
                });
                // A wait on a new condition, which is signalled once.
                let _ = crt::wait(&cond);
            });
        }
        Ok(self.questions > 40)
    }
}

/// Collectives of layers: waited for in every mode, dropped, and tested.
fn layer(context: &Context<'_>) -> Outcome {
    let comm = Comm::world(context.job)?.dup()?;
    let begin = || {
        let its = comm.dup()?;
        let slow = Slow {
            comm: its.clone(),
            questions: 0,
        };
        let request = CollRequest::of_layer(&its, Box::new(slow));
        Ok::<_, Failure>((its, request))
    };
    let mut made = Vec::new();
    for round in 0..3 {
        let (its, request) = begin()?;
        made.push(its);
        match round {
            0 => request.wait()?,
            1 => drop(request),
            _ => {
                let mut request = request;
                while !request.test()? {}
            }
        }
    }
    for its in made {
        its.free()?;
    }
    Ok(comm.free()?)
}

/// Threads that wait for collectives, and threads that wait for a window. Each thread has its own
/// communicator, so the collectives use the node's shared memory, too.
fn threads(context: &Context<'_>) -> Outcome {
    const ROUNDS: u64 = 60;
    const THREADS: usize = 2;
    let world = Comm::world(context.job)?;
    let comms: Vec<Comm> = (0..THREADS)
        .map(|_| world.dup())
        .collect::<Result<_, _>>()?;
    let add = |comm: &Comm| -> Outcome {
        for round in 0..ROUNDS {
            let send = [round + context.rank as u64; 4];
            let mut recv = [0u64; 4];
            let (from, into) = (send.as_ptr().cast(), recv.as_mut_ptr().cast());
            // SAFETY: both buffers hold four elements.
            unsafe { comm.allreduce(from, into, 4, Datatype::Uint64, Op::Sum) }?;
            is_sum(context, &recv, round)?;
            if round.is_multiple_of(16) {
                comm.barrier()?;
            }
        }
        Ok(())
    };
    let runtime = context.job.runtime();
    if runtime.mode() == Mode::Master || runtime.provided() < crt::Level::Multiple {
        comms.iter().try_for_each(add)?;
    } else {
        let window = Open::new(context, context.size * LEN)?;
        let to = context.next();
        std::thread::scope(|scope| {
            let adding: Vec<_> = comms.iter().map(|comm| scope.spawn(|| add(comm))).collect();
            for round in 0..ROUNDS {
                let sent = [round as u8; LEN];
                let mut back = [0u8; LEN];
                window.put(&sent, to, context.rank * LEN)?.wait()?;
                window
                    .get(back.as_mut_ptr(), LEN, to, context.rank * LEN)?
                    .wait()?;
                super::super::case::same("read back", &back, &sent)?;
            }
            for thread in adding {
                thread
                    .join()
                    .map_err(|_| Failure::new("a thread panicked"))??;
            }
            Ok::<(), Failure>(())
        })?;
        window.close(context)?;
    }
    comms.into_iter().try_for_each(|comm| Ok(comm.free()?))
}
