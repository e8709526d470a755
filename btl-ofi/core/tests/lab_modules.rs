//! Several modules of one process, each on an interface of its own: what they publish together leads each to its counterpart.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod lab;

use std::ptr;
use std::time::Duration;

use btl_ofi::Transport;
use mca_params::Value;
use plugin_api::{Access, Status, ThreadLevel};

use common::{Calls as _, insist, open, register, try_open};
use lab::{Tally, child, child_role, shape};

const LIMIT: Duration = Duration::from_secs(60);

fn opened(modules: &'static str) -> Vec<Transport> {
    let settings = [("btl_ofi_modules", Value::str(modules))];
    let first = open("lab", ThreadLevel::Single, &settings);
    let further = first.further_modules().to_vec();
    let further = further.iter().map(|options| {
        let module = try_open(options, ThreadLevel::Single).unwrap();
        assert!(module.further_modules().is_empty());
        module
    });
    let further: Vec<_> = further.collect();
    std::iter::once(first).chain(further).collect()
}

fn domain(module: &Transport) -> String {
    let domain = module.capabilities().domain.to_string_lossy();
    domain.into_owned()
}

#[test]
#[ignore = "a child process of other tests, which start it"]
fn several() {
    child_role();
    shape(&[("DOMAINS", "3")]);
    for (asked, expected) in [("1", 1), ("2", 2), ("auto", 3), ("4", 3)] {
        assert_eq!(opened(asked).len(), expected, "{asked}");
    }
    let (own, peer) = (opened("auto"), opened("2"));
    let modules: Vec<&Transport> = own.iter().collect();
    let published = Transport::addresses(&peer.iter().collect::<Vec<_>>());
    for (number, module) in own.iter().enumerate() {
        let address = Transport::address_for(&modules, number, &published).unwrap();
        let Some(target) = peer.get(number) else {
            assert_eq!(address, None, "the peer has no such module");
            continue;
        };
        assert_eq!(domain(module), domain(target));
        let endpoint = module.connect(address.unwrap(), 1).unwrap();
        let mut window = [0u64; 1];
        let region = register(target, &mut window, Access::all());
        let (mut word, none) = (7 + number as u64, ptr::null_mut());
        let (local, handle) = ((&raw mut word).cast(), region.handle());
        // SAFETY: word and window live until the flush has returned.
        insist(module, || unsafe {
            module.put(endpoint, local, handle.base(), none, &handle, 8, None)
        });
        assert_eq!(module.flush(None), Status::SUCCESS);
        assert_eq!(window[0], word);
    }
    // A process with one module publishes its address alone, and its peers with several take it for their first.
    let one = opened("1");
    let published = Transport::addresses(&[&one[0]]);
    assert_eq!(published, one[0].address());
    for number in 0..3 {
        let address = Transport::address_for(&modules, number, &published).unwrap();
        assert_eq!(address.is_some(), number == 0);
    }
    for module in own.into_iter().chain(peer).chain(one) {
        module.close().unwrap();
    }
    Tally {
        run: 1,
        ..Tally::default()
    }
    .tell();
}

#[test]
fn modules_lead_to_each_other() {
    child("several", "several", LIMIT).insist("several modules");
}
