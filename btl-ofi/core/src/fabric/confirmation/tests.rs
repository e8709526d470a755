use super::*;
use crate::op::record::Pool;
use crate::op::tag::Tag;

fn endpoint(number: usize) -> NonNull<Endpoint> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(0x1000 * number)).unwrap()
}

struct Bench {
    pool: Pool,
    confirmations: Confirmations,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            pool: Pool::new(false),
            confirmations: Confirmations::default(),
        }
    }

    fn take(&mut self, peer: usize) -> NonNull<Record> {
        let record = self.pool.take().unwrap();
        let none = std::ptr::null_mut();
        // SAFETY: the record was just taken.
        unsafe {
            Record::fill(
                record,
                Tag::new(endpoint(peer), 0, 0),
                None,
                none,
                none.cast(),
            )
        };
        record
    }

    /// Reports a new put.
    fn put(&mut self, peer: usize) -> NonNull<Record> {
        let put = self.take(peer);
        // SAFETY: the put was just made, and nothing else uses the pool.
        unsafe { self.confirmations.report(put) };
        put
    }

    /// Posts the read that is due next. The read must be to this peer.
    fn read(&mut self, peer: usize) -> NonNull<Record> {
        assert_eq!(self.confirmations.next(), Some(endpoint(peer)));
        let read = self.take(peer);
        self.confirmations.begin(read);
        read
    }

    fn end(&mut self, peer: usize, read: NonNull<Record>) -> Vec<NonNull<Record>> {
        let mut puts = self.confirmations.end(endpoint(peer), read);
        std::iter::from_fn(|| puts.pop()).collect()
    }

    fn abandon(&mut self, peer: usize) -> Vec<NonNull<Record>> {
        let mut puts = self.confirmations.abandon(endpoint(peer));
        std::iter::from_fn(|| puts.pop()).collect()
    }
}

#[test]
fn a_read_confirms_the_puts_reported_before_it() {
    let mut b = Bench::new();
    assert!(!b.confirmations.is_due());
    let early = [b.put(1), b.put(1), b.put(1)];
    let read = b.read(1);
    assert!(!b.confirmations.is_due(), "one read at a time");
    let late = b.put(1);
    assert!(!b.confirmations.is_due(), "one read at a time");
    assert_eq!(b.end(1, read), early);
    let read = b.read(1);
    assert_eq!(b.end(1, read), [late]);
    assert!(!b.confirmations.is_due());
}

#[test]
fn peers_are_read_from_in_turn() {
    let mut b = Bench::new();
    let (first, second, third) = (b.put(1), b.put(2), b.put(1));
    let (one, two) = (b.read(1), b.read(2));
    assert!(!b.confirmations.is_due());
    assert_eq!(b.end(2, two), [second]);
    assert_eq!(b.end(1, one), [first, third]);
}

#[test]
fn an_abandoned_read_confirms_nothing() {
    let mut b = Bench::new();
    let (covered, other) = (b.put(1), b.put(2));
    let read = b.read(1);
    let reported = b.put(1);
    assert_eq!(b.abandon(1), [covered, reported]);
    assert_eq!(b.abandon(1), []);
    assert!(b.confirmations.remove(endpoint(1)), "it names the peer");
    let late = b.put(1);
    let second = b.read(2);
    let again = b.read(1);
    assert_eq!(b.end(1, read), [], "the abandoned read");
    assert_eq!(b.end(1, again), [late]);
    assert!(!b.confirmations.remove(endpoint(1)));
    assert_eq!(b.end(2, second), [other]);
    assert_eq!(b.put(3), b.abandon(3)[0]);
    assert!(!b.confirmations.is_due(), "no read to an abandoned peer");
}

#[test]
fn reported_puts_allocate_nothing() {
    let mut b = Bench::new();
    b.confirmations.reserve(100).unwrap();
    let room = (
        b.confirmations.peers.capacity(),
        b.confirmations.due.capacity(),
    );
    for peer in 1..=100 {
        b.put(peer);
    }
    b.confirmations.reserve(100).unwrap();
    let now = (
        b.confirmations.peers.capacity(),
        b.confirmations.due.capacity(),
    );
    assert_eq!(now, room);
}

static SEEN: std::sync::Mutex<Option<(usize, u64)>> = std::sync::Mutex::new(None);

unsafe extern "C" fn writemsg(
    _: *mut ffi::fid_ep,
    message: *const ffi::fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the test passes a message.
    *SEEN.lock().unwrap() = Some((unsafe { (*message).context }.addr(), flags));
    -7
}

#[test]
fn puts_are_marked_and_ask_for_no_delivery() {
    let mut b = Bench::new();
    let record = b.take(1);
    // SAFETY: all fields are pointers and integers, for which zero is a valid value.
    let (mut ops, mut ep, mut message): (ffi::fi_ops_rma, ffi::fid_ep, ffi::fi_msg_rma) =
        unsafe { std::mem::zeroed() };
    ops.writemsg = Some(writemsg);
    ep.rma = &raw mut ops;
    let flags = u64::from(ffi::FI_COMPLETION);
    let all = flags | u64::from(ffi::FI_DELIVERY_COMPLETE);
    // SAFETY: the endpoint has the called function.
    assert!(unsafe { writemsg_to_confirm(&mut ep, &message, all) } < 0);
    assert_eq!(*SEEN.lock().unwrap(), None, "no record");
    message.context = record.as_ptr().cast();
    // SAFETY: the endpoint has the called function.
    assert_eq!(unsafe { writemsg_to_confirm(&mut ep, &message, all) }, -7);
    let context = Marked::Put(record).context().addr();
    assert_eq!(*SEEN.lock().unwrap(), Some((context, flags)));
}
