//! Filters (seccomp) that forbid the system calls for access to other processes.

use super::*;

/// Makes the kernel refuse a system call of this thread from now on; `action` is the action of a
/// seccomp filter.
pub(super) fn refuse(call: libc::c_long, action: u32) {
    let statement = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut program = [
        // The number of the system call stands first.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            call as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, action),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program has four statements, and is for this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (mode, none) = (libc::SECCOMP_SET_MODE_FILTER, 0);
        assert_eq!(
            libc::syscall(libc::SYS_seccomp, mode, none, &raw const filter),
            0
        );
    }
}

fn deny(call: libc::c_long) {
    refuse(call, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
}

#[test]
fn a_filter_may_forbid_writing() {
    let t = opened();
    let mut target = Target::start(&t, near(), false);
    settle(&target);
    deny(libc::SYS_process_vm_writev);
    all_work(&mut target);
    target.end();
    t.close().unwrap();
}

/// Puts wait in the ring for a target that makes no progress. If the kernel refuses to execute the puts
/// instead, they are not lost; the target executes them later.
#[test]
fn what_the_kernel_refuses_waits_for_the_target() {
    let t = opened();
    let mut target = Target::start(&t, near(), false);
    settle(&target);
    deny(libc::SYS_process_vm_writev);
    signal(target.child.id(), libc::SIGSTOP);
    let (seen, there) = (Seen::default(), target.there());
    let words: Vec<[u64; 4]> = (1..=40).map(|n| [n; 4]).collect();
    for (i, words) in words.iter().enumerate() {
        there.insist(|there| there.put(32 * i, words, seen.completion()));
    }
    let_look(&t);
    assert_eq!(seen.both(), (0, 0), "nobody can make them");
    signal(target.child.id(), libc::SIGCONT);
    assert_eq!(t.flush(None), Status::SUCCESS);
    assert_eq!(seen.both(), (40, 0));
    for i in 0..40 {
        let wanted = i as u64 + 1;
        assert_eq!(target.sees(4 * i, 4 * i + 3), (wanted, wanted));
    }
    target.end();
    t.close().unwrap();
}

/// Only the target can execute the puts, and its queue is full: further puts are refused until the target
/// makes progress.
#[test]
fn what_has_no_room_in_the_queue() {
    let t = open(near(), ThreadLevel::Single, &[]);
    let mut target = Target::start(&t, near(), false);
    settle(&target);
    deny(libc::SYS_process_vm_writev);
    let words = [7u64; 4];
    insist(&t, || put(&target, &words));
    assert_eq!(t.flush(None), Status::SUCCESS);
    signal(target.child.id(), libc::SIGSTOP);
    let until = Patience::new();
    while !put(&target, &words).is_again() {
        assert!(until.lasts(), "everything is taken");
    }
    signal(target.child.id(), libc::SIGCONT);
    assert_eq!(t.flush(None), Status::SUCCESS);
    assert_eq!(target.sees(0, 3), (7, 7));
    target.end();
    t.close().unwrap();
}

/// A filter that existed before allows reading but not writing: the transport does not count the peer as
/// reachable by the kernel.
#[test]
fn a_filter_may_forbid_writing_from_the_start() {
    let t = opened();
    let mut target = Target::start(&t, near(), false);
    assert_eq!(target.there().release(), Status::SUCCESS);
    deny(libc::SYS_process_vm_writev);
    target.peer = t.connect(&target.address, 0).unwrap();
    all_work(&mut target);
    target.end();
    t.close().unwrap();
}

/// The message of a transport that opens where the kernel refuses copies.
#[test]
fn a_transport_says_that_the_kernel_copies_nothing() {
    let t = opened();
    let said = t.capabilities().completion.to_string_lossy().into_owned();
    assert!(!said.contains("not reached by memory"), "{said}");
    t.close().unwrap();
    deny(libc::SYS_process_vm_readv);
    let t = opened();
    let said = t.capabilities().completion.to_string_lossy().into_owned();
    for part in [
        "local peers are not reached by memory",
        "process_vm_readv",
        "seccomp",
    ] {
        assert!(said.contains(part), "{said}");
    }
    t.close().unwrap();
}
