//! Payloads at one target, from more initiators than the target has blocks: all initiators continue, no data is
//! mixed up, and the memory stays bounded.

use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;

use crate::common::prelude::*;

/// The number of a segment's blocks, the bytes of a block, the entries of a ring, and the entries of a ring with its
/// own payload for these vectors.
const BLOCKS: usize = 64;
const BLOCK: usize = 64 << 10;
const RING: usize = 12 << 10;
const LONG_RING: usize = 16 << 10;
/// The size of the rest of a segment.
const FRONT: usize = 32 << 10;
/// The place of the segment's descriptor in a blob (see `modex`).
const SEGMENT: std::ops::Range<usize> = 40..44;

/// The bytes of this machine's memory that a transport's segment uses.
fn allocated(t: &Transport) -> usize {
    let descriptor = u32::from_le_bytes(t.address()[SEGMENT].try_into().unwrap());
    // SAFETY: the transport keeps the descriptor open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor as i32) };
    let file = std::fs::File::from(descriptor.try_clone_to_owned().unwrap());
    std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) as usize * 512
}

/// Posts a fetch-add of `from` to the first words of the window.
fn add(there: There<'_>, from: &[u64], old: &mut [u64]) -> Status {
    let There { t, peer, h, .. } = there;
    let (sum, u, at) = (AtomicOp::Sum, Datatype::Uint64, h.base());
    let (count, from, old) = (from.len(), from.as_ptr().cast(), old.as_mut_ptr().cast());
    t.atomic_fopv(peer, from, old, at, &h, u, sum, count, None)
}

/// Connects to one target `count` times; each connection has its own ring. The same number of processes
/// would behave the same, but take long to start.
fn initiators<'a>(t: &'a Transport, count: u64, target: &[u8], h: Handle) -> Vec<There<'a>> {
    let connect = |proc| t.connect(target, proc).unwrap();
    let all = (0..count).map(|proc| There::new(t, connect(proc), h));
    all.collect()
}

/// The number of words of a vector; a ring's own pages have no room for the vector.
const WORDS: usize = 512;
/// The number of words of the longest put.
const PUT: usize = 1024;
const INITIATORS: usize = 80;

/// More initiators have payloads outstanding than there are blocks, while the target does nothing: no operation is
/// refused for lack of a block, each is executed once, and the memory is bounded.
#[test]
fn more_initiators_than_blocks() {
    let b = open(near(), ThreadLevel::Single, &[]);
    // The window has a part for the sums, and a part for the puts of each initiator.
    let mut window = vec![0u64; WORDS + PUT * INITIATORS];
    let region = register(&b, &mut window, Access::all());
    let h = region.handle();
    let a = open(near(), ThreadLevel::Single, &[]);
    let all = initiators(&a, INITIATORS as u64, b.address(), h);
    let mut old = vec![vec![u64::MAX; WORDS]; INITIATORS];
    let ones = vec![1u64; WORDS];
    let mut sum = 0;
    for round in 0..40 {
        let mut puts = Vec::new();
        for (i, there) in all.iter().enumerate() {
            let status = add(*there, &ones, &mut old[i]);
            assert_eq!(status, Status::SUCCESS, "initiator {i} in round {round}");
            let words = [16, 128, 1000, 1024][(i + round) % 4];
            puts.push(vec![(round * INITIATORS + i) as u64; words]);
        }
        for (i, there) in all.iter().enumerate() {
            let place = 8 * (WORDS + PUT * i);
            there.insist(|there| there.put(place, &puts[i], None));
        }
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        for word in [0, WORDS - 1] {
            let mut seen: Vec<u64> = old.iter().map(|old| old[word]).collect();
            seen.sort_unstable();
            let each: Vec<u64> = (sum..sum + INITIATORS as u64).collect();
            assert_eq!(seen, each, "word {word} in round {round}");
        }
        sum += INITIATORS as u64;
        assert!(window[..WORDS].iter().all(|w| *w == sum));
        for (i, put) in puts.iter().enumerate() {
            let at = WORDS + PUT * i;
            assert_eq!(window[at..at + put.len()], put[..], "round {round}");
        }
    }
    let most = FRONT + BLOCKS * BLOCK + INITIATORS * LONG_RING;
    let took = allocated(&b);
    assert!(took <= most, "{took} bytes, {most} at most");
    assert!(took > BLOCKS * BLOCK, "the pool was used: {took} bytes");
    a.close().unwrap();
    close([region], [b]);
}

/// Initiators that use their payloads one after the other share the blocks, so no ring keeps a block.
#[test]
fn idle_blocks_are_handed_on() {
    let b = open(near(), ThreadLevel::Single, &[]);
    let mut window = vec![0u64; WORDS];
    let region = register(&b, &mut window, Access::all());
    let h = region.handle();
    let a = open(near(), ThreadLevel::Single, &[]);
    let all = initiators(&a, INITIATORS as u64, b.address(), h);
    let (ones, mut old) = (vec![1u64; WORDS], vec![0; WORDS]);
    for sum in 0..3 * INITIATORS {
        let there = all[sum % INITIATORS];
        assert_eq!(add(there, &ones, &mut old), Status::SUCCESS);
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        assert!(old.iter().all(|o| *o == sum as u64));
    }
    let took = allocated(&b);
    let most = FRONT + BLOCKS * BLOCK + INITIATORS * RING;
    assert!(took <= most, "{took} bytes, {most} at most");
    a.close().unwrap();
    close([region], [b]);
}

const ORDERS: &str = "BTL_OFI_TEST_ORDERS";
/// The number of rings whose blocks the doomed process uses.
const DOOMED: usize = BLOCKS;

/// The test below runs this in a separate process, which takes every block of a target, and dies.
#[test]
#[ignore = "started by blocks_of_the_dead_are_used_again"]
fn doomed_process() {
    let Some(orders) = std::env::var_os(ORDERS) else {
        return;
    };
    let orders = orders.into_string().unwrap();
    let (blob, handle) = orders.split_once(' ').unwrap();
    let h = handle_of(handle);
    let (ones, mut old) = (vec![1u64; WORDS], vec![0; WORDS]);
    let a = open(near(), ThreadLevel::Single, &[]);
    for there in initiators(&a, DOOMED as u64, &unhex(blob), h) {
        assert_eq!(add(there, &ones, &mut old), Status::SUCCESS);
    }
    // SAFETY: the calls have no preconditions.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// A process dies while it uses all blocks. The operations that this process posted are executed. Others continue
/// immediately, and use the blocks again once the target needs no data in them.
#[test]
fn blocks_of_the_dead_are_used_again() {
    let b = open(near(), ThreadLevel::Single, &[]);
    let mut window = vec![0u64; WORDS];
    let region = register(&b, &mut window, Access::all());
    let h = region.handle();
    let died = again(module_path!(), "doomed_process")
        .env(ORDERS, format!("{} {}", hex(b.address()), handle_text(h)))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(died.signal(), Some(libc::SIGKILL), "{died}");
    let before = allocated(&b);
    assert!(before > BLOCKS * BLOCK, "{before} bytes");
    let a = open(near(), ThreadLevel::Single, &[]);
    let there = initiators(&a, 1, b.address(), h)[0];
    let (ones, mut old) = (vec![1u64; WORDS], vec![0; WORDS]);
    // The target has not checked the blocks, so no other process may use the dead process's blocks,
    // and there are no free blocks.
    assert_eq!(add(there, &ones, &mut old), Status::SUCCESS);
    attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
    assert!(old.iter().all(|o| *o == DOOMED as u64));
    assert!(window.iter().all(|w| *w == DOOMED as u64 + 1));
    // The ring's own payload holds one of these vectors, a block sixteen.
    let fit = || {
        let mut old = vec![vec![0; WORDS]; 16];
        let taken = old.iter_mut().map(|old| add(there, &ones, old));
        let taken = taken.take_while(|s| s.is_ok()).count();
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        taken
    };
    let deadline = Patience::new();
    let mut least = 16;
    loop {
        let now = fit();
        if now == 16 {
            break;
        }
        least = least.min(now);
        assert!(deadline.lasts(), "no block was found again");
    }
    assert_eq!(least, 1, "at first there was none");
    let took = allocated(&b);
    assert!(took <= before + LONG_RING, "{before} bytes, and {took}");
    a.close().unwrap();
    close([region], [b]);
}
