//! Windows on a device over the lab provider: the provider accesses them directly, or copies are
//! used when a transfer fails. Further tests use tables that lack one copy function.

use plugin_api::HmemInfo;

use crate::lab::prelude::*;

/// The provider accepts the registration and the copy functions, and a completed put is visible.
#[test]
fn direct() {
    alone(|| {
        shape(&[("HMEM", "1"), ("HMEM_OVERRIDE", "1")]);
        let way = DeviceWay::Direct;
        let t = open("lab", ThreadLevel::Single, &way.parameters());
        let mut target = Target::start_on_device(&t, "lab", way);
        let base = target.window;
        shows(&t, &mut target, base, true, "lab");
        target.end_and_release();
        t.close().unwrap();
    });
}

/// The data transfer of a put fails: the put fails, and the next put succeeds.
#[test]
fn failing() {
    alone(|| {
        // The third transfer follows the header and the lane.
        shape(&[("FAULTS", "seed=1,nth=3")]);
        let way = DeviceWay::Progress;
        let t = open("lab", ThreadLevel::Single, &way.parameters());
        let mut target = Target::start_on_device(&t, "lab", way);
        for (value, fails) in [(5u64, true), (6, false)] {
            let source = [value; 512];
            target.there().insist(|there| there.put(0, &source, None));
            let flushed = t.flush(None);
            assert_eq!(flushed.is_ok(), !fails, "the put of {value}: {flushed}");
        }
        assert_eq!(target.sees(0, 511), (6, 6));
        target.end_and_release();
        t.close().unwrap();
    });
}

/// Makes progress until an operation is reported; asserts that it is reported once.
fn reported(t: &Transport, seen: &Seen) {
    until(&[t], "it is never reported", || seen.all() != 0);
    for _ in 0..1000 {
        t.progress();
    }
    assert_eq!(seen.all(), 1);
}

/// Registers device memory as the source of puts, and host memory as their target. Both buffers
/// outlive the regions.
fn device_and_host(t: &Transport, source: &mut [u64], target: &mut [u64]) -> (Region, Region) {
    let local = device::register(t, source, Access::LOCAL_WRITE);
    (local, register(t, target, Access::all()))
}

/// A transfer of an operation fails, and the provider does not say which one: the operation is reported once, and no call
/// waits forever.
#[test]
fn nameless() {
    const BYTES: usize = 1 << 20;
    alone(|| {
        let mut failed = 0;
        for nth in 1..9 {
            println!("@at {nth}");
            shape(&[("FAULTS", &format!("seed=1,nth={nth},nameless=1000,delay=9"))]);
            let way = DeviceWay::Progress;
            let t = open("lab", ThreadLevel::Single, &way.parameters());
            t.set_overrides(Some(&pair::<0>()));
            // The put goes from device memory to host memory, in fragments.
            let (mut source, mut target) = (vec![7u64; BYTES / 8], vec![0u64; BYTES / 8]);
            let (local, remote) = device_and_host(&t, &mut source, &mut target);
            let own = There::of(&t, 0, &t, &remote);
            let seen = Seen::default();
            put_from_device(own, &mut source, &local, seen.completion());
            reported(&t, &seen);
            failed += seen.failed();
            assert!(t.flush(None).is_ok());
            own.release();
            local.close().unwrap();
            remote.close().unwrap();
            // The put goes to the device memory of another process, through its mailbox.
            let owner = Target::start_on_device(&t, "lab", way);
            let seen = Seen::default();
            let put = |there: &There<'_>| there.put(0, &source[..512], seen.completion());
            owner.there().insist(put);
            reported(&t, &seen);
            failed += seen.failed();
            assert!(t.flush(None).is_ok());
            owner.end_and_release();
            t.close().unwrap();
        }
        assert!(failed > 4, "{failed} failed");
    });
}

/// Two owners with the same endpoint are connected and released in turn. The provider refuses most posts, so a lane may
/// still be taken after the last operation. The lane is returned before the release, and to its own owner.
#[test]
fn released() {
    alone(|| {
        for seed in 1..4 {
            println!("@at {seed}");
            shape(&[("FAULTS", &format!("seed={seed},again=700,burst=40"))]);
            let way = DeviceWay::Progress;
            let t = open("lab", ThreadLevel::Single, &way.parameters());
            let owners = [(); 2].map(|()| {
                let owner = Target::start_on_device(&t, "lab", way);
                assert!(owner.there().release().is_ok());
                owner
            });
            let mut endpoints = Vec::new();
            for owner in owners.iter().cycle().take(2 * 12) {
                let (there, seen) = (owner.reached_by(&t), Seen::default());
                endpoints.push(there.peer);
                there.insist(|there| there.put(0, &[5u64; 512], seen.completion()));
                until(&[&t], "it is never reported", || seen.all() != 0);
                assert_eq!(seen.succeeded(), 1);
                assert!(there.release().is_ok());
            }
            assert!(endpoints.iter().all(|peer| *peer == endpoints[0]));
            for owner in owners {
                owner.end();
            }
            t.close().unwrap();
        }
    });
}

/// The value that the callback of a failed get writes to the get's buffer.
const POISON: u64 = 0xeeee;

/// The callback of a get: overwrites the buffer if the get failed, and counts.
unsafe extern "C" fn ended(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    buffer: *mut c_void,
    _: *mut plugin_api::Handle,
    count: *mut c_void,
    failed: *mut c_void,
    status: i32,
) {
    // SAFETY: the counters and the buffer of `WORDS` words outlive the gets.
    unsafe {
        if status != 0 {
            buffer.cast::<[u64; WORDS]>().write([POISON; WORDS]);
            (*failed.cast::<AtomicU32>()).fetch_add(1, Ordering::Relaxed);
        }
        (*count.cast::<AtomicU32>()).fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of words of a get.
const WORDS: usize = 64;
const GETS: usize = 12;

/// One of the transport's own transfers fails while others take long: the gets that fail with it are reported after the
/// last write to their buffers.
#[test]
fn reported_last() {
    alone(|| {
        let mut all_failed = 0;
        for nth in (3..40).step_by(2) {
            shape(&[(
                "FAULTS",
                &format!("seed={nth},nth={nth},delay=60,reorder=1"),
            )]);
            let way = DeviceWay::Progress;
            let t = open("lab", ThreadLevel::Single, &way.parameters());
            let target = Target::start_on_device(&t, "lab", way);
            let mut buffers = vec![[0u64; WORDS]; GETS];
            let (count, failed) = (AtomicU32::new(0), AtomicU32::new(0));
            let done = Some(Completion {
                function: ended,
                context: (&raw const count).cast_mut().cast(),
                data: (&raw const failed).cast_mut().cast(),
            });
            for buffer in &mut buffers {
                target.there().insist(|there| there.get(0, buffer, done));
            }
            while count.load(Ordering::Relaxed) < GETS as u32 {
                t.progress();
            }
            // The loop takes longer than any transfer.
            for _ in 0..1000 {
                t.progress();
            }
            let poisoned = buffers.iter().filter(|b| b[0] == POISON);
            for buffer in poisoned.clone() {
                assert_eq!(*buffer, [POISON; WORDS], "written after the report, {nth}");
            }
            assert_eq!(
                poisoned.count() as u32,
                failed.load(Ordering::Relaxed),
                "{nth}"
            );
            all_failed += failed.load(Ordering::Relaxed);
            target.end_and_release();
            t.close().unwrap();
        }
        assert!(all_failed > 0);
    });
}

/// Tables that lack one copy function, on a machine whose devices the transport does not access. The transport does not
/// offer such a table to the provider, which has its own functions. The transport's own function, which does not know this
/// memory, replaces the absent function. A provider that was offered both functions keeps them.
#[test]
fn one_function() {
    alone(|| {
        for taken in ["1", "0"] {
            shape(&[("HMEM", "1"), ("HMEM_OVERRIDE", taken)]);
            let t = open("lab", ThreadLevel::Single, &DeviceWay::Direct.parameters());
            let both = match taken {
                "1" => HmemInfo::PROVIDER,
                _ => HmemInfo::TRANSPORT,
            };
            let (from, to) = (Some(device::copy_from as _), Some(device::copy_to as _));
            for (from, to, overrides) in [
                (None, None, HmemInfo::NONE),
                (from, None, HmemInfo::TRANSPORT),
                (None, to, HmemInfo::TRANSPORT),
                (from, to, both),
                (from, None, both),
                (None, to, both),
                (None, None, HmemInfo::NONE),
            ] {
                t.set_overrides(Some(&OverrideOps::new(from, to)));
                let info = t.hmem_info(hmem_iface::CUDA);
                let what = (taken, from.is_some(), to.is_some());
                assert_eq!(info.overrides, overrides, "{what:?}");
                let answer = match overrides {
                    HmemInfo::NONE => HmemInfo::NONE_SET,
                    HmemInfo::PROVIDER => 0,
                    _ => -38,
                };
                assert_eq!(info.provider_answer(), answer, "{what:?}");
                copies(&t, (from.is_some(), to.is_some()));
            }
            t.set_overrides(None);
            assert_eq!(t.hmem_info(hmem_iface::CUDA).overrides, HmemInfo::NONE);
            t.close().unwrap();
        }
    });
}

/// Copies with the current functions; only the user's functions can access the device.
fn copies(t: &btl_ofi::Transport, (from, to): (bool, bool)) {
    let (mut memory, mut flat) = ([1u64, 2], [0u64, 0]);
    let runs = [IoVec {
        base: device::address(memory.as_mut_ptr().cast()),
        len: 16,
    }];
    let (kind, at) = (&hmem_iface::CUDA, flat.as_mut_ptr().cast());
    // SAFETY: the array has one run, with 16 bytes on each side.
    let read = unsafe { t.copy_from_hmem(at, 16, runs.as_ptr(), kind, 1, 0) };
    assert_eq!((read == 16, flat == [1, 2]), (from, from), "{read}");
    let new = [8u64, 9];
    // SAFETY: the run has 16 bytes, and so has `new`.
    let written = unsafe { t.copy_to_hmem(runs.as_ptr(), kind, 1, 0, new.as_ptr().cast(), 16) };
    assert_eq!((written == 16, memory == new), (to, to), "{written}");
    assert!((from || read < 0) && (to || written < 0));
}

/// The number of calls of each pair of copy functions: from the device, to the device.
static CALLS: [[AtomicU32; 2]; 2] = [const { [const { AtomicU32::new(0) }; 2] }; 2];

unsafe extern "C" fn from_by<const PAIR: usize>(
    dest: *mut c_void,
    size: usize,
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    offset: u64,
) -> isize {
    CALLS[PAIR][0].fetch_add(1, Ordering::Relaxed);
    // SAFETY: the transport passes valid arguments for the functions of a table.
    unsafe { device::copy_from(dest, size, iov, iface, count, offset) }
}

unsafe extern "C" fn to_by<const PAIR: usize>(
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    offset: u64,
    src: *const c_void,
    size: usize,
) -> isize {
    CALLS[PAIR][1].fetch_add(1, Ordering::Relaxed);
    // SAFETY: the transport passes valid arguments for the functions of a table.
    unsafe { device::copy_to(iov, iface, count, offset, src, size) }
}

fn pair<const PAIR: usize>() -> OverrideOps {
    OverrideOps::new(Some(from_by::<PAIR>), Some(to_by::<PAIR>))
}

/// Whether the functions of each pair were called since the last question: from the device, to the
/// device.
fn called() -> [[bool; 2]; 2] {
    CALLS
        .each_ref()
        .map(|pair| pair.each_ref().map(|n| n.swap(0, Ordering::Relaxed) > 0))
}

/// Makes a put to this process's own device memory and a get from there, and compares the value.
fn there_and_back(there: There<'_>, value: u64) {
    let (source, mut back) = ([value; 8], [0u64; 8]);
    there.insist(|there| there.put(0, &source, None));
    assert!(there.t.flush(None).is_ok());
    there.insist(|there| there.get(0, &mut back, None));
    assert!(there.t.flush(None).is_ok());
    assert_eq!(back, source);
}

/// Puts this process's memory of the device.
fn put_from_device(there: There<'_>, from: &mut [u64], local: &Region, done: Option<Completion>) {
    let (size, at) = (size_of_val(from), device::address(from.as_mut_ptr().cast()));
    let (There { t, peer, h, base }, mut with) = (there, local.handle());
    insist(t, || {
        let with = (&raw mut with).cast();
        t.put_with(peer, at, base, with, &h, size, done)
    });
}

/// Functions that replace others apply immediately to registered memory, whether the provider accesses the memory
/// or the transport copies it. The same holds for each new function of a table with only one.
#[test]
fn a_change_applies_to_earlier_regions() {
    alone(|| {
        for way in [DeviceWay::Direct, DeviceWay::Progress] {
            shape(&[("HMEM", "1"), ("HMEM_OVERRIDE", "1")]);
            let t = open("lab", ThreadLevel::Single, &way.parameters());
            t.set_overrides(Some(&pair::<0>()));
            let mut memory = [0u64; 8];
            let region = device::register(&t, &mut memory, Access::all());
            let info = t.hmem_info(hmem_iface::CUDA);
            let ways = match way {
                DeviceWay::Direct => (1, 0),
                _ => (0, 1),
            };
            assert_eq!((info.direct, info.staged), ways);
            let there = There {
                base: device::address(memory.as_mut_ptr().cast()) as u64,
                ..There::of(&t, 0, &t, &region)
            };
            called();
            there_and_back(there, 1);
            assert_eq!(called(), [[true; 2], [false; 2]], "{way:?}");
            t.set_overrides(Some(&pair::<1>()));
            there_and_back(there, 2);
            assert_eq!(called(), [[false; 2], [true; 2]], "{way:?}");
            let mixed = OverrideOps::new(Some(from_by::<0>), Some(to_by::<1>));
            t.set_overrides(Some(&mixed));
            there_and_back(there, 3);
            assert_eq!(called(), [[true, false], [false, true]], "{way:?}");
            there.release();
            close([region], [t]);
        }
    });
}

/// Two changes at the same time: afterwards the transport and the provider use the same functions.
#[test]
fn changes_at_once_agree() {
    // The changes overlap in one of some thousands of rounds.
    const ROUNDS: u64 = 20_000;
    alone(|| {
        shape(&[("HMEM", "1"), ("HMEM_OVERRIDE", "1")]);
        let way = DeviceWay::Direct.parameters();
        let t = open("lab", ThreadLevel::Multiple, &way);
        t.set_overrides(Some(&pair::<0>()));
        let (mut memory, mut flat) = ([0u64; 8], [0u64; 8]);
        let base = device::address(memory.as_mut_ptr().cast());
        let region = device::register(&t, &mut memory, Access::all());
        let there = There {
            base: base as u64,
            ..There::of(&t, 0, &t, &region)
        };
        let (runs, kind) = ([IoVec { base, len: 64 }], &hmem_iface::CUDA);
        let turn = std::sync::Barrier::new(2);
        let mut differ = 0;
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..ROUNDS {
                    turn.wait();
                    t.set_overrides(Some(&pair::<1>()));
                    turn.wait();
                }
            });
            for round in 0..ROUNDS {
                turn.wait();
                t.set_overrides(Some(&pair::<0>()));
                turn.wait();
                called();
                let into = flat.as_mut_ptr().cast();
                // SAFETY: the array has one run, with 64 bytes on each side.
                let read = unsafe { t.copy_from_hmem(into, 64, runs.as_ptr(), kind, 1, 0) };
                assert_eq!(read, 64);
                let ours = called().map(|pair| pair[0]);
                there_and_back(there, round);
                let provider = called().map(|pair| pair[0]);
                differ += u32::from(ours != provider);
            }
        });
        assert_eq!(differ, 0, "rounds after which they use different ones");
        there.release();
        close([region], [t]);
    });
}

/// A put from device memory has four fragments; two of them can begin immediately; the functions with which
/// the put began also copy the later fragments.
#[test]
fn an_operation_keeps_its_functions() {
    const BYTES: usize = 1 << 20;
    alone(|| {
        shape(&[("FAULTS", "seed=1,delay=60")]);
        let t = open(
            "lab",
            ThreadLevel::Single,
            &DeviceWay::Progress.parameters(),
        );
        t.set_overrides(Some(&pair::<0>()));
        let mut source = vec![7u64; BYTES / 8];
        let mut target = vec![0u64; BYTES / 8];
        let (local, remote) = device_and_host(&t, &mut source, &mut target);
        let there = There::of(&t, 0, &t, &remote);
        put_from_device(there, &mut source, &local, None);
        let begun = CALLS[0][0].load(Ordering::Relaxed);
        assert!(begun < 4, "{begun} fragments were copied before the change");
        t.set_overrides(Some(&pair::<1>()));
        assert!(t.flush(None).is_ok());
        assert_eq!(called(), [[true, false], [false; 2]]);
        assert!(target.iter().all(|word| *word == 7));
        there.release();
        close([local, remote], [t]);
    });
}
