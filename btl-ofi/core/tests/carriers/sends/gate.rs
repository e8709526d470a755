//! Messages while the receiving function does not return.

use super::*;

/// A gate that lets the receiving function return.
struct Gate {
    open: AtomicBool,
    inbox: Inbox,
}

impl Receives for Gate {
    fn receive(&self, from: *mut plugin_api::Endpoint, tag: u8, bytes: &[u8]) {
        let deadline = Patience::new();
        while !self.open.load(Ordering::Acquire) {
            assert!(deadline.lasts(), "the gate stays shut");
            std::thread::yield_now();
        }
        self.inbox.receive(from, tag, bytes);
    }
}

/// Other threads still get answers while the receiving function holds long messages, which stay in the buffers of receives.
#[test]
fn answers_pass_long_messages() {
    const MANY: usize = 12;
    for provider in ["tcp;ofi_rxm", "net"] {
        // All messages are sent before the first one is answered.
        let settings = [("btl_ofi_mode", Value::Int(2))];
        let [a, b] = [(); 2].map(|()| open(provider, ThreadLevel::Multiple, &settings));
        let gate = Box::new(Gate {
            open: AtomicBool::new(false),
            inbox: Inbox::default(),
        });
        gate.receive_of(&b);
        let to_b = a.connect(b.address(), 1).unwrap();
        let to_a = b.connect(a.address(), 0).unwrap();
        let mut window = vec![17u64; 1];
        let region = register(&a, &mut window, Access::all());
        let there = There::new(&b, to_a, region.handle());
        attended(&a, || {
            std::thread::scope(|s| {
                s.spawn(|| gate.inbox.wait(&b, MANY));
                for i in 0..MANY {
                    send(&a, to_b, 0, &content(i, 100_000));
                }
                for _ in 0..200 {
                    let mut word = [0u64];
                    there.insist(|there| there.get(0, &mut word, None));
                    assert_eq!(b.flush(None), Status::SUCCESS);
                    assert_eq!(word, [17], "{provider}");
                }
                gate.open.store(true, Ordering::Release);
            });
        });
        for (i, (.., bytes)) in gate.inbox.all.lock().unwrap().iter().enumerate() {
            assert!(*bytes == content(i, 100_000), "{provider}: {i}");
        }
        close([region], [a, b]);
    }
}
