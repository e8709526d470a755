//! The process whose windows go bad, told step by step what to do.

use std::ffi::c_void;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr::{self, NonNull};
use std::sync::mpsc;

use btl_ofi::{Endpoint, Handle, Region, Transport};
use mca_params::Value;
use plugin_api::{Access, ThreadLevel};

use super::common::pair::{hex, unhex};
use super::common::{Patience, near, open};

const ROLE: &str = "BTL_OFI_TEST_GUARD";
/// Bytes of each window.
pub(crate) const BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Good,
    ReadOnly,
    Truncated,
    Unmapped,
    /// A file of which the first half is left.
    Half,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [
        Kind::Good,
        Kind::ReadOnly,
        Kind::Truncated,
        Kind::Unmapped,
        Kind::Half,
    ];
}

/// Windows of all kinds, registered for everything while all of them were good, but for the read-only one.
pub(crate) struct Windows {
    at: [*mut c_void; 5],
    files: [i32; 5],
    regions: Vec<Region>,
}

/// Where the mapping that goes lies: nothing else is placed so far from everything.
const AWAY: usize = 0x2000_0000_0000;

fn map(at: usize, rights: i32, file: i32) -> *mut c_void {
    let kind = if file < 0 {
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS
    } else {
        libc::MAP_SHARED
    };
    let at = ptr::without_provenance_mut(at);
    // SAFETY: a new mapping, placed by the kernel.
    let at = unsafe { libc::mmap(at, BYTES, rights, kind, file, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at
}

/// Memory that nobody may touch.
pub(crate) fn unusable() -> *mut c_void {
    map(0, libc::PROT_NONE, -1)
}

impl Windows {
    pub(crate) fn new(t: &Transport) -> Windows {
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let file = || {
            // SAFETY: a C string and plain numbers.
            unsafe {
                let file = libc::memfd_create(c"window".as_ptr(), libc::MFD_CLOEXEC);
                assert_eq!(libc::ftruncate(file, BYTES as libc::off_t), 0);
                file
            }
        };
        let mut windows = Windows {
            at: [ptr::null_mut(); 5],
            files: [-1; 5],
            regions: Vec::new(),
        };
        for kind in Kind::ALL {
            let index = kind as usize;
            if matches!(kind, Kind::Truncated | Kind::Half) {
                windows.files[index] = file();
            }
            let rights = match kind {
                Kind::ReadOnly => libc::PROT_READ,
                _ => both,
            };
            let place = if kind == Kind::Unmapped { AWAY } else { 0 };
            let at = map(place, rights, windows.files[index]);
            windows.at[index] = at;
            // SAFETY: the mapping lives as long as the region, or is meant not to.
            let region = unsafe { t.register(at, BYTES, Access::all()) }.unwrap();
            windows.regions.push(region);
        }
        windows
    }

    pub(crate) fn handle(&self, kind: Kind) -> Handle {
        self.regions[kind as usize].handle()
    }

    pub(crate) fn good(&self) -> *mut u8 {
        self.at[Kind::Good as usize].cast()
    }

    /// Truncates the files and unmaps what is to be unmapped.
    pub(crate) fn spoil(&self) {
        let half = (BYTES / 2) as libc::off_t;
        let [.., truncated, _, halved] = self.files;
        // SAFETY: files and a mapping of ours; a mapping of no access takes its place at once, so that no
        // other comes to lie there.
        unsafe {
            assert_eq!(libc::ftruncate(truncated, 0), 0);
            assert_eq!(libc::ftruncate(halved, half), 0);
            let at = self.at[Kind::Unmapped as usize];
            assert_eq!(libc::munmap(at, BYTES), 0);
        }
    }
}

/// The target's side; it does not return.
pub(crate) fn serve_as_target() {
    let role = std::env::var(ROLE).expect("started by a test, as its target");
    let values = [("btl_ofi_fault_guard", Value::Bool(role == "guarded"))];
    let t = open(near(), ThreadLevel::Single, &values);
    let windows = Windows::new(&t);
    let mut lines = BufReader::new(std::io::stdin()).lines();
    let origin = unhex(&lines.next().unwrap().unwrap());
    t.connect(&origin, 1).unwrap();
    let mut hello = hex(t.address());
    for kind in Kind::ALL {
        // SAFETY: a handle is plain bytes.
        let bytes: [u8; Handle::SIZE] = unsafe { std::mem::transmute(windows.handle(kind)) };
        hello = format!("{hello} {}", hex(&bytes));
    }
    windows.spoil();
    println!("@{hello}");
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || lines.try_for_each(|l| tell.send(l.unwrap())));
    let mut runs = false;
    loop {
        let line = match hear.try_recv() {
            Ok(line) => line,
            Err(mpsc::TryRecvError::Disconnected) => break,
            Err(mpsc::TryRecvError::Empty) => {
                if runs {
                    t.progress();
                }
                std::thread::yield_now();
                continue;
            }
        };
        let answer = match line.split_once(' ') {
            Some(("word", index)) => {
                let at = windows.good().cast::<u64>();
                // SAFETY: a word of the good window.
                unsafe { at.add(index.parse().unwrap()).read_volatile() }
            }
            _ => {
                runs |= line == "run";
                t.progress();
                t.progress();
                0
            }
        };
        println!("@{answer}");
        std::io::stdout().flush().unwrap();
    }
    drop(windows);
    t.close().unwrap();
    std::process::exit(0);
}

/// A target process, connected.
pub(crate) struct Target<'a> {
    t: &'a Transport,
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    pub(crate) peer: NonNull<Endpoint>,
    handles: Vec<Handle>,
}

impl<'a> Target<'a> {
    pub(crate) fn start(t: &'a Transport, guarded: bool) -> Target<'a> {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "target_process", "--ignored", "--nocapture"])
            .args(["--test-threads", "1"])
            .env(ROLE, if guarded { "guarded" } else { "plain" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut target = Target {
            t,
            child,
            to,
            from,
            peer: NonNull::dangling(),
            handles: Vec::new(),
        };
        let hello = target.ask(&hex(t.address()));
        let mut words = hello.split(' ');
        target.peer = t.connect(&unhex(words.next().unwrap()), 0).unwrap();
        target.handles = words
            .map(|word| {
                let bytes: [u8; Handle::SIZE] = unhex(word).try_into().unwrap();
                // SAFETY: a handle is plain bytes.
                unsafe { std::mem::transmute::<[u8; Handle::SIZE], Handle>(bytes) }
            })
            .collect();
        target
    }

    pub(crate) fn handle(&self, kind: Kind) -> Handle {
        self.handles[kind as usize]
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
        loop {
            let mut answer = String::new();
            let read = self.from.read_line(&mut answer).unwrap();
            if read == 0 {
                panic!("the target is gone: {}", self.child.wait().unwrap());
            }
            // The harness prints its own lines before ours, without a newline of their own.
            if let Some((_, answer)) = answer.split_once('@') {
                return answer.trim().to_owned();
            }
        }
    }

    /// Has the target make progress, while this process makes none.
    pub(crate) fn progresses(&mut self) {
        self.ask("progress");
    }

    /// Has it make progress all the time from now on.
    pub(crate) fn runs(&mut self) {
        self.ask("run");
    }

    /// A word of its good window.
    pub(crate) fn sees(&mut self, index: usize) -> u64 {
        self.ask(&format!("word {index}")).parse().unwrap()
    }

    /// Lets it end by itself, in order.
    pub(crate) fn end(mut self) {
        self.to = None;
        let deadline = Patience::new();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return;
            }
            self.t.progress();
            assert!(deadline.lasts(), "the target does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        // Already over unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
