//! Origins that die while they hold a lane of a target's mailbox. There are more such origins than
//! lanes. Afterwards another origin still gets a lane.

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::sync::mpsc;

use crate::common::prelude::*;

const PROVIDER: &str = "BTL_OFI_TEST_LANES_PROVIDER";
const OWNER: &str = "BTL_OFI_TEST_LANES_OWNER";
const LAST: &str = "BTL_OFI_TEST_LANES_LAST";

/// The size of the window, and of a put, in bytes.
const BYTES: usize = 64 << 10;
/// The number of killed initiators. The mailbox has eight lanes, so a lane that stayed taken would
/// block later initiators.
const VICTIMS: usize = 16;
/// The number of outstanding puts that a victim always has, so that it never returns its lane by
/// itself.
const UNDER_WAY: u32 = 32;

/// The initiator's program; it does not return.
#[test]
#[ignore = "a child process of other tests, which start it"]
fn initiator_process() {
    let provider = std::env::var(PROVIDER).expect("started by a test below");
    let owner = std::env::var(OWNER).unwrap();
    let parts: Vec<&str> = owner.split(' ').collect();
    let t = open(&provider, ThreadLevel::Single, &[]);
    let peer = t.connect(&unhex(parts[0]), 0).unwrap();
    let handle = handle_of(parts[1]);
    let window: u64 = parts[2].parse().unwrap();
    let there = There {
        base: window,
        ..There::new(&t, peer, handle)
    };
    let source = vec![7u8; BYTES];
    let say = |what: &str| {
        println!("@{what}");
        std::io::stdout().flush().unwrap();
    };
    say(&hex(t.address()));
    if std::env::var_os(LAST).is_some() {
        there.insist(|there| there.put(0, &source, None));
        say(&format!("{:?}", t.flush(None)));
        std::process::exit(0);
    }
    let seen = Seen::default();
    let mut posted = 0u32;
    loop {
        if posted - seen.succeeded() < UNDER_WAY {
            there.insist(|there| there.put(0, &source, seen.completion()));
            posted += 1;
            if posted == 2 * UNDER_WAY {
                say("going");
            }
        }
        t.progress();
    }
}

/// A child process that ends with the test.
struct Initiator {
    child: Child,
    hear: mpsc::Receiver<String>,
}

impl Initiator {
    fn start(provider: &str, owner: &str, last: bool) -> Initiator {
        let mut command = again(module_path!(), "initiator_process");
        command
            .env(PROVIDER, provider)
            .env(OWNER, owner)
            .stdout(Stdio::piped());
        if last {
            command.env(LAST, "1");
        }
        let mut child = command.spawn().unwrap();
        let from = child.stdout.take().unwrap();
        let (tell, hear) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once('@') {
                    let _ = tell.send(said.to_owned());
                }
            }
        });
        Initiator { child, hear }
    }

    /// Returns the child's next line; the owner makes progress meanwhile.
    fn says(&self, t: &Transport) -> String {
        let deadline = Patience::new();
        loop {
            if let Ok(said) = self.hear.try_recv() {
                return said;
            }
            t.progress();
            assert!(deadline.lasts(), "the initiator waits for ever");
        }
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn outlives(provider: &str) {
    let t = open(provider, ThreadLevel::Single, &[]);
    let mut window = vec![0u64; BYTES / 8];
    let base = device::address(window.as_mut_ptr().cast());
    t.set_overrides(Some(&device::copies()));
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    // The window is registered before any peer is known.
    let region = device::register(&t, &mut window, access);
    let handle = handle_text(region.handle());
    let owner = format!("{} {} {}", hex(t.address()), handle, base.addr());
    for proc in 0..VICTIMS as u64 {
        let mut victim = Initiator::start(provider, &owner, false);
        // The transport detects the death only of a peer that it knows to run on this node.
        t.connect(&unhex(&victim.says(&t)), proc).unwrap();
        assert_eq!(victim.says(&t), "going");
        victim.child.kill().unwrap();
        victim.child.wait().unwrap();
    }
    let last = Initiator::start(provider, &owner, true);
    last.says(&t);
    assert_eq!(
        last.says(&t),
        format!("{:?}", Status::SUCCESS),
        "{provider}"
    );
    assert!(window.iter().all(|word| *word == 0x0707_0707_0707_0707));
    drop(last);
    close([region], [t]);
}

#[test]
fn shm() {
    outlives("shm");
}

#[test]
fn tcp_rxm() {
    outlives("tcp;ofi_rxm");
}

/// The initiator takes its lane by message.
#[test]
fn net() {
    outlives("net");
}
