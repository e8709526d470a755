//! How many instructions a call takes, counted one by one: a copy of this process makes the call
//! between two breakpoints while this one steps it through.

/// Instructions of one call, and how many of them jump or call through a register or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) instructions: usize,
    pub(super) indirect: usize,
}

/// Counts a call. Its effects on memory shared with other processes are real. `None` where
/// processes cannot be traced.
#[cfg(target_arch = "x86_64")]
pub(super) fn steps(call: impl Fn() -> Result<(), String>) -> Option<Steps> {
    // SAFETY: this program has one thread, so the copy may run anything; it ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return None;
    }
    if child == 0 {
        // SAFETY: asks to be traced, stops for the tracer, and breaks around the call.
        unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            // Once before, for what is done on a first call only.
            let _ = call();
            std::arch::asm!("int3");
            let outcome = call();
            std::arch::asm!("int3");
            libc::_exit(i32::from(outcome.is_err()));
        }
    }
    let steps = traced(child);
    // SAFETY: the child of this process, which it started.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    steps
}

#[cfg(target_arch = "x86_64")]
fn traced(child: libc::pid_t) -> Option<Steps> {
    let stopped = |signal: i32| {
        let mut status = 0;
        // SAFETY: waits for the child of this process.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        waited == child && libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == signal
    };
    // SAFETY: the child asked to be traced by this process.
    let resume = |how| unsafe { libc::ptrace(how, child, 0, 0) } == 0;
    if !(stopped(libc::SIGSTOP) && resume(libc::PTRACE_CONT) && stopped(libc::SIGTRAP)) {
        return None;
    }
    let mut steps = Steps {
        instructions: 0,
        indirect: 0,
    };
    loop {
        // SAFETY: the child is stopped; the call fills the registers.
        let at = unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            if libc::ptrace(libc::PTRACE_GETREGS, child, 0, &mut registers) != 0 {
                return None;
            }
            registers.rip
        };
        // SAFETY: reads a word of the child's code.
        let code = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, child, at, 0) }.to_ne_bytes();
        if code[0] == 0xcc {
            return Some(steps);
        }
        steps.instructions += 1;
        steps.indirect += usize::from(is_indirect(&code));
        if steps.instructions > 1_000_000
            || !(resume(libc::PTRACE_SINGLESTEP) && stopped(libc::SIGTRAP))
        {
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
