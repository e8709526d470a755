//! One-sided communication in safe Rust: typed windows and epochs as scopes, and collectives of slices.
//!
//! A [`Window`] holds a number of elements at every rank. Communication happens inside of an epoch, which is a
//! function call with a closure: when the call returns, everything that the closure began is complete, and its
//! buffers may be used again.
//!
//! ```no_run
//! use host_stub::rma::Window;
//! use host_stub::{Job, JobOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = Job::init(JobOptions::default())?;
//! let mut window = Window::<u64>::allocate(&job, 1)?;
//! let next = (job.rank() as usize + 1) % job.size() as usize;
//! let word = [100 + u64::from(job.rank())];
//! window.fence(|epoch| epoch.put(&word, next, 0))?;
//! let mut found = [0];
//! window.read(0, &mut found)?;
//! println!("rank {} has {}", job.rank(), found[0]);
//! window.free()?;
//! job.finalize()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Why this is safe
//!
//! - *Buffers outlive operations.* A buffer is borrowed for the whole epoch. The buffer can be neither changed nor freed
//!   before the epoch's call returns, also if the closure returns an error or panics. If the epoch cannot be
//!   completed, the call still waits until nothing uses the buffers: the transport reports every operation, those to
//!   lost ranks as failed.
//! - *No code holds a reference to window memory*, because other ranks may write it at any time. Elements are copied
//!   in and out, and are plain data ([`bytemuck::Pod`]), whose bytes may have any value.
//! - *Threads of this process do not race.* [`Window::read`] and [`Window::write`] need exclusive access to the
//!   window, so that no epoch is open. Inside an epoch a rank reaches its own memory as any other, by [`Epoch::get`].
//!   An epoch stays on its thread, and no two that reach the same rank are open in a process at once.
//!
//! If two ranks access one element at the same time, MPI defines the result, which may be undefined. Such an access
//! is never undefined behaviour of Rust.
//!
//! The windows below ([`crate::win`]) have everything else: layouts with gaps, memory of the caller or of devices, and
//! epochs of groups. The communication calls of these windows are unsafe.

mod collective;
mod element;
mod epoch;
mod transfer;
mod window;

pub use crate::win::{LockKind, Op, WinError, WinResult, unboxed};
pub use collective::SliceCollectives;
pub use element::Element;
pub use epoch::Epoch;
pub use transfer::Transfer;
pub use window::Window;
