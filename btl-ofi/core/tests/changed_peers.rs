//! Peers on this node that change after they were connected: they execute another program, their main
//! thread ends, or the kernel no longer permits access to their memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
#[path = "changed_peers/filters.rs"]
mod filters;

use common::pair::{BESIDE_MAIN, WORDS};
use std::sync::atomic::AtomicPtr;

use common::prelude::*;

/// Milliseconds between two checks of the peers.
const LOOK: u64 = 50;

fn opened() -> Transport {
    // The test harness may use any thread; the main thread of a target is not needed.
    BESIDE_MAIN.store(true, Ordering::Relaxed);
    let look = ("btl_ofi_peer_check_interval", Value::Unsigned(LOOK));
    open(near(), ThreadLevel::Single, &[look])
}

/// Puts words to the window's beginning.
fn put(target: &Target<'_>, words: &[u64]) -> Status {
    target.there().put(0, words, None)
}

/// Makes progress until the peers were checked.
fn let_look(t: &Transport) {
    let until = Instant::now() + Duration::from_millis(2 * LOOK);
    while Instant::now() < until {
        t.progress();
    }
    // So many progress calls read the clock at least once.
    for _ in 0..4096 {
        t.progress();
    }
}

/// Makes small transfers until the ring is claimed and has its payload memory.
fn settle(target: &Target<'_>) {
    let (there, mut out) = (target.there(), 0);
    there.insist(|there| there.fetch_add(0, &mut out, None));
    assert_eq!(there.t.flush(None), Status::SUCCESS);
    there.insist(|there| there.put(0, &[0u64; 16], None));
    assert_eq!(there.t.flush(None), Status::SUCCESS);
}

/// No operation is outstanding when the peer executes another program; the transport does not write
/// to that program's memory.
#[test]
fn nothing_is_written_to_the_next_program() {
    let t = opened();
    let mut target = Target::start(&t, near(), false);
    settle(&target);
    target.act("exec");
    let_look(&t);
    let words = vec![7u64; WORDS];
    for _ in 0..3 {
        assert_eq!(put(&target, &words), Status::UNREACH);
    }
    assert_eq!(put(&target, &words[..1]), Status::UNREACH);
    assert_eq!(target.changed(), 0);
    drop(target);
    t.close().unwrap();
}

/// A host that only puts, and never polls, also detects the change.
#[test]
fn puts_alone_find_out() {
    let t = opened();
    let mut target = Target::start(&t, near(), false);
    settle(&target);
    target.act("exec");
    let (words, patience) = (vec![7u64; 2048], Patience::new());
    while put(&target, &words) != Status::UNREACH {
        assert!(patience.lasts(), "written to for ever");
    }
    drop(target);
    t.close().unwrap();
}

/// Operations that were outstanding when the peer executed another program are reported as failed,
/// each once.
#[test]
fn what_was_outstanding_fails() {
    let t = opened();
    let mut target = Target::start(&t, near(), true);
    settle(&target);
    // From here on, the target makes no progress.
    target.sees(0, 0);
    let (seen, mut out) = (Seen::default(), [0u64; 20]);
    for word in &mut out {
        let added = target.there().fetch_add(0, word, seen.completion());
        assert_eq!(added, Status::SUCCESS);
    }
    target.act_unattended("exec");
    assert_eq!(t.flush(None), Status::UNREACH);
    assert_eq!(seen.both(), (0, 20));
    assert_eq!(seen.status(), Status::UNREACH);
    assert_eq!(target.changed(), 0);
    drop(target);
    t.close().unwrap();
}

/// The kernel does not execute a put that waits in the ring in the memory of the next program.
#[test]
fn a_put_that_waits_is_not_made_in_the_next_program() {
    let t = opened();
    let mut target = Target::start(&t, near(), true);
    settle(&target);
    target.sees(0, 0);
    let seen = Seen::default();
    // The loop ends when a put is left to the target; puts that the kernel executes are complete at
    // the next poll.
    let (deadline, mut posted) = (Patience::new(), 0);
    while seen.both().0 == posted {
        assert!(deadline.lasts(), "none is left to the target");
        let put = target.there().put(0, &[7u64; 4], seen.completion());
        assert_eq!(put, Status::SUCCESS);
        posted += 1;
        t.progress();
    }
    target.act_unattended("exec");
    assert_eq!(t.flush(None), Status::UNREACH);
    assert_eq!(seen.both(), (posted - 1, 1));
    assert_eq!(target.changed(), 0);
    drop(target);
    t.close().unwrap();
}

/// Transfers of many sizes in both directions, and atomics: all succeed, each is reported once, and
/// every byte is correct.
fn all_work(target: &mut Target<'_>) {
    let (there, seen) = (target.there(), Seen::default());
    let t = there.t;
    let mut posted = 0;
    let most = WORDS * 8;
    for round in 0..2u8 {
        for size in [1, 8, 12, 100, 8192, 8193, 65_536, most - 3, most] {
            let (mut out, mut back) = (vec![0u8; size], vec![0u8; size]);
            for (i, byte) in out.iter_mut().enumerate() {
                *byte = (i * 7 + size) as u8 ^ round;
            }
            // The end of the window.
            let at = most - size;
            there.insist(|there| there.put(at, &out, seen.completion()));
            assert_eq!(t.flush(None), Status::SUCCESS, "a put of {size} bytes");
            let (last, _) = target.sees(WORDS - 1, 0);
            assert_eq!(
                last.to_ne_bytes()[7],
                out[size - 1],
                "{size} bytes, {last:x}"
            );
            there.insist(|there| there.get(at, &mut back, seen.completion()));
            assert_eq!(t.flush(None), Status::SUCCESS, "a get of {size} bytes");
            let wrong = out.iter().zip(&back).position(|(a, b)| a != b);
            assert_eq!(
                wrong,
                None,
                "{size} bytes: {:?} {:?}",
                &out[..1],
                &back[..1]
            );
            posted += 2;
        }
    }
    // Many operations at the same time: each is executed once.
    let sources: Vec<u64> = (1..=300).collect();
    let mut fetched = [0u64; 300];
    for (i, old) in fetched.iter_mut().enumerate() {
        there.insist(|there| there.put(8 * (i + 1), &sources[i..=i], seen.completion()));
        there.insist(|there| there.fetch_add(8 * (WORDS - 1), old, seen.completion()));
        posted += 2;
    }
    assert_eq!(t.flush(None), Status::SUCCESS);
    let first = fetched[0];
    for (i, old) in fetched.iter().enumerate() {
        assert_eq!(*old, first + i as u64);
        assert_eq!(target.sees(i + 1, 0).0, i as u64 + 1);
    }
    assert_eq!(seen.both(), (posted, 0));
}

fn after(what: &str, settled: bool) {
    let t = opened();
    let mut target = Target::start(&t, near(), false);
    if settled {
        settle(&target);
    }
    if what == "hide" {
        give_up_tracing();
    }
    target.act(what);
    let_look(&t);
    all_work(&mut target);
    target.end();
    t.close().unwrap();
}

/// Takes CAP_SYS_PTRACE from this thread, because the capability overrides `PR_SET_DUMPABLE`.
fn give_up_tracing() {
    let mut header = [0x2008_0522u32, 0];
    let mut data = [0u32; 6];
    // SAFETY: the header has version 3, and the array holds twice three words of 32 capabilities
    // each.
    unsafe {
        assert_eq!(
            libc::syscall(libc::SYS_capget, &raw mut header, &raw mut data),
            0
        );
        data[0] &= !(1 << 19);
        assert_eq!(
            libc::syscall(libc::SYS_capset, &raw mut header, &raw mut data),
            0
        );
    }
}

#[test]
fn a_main_thread_may_end() {
    after("leave", true);
}

#[test]
fn a_main_thread_may_end_before_the_first_operation() {
    after("leave", false);
}

#[test]
fn a_process_may_hide_its_memory() {
    after("hide", true);
}

#[test]
fn a_process_may_hide_its_memory_before_the_first_operation() {
    after("hide", false);
}

/// The ring is claimed, but has no memory for its payload.
#[test]
fn transfers_need_no_payload() {
    const ALONE: &str = "BTL_OFI_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut command = again(module_path!(), "transfers_need_no_payload");
        // The output goes to a pipe, because the limit on files would end a process that writes to
        // a file.
        let output = command.env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let t = opened();
    let mut target = Target::start(&t, near(), false);
    let mut out = 0;
    target
        .there()
        .insist(|there| there.fetch_add(0, &mut out, None));
    assert_eq!(t.flush(None), Status::SUCCESS);
    give_up_tracing();
    target.act("hide");
    let limit = libc::rlimit {
        rlim_cur: 4096,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is readable; this process is the test's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    all_work(&mut target);
    target.end();
    t.close().unwrap();
}

static WATCHED: AtomicPtr<Endpoint> = AtomicPtr::new(ptr::null_mut());
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Counts a system call for a peer that is known to be dead.
extern "C" fn caught(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the endpoint belongs to the test and lives as long as its transport; the kernel passes
    // its context.
    unsafe {
        if (*WATCHED.load(Ordering::Relaxed)).failure().is_some() {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        // The register that holds the return value of the refused call.
        let context = context.cast::<libc::ucontext_t>();
        let result = -i64::from(libc::ESRCH);
        #[cfg(target_arch = "x86_64")]
        {
            (*context).uc_mcontext.gregs[libc::REG_RAX as usize] = result;
        }
        #[cfg(target_arch = "aarch64")]
        {
            (*context).uc_mcontext.regs[0] = result as u64;
        }
    }
}

/// The transport makes no system call for a peer that is known to be dead, because another process may
/// have its process id.
#[test]
fn a_process_known_to_be_gone_is_not_reached_for() {
    let t = opened();
    let mut target = Target::start(&t, near(), true);
    settle(&target);
    target.sees(0, 0);
    let (seen, there) = (Seen::default(), target.there());
    let put = || there.put(0, &[7u64; 4], seen.completion()).is_ok();
    let posted = (0..100).filter(|_| put()).count() as u32;
    WATCHED.store(target.peer.as_ptr(), Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) = caught;
    // SAFETY: the handler takes three arguments and accesses only statics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &action, ptr::null_mut()), 0);
    }
    target.kill();
    filters::refuse(libc::SYS_process_vm_readv, libc::SECCOMP_RET_TRAP);
    filters::refuse(libc::SYS_process_vm_writev, libc::SECCOMP_RET_TRAP);
    t.flush(None);
    let (succeeded, failed) = seen.both();
    assert_eq!(succeeded + failed, posted);
    assert!(failed > 0);
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    drop(target);
    t.close().unwrap();
}
