//! Buffers with some runs on the host and some on a device: absolute layouts.

use plugin_api::Datatype;

use crate::buffer::DeviceBuffer;
use crate::case::{Context, Outcome, ensure, same};
use host_stub::device::DeviceError;
use host_stub::win::{Assertion, Layout, Op, Run, WinError, unboxed};

/// Elements of a run, and runs of a buffer: too many for one call of a copy function.
const RUN: usize = 3;
const RUNS: usize = 300;
const WORDS: usize = RUN * RUNS;

/// A buffer with every second run on the host and the others on the device, with gaps everywhere.
struct Scattered {
    host: Vec<u64>,
    device: DeviceBuffer,
}

impl Scattered {
    fn new(context: &Context<'_>, turn: usize) -> Result<Scattered, crate::case::Failure> {
        Ok(Scattered {
            host: vec![0; 2 * WORDS],
            device: DeviceBuffer::new(context.job.devices(), 16 * WORDS, turn)?,
        })
    }

    fn layout(&mut self) -> Result<Layout, crate::case::Failure> {
        let base = self.host.as_mut_ptr();
        let run = |index: usize| -> Result<Run, DeviceError> {
            let pointer = match index % 2 {
                0 => base.wrapping_add(2 * RUN * index).cast(),
                _ => self.device.pointer(16 * RUN * index)?,
            };
            Ok(Run {
                pointer,
                length: RUN,
            })
        };
        let runs = (0..RUNS).map(run).collect::<Result<Vec<_>, _>>()?;
        Ok(Layout::absolute(Datatype::Uint64, &runs)?)
    }

    fn write(&mut self, words: &[u64]) -> Outcome {
        for (index, run) in words.chunks(RUN).enumerate() {
            match index % 2 {
                0 => self.host[2 * RUN * index..][..RUN].copy_from_slice(run),
                _ => self.device.write(16 * RUN * index, &bytes(run))?,
            }
        }
        Ok(())
    }

    /// The elements, and whether the gaps in the host's part are unchanged.
    fn read(&self) -> Result<(Vec<u8>, bool), crate::case::Failure> {
        let (mut all, mut gaps) = (Vec::new(), true);
        for index in 0..RUNS {
            let place = &self.host[2 * RUN * index..][..2 * RUN];
            let mut found = [0; 8 * RUN];
            match index % 2 {
                0 => found.copy_from_slice(&bytes(&place[..RUN])),
                _ => self.device.read(16 * RUN * index, &mut found)?,
            }
            gaps &= place[RUN..].iter().all(|word| *word == 0);
            all.extend(found);
        }
        Ok((all, gaps))
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub(super) fn transfers(context: &Context<'_>) -> Outcome {
    let window = context.allocate(3 * 8 * WORDS, 8)?;
    let words = |rank: usize| -> Vec<u64> {
        let bytes = context.of_rank(rank).bytes(8 * WORDS);
        bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect()
    };
    let mine = words(context.rank);
    let next = context.next();
    let there = Layout::contiguous(Datatype::Uint64, WORDS);
    let part = |index: usize| there.at(next, (index * WORDS) as u64);
    let null = std::ptr::null_mut();
    for turn in 0..2 {
        let (mut from, mut into) = (
            Scattered::new(context, turn)?,
            Scattered::new(context, turn)?,
        );
        from.write(&mine)?;
        let (gives, gets) = (from.layout()?, into.layout()?);
        window.lock_all(Assertion::empty())?;
        // SAFETY: the buffers live until the epoch has ended.
        unsafe {
            window.put(null, &gives, part(0))?;
            window.accumulate(null, &gives, part(1), Op::Replace)?;
            window.rput(null, &gives, part(2))?.wait()?;
            window.flush(next)?;
            for call in 0..3 {
                into.write(&vec![0; WORDS])?;
                match call {
                    0 => window.get(null, &gets, part(0))?,
                    1 => window.get_accumulate(null, &gets, null, &gets, part(1), Op::NoOp)?,
                    _ => window.rget(null, &gets, part(2))?.wait()?,
                }
                window.flush(next)?;
                let (found, gaps) = into.read()?;
                same(
                    &format!("what call {call} brought back"),
                    &found,
                    &bytes(&mine),
                )?;
                ensure(gaps, || format!("call {call} wrote between the runs"))?;
            }
        }
        window.unlock_all()?;
        context.meet()?;
        let mut found = vec![0; 3 * 8 * WORDS];
        window.read_local(0, &mut found)?;
        let before = words(context.previous());
        same("what was put here", &found, &bytes(&before).repeat(3))?;
        context.meet()?;
    }
    mistakes(context)?;
    Ok(window.free()?)
}

/// Calls that are refused before any memory is accessed.
fn mistakes(context: &Context<'_>) -> Outcome {
    let mut word = 0u64;
    let run = |pointer: *mut u8| Layout::absolute(Datatype::Uint64, &[Run { pointer, length: 1 }]);
    let here = (&raw mut word).cast::<u8>();
    let one = Layout::contiguous(Datatype::Uint64, 1);
    let (absolute, nowhere, marked) = (
        run(here)?,
        run(std::ptr::null_mut())?,
        run(here)?.on_device(),
    );
    let null = std::ptr::null();
    // Host memory at address 0, in the form of `encode_location`.
    let null_location = std::ptr::without_provenance(0xff << 56);
    let window = context.window;
    window.lock_all(Assertion::empty())?;
    for (what, origin, layout, there) in [
        (
            "an absolute layout with a pointer",
            here.cast_const(),
            &absolute,
            &one,
        ),
        ("a run at the null address", null, &nowhere, &one),
        (
            "the location of the null address",
            null_location,
            &one,
            &one,
        ),
        ("host memory as device memory", null, &marked, &one),
        (
            "an absolute layout at the target",
            here.cast_const(),
            &one,
            &absolute,
        ),
    ] {
        // SAFETY: refused.
        let put = unsafe { window.put(origin, layout, there.at(context.rank, 0)) };
        ensure(
            matches!(unboxed(&put), Err(WinError::BadArgument { .. })),
            || format!("{what} was taken: {put:?}"),
        )?;
    }
    Ok(window.unlock_all()?)
}
