//! Blocks of the payload pool, which rings take from each other.

use super::*;

/// A block of the pool, which two rings and their target use.
struct Block {
    owner: pool::Owner,
    bytes: UnsafeCell<u64>,
    slot: Slot,
}

// SAFETY: loom checks each access to the bytes.
unsafe impl Sync for Block {}

impl Block {
    fn new() -> Arc<Block> {
        Arc::new(Block {
            owner: pool::Owner::new(),
            bytes: UnsafeCell::new(0),
            slot: Slot::new(),
        })
    }

    fn write(&self, value: u64) {
        // SAFETY: loom checks the access.
        self.bytes.with_mut(|b| unsafe { *b = value });
    }

    /// The target's part: adds 1 to the bytes and answers.
    fn serve(&self) {
        let value = self.bytes.with(|b| {
            // SAFETY: loom checks the access.
            unsafe { *b }
        });
        self.write(value + 1);
        let answer = Answer {
            status: 0,
            value: 0,
        };
        self.slot.answer(0, answer);
    }
}

/// Two rings want one block: one ring with its target has the block at a time, and the second ring finds it idle
/// once the first has read its result. The first ring takes the block again if the second did not.
#[test]
fn a_block_serves_one_ring_at_a_time() {
    check(|| {
        let block = Block::new();
        let busy = block.owner.take(block.owner.read(), 0).unwrap();
        let second = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                let found = block.owner.read();
                if !found.is_busy()
                    && let Some(busy) = block.owner.take(found, 1)
                {
                    block.write(7);
                    block.owner.release(busy);
                }
            })
        };
        let target = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                while !block.slot.is_published(0) {
                    thread::yield_now();
                }
                block.serve();
            })
        };
        block.write(10);
        block.slot.publish(0, &Command::default());
        while block.slot.answered(0).is_none() {
            thread::yield_now();
        }
        // SAFETY: loom checks the access.
        block.bytes.with(|b| assert_eq!(unsafe { *b }, 11));
        let idle = block.owner.release(busy);
        if let Some(busy) = block.owner.retake(idle) {
            block.write(9);
            block.owner.release(busy);
        }
        second.join().unwrap();
        target.join().unwrap();
    });
}

/// The process of a ring is dead and its block is in use: another ring takes the block once no command is left to
/// execute; the target no longer accesses the bytes then.
#[test]
fn a_block_of_the_dead_is_taken_after_its_last_answer() {
    check(|| {
        let block = Block::new();
        let busy = block.owner.take(block.owner.read(), 0).unwrap();
        block.write(10);
        block.slot.publish(0, &Command::default());
        let target = {
            let block = Arc::clone(&block);
            thread::spawn(move || {
                assert!(block.slot.is_published(0));
                block.serve();
            })
        };
        let found = block.owner.read();
        assert_eq!(found, busy);
        if !block.slot.may_be_executed() {
            let mine = block.owner.take(found, 1).unwrap();
            block.write(20);
            block.owner.release(mine);
        }
        target.join().unwrap();
    });
}
