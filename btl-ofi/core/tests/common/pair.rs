//! A second process for tests that need one: the test's own program, started again as a target.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use btl_ofi::{Endpoint, Handle, Transport};
use mca_params::Value;
use plugin_api::{Access, OverrideOps, ThreadLevel, hmem_iface};

use super::memory::{Memory, Window, remove_files};
use super::{BLOCKED, Patience, again, device, open};

const ROLE: &str = "BTL_OFI_TEST_PROVIDER";
const PASSIVE: &str = "BTL_OFI_TEST_PASSIVE";
const DEVICE: &str = "BTL_OFI_TEST_DEVICE";
const MEMORY: &str = "BTL_OFI_TEST_MEMORY";
const SUCCESSOR: &str = "BTL_OFI_TEST_SUCCESSOR";
const BESIDE: &str = "BTL_OFI_TEST_BESIDE";
/// Words of the target's window.
pub(crate) const WORDS: usize = 16 * 1024;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.trim().as_bytes().chunks_exact(2);
    digits
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
        .collect()
}

/// Whether targets serve in a thread of their own, so that their main thread may end.
pub(crate) static BESIDE_MAIN: AtomicBool = AtomicBool::new(false);

#[test]
#[ignore = "a child process of other tests, which start it"]
fn target_process() {
    match std::env::var_os(BESIDE) {
        Some(_) => std::thread::spawn(serve_as_target).join().unwrap(),
        None => serve_as_target(),
    }
}

#[test]
#[ignore = "the program that a target process executes"]
fn successor_process() {
    succeed_target();
}

/// A handle as text, for another process.
pub(crate) fn handle_text(handle: Handle) -> String {
    // SAFETY: a handle is plain bytes.
    let bytes: [u8; Handle::SIZE] = unsafe { std::mem::transmute(handle) };
    hex(&bytes)
}

pub(crate) fn handle_of(text: &str) -> Handle {
    let bytes: [u8; Handle::SIZE] = unhex(text).try_into().unwrap();
    // SAFETY: a handle is plain bytes.
    unsafe { std::mem::transmute::<[u8; Handle::SIZE], Handle>(bytes) }
}

/// The target's side; it does not return.
fn serve_as_target() {
    let provider = std::env::var(ROLE).expect("started by a test, as its target");
    // shm exchanges names on first contact, for which both sides must progress once.
    let passive_once_met = std::env::var_os(PASSIVE).is_some();
    let mut met = false;
    let on_device = std::env::var(DEVICE).ok().map(|way| DeviceWay::of(&way));
    let wanted = on_device.map_or(Vec::new(), DeviceWay::parameters);
    let t = open(&provider, ThreadLevel::Single, &wanted);
    let memory = std::env::var(MEMORY).map_or(Memory::Heap, |name| Memory::of(&name));
    let window = Window::new(memory, WORDS);
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let base = window.base().cast::<std::ffi::c_void>();
    let address = match on_device {
        Some(_) => device::address(base),
        None => base,
    };
    // SAFETY: the window lives to the end of the process.
    let mut region = unsafe {
        if on_device.is_some() {
            let copies = OverrideOps::new(Some(device::copy_from), Some(device::copy_to));
            t.set_overrides(Some(&copies));
            t.register_hmem(address, WORDS * 8, access, hmem_iface::CUDA, 0)
        } else {
            window.register(&t, access)
        }
    }
    .ok();
    let handle = handle_text(region.as_ref().unwrap().handle());
    let mut lines = BufReader::new(std::io::stdin()).lines();
    let origin = unhex(&lines.next().unwrap().unwrap());
    let _peer = t.connect(&origin, 1).unwrap();
    println!("@{} {handle} {}", hex(t.address()), address.addr());
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || lines.try_for_each(|l| tell.send(l.unwrap())));
    loop {
        let line = match hear.try_recv() {
            Ok(line) => line,
            Err(mpsc::TryRecvError::Disconnected) => break,
            Err(mpsc::TryRecvError::Empty) => {
                if !(passive_once_met && met) {
                    t.progress();
                }
                std::thread::yield_now();
                continue;
            }
        };
        met = true;
        if line == "deregister" {
            region = None;
        }
        if act(&line, address.addr()) {
            println!("@done");
            continue;
        }
        let (first, last) = line.split_once(' ').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        // No progress since the line arrived: what is seen now was there.
        println!("@{} {}", window.word(first), window.word(last));
        std::io::stdout().flush().unwrap();
    }
    drop(region);
    t.close().unwrap();
    // The rest of a test process would print its own lines; this one is done.
    std::process::exit(0);
}

/// Does what changes this process as its peers see it; no if the line asks for nothing of the kind.
fn act(line: &str, window: usize) -> bool {
    match line {
        // Another program, which maps other memory at the window's place.
        "exec" => {
            let mut command = again(module_path!(), "successor_process");
            command.env_remove(ROLE).env(SUCCESSOR, window.to_string());
            // SAFETY: plain numbers. It ends with the test.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            panic!("exec: {}", command.exec());
        }
        // The main thread ends, and this one, which must be another, goes on.
        "leave" => {
            extern "C" fn end(_: libc::c_int) {
                // SAFETY: ends this thread alone, which waits for another in `join`.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            }
            let end: extern "C" fn(libc::c_int) = end;
            let pid = std::process::id();
            // SAFETY: a handler that makes one system call; the signal is for the main thread.
            unsafe {
                libc::signal(libc::SIGUSR1, end as usize);
                libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGUSR1);
            }
            let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            while !stat().rsplit(')').next().unwrap().trim().starts_with('Z') {
                std::thread::yield_now();
            }
            true
        }
        "deregister" => true,
        // Peers without CAP_SYS_PTRACE can no longer reach it.
        "hide" => {
            // SAFETY: plain numbers.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }, 0);
            true
        }
        _ => false,
    }
}

/// What words of the next program hold at the place of the window.
const THEIRS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// The program that a target executed: says how many of its words were changed.
fn succeed_target() {
    let window = std::env::var(SUCCESSOR).expect("executed by a target");
    let window: usize = window.parse().unwrap();
    let start = window / 4096 * 4096;
    let length = window - start + WORDS * 8;
    // SAFETY: a new mapping, at a place that is free.
    let at = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(start),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(at.addr(), start, "{}", std::io::Error::last_os_error());
    let words: *mut u64 = at.wrapping_byte_add(window - start).cast();
    for i in 0..WORDS {
        // SAFETY: inside the mapping.
        unsafe { words.add(i).write_volatile(THEIRS) };
    }
    println!("@done");
    for _ in BufReader::new(std::io::stdin()).lines() {
        // SAFETY: the words lie inside the mapping, which is never unmapped.
        let changed = (0..WORDS).filter(|i| unsafe { words.add(*i).read_volatile() } != THEIRS);
        println!("@{}", changed.count());
    }
    std::process::exit(0);
}

/// How a target's window on a pretended device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceWay {
    /// By copies, which the target makes when it progresses ...
    Progress,
    /// ... or a thread of its transport.
    Thread,
    /// By the provider.
    Direct,
}

impl DeviceWay {
    fn of(name: &str) -> DeviceWay {
        let all = [DeviceWay::Progress, DeviceWay::Thread, DeviceWay::Direct];
        all.into_iter()
            .find(|way| format!("{way:?}") == name)
            .unwrap()
    }

    /// What a transport is opened with, on both sides.
    pub(crate) fn parameters(self) -> Vec<(&'static str, Value)> {
        let hmem = if self == DeviceWay::Direct {
            "on"
        } else {
            "off"
        };
        vec![
            ("btl_ofi_hmem", Value::str(hmem)),
            (
                "btl_ofi_hmem_thread",
                Value::Bool(self == DeviceWay::Thread),
            ),
        ]
    }
}

/// A target process, connected.
pub(crate) struct Target<'a> {
    t: &'a Transport,
    pub(crate) child: Child,
    to: Option<ChildStdin>,
    hear: mpsc::Receiver<String>,
    pub(crate) peer: NonNull<Endpoint>,
    /// What it published, for other transports to connect to.
    pub(crate) address: Vec<u8>,
    pub(crate) handle: Handle,
    /// Where its window begins: on a device, what the handle holds is not that.
    pub(crate) window: u64,
}

impl<'a> Target<'a> {
    /// Starts one over the provider that `t` uses.
    pub(crate) fn start(t: &'a Transport, provider: &str, passive: bool) -> Target<'a> {
        Target::start_as(0, t, provider, passive)
    }

    /// As [`start`](Self::start), with its window on a pretended device.
    pub(crate) fn start_on_device(t: &'a Transport, provider: &str, way: DeviceWay) -> Target<'a> {
        let device = (DEVICE, format!("{way:?}"));
        Target::begin(0, t, provider, way == DeviceWay::Thread, Some(device))
    }

    /// As [`start`](Self::start), with its window in such memory.
    pub(crate) fn start_in(t: &'a Transport, provider: &str, memory: Memory) -> Target<'a> {
        Target::begin(0, t, provider, false, Some((MEMORY, format!("{memory:?}"))))
    }

    /// As [`start`](Self::start), connected as process `proc`.
    pub(crate) fn start_as(
        proc: u64,
        t: &'a Transport,
        provider: &str,
        passive: bool,
    ) -> Target<'a> {
        Target::begin(proc, t, provider, passive, None)
    }

    fn begin(
        proc: u64,
        t: &'a Transport,
        provider: &str,
        passive: bool,
        window: Option<(&str, String)>,
    ) -> Target<'a> {
        let mut command = again(module_path!(), "target_process");
        command.arg("--test-threads=1");
        if BESIDE_MAIN.load(Ordering::Relaxed) {
            command.env(BESIDE, "1");
        }
        command
            .env(ROLE, provider)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if passive {
            command.env(PASSIVE, "1");
        }
        command.envs(window);
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take();
        let from = child.stdout.take().unwrap();
        let (tell, hear) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from.take(1 << 24)).lines() {
                // The harness prints its own lines before ours, without a newline of their own.
                if let Some((_, answer)) = line.unwrap().split_once('@')
                    && tell.send(answer.to_owned()).is_err()
                {
                    break;
                }
            }
        });
        let mut target = Target {
            t,
            child,
            to,
            hear,
            peer: NonNull::dangling(),
            address: Vec::new(),
            handle: Handle::vacant(),
            window: 0,
        };
        target.say(&hex(t.address()));
        let hello = target.answer();
        let (address, rest) = hello.split_once(' ').unwrap();
        let (handle, window) = rest.split_once(' ').unwrap();
        target.window = window.parse().unwrap();
        target.address = unhex(address);
        target.peer = t.connect(&target.address, proc).unwrap();
        target.handle = handle_of(handle);
        target
    }

    fn say(&mut self, line: &str) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
    }

    /// What the target sees in two words of its window, read without further progress.
    pub(crate) fn sees(&mut self, first: usize, last: usize) -> (u64, u64) {
        self.say(&format!("{first} {last}"));
        let answer = self.answer();
        let (a, b) = answer.split_once(' ').unwrap();
        (a.parse().unwrap(), b.parse().unwrap())
    }

    /// Has the target change itself, as `act` says.
    pub(crate) fn act(&mut self, what: &str) {
        self.say(what);
        assert_eq!(self.answer(), "done");
    }

    /// Likewise, without progress here.
    pub(crate) fn act_unattended(&mut self, what: &str) {
        self.say(what);
        assert_eq!(self.hear.recv_timeout(BLOCKED).unwrap(), "done");
    }

    /// How many words of the program that it executed were changed, at the place of its window.
    pub(crate) fn changed(&mut self) -> usize {
        self.say("?");
        self.answer().parse().unwrap()
    }

    fn answer(&self) -> String {
        let deadline = Patience::new();
        loop {
            if let Ok(line) = self.hear.try_recv() {
                return line;
            }
            // The target may need us to answer it, connecting for instance.
            self.t.progress();
            assert!(deadline.lasts(), "the target does not answer");
            std::thread::yield_now();
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets the target end by itself.
    pub(crate) fn end(mut self) {
        self.to = None;
        let deadline = Patience::new();
        while self.child.try_wait().unwrap().is_none() {
            self.t.progress();
            assert!(deadline.lasts(), "the target does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        // Already over unless the test failed or killed it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_files(self.child.id());
    }
}
