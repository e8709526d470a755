//! With every carrier, peers may only make accesses for which a region was registered. A call refuses an
//! operation that is not permitted, and the operation leaves no trace.

use std::mem;
use std::sync::atomic::AtomicU8;

use crate::lab::prelude::*;

/// The number of words of a region; the region is larger than a small transfer.
const WORDS: usize = 4096;
/// The initial content of the target's memory, and of the origin's results.
const THEIRS: u64 = 0x0101_0101_0101_0101;
const OURS: u64 = 0x0202_0202_0202_0202;

static OPERANDS: [u64; 2] = [7, 8];

/// An operation; a transfer has its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Put(usize),
    Get(usize),
    Add,
    FetchAdd,
    Swap,
    AddVector,
    FetchVector,
    ReadVector,
    SwapTyped,
}

const TRANSFERS: [Op; 6] = [
    Op::Put(8),
    Op::Put(512),
    Op::Put(8 * WORDS),
    Op::Get(8),
    Op::Get(512),
    Op::Get(8 * WORDS),
];
const ATOMICS: [Op; 7] = [
    Op::Add,
    Op::FetchAdd,
    Op::Swap,
    Op::AddVector,
    Op::FetchVector,
    Op::ReadVector,
    Op::SwapTyped,
];

/// Whether a region that is registered with `access` permits the operation.
fn allows(access: Access, op: Op) -> bool {
    let (r, w, a) = (
        access.contains(Access::REMOTE_READ),
        access.contains(Access::REMOTE_WRITE),
        access.contains(Access::REMOTE_ATOMIC),
    );
    match op {
        Op::Put(_) => w,
        Op::Get(_) => r,
        Op::Add | Op::AddVector => a || w,
        Op::FetchAdd | Op::Swap | Op::FetchVector | Op::SwapTyped => a || (r && w),
        Op::ReadVector => a || r,
    }
}

/// All combinations of the rights of peers.
fn every_access() -> impl Iterator<Item = Access> {
    let remote = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    (0..16)
        .map(Access::from_bits_truncate)
        .filter(move |a| remote.contains(*a))
}

/// Begins an operation on `at`; `ours` is its local buffer, or its result.
fn post(
    t: &Transport,
    peer: NonNull<Endpoint>,
    h: &Handle,
    at: u64,
    op: Op,
    ours: &mut [u64],
) -> Status {
    let local: *mut c_void = ours.as_mut_ptr().cast();
    let (u, add) = (Datatype::Uint64, BtlAtomicOp::Add);
    let operands = OPERANDS.as_ptr().cast();
    match op {
        Op::Put(size) => t.put(peer, local, at, h, size, None),
        Op::Get(size) => t.get(peer, local, at, h, size, None),
        Op::Add => t.atomic_op(peer, at, h, add, 7, None),
        Op::FetchAdd => t.atomic_fop(peer, local, at, h, add, 7, None),
        Op::Swap => t.atomic_cswap(peer, local, at, h, THEIRS, 9, None),
        Op::AddVector => t.atomic_opv(peer, operands, at, h, u, AtomicOp::Sum, 2, None),
        Op::FetchVector => {
            let sum = AtomicOp::Sum;
            t.atomic_fopv(peer, operands, local, at, h, u, sum, 2, None)
        }
        Op::ReadVector => {
            let (nothing, read) = (ptr::null(), AtomicOp::Read);
            t.atomic_fopv(peer, nothing, local, at, h, u, read, 2, None)
        }
        Op::SwapTyped => t.atomic_cswapv(peer, 9, THEIRS, local, at, h, u, None),
    }
}

/// The window, which peers and providers may change.
fn seen(window: &[u64]) -> Vec<u64> {
    let words = window.iter().map(ptr::from_ref);
    // SAFETY: the words belong to the test.
    words.map(|w| unsafe { w.read_volatile() }).collect()
}

/// Tries operations on regions of every access. The calls refuse the operations that are not permitted; those
/// have no effect on either side and are not counted. The other operations are executed. `register` makes a
/// region of the memory, and returns the address by which peers name it.
fn judge(
    what: &str,
    a: &Transport,
    peer: NonNull<Endpoint>,
    register: impl Fn(&mut [u64], Access) -> (Region, u64),
    ops: &[Op],
) {
    for access in every_access() {
        for &op in ops {
            if what == "sockets" && op == Op::ReadVector && access == Access::REMOTE_READ {
                // The provider requires both rights for every fetching atomic.
                continue;
            }
            let case = format!("{what}: {op:?} on {access:?}");
            let (mut theirs, mut ours) = (vec![THEIRS; WORDS], vec![OURS; WORDS]);
            let (region, at) = register(&mut theirs, access);
            let h = region.handle();
            if allows(access, op) {
                insist(a, || post(a, peer, &h, at, op, &mut ours));
                assert_eq!(a.flush(None), Status::SUCCESS, "{case}");
                let (changes, fetches) = match op {
                    Op::Put(_) | Op::Add | Op::AddVector => (true, false),
                    Op::Get(_) | Op::ReadVector => (false, true),
                    _ => (true, true),
                };
                assert_eq!(seen(&theirs)[0] != THEIRS, changes, "{case}");
                assert_eq!(seen(&ours)[0] == THEIRS, fetches, "{case}");
            } else {
                let before = (a.stats().posted, a.stats().completed);
                let mut status = post(a, peer, &h, at, op, &mut ours);
                while status.is_again() {
                    a.progress();
                    status = post(a, peer, &h, at, op, &mut ours);
                }
                let flushed = a.flush(None);
                assert!(seen(&theirs).iter().all(|w| *w == THEIRS), "{case}");
                assert!(seen(&ours).iter().all(|w| *w == OURS), "{case}");
                assert_eq!((status, flushed), (Status::PERM, Status::SUCCESS), "{case}");
                // A staged operation also posts the transfers of its mailbox, so the counts change.
                let after = (a.stats().posted, a.stats().completed);
                assert!(
                    what == "staged" || before == after,
                    "{case}: {before:?}, {after:?}"
                );
            }
            region.close().unwrap();
        }
    }
}

/// Regions of host memory.
fn host(t: &Transport) -> impl Fn(&mut [u64], Access) -> (Region, u64) + '_ {
    move |window, access| {
        let region = register(t, window, access);
        let at = region.handle().base();
        (region, at)
    }
}

fn every_operation() -> Vec<Op> {
    TRANSFERS.into_iter().chain(ATOMICS).collect()
}

/// Opens a pair over a provider, lets the second transport make progress all the time, and judges
/// the pair.
fn with_a_target_that_attends(provider: &str, ops: &[Op]) {
    let a = open(provider, ThreadLevel::Single, &[]);
    // The region is registered while the transport makes progress.
    let b = open(provider, ThreadLevel::Multiple, &[]);
    let peer = a.connect(b.address(), 0).unwrap();
    attended(&b, || judge(provider, &a, peer, host(&b), ops));
    close([], [a, b]);
}

/// The kernel makes every transfer sooner or later, because the target never makes progress.
#[test]
fn by_the_kernel() {
    let open = || open(near(), ThreadLevel::Single, &[]);
    let [a, b] = [(); 2].map(|()| open());
    let peer = a.connect(b.address(), 0).unwrap();
    judge("shm, alone", &a, peer, host(&b), &TRANSFERS);
    close([], [a, b]);
}

#[test]
fn by_a_ring() {
    with_a_target_that_attends(near(), &every_operation());
}

#[test]
fn by_providers() {
    for provider in ["tcp;ofi_rxm", "sockets"] {
        with_a_target_that_attends(provider, &every_operation());
    }
}

#[test]
fn by_the_lab_provider() {
    alone(|| {
        for pairs in [&[][..], &[("MR_MODE", "SCALABLE")]] {
            shape(pairs);
            with_a_target_that_attends("lab", &every_operation());
        }
    });
}

/// A process's operations on its own memory.
#[test]
fn by_oneself() {
    for provider in [near(), "tcp;ofi_rxm"] {
        let t = open(provider, ThreadLevel::Single, &[]);
        let peer = t.connect(t.address(), 0).unwrap();
        let what = format!("{provider}, itself");
        judge(&what, &t, peer, host(&t), &every_operation());
        t.close().unwrap();
    }
}

/// Memory of a device, which its owner's agent accesses.
#[test]
fn by_an_agent() {
    let values = [("btl_ofi_hmem", Value::str("off"))];
    let a = open(near(), ThreadLevel::Single, &values);
    let b = open(near(), ThreadLevel::Multiple, &values);
    b.set_overrides(Some(&device::copies()));
    let peer = a.connect(b.address(), 0).unwrap();
    let staged = |window: &mut [u64], access| {
        let at = device::address(window.as_mut_ptr().cast()).addr() as u64;
        (device::register(&b, window, access), at)
    };
    attended(&b, || judge("staged", &a, peer, staged, &every_operation()));
    close([], [a, b]);
}

/// A handle with values that no registration writes is refused, such as a handle of an older layout, or a
/// handle with unknown rights. The target refuses a handle that claims more rights than the registration
/// gave.
#[test]
fn handles_that_were_tampered_with() {
    let open = || open(near(), ThreadLevel::Single, &[]);
    let [a, b] = [(); 2].map(|()| open());
    let peer = a.connect(b.address(), 0).unwrap();
    let mut theirs = vec![THEIRS; WORDS];
    let region = register(&b, &mut theirs, Access::REMOTE_READ);
    let h = region.handle();
    let with = |change: &dyn Fn(&mut [u64; Handle::SIZE / 8])| {
        // SAFETY: a handle is 32 plain bytes.
        let mut words = unsafe { mem::transmute::<Handle, [u64; Handle::SIZE / 8]>(h) };
        change(&mut words);
        // SAFETY: a handle is 32 plain bytes, so any value of them is valid.
        unsafe { mem::transmute::<[u64; Handle::SIZE / 8], Handle>(words) }
    };
    let mut ours = vec![OURS; WORDS];
    let kinds = [0x4f46_4948_u64, 0x4f46_4944, 0x4f46_4953, 0, u64::MAX >> 32];
    let older = kinds.map(|kind| with(&|w| w[3] = kind << 32 | w[3] & u64::from(u32::MAX)));
    // Every bit of this half except the three rights.
    let unknown = (32..64).filter(|bit| ![33, 34, 35].contains(bit));
    let unknown = unknown.map(|bit| with(&|w| w[3] ^= 1 << bit));
    for wrong in older.into_iter().chain(unknown) {
        for op in every_operation() {
            let status = post(&a, peer, &wrong, h.base(), op, &mut ours);
            assert_eq!(status, Status::BAD_PARAM, "{op:?} with {wrong:?}");
        }
    }
    // The kernel makes the first transfer, which finds the ring.
    let got = post(&a, peer, &h, h.base(), Op::Get(8), &mut ours);
    assert_eq!((got, ours[0]), (Status::SUCCESS, THEIRS));
    let claims = with(&|w| w[3] |= 1 << 34);
    let put = post(&a, peer, &claims, h.base(), Op::Put(8), &mut [OURS]);
    assert_eq!(put, Status::SUCCESS);
    b.progress();
    assert_eq!(a.flush(None), Status::ERROR, "something was lost");
    assert!(seen(&theirs).iter().all(|w| *w == THEIRS));
    close([region], [a, b]);
}

/// Large gets whose region is deregistered before them, or when their first bytes have arrived. Once the target
/// refuses a fragment, the get is refused, and no other side finishes it. The kernel makes some gets alone, and
/// does not know about the deregistration.
#[test]
fn large_gets_of_what_is_deregistered() {
    const SIZE: usize = 256 * 1024;
    let a = open(near(), ThreadLevel::Single, &[]);
    // The region is registered while the transport makes progress.
    let b = open(near(), ThreadLevel::Multiple, &[]);
    let peer = a.connect(b.address(), 0).unwrap();
    let mut theirs = vec![THEIRS; SIZE / 8];
    let ours: Vec<AtomicU8> = (0..SIZE).map(|_| AtomicU8::new(0)).collect();
    let (first, last) = (&ours[0], &ours[SIZE - 1]);
    let to = ours.as_ptr().cast_mut().cast();
    for before in [true, false] {
        let (closing, over) = (Mutex::new(None::<Region>), AtomicBool::new(false));
        let refused = thread::scope(|s| {
            s.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if first.load(Ordering::Relaxed) != 0
                        && let Some(region) = closing.lock().unwrap().take()
                    {
                        region.close().unwrap();
                    }
                    b.progress();
                }
            });
            // Both sides must run at the same time, which is rare on a busy machine.
            let deadline = Patience::times(6);
            let mut refused = None;
            while refused.is_none() && deadline.lasts() {
                let region = register(&b, &mut theirs, Access::all());
                let h = region.handle();
                first.store(0, Ordering::Relaxed);
                last.store(0, Ordering::Relaxed);
                if before {
                    region.close().unwrap();
                } else {
                    *closing.lock().unwrap() = Some(region);
                }
                let status = a.get(peer, to, h.base(), &h, SIZE, None);
                let flushed = a.flush(None);
                let finished = last.load(Ordering::Relaxed) != 0;
                let wrong = (status == Status::SUCCESS) != finished;
                if status != Status::SUCCESS || flushed != Status::SUCCESS || wrong {
                    refused = Some((status, flushed, finished));
                }
                // The other side did not close the region.
                drop(closing.lock().unwrap().take());
            }
            over.store(true, Ordering::Relaxed);
            refused
        });
        let wanted = Some((Status::PERM, Status::SUCCESS, false));
        assert_eq!(refused, wanted, "deregistered before: {before}");
    }
    close([], [a, b]);
}
