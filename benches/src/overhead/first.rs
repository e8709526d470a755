//! The first put to a peer, which makes the connection, by raw calls and through the transport: microseconds until
//! completion, one line each in the format of `rma_bench`.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use host_stub::job::Job;
use host_stub::loader::UNREPORTED;
use plugin_api::Status;

use crate::STOP;
use crate::raw::{Raw, Target};

/// The side that goes first.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum First {
    Raw,
    Transport,
}

/// The address of the other rank, for both sides; not connected yet.
pub(crate) struct Stranger {
    pub(crate) rank: u32,
    /// For the raw side: the endpoint's name, and the memory's address and key.
    pub(crate) name: Vec<u8>,
    pub(crate) address: u64,
    pub(crate) key: u64,
    /// For the transport.
    pub(crate) handle: Vec<u64>,
    pub(crate) remote: u64,
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Rank 0 puts from `local`; rank 1 makes progress for both sides until the word at `STOP` changes.
pub(crate) fn run(
    first: First,
    job: &Job,
    raw: &mut Raw,
    stranger: &Stranger,
    local: *mut u8,
) -> Result<(), String> {
    // SAFETY: the word is inside the buffer; peers write it, so the read is volatile.
    let word = unsafe { local.add(STOP) }.cast::<u64>();
    if job.rank() > 0 {
        let begin = Instant::now();
        // SAFETY: `word` lies inside the buffer.
        while unsafe { word.read_volatile() } == 0 {
            job.transport().progress();
            raw.poll()?;
            if begin.elapsed() > PATIENCE {
                return Err("rank 0 does not put".into());
            }
        }
        return Ok(());
    }
    for turn in [false, true] {
        let begin = Instant::now();
        let name = if (first == First::Raw) == turn {
            put(job, stranger, local, 0)?;
            "first_put"
        } else {
            let target = Target {
                peer: raw.connect(&stranger.name)?,
                address: stranger.address,
                key: stranger.key,
            };
            raw.put(target, local, 8)?;
            raw.drain()?;
            "first_put_raw"
        };
        println!("{name} 8 1 {:.3} us", begin.elapsed().as_secs_f64() * 1e6);
    }
    // SAFETY: the word is inside the buffer, which no other code reads now.
    unsafe { word.write(1) };
    put(job, stranger, word.cast(), STOP as u64)
}

/// Puts 8 bytes through the transport, and waits for the completion.
fn put(job: &Job, stranger: &Stranger, from: *mut u8, offset: u64) -> Result<(), String> {
    let transport = job.transport();
    let peer = job.endpoint(stranger.rank).map_err(|e| e.to_string())?;
    let (handle, to) = (stranger.handle.as_ptr().cast(), stranger.remote + offset);
    let begin = Instant::now();
    loop {
        // SAFETY: the peer is connected, and both buffers live to the end of the process.
        let status = unsafe {
            transport.put(
                peer,
                (from, std::ptr::null_mut()),
                (to, handle),
                8,
                UNREPORTED,
            )
        };
        match status {
            Status::SUCCESS => break,
            again if again.is_again() && begin.elapsed() < PATIENCE => transport.progress(),
            other => return Err(format!("the transport answered {other}")),
        };
    }
    match transport.flush(Some(peer)) {
        Status::SUCCESS => Ok(()),
        status => Err(format!("a flush of the transport answered {status}")),
    }
}
