//! The exchanges by which ranks make a window: their number, and the data that a rank gets in them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use osc_engine::door::{Group, Members};
use osc_engine::win::{Assertion, Info, TableChoice, WinResult, Window};

use crate::creation::{Answer, Scripted};
use crate::world::{Rank, World, on_world};
use crate::{get, members, put};

const NONE: Assertion = Assertion::empty();

type Make = fn(Members, &mut [u64; 8]) -> WinResult<Window>;

fn create(members: Members, memory: &mut [u64; 8]) -> WinResult<Window> {
    // SAFETY: the memory lives until the window was freed, and only the window uses it meanwhile.
    unsafe { Window::create(members, memory.as_mut_ptr().cast(), 64, 8) }
}

fn allocate(members: Members, info: &Info) -> WinResult<Window> {
    Window::allocate_with(members, 64, 8, info)
}

fn on_nodes_of(ranks: u32, table: TableChoice) -> Info {
    Info::new().with_table(table).with_ranks_per_node(ranks)
}

/// One exchange if no rank shares memory in the window, three with segments, and none after the
/// creation.
#[test]
fn a_creation_takes_one_exchange_or_three() {
    let by_transport: Make = |m, _| allocate(m, &Info::new().with_table(TableChoice::Btl));
    let apart: Make = |m, _| allocate(m, &on_nodes_of(1, TableChoice::Auto));
    let segment: Make = |m, _| allocate(m, &on_nodes_of(3, TableChoice::Auto));
    let mixed: Make = |m, _| allocate(m, &on_nodes_of(3, TableChoice::Mixed));
    // The last of three ranks is alone on its node.
    let pair: Make = |m, _| allocate(m, &on_nodes_of(2, TableChoice::Auto));
    let makes: [(&str, usize, Make, usize); 8] = [
        ("create", 3, create, 1),
        ("dynamic", 3, |m, _| Window::dynamic(m), 1),
        ("allocate by the transport", 3, by_transport, 1),
        ("allocate, one rank a node", 3, apart, 1),
        // A rank alone in its window has a segment.
        ("allocate, one rank", 1, apart, 3),
        ("allocate in a segment", 3, segment, 3),
        ("allocate a segment and register it", 3, mixed, 3),
        ("allocate, two ranks a node", 3, pair, 3),
    ];
    for (name, size, make, expected) in makes {
        let world = World::new(size, true);
        on_world(&world, 1, &|rank: &Arc<Rank>| {
            let mut memory = [0u64; 8];
            let window = make(members(rank), &mut memory).unwrap();
            window.lock_all(NONE).unwrap();
            if name.starts_with("allocate") {
                let next = (rank.rank() + 1) % size;
                put(&window, 7 + next as u64, next, 3);
                assert_eq!(get(&window, next, 3), 7 + next as u64, "{name}");
            }
            window.unlock_all().unwrap();
            window.free().unwrap();
        });
        let exchanges = world.exchanges.load(Ordering::Relaxed);
        assert_eq!(exchanges, expected, "{name}");
    }
}

#[test]
fn a_refusal_of_the_group_names_its_rank() {
    let world = World::new(2, false);
    let rank = Rank::new(&world, 0, 1);
    let refusing = Scripted::new(&rank, 2, Answer::Refused(1, "no transport"));
    let error = refusing.create(&mut [0; 1]).unwrap_err();
    let said = error.to_string();
    assert_eq!(said, "window creation failed on rank 1: no transport");
}

/// The error of rank 0 of two ranks, if rank 1 sends rank 0's bytes as changed by `change`.
fn said(make: fn(Members) -> WinResult<Window>, change: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let world = World::new(2, true);
    let rank = Rank::new(&world, 0, 1);
    let failing = Scripted::new(&rank, 2, Answer::Failed);
    make(failing.members()).unwrap_err();
    let own = failing.gave();
    let other = change(&own);
    let answered = Scripted::new(&rank, 2, Answer::All(vec![own, other]));
    make(answered.members()).unwrap_err().to_string()
}

#[test]
fn an_offer_that_is_missing_or_needless_names_its_rank() {
    let dynamic: fn(Members) -> WinResult<Window> = |m| Window::dynamic(m);
    let segment: fn(Members) -> WinResult<Window> =
        |m| allocate(m, &Info::new().with_table(TableChoice::Shm));
    let wrong = "window creation failed on rank 1: its intent comes with the wrong offer";
    let mut intent = 0;
    let longer = said(segment, |own| {
        intent = own.len();
        [own, b"offer"].concat()
    });
    assert_eq!(longer, wrong);
    assert_eq!(said(dynamic, |own| own[..intent].to_vec()), wrong);
    let cut = said(dynamic, |own| own[..own.len() - 1].to_vec());
    assert!(
        cut.starts_with("window creation failed on rank 1: its offer has"),
        "{cut}"
    );
    let nothing = said(dynamic, |_| Vec::new());
    assert!(
        nothing.starts_with("window creation failed on rank 1"),
        "{nothing}"
    );
}
