use std::ptr;

use super::*;
use crate::base::sys::script::Script;
use crate::sm::ring::{Answer, Command};

fn place(segment: &Segment, nonce: u64) -> Place {
    Place {
        pid: std::process::id(),
        descriptor: segment.descriptor(),
        nonce,
    }
}

#[test]
fn rings_are_claimed_and_given_back() {
    let segment = Segment::make(42).unwrap();
    let first = place(&segment, 42).claim().unwrap();
    let second = place(&segment, 42).claim().unwrap();
    assert_eq!((first.index, second.index), (0, 1));
    let command = Command {
        value: 7,
        ..Command::default()
    };
    second.ring().slot(0).publish(0, &command);
    second.announce();
    assert_eq!(segment.bells().take(0), 2);
    let slot = segment.ring(1).slot(0);
    assert!(slot.is_published(0));
    let answer = Answer {
        status: 0,
        value: slot.command().value + 1,
    };
    slot.answer(0, answer);
    assert_eq!(second.ring().slot(0).answered(0), Some(answer));
    assert_eq!(first.allocate_own(OWN_SHORT).unwrap(), OWN_SHORT);
    assert_eq!(first.allocate_own(OWN_LONG).unwrap(), OWN_LONG);
    first.allocate_block(BLOCKS - 1).unwrap();
    second.give_back(1, 0);
    let again = place(&segment, 42).claim().unwrap();
    assert_eq!((again.index, again.position, again.spent), (1, 1, 0));
    again.give_back(u32::MAX, 128);
    let again = place(&segment, 42).claim().unwrap();
    assert_eq!((again.position, again.spent), (u32::MAX, 128));
    assert!(!again.is_closed());
    drop(segment);
    assert!(again.is_closed(), "the mapping outlives the owner");
}

#[test]
fn claim_fails_when_all_rings_are_taken() {
    let segment = Segment::make(1).unwrap();
    let all: Vec<_> = (0..RINGS)
        .map(|_| place(&segment, 1).claim().unwrap())
        .collect();
    assert!(place(&segment, 1).claim().is_err());
    assert_eq!(segment.bells().used(), RINGS / 64);
    drop(all);
    assert!(
        place(&segment, 1).claim().is_err(),
        "what is not given back stays taken"
    );
}

#[test]
fn other_files_are_refused() {
    let segment = Segment::make(1).unwrap();
    let right = place(&segment, 1);
    for wrong in [
        Place { nonce: 2, ..right },
        Place {
            descriptor: 1 << 20,
            ..right
        },
        Place {
            descriptor: 0,
            ..right
        },
        Place {
            pid: u32::MAX >> 1,
            ..right
        },
    ] {
        assert!(wrong.claim().is_err(), "{wrong:?}");
    }
    // A file of the right size, without the seal against shrinking.
    let other = File::from(sys::memory_file(c"other").unwrap());
    other.set_len(size_of::<Layout>() as u64).unwrap();
    let descriptor = other.as_raw_fd() as u32;
    assert!(
        Place {
            descriptor,
            ..right
        }
        .claim()
        .is_err()
    );
    assert!(right.claim().is_ok());
}

#[test]
fn payload_bounds_are_checked() {
    let segment = Segment::make(1).unwrap();
    let ring = segment.ring(3);
    let has = |payload, size| segment.payload(ring, payload, size).is_some();
    let pool = BLOCKS * PAYLOAD;
    for (most, flag) in [(pool, 0), (OWN_LONG, OWN)] {
        let end = most as u32 | flag;
        assert!(has(flag, most) && has(end, 0) && has(end - 64, 64));
        assert!(!has(end - 64, 65) && !has(64 | flag, most) && !has(end + 1, 0));
        assert!(!has(flag, usize::MAX) && !has(!OWN | flag, usize::MAX));
    }
    let end = segment.payload(ring, pool as u32, 0).unwrap().addr();
    let start = ptr::from_ref(&segment.layout.front).addr();
    assert_eq!(end - start, size_of::<Layout>());
}

#[test]
fn a_ring_is_deserted_after_its_process_and_all_answers() {
    let segment = Segment::make(1).unwrap();
    let (mut mine, other) = (
        place(&segment, 1).claim().unwrap(),
        place(&segment, 1).claim().unwrap(),
    );
    mine.block(BLOCKS - 1).unwrap();
    assert!(!mine.is_deserted(other.index).unwrap(), "its process lives");
    let (ring, command) = (other.index, Command::default());
    other.ring().slot(0).publish(0, &command);
    other.desert();
    assert!(
        !mine.is_deserted(ring).unwrap(),
        "its command may be executed"
    );
    let answer = Answer {
        status: 0,
        value: 0,
    };
    segment.ring(ring).slot(0).answer(0, answer);
    assert!(mine.is_deserted(ring).unwrap());
    let own = ProcessId::own();
    let gone = u64::from(own.pid) | u64::from(own.started.wrapping_sub(1)) << 32;
    segment.layout.front.holders[ring].store(gone, Ordering::Relaxed);
    assert!(
        mine.is_deserted(ring).unwrap(),
        "another process has the id"
    );
}

/// A process without a segment uses the provider and logs the reason.
#[test]
fn a_segment_that_cannot_be_made_names_the_call() {
    for (call, before, errno, text) in [
        ("memfd_create", 0, libc::ENOSYS, "Function not implemented"),
        ("fallocate", 0, libc::ENOSPC, "No space left on device"),
        ("fallocate", 1, libc::ENOSPC, "No space left on device"),
        ("fcntl", 0, libc::EPERM, "Operation not permitted"),
        ("mmap", 0, libc::ENOMEM, "Cannot allocate memory"),
    ] {
        let passed = (0..before).fold(Script::new(), |script, _| script.passes(call));
        let _script = passed.fails(call, errno);
        let refused = Segment::make(1).err().unwrap();
        let expected = format!("{call} returned -{errno} ({text})");
        assert_eq!(refused.to_string(), expected);
    }
}

/// If the pages or the mapping of a ring fail, the next requester gets the ring.
#[test]
fn a_ring_without_memory_is_given_back() {
    let segment = Segment::make(1).unwrap();
    let place = place(&segment, 1);
    let scripts = [
        || Script::new().fails("fallocate", libc::ENOSPC),
        || Script::new().passes("mmap").fails("mmap", libc::ENOMEM),
        || Script::new().fails("getrlimit", libc::EPERM),
    ];
    for (script, kind) in scripts.into_iter().zip([
        io::ErrorKind::StorageFull,
        io::ErrorKind::OutOfMemory,
        io::ErrorKind::PermissionDenied,
    ]) {
        let script = script();
        assert_eq!(place.claim().err().unwrap().kind(), kind);
        drop(script);
        let next = place.claim().unwrap();
        assert_eq!((next.index, next.position), (0, 0));
        next.give_back(0, 0);
    }
}

#[test]
fn blocks_and_payloads_without_pages_are_errors() {
    let segment = Segment::make(1).unwrap();
    let mut claim = place(&segment, 1).claim().unwrap();
    let full = || Script::new().fails("fallocate", libc::ENOSPC);
    let script = full();
    let refused = claim.allocate_own(OWN_LONG).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    drop(script);
    let script = full();
    let refused = claim.allocate_block(0).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    drop(script);
    let script = Script::new().fails("mmap", libc::ENOMEM);
    assert!(claim.block(0).is_err());
    drop(script);
    assert_eq!(claim.allocate_own(OWN_LONG).unwrap(), OWN_LONG);
    claim.allocate_block(0).unwrap();
    claim.block(0).unwrap();
}

/// A segment is refused if the file system has no seals, or if its owner may shrink it.
#[test]
fn a_segment_without_its_seals_is_refused() {
    let segment = Segment::make(1).unwrap();
    let place = place(&segment, 1);
    let script = Script::new().fails("fcntl", libc::EINVAL);
    let refused = place.open().unwrap_err();
    assert_eq!(refused.to_string(), "fcntl returned -22 (Invalid argument)");
    drop(script);
    let script = Script::new().answers("fcntl", libc::F_SEAL_GROW);
    let refused = place.open().unwrap_err();
    assert_eq!(refused.to_string(), "the segment may shrink");
    drop(script);
    assert!(place.open().is_ok());
}

extern "C" fn wait_for_the_end(_: *mut libc::c_void) -> *mut libc::c_void {
    loop {
        // SAFETY: pause takes no argument.
        unsafe { libc::pause() };
    }
}

/// A process whose main thread has ended lives on with its other threads, and its segment stays
/// usable.
#[test]
fn a_segment_is_found_under_other_threads() {
    let segment = Segment::make(7).unwrap();
    // SAFETY: the child only makes system calls, and starts one thread that makes them.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let mut thread = 0;
        let (attributes, none) = (ptr::null(), ptr::null_mut());
        // SAFETY: the function accepts any pointer; the call ends only this thread.
        unsafe {
            libc::pthread_create(&mut thread, attributes, wait_for_the_end, none);
            libc::syscall(libc::SYS_exit, 0);
        }
    }
    let own = Place {
        pid: child as u32,
        ..place(&segment, 7)
    };
    let stat = format!("/proc/{child}/task/{child}/stat");
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    let threads = sys::threads(&child.to_string()).unwrap();
    let allocated = own.claim().and_then(|claim| claim.allocate_own(OWN_LONG));
    // SAFETY: the child belongs to this process.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
    assert_eq!(threads.len(), 2);
    assert_eq!(allocated.unwrap(), OWN_LONG);
}

/// A holder word that names a dead process.
fn gone() -> u64 {
    let own = ProcessId::own();
    holder_of(ProcessId {
        started: own.started.wrapping_sub(1),
        ..own
    })
}

/// A segment; this process has taken all its rings.
fn full() -> (Segment, Vec<Claim>) {
    let segment = Segment::make(1).unwrap();
    let claims = (0..RINGS).map(|_| place(&segment, 1).claim().unwrap());
    let claims = claims.collect();
    (segment, claims)
}

const DONE: Answer = Answer {
    status: 0,
    value: 0,
};

/// The ring of a killed process serves exactly one other process, after the responder has executed its commands. The
/// responder finds a command even if it was not notified of the command.
#[test]
fn a_ring_of_the_dead_is_claimed_once() {
    let (segment, mut claims) = full();
    let taken = |at: Claim| (at.index, at.position, at.spent);
    let claim = || place(&segment, 1).claim();
    let block = claims[300].owners()[7].read();
    let block = claims[300].owners()[7].take(block, 300).unwrap();
    for position in 0..131 {
        let slot = segment.ring(300).slot(position);
        slot.publish(position, &Command::default());
        if position < 130 {
            slot.answer(position, DONE);
        }
    }
    segment.layout.front.holders[300].store(gone(), Ordering::Relaxed);
    assert!(claim().is_err(), "its last command may be executed");
    assert_eq!(segment.bells().take(300 / 64), 1 << (300 % 64));
    assert!(claims[0].owners()[7].read().is_busy());
    assert!(segment.ring(300).slot(130).take(130));
    assert!(claim().is_err(), "its last command is being executed");
    segment.ring(300).slot(130).answer(130, DONE);
    let next = claim().unwrap();
    assert!(!next.owners()[7].read().is_busy());
    assert_eq!(next.owners()[7].take(block, 2), None);
    assert!(claim().is_err(), "it is taken");
    next.give_back(131, 0);
    let free = &segment.layout.front.holders[300];
    assert_eq!(free.load(Ordering::Relaxed), 0);
    assert_eq!(claim().map(taken).unwrap(), (300, 131, 0));
    // A living process left this ring with unanswered commands.
    claims.swap_remove(8).desert();
    assert_eq!(claim().map(taken).unwrap(), (8, 0, 0));
}

/// The slots show the last owner's position: in each lap, after the positions wrapped around, and with revoked commands at
/// the end. A faulty process may have written any values.
#[test]
fn the_slots_tell_the_position() {
    let (segment, _claims) = full();
    let holder = &segment.layout.front.holders[3];
    let die = || holder.store(gone(), Ordering::Relaxed);
    let claim = || {
        die();
        let at = place(&segment, 1).claim().ok()?;
        assert_eq!(at.index, 3);
        Some((at.position, at.spent))
    };
    let ring = segment.ring(3);
    assert_eq!(claim(), Some((0, 0)));
    for position in 0..3 * SLOTS {
        let slot = ring.slot(position);
        slot.publish(position, &Command::default());
        slot.answer(position, DONE);
        assert_eq!(claim(), Some((position + 1, 0)));
    }
    let revoke = |position| {
        ring.slot(position).publish(position, &Command::default());
        assert!(ring.slot(position).revoke(position));
    };
    // The positions wrap around at 2^30.
    let last = (1u32 << 30).wrapping_sub(10);
    for ahead in 0..SLOTS {
        let position = last + ahead;
        revoke(position);
        if ahead < SLOTS - 20 {
            ring.slot(position).answer(position, DONE);
        }
    }
    assert_eq!(claim(), Some((SLOTS - 10, 20)));
    let first = last + SLOTS - 20;
    ring.slot(first).answer(first, DONE);
    assert_eq!(claim(), Some((SLOTS - 10, 19)));
    ring.slot(first + 5).answer(first + 5, DONE);
    assert_eq!(claim(), None, "the responder answers in order");
    ring.slot(first + 5).answer(first, DONE);
    assert_eq!(claim(), None, "a slot of another position");
}
