//! A test, and the context that it gets.

use std::any::Any;
use std::sync::Arc;

use super::random::Random;
use host_stub::job::{Job, JobError};
use host_stub::loader::TransportError;
use host_stub::win::{FreeError, Info, WinError, WinResult, Window};
use test_skips::Lacking;

/// The reason why a test failed on this rank.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) detail: String,
    /// Whether a call reported a failure of the transport or the job. False if a result differs
    /// from the model.
    pub(super) reported: bool,
}

impl Failure {
    pub(super) fn new(detail: impl Into<String>) -> Failure {
        Failure {
            detail: detail.into(),
            reported: false,
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        let any: &dyn Any = &error;
        let called = any.downcast_ref::<Box<WinError>>().map(|error| &**error);
        let freed = any.downcast_ref::<FreeError>().map(|freed| &*freed.error);
        let reported = any.is::<JobError>()
            || any.is::<TransportError>()
            || called.or(freed).is_some_and(|error| {
                matches!(
                    error,
                    WinError::Transport { .. }
                        | WinError::Registration { .. }
                        | WinError::Job { .. }
                        | WinError::Creation { .. }
                )
            });
        Failure {
            detail: error.to_string(),
            reported,
        }
    }
}

/// The result of a test on one rank.
pub(super) type Outcome = Result<(), Failure>;

/// A test, which all ranks run together.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) run: Box<dyn Fn(&Context<'_>) -> Outcome>,
}

impl Case {
    pub(super) fn new(
        name: impl Into<String>,
        run: impl Fn(&Context<'_>) -> Outcome + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// Bytes of the common window that one origin may use at a target.
pub(super) const REGION: usize = 8 << 10;

/// The context that a test gets.
pub(super) struct Context<'a> {
    pub(super) job: &'a Arc<Job>,
    /// A window that tests share: [`REGION`] bytes per rank at every rank, displacement unit 1.
    pub(super) window: &'a Window,
    /// The hints for windows of this test.
    pub(super) info: &'a Info,
    /// Whether buffers are on a device.
    pub(super) on_device: bool,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) seed: u64,
    pub(super) threads: usize,
    pub(super) name: &'a str,
}

impl Context<'_> {
    /// Makes a window with its own memory, with the hints of this test's pass.
    pub(super) fn allocate(&self, len: usize, unit: u32) -> WinResult<Window> {
        Window::allocate_with(self.job, len, unit, self.info)
    }

    /// Makes a window without memory, with the hints of this test's pass.
    pub(super) fn dynamic(&self) -> WinResult<Window> {
        Window::dynamic_with(self.job, self.info)
    }

    /// The stream that all ranks share in this test.
    pub(super) fn common(&self) -> Random {
        Random::new(self.seed, self.name, u64::MAX)
    }

    /// The stream of one rank in this test, which every rank can compute.
    pub(super) fn of_rank(&self, rank: usize) -> Random {
        Random::new(self.seed, self.name, rank as u64)
    }

    /// The rank that this one writes to in most tests.
    pub(super) fn next(&self) -> usize {
        (self.rank + 1) % self.size
    }

    /// The rank whose next rank is this one.
    pub(super) fn previous(&self) -> usize {
        (self.rank + self.size - 1) % self.size
    }

    /// The two targets that a rank uses in most tests: the next rank and itself.
    pub(super) fn targets(&self, rank: usize) -> Vec<usize> {
        let next = (rank + 1) % self.size;
        if next == rank {
            vec![rank]
        } else {
            vec![next, rank]
        }
    }

    /// The beginning of an origin's bytes in a target's part of the common window.
    pub(super) fn region(&self, origin: usize) -> usize {
        origin * REGION
    }

    /// Waits until every rank is here, out of band.
    pub(super) fn meet(&self) -> Outcome {
        Ok(self.job.barrier()?)
    }

    /// The initial bytes of a rank's part of a window of `len` bytes in this test.
    pub(super) fn initial(&self, rank: usize, len: usize) -> Vec<u8> {
        Random::new(self.seed, self.name, 1 << 32 | rank as u64).bytes(len)
    }

    /// Fills this rank's part of a window with [`initial`](Self::initial), and returns it.
    pub(super) fn fill(&self, window: &Window) -> Result<Vec<u8>, Failure> {
        let bytes = self.initial(self.rank, window.len());
        // SAFETY: this rank has one thread here, and no operation of it is under way on the window.
        unsafe { window.write_local(0, &bytes) }?;
        Ok(bytes)
    }

    /// Fills this rank's part of the common window with zeros.
    pub(super) fn clear(&self) -> Outcome {
        let zeros = vec![0; self.window.len()];
        // SAFETY: as in `fill`.
        Ok(unsafe { self.window.write_local(0, &zeros) }?)
    }

    /// Compares this rank's part of a window with the model.
    pub(super) fn verify(&self, window: &Window, wanted: &[u8]) -> Outcome {
        verify_at(window, 0, "window", wanted)
    }

    /// The values that all ranks give, in the order of the ranks; collective.
    pub(super) fn gather(&self, mine: &[i64]) -> Result<Vec<i64>, Failure> {
        let sent: Vec<u8> = mine.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let parts = self.job.allgather(&sent)?;
        let words = parts.iter().flat_map(|part| part.as_chunks::<8>().0);
        Ok(words.copied().map(i64::from_ne_bytes).collect())
    }
}

/// Compares bytes of this rank's part of a window with the model.
pub(super) fn verify_at(window: &Window, offset: usize, what: &str, wanted: &[u8]) -> Outcome {
    let mut found = vec![0; wanted.len()];
    window.read_local(offset, &mut found)?;
    same(what, &found, wanted)
}

/// Prints why a test, or the rest of it, is skipped in this run.
pub(super) fn say(context: &Context<'_>, why: &str) -> Outcome {
    if context.rank != 0 {
        return Ok(());
    }
    skip(context, Lacking::InThisRun, why)
}

/// As [`say`], if the machine lacks a feature. The test fails if all tests are required.
pub(super) fn skip(context: &Context<'_>, lacking: Lacking, why: &str) -> Outcome {
    let why = format!("{}: {why}", context.name);
    test_skips::skip(lacking, why).map_err(Failure::new)
}

/// Compares bytes; the error has the first difference and the number of differences.
pub(super) fn same(what: &str, found: &[u8], wanted: &[u8]) -> Outcome {
    if found == wanted {
        return Ok(());
    }
    if found.len() != wanted.len() {
        return Err(Failure::new(format!(
            "{what}: {} B, wanted {} B",
            found.len(),
            wanted.len()
        )));
    }
    let differing = found.iter().zip(wanted).filter(|(a, b)| a != b).count();
    let at = found
        .iter()
        .zip(wanted)
        .position(|(a, b)| a != b)
        .unwrap_or(0);
    let end = (at + 8).min(found.len());
    Err(Failure::new(format!(
        "{what}: {differing} of {} B differ, the first at {at}: {:02x?}, wanted {:02x?}",
        found.len(),
        &found[at..end],
        &wanted[at..end]
    )))
}

/// Fails unless a condition holds.
pub(super) fn ensure(holds: bool, detail: impl FnOnce() -> String) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(Failure::new(detail()))
    }
}
