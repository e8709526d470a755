//! Regions over providers that assign the key of a registered region to memory inside it: each region keeps its own
//! rights and end, with every carrier, and in any order of closing.

use crate::lab::prelude::*;

const MODE: (&str, &str) = ("MR_MODE", "VIRT_ADDR,ALLOCATED,PROV_KEY");
/// A number of words that is too long for a message.
const LONG: usize = 1024;
/// The words of the outer region, and the first word of the inner region.
const WORDS: usize = 4 * LONG;
const INNER: usize = LONG;

/// An origin and the target of its puts and gets. The origin and the target may be one transport.
struct Pair<'a> {
    t: &'a Transport,
    target: &'a Transport,
    peer: NonNull<Endpoint>,
}

impl Pair<'_> {
    /// The outcome of an operation: from its call, or from its callback.
    fn outcome(&self, mut post: impl FnMut(Option<Completion>) -> Status) -> Status {
        let seen = Seen::default();
        let deadline = Patience::new();
        let turn = || {
            assert!(deadline.lasts(), "it does not end");
            self.t.progress();
            self.target.progress();
        };
        loop {
            let posted = post(seen.completion());
            match posted {
                Status::SUCCESS => break,
                again if again.is_again() => turn(),
                Status::COMPLETED => return Status::SUCCESS,
                refused => return refused,
            }
        }
        while seen.all() == 0 {
            turn();
        }
        // The next flush may report a failure too.
        let _ = self.t.flush(None);
        seen.status()
    }

    fn fetch_add(&self, h: &Handle, old: &mut u64) -> Status {
        let there = There::new(self.t, self.peer, *h);
        self.outcome(|done| there.fetch_add(0, old, done))
    }

    /// Makes every kind of operation on the first words of a region, with a size for each carrier.
    fn serves(&self, h: &Handle, value: u64, what: &str) {
        let there = There::new(self.t, self.peer, *h);
        for size in [1, LONG] {
            let source = vec![value; size];
            let put = self.outcome(|done| there.put(0, &source, done));
            assert_eq!(put, Status::SUCCESS, "{what}");
            let at = ptr::with_exposed_provenance::<u64>(h.base() as usize);
            // SAFETY: the words lie in the window, which outlives the region.
            let last = unsafe { at.add(size - 1).read_volatile() };
            assert_eq!(last, value, "{what}: complete is visible");
            let mut back = vec![0; size];
            let got = self.outcome(|done| there.get(0, &mut back, done));
            assert_eq!(got, Status::SUCCESS, "{what}");
            assert_eq!(back, source, "{what}");
        }
        let mut old = 0;
        assert_eq!(self.fetch_add(h, &mut old), Status::SUCCESS, "{what}");
        assert_eq!(old, value, "{what}");
    }

    /// The target refuses its own operations on a closed region. (The provider's registration may live on.)
    fn refuses(&self, h: &Handle, what: &str) {
        let mut old = 0;
        assert_eq!(self.fetch_add(h, &mut old), Status::PERM, "{what}");
    }
}

/// Two regions, one inside the other, made and closed in each order.
fn nest(pair: &Pair<'_>, what: &str) {
    let mut window = vec![0u64; WORDS];
    for same in [false, true] {
        for inner_first in [false, true] {
            for close_inner_first in [false, true] {
                let what = format!("{what}: {same} {inner_first} {close_inner_first}");
                let inner = if same {
                    0..WORDS
                } else {
                    INNER..INNER + 2 * LONG
                };
                let mut make = |inside: bool| -> Region {
                    let range = if inside { inner.clone() } else { 0..WORDS };
                    register(pair.target, &mut window[range], Access::all())
                };
                let first = make(inner_first);
                pair.serves(&first.handle(), 10, &what);
                let second = make(!inner_first);
                for region in [&first, &second, &first] {
                    pair.serves(&region.handle(), 20, &what);
                }
                let (closed, left) = match close_inner_first == inner_first {
                    true => (first, second),
                    false => (second, first),
                };
                let gone = closed.handle();
                closed.close().unwrap();
                pair.serves(&left.handle(), 30, &what);
                pair.refuses(&gone, &what);
                let again = make(close_inner_first);
                for region in [&left, &again] {
                    pair.serves(&region.handle(), 40, &what);
                }
                let gone = [left.handle(), again.handle()];
                left.close().unwrap();
                again.close().unwrap();
                for handle in gone {
                    pair.refuses(&handle, &what);
                }
            }
        }
    }
}

/// Tests between two transports, and from each one to itself.
fn between(target: &Transport, t: &Transport) {
    for (t, target, what) in [(t, target, "another"), (t, t, "itself")] {
        let peer = t.connect(target.address(), 0).unwrap();
        nest(&Pair { t, target, peer }, what);
        // SAFETY: connected once.
        assert_eq!(unsafe { t.disconnect(peer) }, Status::SUCCESS);
    }
}

/// The provider assigns equal keys; the target executes atomics and small transfers, which come by
/// message.
#[test]
fn regions_of_one_key_are_each_their_own() {
    alone(|| {
        shape(&[MODE, ("CACHE", "1"), ("ATOMICS", "0")]);
        let [target, t] = [(); 2].map(|()| open("lab", ThreadLevel::Single, &[]));
        between(&target, &t);
        assert_eq!(target.stats().registrations, 0);
        t.close().unwrap();
        target.close().unwrap();
    });
}

/// The name of the imitated provider in the table of quirks.
const IMITATED: &str = "lab-verbs-ofi_rxm";

/// A provider like rxm over verbs: delivery means sent, reads are ordered behind puts if the user asks for this order,
/// keys are shared, and a domain with atomics forgets a region around another region.
const LIKE_RXM: [(&str, &str); 6] = [
    MODE,
    ("NAME", IMITATED),
    ("CONFIRMS", "2"),
    ("READ_ORDER", "1"),
    ("RELAXED", "1"),
    ("CACHE", "2"),
];

#[test]
fn rxm_over_verbs_keeps_order_and_regions() {
    alone(|| {
        shape(&LIKE_RXM);
        let [target, t] = [(); 2].map(|()| open(IMITATED, ThreadLevel::Single, &[]));
        let capabilities = t.capabilities();
        assert_eq!(capabilities.domain.to_str(), Ok("lab0"), "the ordered one");
        let way = capabilities.completion.to_string_lossy();
        assert!(way.contains("puts are confirmed by a read"), "{way}");
        assert!(way.contains("atomics are executed"), "{way}");
        assert!(!way.contains("small puts"), "{way}");
        between(&target, &t);
        t.close().unwrap();
        target.close().unwrap();

        // Without the order, the transport cannot detect that a put has arrived.
        let mut unordered = LIKE_RXM;
        unordered[3] = ("READ_ORDER", "0");
        shape(&unordered);
        let said = refusal(IMITATED, &[]);
        assert!(said.contains("lacks FI_ORDER_RMA_RAW"), "{said}");
    });
}
