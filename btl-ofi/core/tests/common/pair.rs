//! A second process for tests that need one: the test's own program, started again as a target.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use btl_ofi::{Endpoint, Handle, Transport};
use mca_params::Value;
use plugin_api::{Access, ThreadLevel, hmem_iface};

use super::memory::{Memory, Window, remove_files};
use super::there::There;
use super::{BLOCKED, Patience, again, device, open};

const ROLE: &str = "BTL_OFI_TEST_PROVIDER";
const PASSIVE: &str = "BTL_OFI_TEST_PASSIVE";
const DEVICE: &str = "BTL_OFI_TEST_DEVICE";
const MEMORY: &str = "BTL_OFI_TEST_MEMORY";
const SUCCESSOR: &str = "BTL_OFI_TEST_SUCCESSOR";
const BESIDE: &str = "BTL_OFI_TEST_BESIDE";
/// The number of words of the target's window.
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

/// Whether targets serve in a separate thread, so that their main thread may end.
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

/// The program of the target; it does not return.
fn serve_as_target() {
    let provider = std::env::var(ROLE).expect("started by a test, as its target");
    // shm exchanges names at the first contact, for which both sides must make progress once.
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
            t.set_overrides(Some(&device::copies()));
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
        // The target made no progress since the line arrived, so the words were already there.
        println!("@{} {}", window.word(first), window.word(last));
        std::io::stdout().flush().unwrap();
    }
    drop(region);
    t.close().unwrap();
    // A return would let the test harness print further lines, so the process exits here.
    std::process::exit(0);
}

/// Changes this process as its peers see it; false if the line asks for no such change.
fn act(line: &str, window: usize) -> bool {
    match line {
        // The process executes another program, which maps other memory at the window's address.
        "exec" => {
            let mut command = again(module_path!(), "successor_process");
            command.env_remove(ROLE).env(SUCCESSOR, window.to_string());
            // SAFETY: the arguments are numbers. The successor ends with the test.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            panic!("exec: {}", command.exec());
        }
        // The main thread ends; this thread is another one, and continues.
        "leave" => {
            extern "C" fn end(_: libc::c_int) {
                // SAFETY: the call ends only this thread, which waits for another thread in `join`.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            }
            let end: extern "C" fn(libc::c_int) = end;
            let pid = std::process::id();
            // SAFETY: the handler makes one system call; the signal is sent to the main thread.
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
        // Peers without CAP_SYS_PTRACE can no longer access this process.
        "hide" => {
            // SAFETY: the arguments are numbers.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }, 0);
            true
        }
        _ => false,
    }
}

/// The initial value of the words of the next program at the window's address.
const THEIRS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// The program that a target executes: prints how many of its words were changed.
fn succeed_target() {
    let window = std::env::var(SUCCESSOR).expect("executed by a target");
    let window: usize = window.parse().unwrap();
    let start = window / 4096 * 4096;
    let length = window - start + WORDS * 8;
    // SAFETY: the mapping is new, at a free address.
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

/// The path to a target's window on a simulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceWay {
    /// The target makes the copies in its progress calls.
    Progress,
    /// A thread of the target's transport makes the copies.
    Thread,
    /// The provider accesses the device.
    Direct,
}

impl DeviceWay {
    fn of(name: &str) -> DeviceWay {
        let all = [DeviceWay::Progress, DeviceWay::Thread, DeviceWay::Direct];
        all.into_iter()
            .find(|way| format!("{way:?}") == name)
            .unwrap()
    }

    /// The parameters of the transports on both sides.
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

/// A connected target process.
pub(crate) struct Target<'a> {
    t: &'a Transport,
    pub(crate) child: Child,
    to: Option<ChildStdin>,
    hear: mpsc::Receiver<String>,
    pub(crate) peer: NonNull<Endpoint>,
    /// The published address, to which other transports can connect.
    pub(crate) address: Vec<u8>,
    pub(crate) handle: Handle,
    /// The beginning of its window; for a window on a device, the handle holds another value.
    pub(crate) window: u64,
}

impl<'a> Target<'a> {
    /// Starts a target with the provider of `t`.
    pub(crate) fn start(t: &'a Transport, provider: &str, passive: bool) -> Target<'a> {
        Target::start_as(0, t, provider, passive)
    }

    /// The same as [`start`](Self::start), with the window on a simulated device.
    pub(crate) fn start_on_device(t: &'a Transport, provider: &str, way: DeviceWay) -> Target<'a> {
        let device = (DEVICE, format!("{way:?}"));
        Target::begin(0, t, provider, way == DeviceWay::Thread, Some(device))
    }

    /// The same as [`start`](Self::start), with the window in the given kind of memory.
    pub(crate) fn start_in(t: &'a Transport, provider: &str, memory: Memory) -> Target<'a> {
        Target::begin(0, t, provider, false, Some((MEMORY, format!("{memory:?}"))))
    }

    /// The same as [`start`](Self::start), connected as process `proc`.
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
                // The test harness prints text before the target's lines, without a newline.
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

    /// The peer's window, as this process reaches it.
    pub(crate) fn there(&self) -> There<'a> {
        There {
            base: self.window,
            ..There::new(self.t, self.peer, self.handle)
        }
    }

    /// Its window, as another transport reaches it.
    pub(crate) fn reached_by<'b>(&self, t: &'b Transport) -> There<'b> {
        let peer = t.connect(&self.address, 0).unwrap();
        There {
            t,
            peer,
            ..self.there()
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The values of two words of the target's window, read without further progress.
    pub(crate) fn sees(&mut self, first: usize, last: usize) -> (u64, u64) {
        self.say(&format!("{first} {last}"));
        let answer = self.answer();
        let (a, b) = answer.split_once(' ').unwrap();
        (a.parse().unwrap(), b.parse().unwrap())
    }

    /// Makes the target change itself, as `act` describes.
    pub(crate) fn act(&mut self, what: &str) {
        self.say(what);
        assert_eq!(self.answer(), "done");
    }

    /// The same as `act`, without progress of this process.
    pub(crate) fn act_unattended(&mut self, what: &str) {
        self.say(what);
        assert_eq!(self.hear.recv_timeout(BLOCKED).unwrap(), "done");
    }

    /// The number of changed words at the window's address in the program that the target executed.
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
            // The target may need an answer of this process, for example to connect.
            self.t.progress();
            assert!(deadline.lasts(), "the target does not answer");
            std::thread::yield_now();
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets the target end by itself, and releases it, which was connected once.
    pub(crate) fn end_and_release(self) {
        let there = self.there();
        self.end();
        there.release();
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
        // The child has already ended, unless the test failed or killed it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_files(self.child.id());
    }
}
