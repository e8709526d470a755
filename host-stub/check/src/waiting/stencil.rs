//! The stencil of `tests/omp/stencil.c` in async Rust: blocks are futures, halos are awaited.

use super::*;

use std::cell::{Cell, RefCell};

const BLOCKS: usize = 4;
const CELLS: usize = 16;
const ROW: usize = BLOCKS * CELLS;
const STEPS: usize = 12;
/// Where a neighbour writes the step up to which its row may be read.
const OF_LEFT: usize = 2 * ROW * 8;
const OF_RIGHT: usize = OF_LEFT + 8;

fn next_value(before: i64, here: i64, after: i64) -> i64 {
    (before + 2 * here + after) % 1_000_003
}

fn first_value(at: usize) -> i64 {
    (at * at % 1009) as i64
}

fn cell(step: usize, at: usize) -> usize {
    ((step & 1) * ROW + at) * 8
}

struct Stencil<'a> {
    window: &'a Open,
    left: usize,
    right: usize,
    /// The newest halo of each side.
    halos: [Cell<i64>; 2],
    /// Futures that wait for each other's steps are polled again when one ends.
    steps: RefCell<Vec<Waker>>,
    /// By block: steps computed.
    done: [Cell<usize>; BLOCKS],
    /// By side: the step of the newest halo plus one.
    fetched: [Cell<usize>; 2],
}

impl Stencil<'_> {
    fn read(&self, offset: usize) -> Result<i64, Failure> {
        let mut bytes = [0; 8];
        self.window.0.read_local(offset, &mut bytes)?;
        Ok(i64::from_ne_bytes(bytes))
    }

    /// Waits until something on this rank is so.
    async fn until(&self, is: impl Fn() -> bool) {
        std::future::poll_fn(|context| {
            if is() {
                return Poll::Ready(());
            }
            self.steps.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn moved(&self) {
        self.steps.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Fetches the halos of one side, step by step.
    async fn side(&self, side: usize) -> Outcome {
        let (neighbour, word, end, theirs) = if side == 0 {
            (self.left, OF_LEFT, 0, ROW - 1)
        } else {
            (self.right, OF_RIGHT, BLOCKS - 1, 0)
        };
        let there = if side == 0 { OF_RIGHT } else { OF_LEFT };
        for step in 0..STEPS {
            self.until(|| self.done[end].get() >= step).await;
            let said = (step as i64 + 1).to_ne_bytes();
            self.window.put(&said, neighbour, there)?.await?;
            while self.read(word)? <= step as i64 {
                // A get that waits for the neighbour, where gets wait; then the others' turn.
                let mut byte = [0u8; 1];
                self.window.get(byte.as_mut_ptr(), 1, neighbour, 0)?.await?;
                self.window.0.sync()?;
                turn().await;
            }
            let mut halo = [0u8; 8];
            self.window
                .get(halo.as_mut_ptr(), 8, neighbour, cell(step, theirs))?
                .await?;
            self.until(|| self.done[end].get() >= step).await;
            self.halos[side].set(i64::from_ne_bytes(halo));
            self.fetched[side].set(step + 1);
            self.moved();
            self.until(|| self.done[end].get() > step).await;
        }
        Ok(())
    }

    /// Computes one block, step by step.
    async fn block(&self, block: usize) -> Outcome {
        let neighbours = [
            block.checked_sub(1),
            (block + 1 < BLOCKS).then_some(block + 1),
        ];
        for step in 0..STEPS {
            self.until(|| {
                // Not further apart than the two rows allow.
                neighbours
                    .iter()
                    .enumerate()
                    .all(|(side, neighbour)| match neighbour {
                        Some(other) => self.done[*other].get() >= step,
                        None => self.fetched[side].get() > step,
                    })
            })
            .await;
            for at in block * CELLS..(block + 1) * CELLS {
                let before = match at {
                    0 => self.halos[0].get(),
                    _ => self.read(cell(step, at - 1))?,
                };
                let after = match at {
                    _ if at == ROW - 1 => self.halos[1].get(),
                    _ => self.read(cell(step, at + 1))?,
                };
                let value = next_value(before, self.read(cell(step, at))?, after);
                let (to, value) = (cell(step + 1, at), value.to_ne_bytes());
                // SAFETY: the futures of this rank share one thread. Nobody fetches from that row while it
                // is computed: its end is announced afterwards, and it was fetched before.
                unsafe { self.window.0.write_local(to, &value) }?;
            }
            self.done[block].set(step + 1);
            self.moved();
        }
        Ok(())
    }
}

/// Lets the other futures run before this one goes on.
async fn turn() {
    let mut over = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub(super) fn run(context: &Context<'_>) -> Outcome {
    let window = Open::new(context, 2 * ROW * 8 + 16)?;
    for at in 0..ROW {
        let value = first_value(context.rank * ROW + at);
        // SAFETY: the window is new, and no operation is under way on it.
        unsafe { window.0.write_local(cell(0, at), &value.to_ne_bytes()) }?;
    }
    window.0.sync()?;
    context.meet()?;
    let stencil = Stencil {
        window: &window,
        left: (context.rank + context.size - 1) % context.size,
        right: next(context),
        halos: Default::default(),
        steps: RefCell::default(),
        done: Default::default(),
        fetched: Default::default(),
    };
    let blocks = (0..BLOCKS).map(|block| Box::pin(stencil.block(block)) as executor::Task<'_>);
    let sides = (0..2).map(|side| Box::pin(stencil.side(side)) as executor::Task<'_>);
    run_all(blocks.chain(sides))?;
    let total = context.size * ROW;
    let mut wanted: Vec<i64> = (0..total).map(first_value).collect();
    for _ in 0..STEPS {
        wanted = (0..total)
            .map(|at| {
                let (before, after) = ((at + total - 1) % total, (at + 1) % total);
                next_value(wanted[before], wanted[at], wanted[after])
            })
            .collect();
    }
    for at in 0..ROW {
        let (found, wanted) = (
            stencil.read(cell(STEPS, at))?,
            wanted[context.rank * ROW + at],
        );
        ensure(found == wanted, || {
            format!("cell {at} is {found}, wanted {wanted}")
        })?;
    }
    window.close(context)
}
