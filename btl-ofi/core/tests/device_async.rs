//! Asynchronous copies of device memory: several are outstanding at once, beside transfers, and the data that arrives is
//! right. The pretended device makes a copy after a number of queries, not when the copy is started.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use btl_ofi::{Completion, Endpoint, Handle, Transport};
use common::Calls as _;
use mca_params::Value;
use plugin_api::{Access, IoVec, Module, OverrideOps, Status, ThreadLevel, hmem_iface};

use common::pair::{DeviceWay, Target, WORDS, serve_as_target};
use common::{Patience, device, insist, near, open};

#[test]
#[ignore = "a child process of other tests, which start it"]
fn target_process() {
    serve_as_target();
}

/// Bytes of a transfer: eight fragments or more.
const BYTES: usize = 2 << 20;
/// Questions after which a copy is complete.
const QUESTIONS: usize = 5;
/// The same of a slow device: a dead peer is found meanwhile.
const MANY_QUESTIONS: usize = 100_000;
/// Marks a bounce buffer that is not filled yet.
const NOT_YET: u8 = 0xee;
const STREAM: usize = 0x5354;

/// A copy that was started.
struct Started {
    number: usize,
    questions: usize,
    to_device: bool,
    /// The address on the device, the one on the host, bytes.
    place: (usize, usize, usize),
}

#[derive(Default)]
struct Device {
    under_way: Vec<Started>,
    /// Copies that were started, and the most that were under way at once.
    started: usize,
    most: usize,
    /// The number of a copy that fails, and of one that finds no event.
    fails: Option<usize>,
    refuses: Option<usize>,
    slow: bool,
}

static DEVICE: Mutex<Option<Device>> = Mutex::new(None);
/// Tests that use the device, one at a time.
static TURN: Mutex<()> = Mutex::new(());

fn with<R>(act: impl FnOnce(&mut Device) -> R) -> R {
    let mut guard = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    act(guard.get_or_insert_with(Device::default))
}

/// The device as new, for one test.
fn fresh() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    with(|device| *device = Device::default());
    turn
}

/// Takes note of a copy.
///
/// # Safety
/// `iov` has an element, and `event` is writable.
unsafe fn start(
    stream: *mut c_void,
    to_device: bool,
    iov: *const IoVec,
    host: usize,
    size: usize,
    event: *mut *mut c_void,
) -> isize {
    assert_eq!(stream.addr(), STREAM);
    // SAFETY: the caller guarantees the element.
    let at = unsafe { (*iov).base }.addr();
    let number = with(|device| {
        device.started += 1;
        if device.refuses == Some(device.started) {
            return None;
        }
        device.under_way.push(Started {
            number: device.started,
            questions: 0,
            to_device,
            place: (at, host, size),
        });
        device.most = device.most.max(device.under_way.len());
        Some(device.started)
    });
    let Some(number) = number else {
        // -FI_EAGAIN
        return -11;
    };
    // SAFETY: the caller guarantees `event`.
    unsafe { *event = ptr::without_provenance_mut(number) };
    size as isize
}

unsafe extern "C" fn start_from(
    stream: *mut c_void,
    dest: *mut c_void,
    size: usize,
    iov: *const IoVec,
    _iface: *const u32,
    count: usize,
    _offset: u64,
    event: *mut *mut c_void,
) -> isize {
    assert_eq!(count, 1);
    // SAFETY: the caller guarantees `size` bytes at `dest`, an element and `event`.
    unsafe {
        ptr::write_bytes(dest.cast::<u8>(), NOT_YET, size);
        start(stream, false, iov, dest.expose_provenance(), size, event)
    }
}

unsafe extern "C" fn start_to(
    stream: *mut c_void,
    iov: *const IoVec,
    _iface: *const u32,
    count: usize,
    _offset: u64,
    src: *const c_void,
    size: usize,
    event: *mut *mut c_void,
) -> isize {
    assert_eq!(count, 1);
    // SAFETY: the caller guarantees an element and `event`.
    unsafe { start(stream, true, iov, src.expose_provenance(), size, event) }
}

unsafe extern "C" fn query(event: *mut c_void) -> i32 {
    with(|device| {
        let needed = if device.slow {
            MANY_QUESTIONS
        } else {
            QUESTIONS
        };
        let here = |started: &Started| started.number == event.addr();
        let index = device.under_way.iter().position(here);
        let index = index.expect("asked for a copy that is over");
        let started = &mut device.under_way[index];
        started.questions += 1;
        if started.questions < needed {
            return 0;
        }
        let Started {
            number,
            to_device,
            place: (at, host, size),
            ..
        } = device.under_way.swap_remove(index);
        if device.fails == Some(number) {
            // -FI_EIO
            return -5;
        }
        let iov = IoVec {
            base: ptr::without_provenance_mut(at),
            len: size,
        };
        let kind = &hmem_iface::CUDA;
        let host = ptr::with_exposed_provenance_mut(host);
        // SAFETY: memory of the device and a host buffer, which the transport keeps until the copy is over.
        let copied = unsafe {
            match to_device {
                true => device::copy_to(&iov, kind, 1, 0, host, size),
                false => device::copy_from(host, size, &iov, kind, 1, 0),
            }
        };
        assert_eq!(copied, size as isize);
        1
    })
}

fn overrides() -> OverrideOps {
    let both = OverrideOps::new(Some(device::copy_from), Some(device::copy_to));
    let stream = ptr::without_provenance_mut(STREAM);
    both.with_async(Some(start_from), Some(start_to), Some(query), stream)
}

/// A device buffer of this process, and memory that it puts to and gets from: a host window, which the provider
/// reaches, or a staged window.
struct Bench<'a> {
    t: &'a Transport,
    peer: NonNull<Endpoint>,
    remote: (Handle, u64),
    local: Handle,
    buffer: &'a mut [u64],
}

impl Bench<'_> {
    fn put(&mut self) -> bool {
        self.transfer(true)
    }

    fn get(&mut self) -> bool {
        self.transfer(false)
    }

    /// Whether the transfer succeeded.
    fn transfer(&mut self, put: bool) -> bool {
        let base = device::address(self.buffer.as_mut_ptr().cast());
        let (handle, at) = self.remote;
        let local = (&raw mut self.local).cast();
        // SAFETY: the buffer and the handles live until the flush.
        insist(self.t, || unsafe {
            match put {
                true => self.t.put(self.peer, base, at, local, &handle, BYTES, None),
                false => self.t.get(self.peer, base, at, local, &handle, BYTES, None),
            }
        });
        let done = self.t.flush(None).is_ok();
        with(|device| assert!(device.under_way.is_empty(), "a copy was forgotten"));
        done
    }

    fn fill(&mut self, first: u64) {
        for (value, word) in (first..).zip(self.buffer.iter_mut()) {
            *word = value;
        }
    }

    fn holds(&self, first: u64) -> bool {
        (first..)
            .zip(self.buffer.iter())
            .all(|(value, word)| *word == value)
    }
}

/// Runs a test over a window of each kind, of each provider.
fn over_each(mut test: impl FnMut(&mut Bench<'_>, &str)) {
    for provider in ["shm", "tcp;ofi_rxm"] {
        for staged in [false, true] {
            let _turn = fresh();
            let way = DeviceWay::Progress;
            let t = open(provider, ThreadLevel::Single, &way.parameters());
            t.set_overrides(Some(&overrides()));
            let (mut buffer, mut window) = (vec![0u64; BYTES / 8], vec![0u64; BYTES / 8]);
            let base = device::address(buffer.as_mut_ptr().cast());
            let host = window.as_mut_ptr().cast();
            let (all, kind) = (Access::all(), hmem_iface::CUDA);
            // SAFETY: the memory lives until the regions are closed.
            let (local, remote, at) = unsafe {
                let local = t.register_hmem(base, BYTES, Access::LOCAL_WRITE, kind, 0);
                let (remote, at) = match staged {
                    true => {
                        let at = device::address(host);
                        (t.register_hmem(at, BYTES, all, kind, 0), at)
                    }
                    false => (t.register(host, BYTES, all), host),
                };
                (local.unwrap(), remote.unwrap(), at as u64)
            };
            let mut bench = Bench {
                t: &t,
                peer: t.connect(t.address(), 0).unwrap(),
                remote: (remote.handle(), at),
                local: local.handle(),
                buffer: &mut buffer,
            };
            test(&mut bench, &format!("{provider}, staged {staged}"));
            // SAFETY: connected once.
            unsafe { t.disconnect(bench.peer) };
            local.close().unwrap();
            remote.close().unwrap();
            t.close().unwrap();
        }
    }
}

#[test]
fn fragments_are_copied_at_once() {
    over_each(|bench, what| {
        bench.fill(7);
        assert!(bench.put(), "{what}");
        let (started, most) = with(|device| (device.started, std::mem::take(&mut device.most)));
        assert!(started >= 8 && most >= 2, "{what}: {most} of {started}");
        bench.fill(1_000_000);
        assert!(bench.get(), "{what}");
        assert!(bench.holds(7), "{what}");
        let (all, most) = with(|device| (device.started, device.most));
        assert!(all >= 2 * started && most >= 2, "{what}: {most} of {all}");
    });
}

/// A copy that fails when it was begun already: its operation fails, and the next one does not.
#[test]
fn a_copy_that_fails_later() {
    over_each(|bench, what| {
        for nth in [1, 3] {
            bench.fill(5);
            with(|device| device.fails = Some(device.started + nth));
            assert!(!bench.put(), "{what}");
            assert!(bench.put(), "{what}");
            bench.fill(9);
            with(|device| device.fails = Some(device.started + nth));
            assert!(!bench.get(), "{what}");
            assert!(bench.get(), "{what}");
            assert!(bench.holds(5), "{what}");
        }
    });
}

/// A device without an event for a copy: that copy is made at once.
#[test]
fn a_copy_without_an_event() {
    over_each(|bench, what| {
        bench.fill(3);
        with(|device| device.refuses = Some(device.started + 2));
        assert!(bench.put(), "{what}");
        bench.fill(4);
        with(|device| device.refuses = Some(device.started + 2));
        assert!(bench.get(), "{what}");
        assert!(bench.holds(3), "{what}");
    });
}

/// The reports of an operation to a dead peer.
struct Reports {
    count: AtomicU32,
    /// The number of its last copy.
    last: usize,
}

unsafe extern "C" fn reported(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    reports: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    assert_ne!(status, 0);
    // SAFETY: the test passes its reports, which outlive the operation.
    let reports = unsafe { &*reports.cast::<Reports>() };
    with(|device| {
        let mut numbers = device.under_way.iter().map(|copy| copy.number);
        assert!(numbers.all(|n| n > reports.last), "a copy uses the buffer");
    });
    reports.count.fetch_add(1, Ordering::Relaxed);
}

/// A peer that dies while the device copies for an operation to it: the operation is reported when the copies are over, because
/// they use its buffer, and once.
#[test]
fn a_peer_that_dies_during_a_copy() {
    for staged in [false, true] {
        let _turn = fresh();
        let interval = ("btl_ofi_peer_check_interval", Value::Unsigned(1));
        let t = open(near(), ThreadLevel::Single, &[interval]);
        t.set_overrides(Some(&overrides()));
        let mut source = vec![7u64; WORDS];
        let from = device::address(source.as_mut_ptr().cast());
        // SAFETY: the memory outlives the region.
        let local =
            unsafe { t.register_hmem(from, WORDS * 8, Access::LOCAL_WRITE, hmem_iface::CUDA, 0) };
        let local = local.unwrap();
        let mut dead = match staged {
            true => Target::start_on_device(&t, near(), DeviceWay::Thread),
            false => Target::start(&t, near(), false),
        };
        let (handle, at) = (dead.handle, dead.window);
        let mut with_local = local.handle();
        let mut put = |done: Option<Completion>| {
            let with = (&raw mut with_local).cast();
            // SAFETY: the memory and the handles live until the end of the test.
            insist(&t, || unsafe {
                t.put(dead.peer, from, at, with, &handle, WORDS * 8, done)
            });
        };
        // The first one meets the peer, and takes a lane.
        put(None);
        assert!(t.flush(None).is_ok());
        with(|device| device.slow = true);
        // The operation has one fragment.
        let reports = Reports {
            count: AtomicU32::new(0),
            last: with(|device| device.started) + 1,
        };
        let done = Completion {
            function: reported,
            context: ptr::from_ref(&reports).cast_mut().cast(),
            data: ptr::null_mut(),
        };
        put(Some(done));
        put(None);
        // A staged one takes a lane first.
        let deadline = Patience::new();
        while with(|device| device.under_way.is_empty()) {
            t.progress();
            assert!(deadline.lasts(), "no copy begins");
        }
        dead.child.kill().unwrap();
        dead.child.wait().unwrap();
        // SAFETY: the peer lives until it is released, below.
        let peer = unsafe { dead.peer.as_ref() };
        assert_eq!(t.flush(Some(peer)), Status::UNREACH, "staged {staged}");
        with(|device| assert!(device.under_way.is_empty(), "staged {staged}"));
        assert_eq!(reports.count.load(Ordering::Relaxed), 1, "{staged}");
        drop(dead);
        local.close().unwrap();
        t.close().unwrap();
        assert_eq!(reports.count.load(Ordering::Relaxed), 1, "{staged}");
    }
}
