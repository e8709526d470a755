//! Two-sided messages of hosts: content and order over each provider, replies from within the receiving function, room,
//! messages that leave without their sender's progress, senders that leave at once, receivers that do not know the sender or
//! release it, threads, and peers that end.

mod ends;
mod gate;
mod released;

use btl_ofi::Sent;

use crate::common::prelude::*;

const PROVIDERS: [&str; 4] = ["tcp;ofi_rxm", "net", "sockets", "shm"];

fn two_sided(provider: &str, level: ThreadLevel) -> Transport {
    open(provider, level, &[("btl_ofi_mode", Value::Int(2))])
}

fn single(provider: &str) -> Transport {
    two_sided(provider, ThreadLevel::Single)
}

/// Sends a message once there is room.
fn send(t: &Transport, peer: NonNull<Endpoint>, tag: u8, bytes: &[u8]) {
    insist(t, || try_send(t, peer, tag, bytes));
}

fn try_send(t: &Transport, peer: NonNull<Endpoint>, tag: u8, bytes: &[u8]) -> Status {
    let sent = try_to_send(t, peer, (tag, Leaves::Later), bytes);
    sent.err().unwrap_or(Status::SUCCESS)
}

fn try_to_send(
    t: &Transport,
    peer: NonNull<Endpoint>,
    (tag, leaves): (u8, Leaves),
    bytes: &[u8],
) -> Result<Sent, Status> {
    // SAFETY: the tests keep endpoints connected while they use them; the copy has the stated size.
    unsafe {
        t.send(peer, (tag, bytes.len(), leaves), |to| {
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        })
    }
}

/// The messages that a transport received: the sender, the tag and the bytes.
#[derive(Default)]
struct Inbox {
    all: Mutex<Vec<(usize, u8, Vec<u8>)>>,
    count: AtomicUsize,
}

impl Inbox {
    fn of(t: &Transport) -> Box<Inbox> {
        let inbox: Box<Inbox> = Box::default();
        inbox.receive_of(t);
        inbox
    }

    /// Waits for `n` messages.
    fn wait(&self, t: &Transport, n: usize) {
        until(&[t], format_args!("{n} messages do not come"), || {
            self.count.load(Ordering::Acquire) >= n
        });
    }
}

impl Receives for Inbox {
    fn receive(&self, from: *mut plugin_api::Endpoint, tag: u8, bytes: &[u8]) {
        let message = (from.addr(), tag, bytes.to_vec());
        self.all.lock().unwrap().push(message);
        self.count.fetch_add(1, Ordering::Release);
    }
}

fn content(number: usize, size: usize) -> Vec<u8> {
    (0..size).map(|i| (number * 31 + i * 7) as u8).collect()
}

/// Messages of all sizes, mixed with puts, arrive complete, in order, and from the endpoint that the receiver
/// knows.
fn in_order(provider: &str, seed: u64, settings: &[(&str, Value)]) {
    const MANY: usize = 1000;
    let settings = [&[("btl_ofi_mode", Value::Int(2))], settings].concat();
    let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &settings));
    assert!(a.capabilities().flags.contains(ModuleFlags::SEND));
    let limit = a.capabilities().send_limit;
    let from = b.connect(a.address(), 0).unwrap();
    let peer = a.connect(b.address(), 1).unwrap();
    let inbox = Inbox::of(&b);
    let mut window = vec![0u64; 8];
    let region = register(&b, &mut window, Access::all());
    let there = There::new(&a, peer, region.handle());
    let mut numbers = Numbers(seed);
    let sizes: Vec<usize> = (0..MANY)
        .map(|_| [0, 1, 7, 8, 40, 100, 2000, 4097, limit][numbers.below(9)])
        .collect();
    let values: Vec<u64> = (0..MANY as u64).collect();
    attended(&b, || {
        for (i, size) in sizes.iter().enumerate() {
            send(&a, peer, i as u8, &content(i, *size));
            if numbers.below(5) == 0 {
                there.insist(|there| there.put(0, &values[i..=i], None));
            }
            if numbers.below(50) == 0 {
                assert_eq!(a.flush(None), Status::SUCCESS);
            }
        }
        assert_eq!(a.flush(None), Status::SUCCESS);
        inbox.wait(&a, MANY);
    });
    for (i, (endpoint, tag, bytes)) in inbox.all.lock().unwrap().iter().enumerate() {
        assert_eq!(*endpoint, from.as_ptr().addr(), "{provider}");
        assert_eq!(*tag, i as u8, "{provider}: message {i}");
        assert!(*bytes == content(i, sizes[i]), "{provider}: message {i}");
    }
    close([region], [a, b]);
}

#[test]
fn messages_arrive_complete_and_in_order() {
    for provider in PROVIDERS {
        (1..=2).for_each(|seed| in_order(provider, seed, &[]));
    }
}

/// A message that has left arrives although its sender no longer makes progress, because the sender may compute. A message
/// sent with `Leaves::Now` has left when the call returns.
#[test]
fn what_has_left_needs_no_progress() {
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| single(provider));
        b.connect(a.address(), 0).unwrap();
        let peer = a.connect(b.address(), 1).unwrap();
        let inbox = Inbox::of(&b);
        let mut sizes = vec![8, 8, 8, 15_000, 60_000, 100_000, 100_000];
        sizes.extend([8; 50]);
        // The first messages wait for a connection, and each later message waits for the earlier
        // ones.
        let mut last = Sent::Left;
        let mut came = 0;
        let mut later = |last: &mut Sent, size| {
            insist(&a, || {
                b.progress();
                let sent = try_to_send(&a, peer, (0, Leaves::Later), &content(came, size));
                *last = sent.unwrap_or(*last);
                sent.err().unwrap_or(Status::SUCCESS)
            });
            came += 1;
            came
        };
        let mut sent = 0;
        for size in sizes {
            sent = later(&mut last, size);
        }
        let deadline = Patience::new();
        // SAFETY: the endpoint is connected.
        while unsafe { !a.has_sent(peer, last) } {
            assert!(deadline.lasts(), "{provider}: it does not leave");
            a.progress();
            b.progress();
        }
        inbox.wait(&b, sent);
        // The send is refused while many messages are unanswered; the test then waits, as pml/ob1 does. Each message
        // arrives before the next is sent. If the test sent faster than the answers come, the window would stay full, and
        // no message would leave at once.
        let deadline = Patience::new();
        let at_once = loop {
            match try_to_send(&a, peer, (0, Leaves::Now), b"now") {
                Ok(sent) => break sent,
                Err(status) => assert!(status.is_again(), "{provider}: {status}"),
            }
            sent = later(&mut last, 8);
            while inbox.count.load(Ordering::Acquire) < sent {
                assert!(deadline.lasts(), "{provider}: none leaves at once");
                a.progress();
                b.progress();
            }
        };
        assert_eq!(at_once, Sent::Left, "{provider}");
        inbox.wait(&b, sent + 1);
    }
}

/// A message behind a large put leaves only when the provider reports it, because a part of the put may still
/// wait for progress.
#[test]
fn what_is_behind_a_put_has_not_left() {
    for provider in ["tcp;ofi_rxm", "net"] {
        let settings = [("btl_ofi_mode", Value::Int(2)), SAME_NODE_OFF];
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Single, &settings));
        b.connect(a.address(), 0).unwrap();
        let peer = a.connect(b.address(), 1).unwrap();
        let inbox = Inbox::of(&b);
        let mut window = vec![0u64; 2 << 20];
        let region = register(&b, &mut window, Access::all());
        let (there, from) = (There::new(&a, peer, region.handle()), vec![1u64; 2 << 20]);
        let put = || there.insist(|there| there.put(0, &from, None));
        // Both sides know each other, and every message is answered.
        attended(&b, || {
            send(&a, peer, 0, b"first");
            inbox.wait(&a, 1);
            put();
            assert_eq!(a.flush(None), Status::SUCCESS);
        });
        put();
        let now = try_to_send(&a, peer, (0, Leaves::Now), b"now");
        assert!(now.is_err_and(Status::is_again), "{provider}");
        let later = try_to_send(&a, peer, (0, Leaves::Later), b"later").unwrap();
        assert_ne!(later, Sent::Left, "{provider}");
        let deadline = Patience::new();
        // SAFETY: the endpoint is connected.
        while unsafe { !a.has_sent(peer, later) } {
            assert!(deadline.lasts(), "{provider}: it does not leave");
            a.progress();
            b.progress();
        }
        inbox.wait(&b, 2);
        attended(&b, || assert_eq!(a.flush(None), Status::SUCCESS));
        close([region], [a, b]);
    }
}

/// The arguments of `reply`: the transport, its peer, and the number of received messages.
struct Replier {
    t: Transport,
    peer: NonNull<Endpoint>,
    count: AtomicUsize,
}

// SAFETY: only transports that any thread may call use the pointer.
unsafe impl Sync for Replier {}

impl Receives for Replier {
    fn receive(&self, from: *mut plugin_api::Endpoint, tag: u8, bytes: &[u8]) {
        assert_eq!(from.addr(), self.peer.as_ptr().addr());
        self.count.fetch_add(1, Ordering::Relaxed);
        if tag > 0 {
            let sent = try_send(&self.t, self.peer, tag - 1, bytes);
            assert_eq!(sent, Status::SUCCESS);
        }
        // This progress delivers nothing, because a message is being delivered.
        self.t.progress();
    }
}

/// The receiving function replies and makes progress, on both sides.
#[test]
fn replies_from_within() {
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| single(provider));
        let (to_b, to_a) = (
            a.connect(b.address(), 1).unwrap(),
            b.connect(a.address(), 0).unwrap(),
        );
        let repliers = [(a, to_b), (b, to_a)].map(|(t, peer)| {
            Box::new(Replier {
                t,
                peer,
                count: AtomicUsize::new(0),
            })
        });
        for replier in &repliers {
            replier.receive_of(&replier.t);
        }
        let [a, b] = &repliers;
        send(&a.t, a.peer, 255, b"ping");
        send(&a.t, a.peer, 254, &content(3, 5000));
        let deadline = Patience::new();
        let total = || a.count.load(Ordering::Relaxed) + b.count.load(Ordering::Relaxed);
        while total() < 256 + 255 {
            assert!(deadline.lasts(), "{provider}: {} came", total());
            a.t.progress();
            b.t.progress();
        }
    }
}

/// The receiver connects its sender after the first message came.
#[test]
fn senders_become_known() {
    for provider in PROVIDERS {
        let [a, b] = [(); 2].map(|()| single(provider));
        let inbox = Inbox::of(&b);
        let peer = a.connect(b.address(), 1).unwrap();
        let tell = |tag: u8| {
            send(&a, peer, tag, b"hello");
            attended(&a, || inbox.wait(&b, usize::from(tag)));
        };
        tell(1);
        let from = b.connect(a.address(), 0).unwrap();
        tell(2);
        // SAFETY: connected once.
        assert_eq!(unsafe { b.disconnect(from) }, Status::SUCCESS);
        tell(3);
        let senders: Vec<_> = inbox.all.lock().unwrap().iter().map(|(e, ..)| *e).collect();
        assert_eq!(senders, [0, from.as_ptr().addr(), 0], "{provider}");
        close([], [a, b]);
    }
}

/// The receiver makes no progress: its sender has bounded room, and every message arrives once the receiver makes
/// progress.
#[test]
fn room_is_bounded() {
    for provider in ["tcp;ofi_rxm", "net", "shm"] {
        let [a, b] = [(); 2].map(|()| single(provider));
        let inbox = Inbox::of(&b);
        let peer = a.connect(b.address(), 1).unwrap();
        let mut sent = 0;
        loop {
            let status = try_send(&a, peer, 0, &content(sent, 3000));
            if status.is_again() {
                break;
            }
            assert_eq!(status, Status::SUCCESS);
            sent += 1;
            assert!(sent < 3000, "{provider}: never refused");
            a.progress();
        }
        assert!(sent > 8, "{provider}: {sent}");
        attended(&a, || inbox.wait(&b, sent));
        send(&a, peer, 0, b"more");
        attended(&a, || inbox.wait(&b, sent + 1));
        close([], [a, b]);
    }
}

/// Several threads send and receive at the same time: each sender's messages keep their order.
#[test]
fn threads_send_and_receive() {
    const THREADS: usize = 3;
    const MANY: usize = 1500;
    struct Shared(NonNull<Endpoint>);
    // SAFETY: at this thread level, any thread may call the transport with the endpoint.
    unsafe impl Sync for Shared {}
    for provider in ["tcp;ofi_rxm", "net", "shm"] {
        let level = ThreadLevel::Multiple;
        let [a, b] = [(); 2].map(|()| two_sided(provider, level));
        let inbox = Inbox::of(&b);
        let peer = Shared(a.connect(b.address(), 1).unwrap());
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let (a, peer) = (&a, &peer);
                s.spawn(move || {
                    for i in 0..MANY {
                        let peer = peer;
                        send(a, peer.0, thread as u8, &content(i, 10 + i % 700));
                    }
                });
            }
            for _ in 0..2 {
                s.spawn(|| inbox.wait(&b, THREADS * MANY));
            }
            inbox.wait(&a, THREADS * MANY);
        });
        let mut next = [0; THREADS];
        for (_, tag, bytes) in inbox.all.lock().unwrap().iter() {
            let i = &mut next[usize::from(*tag)];
            assert!(
                *bytes == content(*i, 10 + *i % 700),
                "{provider}: {i} of {tag}"
            );
            *i += 1;
        }
        close([], [a, b]);
    }
}

/// The test covers a two-sided mode at one side only, a mode without sends, and messages that are
/// too long.
#[test]
fn misuse_is_refused() {
    let (a, b) = (single("net"), open("net", ThreadLevel::Single, &[]));
    let said = a.connect(b.address(), 1).unwrap_err().to_string();
    assert!(said.contains("btl_ofi_mode"), "{said}");
    let said = b.connect(a.address(), 1).unwrap_err().to_string();
    assert!(said.contains("btl_ofi_mode"), "{said}");
    let own = b.connect(b.address(), 0).unwrap();
    assert_eq!(try_send(&b, own, 0, b"x"), Status::NOT_SUPPORTED);
    assert!(!b.capabilities().flags.contains(ModuleFlags::SEND));
    let own = a.connect(a.address(), 0).unwrap();
    let limit = a.capabilities().send_limit;
    assert_eq!(try_send(&a, own, 0, &vec![0; limit + 1]), Status::BAD_PARAM);
    let only = open(
        "net",
        ThreadLevel::Single,
        &[("btl_ofi_mode", Value::Int(1))],
    );
    assert_eq!(only.capabilities().flags, ModuleFlags::SEND);
    // A message to the transport itself.
    let inbox = Inbox::of(&a);
    send(&a, own, 9, b"to myself");
    inbox.wait(&a, 1);
    assert_eq!(
        inbox.all.lock().unwrap()[0],
        (own.as_ptr().addr(), 9, b"to myself".to_vec())
    );
}

/// Messages without a receiving function are dropped; later messages arrive once there is a
/// function.
#[test]
fn without_a_function_messages_are_dropped() {
    let pair = Pair::new(1, || single("net"));
    let (a, b, peer) = (&pair.a, &pair.b, pair.peer);
    attended(b, || {
        send(a, peer, 0, b"lost");
        // A later operation, whose completion shows that the target has executed the earlier batch.
        pair.there().insist(|there| there.put(0, &[1u64], None));
        assert_eq!(a.flush(None), Status::SUCCESS);
    });
    let inbox = Inbox::of(b);
    send(a, peer, 1, b"kept");
    attended(a, || inbox.wait(b, 1));
    assert_eq!(inbox.all.lock().unwrap()[0].1, 1);
    pair.close();
}
