//! Applies by each carrier: their effects and results, against a model; their order among atomics; many at once; refusals; a
//! killed peer.

use btl_ofi::{Apply, Arithmetic, Change};
use plugin_api::{ApplyRun, MOST_APPLIED};

use crate::common::prelude::*;

const PROVIDERS: [&str; 4] = ["tcp;ofi_rxm", "net", "sockets", "shm"];
/// The size of the target's window, bytes.
const BYTES: usize = 16 << 10;
/// The code of bytewise additions, and a code that the function does not know.
const ADD_BYTES: u32 = 7;
const UNKNOWN: u32 = 8;

/// Adds bytewise.
unsafe extern "C" fn combine(
    _: *mut c_void,
    code: u32,
    size: usize,
    elements: *mut c_void,
    operands: *const c_void,
    count: usize,
) -> Status {
    if code != ADD_BYTES {
        return Status::NOT_SUPPORTED;
    }
    for i in 0..count * size {
        // SAFETY: the transport passes `count` elements and operands of this size.
        unsafe {
            let at = elements.cast::<u8>().add(i);
            *at = at.read().wrapping_add(*operands.cast::<u8>().add(i));
        }
    }
    Status::SUCCESS
}

fn open_one(provider: &str, same_node: &(&'static str, Value)) -> Transport {
    open_at(provider, same_node, ThreadLevel::Single)
}

fn open_at(provider: &str, same_node: &(&'static str, Value), level: ThreadLevel) -> Transport {
    loopback();
    let include = Value::String(provider.to_owned().into());
    let mut options = options(&[("btl_ofi_provider_include", include), same_node.clone()]);
    options.need_applies();
    let t = try_open(&options, level).unwrap_or_else(|e| panic!("{provider}: {e}"));
    t.on_apply(Some(Arithmetic {
        function: combine,
        context: ptr::null_mut(),
    }));
    t
}

/// Providers without the ways of one node, and these, which are the same under every provider.
fn ways() -> impl Iterator<Item = (&'static str, (&'static str, Value))> {
    let far = PROVIDERS.into_iter().map(|p| (p, SAME_NODE_OFF));
    far.chain(["shm", "memory"].map(|p| (p, SAME_NODE)))
}

/// Whether the provider executes the atomics to a peer.
fn by_provider(provider: &str, same_node: &(&'static str, Value)) -> bool {
    *same_node == SAME_NODE_OFF && matches!(provider, "sockets" | "shm")
}

fn adding(size: usize) -> Change {
    Change {
        size,
        datatype: None,
        op: None,
        code: ADD_BYTES,
        is_transfer: false,
    }
}

/// An operation on elements of a size.
fn elements(size: usize, op: AtomicOp) -> Change {
    Change {
        op: Some(op),
        ..adding(size)
    }
}

/// A put of several runs, or a get.
fn transfer(op: AtomicOp) -> Change {
    Change {
        size: 1,
        datatype: None,
        op: Some(op),
        code: 0,
        is_transfer: true,
    }
}

/// Whether puts and gets of several runs travel as commands to the target.
fn scatters(provider: &str, same_node: &(&'static str, Value), place: Place) -> bool {
    let by_message = *same_node == SAME_NODE_OFF && matches!(provider, "tcp;ofi_rxm" | "net");
    match place {
        Place::Device => false,
        Place::Own => by_message || *same_node == SAME_NODE,
        Place::Peer | Place::Shared => by_message,
    }
}

/// A random change whose result is easy to predict: no byte carries into the next byte.
fn change(numbers: &mut Numbers) -> Change {
    if numbers.below(4) == 0 {
        let ops = [AtomicOp::Read, AtomicOp::Write];
        return transfer(ops[numbers.below(2)]);
    }
    let size = [1, 2, 3, 4, 8, 12, 16, 32][numbers.below(8)];
    let op = match numbers.below(4) {
        0 => Some(AtomicOp::Read),
        1 => Some(AtomicOp::Write),
        _ => None,
    };
    let datatype = match (size, numbers.below(2)) {
        (1, 0) => Some(Datatype::Uint8),
        (2, 0) => Some(Datatype::Uint16),
        (4, 0) => Some(Datatype::Float),
        (8, 0) => Some(Datatype::Int64),
        _ => None,
    };
    Change {
        op,
        datatype,
        ..adding(size)
    }
}

/// Runs that do not overlap, with at most `most` bytes. Either every run consists of whole elements, or
/// all runs together do.
fn runs(numbers: &mut Numbers, change: &Change, most: u64) -> Vec<ApplyRun> {
    let size = change.size as u64;
    let in_parts = change.datatype.is_none() && numbers.below(2) == 0;
    let unit = if in_parts { 1 } else { size };
    let (mut end, mut total, mut runs) = (0, 0, Vec::new());
    for _ in 0..1 + numbers.below(6) {
        let length = unit * (1 + numbers.below(20) as u64 * size / unit);
        let run = ApplyRun {
            offset: end + numbers.below(20) as u64,
            length,
            stride: length + numbers.below(9) as u64,
            count: 1 + numbers.below(8) as u64,
        };
        let last = run.offset + (run.count - 1) * run.stride + length;
        total += length * run.count;
        if last > BYTES as u64 || total > most {
            break;
        }
        end = last;
        runs.push(run);
    }
    let bytes: u64 = runs.iter().map(|run| run.length * run.count).sum();
    let length = bytes.next_multiple_of(size) - bytes;
    if end + length > BYTES as u64 {
        return Vec::new();
    }
    if length > 0 {
        runs.push(block(end, length));
    }
    runs
}

/// A run of one block.
const fn block(offset: u64, length: u64) -> ApplyRun {
    ApplyRun {
        offset,
        length,
        stride: 0,
        count: 1,
    }
}

/// The bytes of runs, in order.
fn places(runs: &[ApplyRun]) -> impl Iterator<Item = usize> {
    runs.iter().flat_map(|run| {
        (0..run.count).flat_map(|block| {
            let first = (run.offset + block * run.stride) as usize;
            first..first + run.length as usize
        })
    })
}

/// The location of the target's window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Peer,
    Own,
    /// The peer's memory, which the origin may map.
    Shared,
    /// A simulated device of the peer, which its copy functions reach.
    Device,
}

fn follows_a_model(provider: &str, same_node: &(&'static str, Value), place: Place) {
    let [a, b] = [(); 2].map(|()| open_one(provider, same_node));
    let to_itself = place == Place::Own;
    let target = if to_itself { &a } else { &b };
    let peer = a.connect(target.address(), 1).unwrap();
    let memory = match place {
        Place::Shared => Memory::Memfd,
        _ => Memory::Heap,
    };
    let window = Window::new(memory, BYTES / 8);
    let base = window.base().cast();
    let (region, first) = match place {
        Place::Device => {
            target.set_overrides(Some(&device::copies()));
            let at = device::address(base);
            // SAFETY: the window lives until the region is closed.
            let region =
                unsafe { target.register_hmem(at, BYTES, Access::all(), hmem_iface::CUDA, 0) };
            (region.unwrap(), at.addr() as u64)
        }
        _ => (window.register(target, Access::all()).unwrap(), base as u64),
    };
    let h = region.handle();
    let mut model = vec![0u8; BYTES];
    let mut numbers = Numbers(5);
    let seen = Seen::default();
    let (mut asked, mut refused) = (0, 0);
    for round in 0..100u32 {
        let change = change(&mut numbers);
        let runs = runs(&mut numbers, &change, MOST_APPLIED as u64 - 256);
        if runs.is_empty() {
            continue;
        }
        let old: Vec<u8> = places(&runs).map(|at| model[at]).collect();
        let operands: Vec<u8> = old.iter().map(|_| numbers.below(256) as u8).collect();
        let mut results = vec![0u8; old.len()];
        let reads = change.op == Some(AtomicOp::Read);
        let fetches = reads || numbers.below(2) == 0 && !change.is_transfer;
        let done = seen.completion().filter(|_| numbers.below(2) == 0);
        let apply = Apply {
            remote: &h,
            address: first,
            runs: &runs,
            change,
            operands: operands.as_ptr().cast(),
            results: match fetches {
                true => results.as_mut_ptr().cast(),
                false => ptr::null_mut(),
            },
            completion: done,
        };
        // SAFETY: the buffers live until the flush below.
        let post = || unsafe { a.apply(peer, &apply) };
        let mut taken = true;
        let mut flushed = || {
            insist(&a, || match post() {
                Status::NOT_SUPPORTED => {
                    taken = false;
                    Status::SUCCESS
                }
                status => status,
            });
            assert_eq!(a.flush(None), Status::SUCCESS, "{provider}, round {round}");
        };
        match to_itself {
            true => flushed(),
            false => attended(&b, flushed),
        }
        if change.is_transfer {
            let served = scatters(provider, same_node, place);
            assert_eq!(taken, served, "{provider}, {same_node:?}, round {round}");
        }
        if !taken {
            refused += u32::from(!change.is_transfer);
            continue;
        }
        asked += u32::from(done.is_some());
        if fetches {
            assert_eq!(results, old, "{provider}, round {round}: {change:?}");
        }
        for (at, operand) in places(&runs).zip(&operands) {
            match change.op {
                Some(AtomicOp::Read) => {}
                Some(_) => model[at] = *operand,
                None => model[at] = model[at].wrapping_add(*operand),
            }
        }
        let words = (0..BYTES / 8).flat_map(|i| window.word(i).to_ne_bytes());
        assert!(
            words.eq(model.iter().copied()),
            "{provider}, round {round}: {change:?}"
        );
    }
    assert_eq!(seen.both(), (asked, 0), "{provider}");
    // Exactly the elements that the provider or a mailbox would have to change are refused.
    let by_others = place == Place::Device || by_provider(provider, same_node);
    assert_eq!(refused > 0, by_others, "{provider}");
    assert!(refused < 75, "{provider}: {refused}");
    close([region], [a, b]);
}

#[test]
fn what_applies_leave_and_return() {
    for (provider, same_node) in ways() {
        for place in [Place::Peer, Place::Own, Place::Shared, Place::Device] {
            follows_a_model(provider, &same_node, place);
        }
    }
}

/// The changes of one origin to one element, by atomics and by applies, take effect in the order of the
/// calls.
#[test]
fn applies_and_atomics_keep_their_order() {
    for (provider, same_node) in ways().filter(|(p, s)| !by_provider(p, s)) {
        let pair = Pair::new(8, || open_one(provider, &same_node));
        let There { t: a, peer, h, .. } = pair.there();
        let (rounds, at) = (64, h.base() + 16);
        let values: Vec<u64> = (1..=rounds).collect();
        let mut old = vec![u64::MAX; values.len()];
        attended(&pair.b, || {
            for (value, old) in values.iter().zip(&mut old) {
                let what = (AtomicKind::Update, Datatype::Uint64, AtomicOp::Write);
                let value = (ptr::from_ref(value).cast_mut().cast(), ptr::null_mut());
                let (run, change) = ([block(0, 8)], elements(8, AtomicOp::Read));
                let read = Apply {
                    address: at,
                    operands: ptr::null(),
                    results: ptr::from_mut(old).cast(),
                    ..many(&h, &run, &[], change)
                };
                // SAFETY: the buffers live until the flush.
                unsafe {
                    let write = Op::atomic(what, (&h, at), 1, value, None);
                    insist(a, || a.submit(peer, &write));
                    insist(a, || a.apply(peer, &read));
                }
            }
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        assert_eq!(old, values, "{provider}");
        pair.close();
    }
}

/// An apply to unaligned elements of 16 bytes, whose operands are ones.
fn many<'a>(h: &'a Handle, runs: &'a [ApplyRun], operands: &'a [u8], change: Change) -> Apply<'a> {
    Apply {
        remote: h,
        address: h.base(),
        runs,
        change,
        operands: operands.as_ptr().cast(),
        results: ptr::null_mut(),
        completion: None,
    }
}

/// The transport refuses runs that are longer than the longest put by message.
#[test]
fn runs_that_no_message_carries_as_puts_are_refused() {
    for provider in ["tcp;ofi_rxm", "net"] {
        loopback();
        let include = Value::String(provider.to_owned().into());
        let mut options = options(&[
            ("btl_ofi_provider_include", include),
            ("btl_ofi_message_limit", Value::Unsigned(64)),
            SAME_NODE_OFF,
        ]);
        options.need_applies();
        let a = try_open(&options, ThreadLevel::Single).unwrap();
        let b = try_open(&options, ThreadLevel::Single).unwrap();
        let peer = a.connect(b.address(), 1).unwrap();
        let mut window = vec![0u64; 64];
        let region = register(&b, &mut window, Access::all());
        let h = region.handle();
        let ones = [1u8; 256];
        for (length, refused) in [(64, false), (65, true)] {
            let runs = [block(0, length), block(128, length)];
            let put = many(&h, &runs, &ones, transfer(AtomicOp::Write));
            let mut status = Status::SUCCESS;
            attended(&b, || {
                // SAFETY: the operands are copied, and there are no results.
                status = unsafe { a.apply(peer, &put) };
                assert_eq!(a.flush(None), Status::SUCCESS);
            });
            assert_eq!(status == Status::NOT_SUPPORTED, refused, "{provider}");
        }
        assert_eq!(window[7] & window[23], u64::from_ne_bytes([1; 8]));
        assert_eq!(window[8] | window[24], 0, "{provider}");
        close([region], [a, b]);
    }
}

/// The test makes more applies than rings, batches and windows hold at a time.
#[test]
fn many_at_once() {
    let size = 700 * 16;
    let run = [block(1, size)];
    let ones = vec![1u8; size as usize];
    for (provider, same_node) in ways() {
        let pair = Pair::new(BYTES / 8, || open_one(provider, &same_node));
        let There { t: a, peer, h, .. } = pair.there();
        let apply = many(&h, &run, &ones, adding(16));
        attended(&pair.b, || {
            for _ in 0..250 {
                // SAFETY: the operands are copied, and there are no results.
                insist(a, || unsafe { a.apply(peer, &apply) });
            }
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        let window = pair.close();
        let bytes: Vec<u8> = window.iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert!(
            bytes[1..][..size as usize].iter().all(|b| *b == 250),
            "{provider}"
        );
        assert_eq!((bytes[0], bytes[1 + size as usize]), (0, 0), "{provider}");
    }
}

/// The memory is changed only by atomics of one transport. Vectors and listed elements of several origins and of the target
/// itself exclude each other there, with every carrier.
#[test]
fn changes_of_sole_memory_exclude_each_other() {
    const COUNT: usize = 300;
    const ROUNDS: usize = 300;
    const LISTED: [usize; 3] = [3, 77, 3];
    let ones = [1f64; COUNT];
    let runs = LISTED.map(|place| block(8 * place as u64, 8));
    let sum = Change {
        datatype: Some(Datatype::Double),
        ..elements(8, AtomicOp::Sum)
    };
    let origin = |t: &Transport, address: &[u8], h: &Handle| {
        let peer = t.connect(address, 1).unwrap();
        let what = (AtomicKind::Update, Datatype::Double, AtomicOp::Sum);
        let operands = (ones.as_ptr().cast_mut().cast(), ptr::null_mut());
        for _ in 0..ROUNDS {
            let vector = Op::atomic(what, (h, h.base()), COUNT, operands, None);
            let listed = Apply {
                operands: ones.as_ptr().cast(),
                ..many(h, &runs, &[], sum)
            };
            // SAFETY: the operands live longer than the transport, and there are no results.
            insist(t, || unsafe { t.submit(peer, &vector) });
            // SAFETY: the operands are copied, and there are no results.
            insist(t, || unsafe { t.apply(peer, &listed) });
        }
        assert_eq!(t.flush(None), Status::SUCCESS);
    };
    let ways = [
        ("net", SAME_NODE),
        ("net", SAME_NODE_OFF),
        ("tcp;ofi_rxm", SAME_NODE_OFF),
        ("shm", SAME_NODE),
        ("memory", SAME_NODE),
    ];
    for (provider, same_node) in ways {
        let all = [(); 3].map(|()| open_at(provider, &same_node, ThreadLevel::Multiple));
        let target = &all[0];
        let mut window = vec![0u64; COUNT];
        let base = window.as_mut_ptr().cast();
        // SAFETY: the window lives until the region is closed.
        let region = unsafe { target.register_sole(base, 8 * COUNT, Access::all()) }.unwrap();
        let (h, address) = (region.handle(), target.address());
        attended(target, || {
            std::thread::scope(|s| {
                for t in &all {
                    s.spawn(|| origin(t, address, &h));
                }
            });
        });
        for (i, word) in window.iter().enumerate() {
            let times = 1 + LISTED.iter().filter(|place| **place == i).count();
            let expected = (all.len() * ROUNDS * times) as f64;
            assert_eq!(f64::from_bits(*word), expected, "{provider}, element {i}");
        }
        drop(region);
        for t in all {
            t.close().unwrap();
        }
    }
}

/// The origin or the target refuses the apply: one report, and no effect.
#[test]
fn refusals() {
    let ones = [1u8; 64];
    for (provider, same_node) in ways() {
        let pair = Pair::new(8, || open_one(provider, &same_node));
        let There { t: a, peer, h, .. } = pair.there();
        // SAFETY: the operands are copied, and there are no results.
        let at_once = |apply: &Apply<'_>| unsafe { a.apply(peer, apply) };
        let (inside, outside) = ([block(1, 32)], [block(33, 32)]);
        let refused = at_once(&many(&h, &outside, &ones, adding(16)));
        assert_eq!(refused, Status::VALUE_OUT_OF_BOUNDS, "{provider}");
        let none = Handle::vacant();
        let refused = at_once(&many(&none, &inside, &ones, adding(16)));
        assert_eq!(refused, Status::BAD_PARAM, "{provider}");
        let seen = Seen::default();
        let unknown = Change {
            code: UNKNOWN,
            ..adding(16)
        };
        let apply = Apply {
            completion: seen.completion(),
            ..many(&h, &inside, &ones, unknown)
        };
        attended(&pair.b, || {
            insist(a, || at_once(&apply));
            a.flush(None);
        });
        let refused = (seen.all(), seen.status());
        assert_eq!(refused, (1, Status::NOT_SUPPORTED), "{provider}");
        // The next apply is executed.
        let good = many(&h, &inside, &ones, adding(16));
        attended(&pair.b, || {
            insist(a, || at_once(&good));
            assert_eq!(a.flush(None), Status::SUCCESS, "{provider}");
        });
        let window = pair.close();
        let bytes: Vec<u8> = window.iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert!((0..64).all(|i| bytes[i] == u8::from((1..33).contains(&i))));
    }
}
