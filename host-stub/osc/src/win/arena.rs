//! Registered memory for the control blocks of a process's windows. A chunk is registered once and holds the blocks of several
//! windows, and a freed window's block serves the next window. So most windows register only their own memory.
//!
//! Reuse is safe because [`free`](super::Window::free) returns only when no rank has an operation under way that changes the
//! block: operations and releases of locks are complete before the barrier, and every signal meant for this rank has arrived.
//! Blocks are not reused
//! - if their window was dropped without `free`: a rank that others believe lost may still change them;
//! - after an exchange of a creation failed here: other ranks may have made that window.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_api::Access;

use crate::base::Pages;
use crate::transport::{Registration, Transport, TransportError};

/// Bytes of a chunk: blocks of eight windows of few ranks. A block of more than a quarter of it has a chunk of its own.
const CHUNK: usize = 16 << 10;
/// Blocks begin at multiples of this size, so that no two blocks share a cache line.
const ALIGNMENT: usize = 64;

/// Memory that is registered once.
struct Chunk {
    /// Before `pages`, because it must not outlive its memory.
    registration: Registration,
    pages: Option<Pages>,
    /// Whether peers may change the memory even after the registration has ended.
    stays: AtomicBool,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.stays.load(Ordering::Relaxed) {
            std::mem::forget(self.pages.take());
        }
    }
}

/// The reason why there is no block.
pub(super) enum ArenaError {
    /// No memory of that many bytes.
    Memory(usize),
    /// The transport refused to register the memory.
    Transport(TransportError),
}

impl std::fmt::Display for ArenaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ArenaError::Memory(bytes) => write!(f, "no memory for {bytes} B of control block"),
            ArenaError::Transport(error) => write!(f, "control block: {error}"),
        }
    }
}

/// A part of a chunk.
struct Block {
    chunk: Arc<Chunk>,
    base: *mut u8,
    bytes: usize,
}

// SAFETY: memory of the chunk, which is not used while the block is free.
unsafe impl Send for Block {}

#[derive(Default)]
struct State {
    /// The chunk that has room, and the number of its bytes in use.
    open: Option<(Arc<Chunk>, usize)>,
    /// Blocks of freed windows, by their bytes.
    free: HashMap<usize, Vec<Block>>,
    /// Whether blocks that are given back are never used again.
    spoiled: bool,
}

/// The control blocks of a process's windows.
#[derive(Default)]
pub(crate) struct Arena(Mutex<State>);

impl Arena {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a zeroed block of at least `bytes` bytes.
    pub(super) fn take(
        arena: &Arc<Arena>,
        transport: &Transport,
        bytes: usize,
    ) -> Result<Place, ArenaError> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let mut state = arena.lock();
        let block = match state.free.get_mut(&bytes).and_then(Vec::pop) {
            Some(block) => {
                // SAFETY: the block has these bytes, and no rank has an operation on it under way.
                unsafe { block.base.write_bytes(0, bytes) };
                block
            }
            None => state.carve(transport, bytes)?,
        };
        Ok(Place {
            block,
            arena: Arc::clone(arena),
        })
    }

    /// Keeps blocks that are given back from now on from use by other windows.
    pub(super) fn spoil(&self) {
        self.lock().spoiled = true;
    }

    fn give_back(&self, block: Block) {
        let mut state = self.lock();
        match state.spoiled {
            true => block.stay(),
            false => state.free.entry(block.bytes).or_default().push(block),
        }
    }
}

impl State {
    /// Takes a block that no window had before.
    fn carve(&mut self, transport: &Transport, bytes: usize) -> Result<Block, ArenaError> {
        if bytes > CHUNK / 4 {
            let chunk = Arc::new(Chunk::new(transport, bytes)?);
            return Ok(Block::of(&chunk, 0, bytes));
        }
        let (chunk, at) = match self.open.take() {
            Some((chunk, used)) if CHUNK - used >= bytes => (chunk, used),
            _ => (Arc::new(Chunk::new(transport, CHUNK)?), 0),
        };
        let block = Block::of(&chunk, at, bytes);
        self.open = Some((chunk, at + bytes));
        Ok(block)
    }
}

impl Chunk {
    fn new(transport: &Transport, bytes: usize) -> Result<Chunk, ArenaError> {
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_WRITE
            | Access::REMOTE_ATOMIC;
        let pages = Pages::new(bytes).ok_or(ArenaError::Memory(bytes))?;
        // SAFETY: the pages live until after the registration ends, and all code that reads them expects changes by
        // peers.
        let registration = unsafe { transport.register(pages.base(), bytes, access) };
        Ok(Chunk {
            registration: registration.map_err(ArenaError::Transport)?,
            pages: Some(pages),
            stays: AtomicBool::new(false),
        })
    }

    fn base(&self) -> *mut u8 {
        self.pages
            .as_ref()
            .map_or(std::ptr::null_mut(), Pages::base)
    }
}

impl Block {
    fn of(chunk: &Arc<Chunk>, at: usize, bytes: usize) -> Block {
        Block {
            base: chunk.base().wrapping_add(at),
            chunk: Arc::clone(chunk),
            bytes,
        }
    }

    /// Peers may change the chunk at any time, so its memory is never freed.
    fn stay(&self) {
        self.chunk.stays.store(true, Ordering::Relaxed);
    }
}

/// The block of one window.
pub(super) struct Place {
    block: Block,
    arena: Arc<Arena>,
}

impl Place {
    pub(super) fn base(&self) -> *mut u8 {
        self.block.base
    }

    /// The registration of the memory around the block.
    pub(super) fn registration(&self) -> &Registration {
        &self.block.chunk.registration
    }

    /// Gives the block back. No rank may change the block any more.
    pub(super) fn give_back(self) {
        self.arena.give_back(self.block);
    }

    /// Leaves the block unchanged, for good.
    pub(super) fn leave(self) {
        self.block.stay();
    }
}
