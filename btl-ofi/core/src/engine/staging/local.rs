//! Operations between local device memory and peer memory that the provider reaches. Data goes in
//! fragments through bounce buffers.

use std::ptr;

use plugin_api::{AtomicOp, Status};

use super::staged::{Staged, Work};
use super::wire::{self, Stand, Start, plain, stand};
use crate::engine::transport::Transport;
use crate::hmem::bounce::{Bounce, Pool};
use crate::hmem::mailbox::FRAGMENT;
use crate::mem::copy_error::CopyError;
use crate::op::request::{Action, NOWHERE, Op};

/// Maximum fragments of one operation in progress: one is on the wire while the next is copied. With more, the copied
/// data leaves the core's cache before it is sent (measured over tcp).
const DEPTH: usize = 2;

/// A fragment in a bounce buffer.
struct Fragment {
    offset: usize,
    len: usize,
    bounce: Bounce,
    /// Receives the result of a fetching atomic.
    result: Option<Bounce>,
    posted: bool,
    /// Whether the last step has begun, which copies to the device.
    writes: bool,
}

/// Progress of a fragment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Waits,
    Over,
    /// The transfer is over, but the provider may still use the buffers.
    Lost,
}

impl Fragment {
    /// The buffer that holds the fetched data for the last step.
    fn fetched(&mut self) -> &mut Bounce {
        self.result.as_mut().unwrap_or(&mut self.bounce)
    }

    /// The result of the latest copy; `None` while the copy is in progress.
    fn copied(&mut self) -> Option<Result<(), CopyError>> {
        match self.writes {
            true => self.fetched().copied(),
            false => self.bounce.copied(),
        }
    }

    fn end(self, step: Step, pool: &mut Pool) {
        for bounce in [Some(self.bounce), self.result].into_iter().flatten() {
            match step {
                Step::Lost => pool.abandon(bounce),
                _ => pool.give_back(bounce),
            }
        }
    }
}

/// One operation.
pub(super) struct Local {
    pub(super) op: usize,
    fragments: Vec<Fragment>,
}

impl Local {
    pub(super) fn new(op: usize) -> Local {
        Local {
            op,
            fragments: Vec::new(),
        }
    }

    /// Advances the operation as far as possible now. Returns the number of steps.
    pub(super) fn advance(&mut self, t: &Transport, work: &mut Work) -> usize {
        let Work { ops, pool, .. } = work;
        let Some(op) = ops.at(self.op) else { return 0 };
        // SAFETY: endpoints live as long as operations to them.
        if let Some(status) = unsafe { op.endpoint.as_ref() }.failure() {
            op.fail(status, || String::from("its peer is gone"));
        }
        let mut steps = 0;
        let mut index = 0;
        while let Some(fragment) = self.fragments.get_mut(index) {
            match step(t, op, fragment) {
                Step::Waits => index += 1,
                over => {
                    self.fragments.swap_remove(index).end(over, pool);
                    op.live -= 1;
                    steps += 1;
                    if op.status.is_ok() {
                        // SAFETY: endpoints live as long as operations to them.
                        unsafe { op.endpoint.as_ref() }.part_completed();
                    }
                }
            }
        }
        steps + self.begin(t, op, pool)
    }

    fn begin(&mut self, t: &Transport, op: &mut Staged, pool: &mut Pool) -> usize {
        // SAFETY: endpoints live as long as operations to them.
        let best = wire::best_fragment(unsafe { op.endpoint.as_ref() });
        let most = match op.action {
            Action::Atomic { .. } => FRAGMENT,
            _ => best,
        };
        let most = most.min(t.setup.put_limit).min(t.setup.get_limit);
        let mut steps = 0;
        while op.next < op.size && self.fragments.len() < DEPTH {
            let len = op.fragment(most);
            if matches!(op.action, Action::Atomic { .. }) && len < op.size {
                let size = op.size;
                op.fail(Status::VALUE_OUT_OF_BOUNDS, || {
                    format!(
                        "an atomic on {size} bytes does not fit a bounce buffer of {most} bytes"
                    )
                });
                break;
            }
            let Some(fragment) = lend(op, len, pool) else {
                break;
            };
            let mut fragment = fragment;
            op.next += len;
            if !matches!(op.action, Action::Get) {
                let into = fragment.bounce.pointer();
                // SAFETY: the source is valid for the operation's size, and the buffer has room for a fragment. Both
                // stay until the copy is over, because the fragment does.
                match unsafe { op.local.start_read(fragment.offset, into, len) } {
                    Ok(copy) => fragment.bounce.keep_for(copy),
                    Err(error) => {
                        op.failed_copy(error);
                        fragment.end(Step::Over, pool);
                        break;
                    }
                }
            }
            steps += 1;
            match step(t, op, &mut fragment) {
                Step::Waits => {
                    op.live += 1;
                    self.fragments.push(fragment);
                }
                // The buffer is returned immediately, so that the next fragment uses the same buffer while it
                // is in the cache.
                over => fragment.end(over, pool),
            }
        }
        steps
    }
}

fn lend(op: &Staged, len: usize, pool: &mut Pool) -> Option<Fragment> {
    let bounce = pool.lend(op.endpoint)?;
    let result = match op.action {
        action if action.fetches() => match pool.lend(op.endpoint) {
            None => {
                pool.give_back(bounce);
                return None;
            }
            lent => lent,
        },
        _ => None,
    };
    Some(Fragment {
        offset: op.next,
        len,
        bounce,
        result,
        posted: false,
        writes: false,
    })
}

fn step(t: &Transport, op: &mut Staged, fragment: &mut Fragment) -> Step {
    let Some(copied) = fragment.copied() else {
        // SAFETY: endpoints live as long as operations to them.
        unsafe { op.endpoint.as_ref() }.waits_for_copy();
        return Step::Waits;
    };
    if let Err(error) = copied {
        op.failed_copy(error);
    }
    if fragment.writes {
        return Step::Over;
    }
    if !fragment.posted {
        if !op.status.is_ok() {
            return Step::Over;
        }
        // SAFETY: the bounce buffers live until the flag is no longer pending.
        match unsafe { post(t, op, fragment) } {
            Start::Started => fragment.posted = true,
            Start::Later => return Step::Waits,
            Start::Failed(status) => {
                op.fail(status, || String::from("the transfer was refused"));
                return Step::Over;
            }
        }
    }
    match stand(fragment.bounce.flag()) {
        Stand::Pending => Step::Waits,
        Stand::Failed(status) => {
            op.fail(status, || String::from("the transfer failed"));
            // SAFETY: endpoints live as long as operations to them.
            match unsafe { op.endpoint.as_ref() }.failure() {
                Some(_) => Step::Lost,
                None => Step::Over,
            }
        }
        // The operation failed, so nothing more is written for its caller.
        Stand::Done if !op.status.is_ok() => Step::Over,
        Stand::Done => {
            let (offset, len) = (fragment.offset, fragment.len);
            let buffer = fragment.fetched();
            let from = buffer.pointer();
            // SAFETY: the buffer holds the fragment; the destination is valid for the operation's size. Both stay
            // until the copy is over, because the fragment does.
            let started = unsafe {
                match op.action {
                    Action::Get => op.local.start_write(offset, from, len),
                    action if action.fetches() => op.result.start_write(0, from, len),
                    _ => Ok(None),
                }
            };
            match started {
                Ok(None) => Step::Over,
                Ok(copy) => {
                    buffer.keep_for(copy);
                    fragment.writes = true;
                    Step::Waits
                }
                Err(error) => {
                    op.failed_copy(error);
                    Step::Over
                }
            }
        }
    }
}

/// Posts a fragment's transfer.
///
/// # Safety
/// The fragment's buffers live until its flag is no longer pending.
unsafe fn post(t: &Transport, op: &Staged, fragment: &Fragment) -> Start {
    let (buffer, flag) = (fragment.bounce.pointer(), fragment.bounce.flag());
    let at = op.address.wrapping_add(fragment.offset as u64);
    // SAFETY: the caller guarantees that the fragment's buffers live until its flag is set; endpoints live as
    // long as operations to them.
    unsafe {
        match op.action {
            Action::Put => {
                let put = Op::put(&op.remote, at, plain(buffer), fragment.len);
                t.wire(op.endpoint, put, flag)
            }
            Action::Get => {
                let get = Op::get(&op.remote, at, plain(buffer), fragment.len);
                t.wire(op.endpoint, get, flag)
            }
            Action::Atomic {
                kind,
                datatype,
                op: code,
                compare,
            } => wire::start(flag, |told| {
                let target = (&op.remote, at);
                let result = fragment.result.as_ref();
                let results = result.map(|r| plain(r.pointer()));
                let request = if code == AtomicOp::Cswap {
                    let mut value = 0u64;
                    ptr::copy_nonoverlapping(buffer, (&raw mut value).cast(), fragment.len.min(8));
                    let result = results.unwrap_or(NOWHERE);
                    Op::swap(datatype, target, (compare, value), result)
                } else {
                    let count = fragment.len / datatype.size();
                    Op::atomic(
                        (kind, datatype, code),
                        target,
                        count,
                        plain(buffer),
                        results,
                    )
                };
                t.submit(op.endpoint, &request.with_completion(Some(told)))
            }),
        }
    }
}
