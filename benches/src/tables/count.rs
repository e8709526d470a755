//! How many instructions a call takes, counted one by one: a process started for that steps this one
//! through the call, between two breakpoints. Not the other way round: a copy of this process would make the call
//! on this one's connections, in memory that it shares with peers.

#[cfg(target_arch = "x86_64")]
use std::io::{Read, Write};
#[cfg(target_arch = "x86_64")]
use std::os::fd::FromRawFd;

/// Instructions of one call, and how many of them jump or call through a register or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) instructions: usize,
    pub(super) indirect: usize,
}

/// Counts a call, which is made twice. `None` where processes cannot be traced.
#[cfg(target_arch = "x86_64")]
pub(super) fn steps(call: impl Fn() -> Result<(), String>) -> Option<Steps> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are this function's then.
    let (mut answers, answer) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return None;
        }
        (
            std::fs::File::from_raw_fd(ends[0]),
            std::fs::File::from_raw_fd(ends[1]),
        )
    };
    // Where only ancestors may trace a process, its child may as well until this returns.
    let traceable = |by: libc::c_ulong| {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, by, 0, 0, 0) };
    };
    traceable(libc::PR_SET_PTRACER_ANY);
    // SAFETY: getting an id cannot fail.
    let this = unsafe { libc::getpid() };
    // SAFETY: this program has one thread, so the copy may run anything; it ends by `_exit`.
    let tracer = unsafe { libc::fork() };
    if tracer < 0 {
        return None;
    }
    if tracer == 0 {
        trace(this, answer);
        // SAFETY: nothing of this process's is torn down.
        unsafe { libc::_exit(0) };
    }
    drop(answer);
    let mut word = [0; size_of::<usize>()];
    // The first answer says that it traces; none, that it cannot.
    let traced = answers.read_exact(&mut word[..1]).is_ok();
    let outcome = traced.then(|| {
        // Once before, for what is done on a first call only.
        let _ = call();
        // SAFETY: the tracer, which waits for both breakpoints, goes on behind them.
        unsafe { std::arch::asm!("int3") };
        let outcome = call();
        // SAFETY: likewise.
        unsafe { std::arch::asm!("int3") };
        outcome
    });
    let mut next = || {
        answers.read_exact(&mut word).ok()?;
        Some(usize::from_ne_bytes(word))
    };
    let steps = next().zip(next());
    // SAFETY: the child of this process, which it started and which ends by itself.
    unsafe { libc::waitpid(tracer, std::ptr::null_mut(), 0) };
    traceable(0);
    let (instructions, indirect) = steps?;
    outcome?.ok()?;
    Some(Steps {
        instructions,
        indirect,
    })
}

/// Traces a process, says so, and then how many instructions lay between its breakpoints.
#[cfg(target_arch = "x86_64")]
fn trace(process: libc::pid_t, mut answer: std::fs::File) {
    let stopped = |signal: i32| {
        let mut status = 0;
        // SAFETY: waits for the process that is traced.
        let waited = unsafe { libc::waitpid(process, &mut status, libc::__WALL) };
        waited == process && libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == signal
    };
    // SAFETY: plain numbers.
    let ask = |what| unsafe { libc::ptrace(what, process, 0, 0) } == 0;
    if !(ask(libc::PTRACE_ATTACH) && stopped(libc::SIGSTOP) && ask(libc::PTRACE_CONT)) {
        return;
    }
    if answer.write_all(&[1]).is_err() || !stopped(libc::SIGTRAP) {
        return;
    }
    let Some(steps) = between(process, || {
        ask(libc::PTRACE_SINGLESTEP) && stopped(libc::SIGTRAP)
    }) else {
        return;
    };
    // Over the second breakpoint.
    let _ = ask(libc::PTRACE_CONT) && stopped(libc::SIGTRAP) && ask(libc::PTRACE_DETACH);
    let words = [steps.instructions, steps.indirect].map(usize::to_ne_bytes);
    let _ = answer.write_all(words.as_flattened());
}

/// Steps a stopped process to its next breakpoint.
#[cfg(target_arch = "x86_64")]
fn between(process: libc::pid_t, step: impl Fn() -> bool) -> Option<Steps> {
    let mut steps = Steps {
        instructions: 0,
        indirect: 0,
    };
    loop {
        // SAFETY: the process is stopped; the call fills the registers.
        let at = unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            if libc::ptrace(libc::PTRACE_GETREGS, process, 0, &mut registers) != 0 {
                return None;
            }
            registers.rip
        };
        // SAFETY: reads a word of the process's code.
        let code = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, process, at, 0) }.to_ne_bytes();
        if code[0] == 0xcc {
            return Some(steps);
        }
        steps.instructions += 1;
        steps.indirect += usize::from(is_indirect(&code));
        if !step() {
            return None;
        }
    }
}

/// Whether an instruction is `FF /2` to `FF /5`: a call or jump through a register or memory.
#[cfg(target_arch = "x86_64")]
fn is_indirect(code: &[u8]) -> bool {
    // REX, notrack and bnd may come before.
    let prefix = |byte: &&u8| matches!(**byte, 0x40..=0x4f | 0x3e | 0xf2);
    let mut rest = code.iter().skip_while(prefix);
    rest.next() == Some(&0xff)
        && rest
            .next()
            .is_some_and(|mode| (2..=5).contains(&(mode >> 3 & 7)))
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn steps(_call: impl Fn() -> Result<(), String>) -> Option<Steps> {
    None
}
