//! Mailboxes of one process over a scripted transport.

use plugin_api::Status;

use super::{Found, Header, Kind, Layout, Mailbox};
use crate::loader::{Transport, scripted};

/// The connected mailboxes of some ranks.
pub(crate) fn mailboxes<const N: usize>(transport: &Transport) -> [Mailbox; N] {
    let mut mailboxes: [Mailbox; N] =
        std::array::from_fn(|me| Mailbox::new(transport, me, N).unwrap());
    let cards = mailboxes.each_ref().map(Mailbox::card);
    let procs: [u64; N] = std::array::from_fn(|rank| rank as u64);
    let endpoints = transport.connect(&procs).unwrap();
    let endpoints: Vec<_> = endpoints.into_iter().flatten().collect();
    for mailbox in &mut mailboxes {
        mailbox.connect(&endpoints, &cards).unwrap();
    }
    mailboxes
}

fn pair(transport: &Transport) -> [Mailbox; 2] {
    mailboxes(transport)
}

fn slots(transport: &Transport) -> usize {
    Layout::new(2, transport.attributes().put_limit).slots
}

fn send(mailbox: &mut Mailbox, to: usize) -> Result<bool, Status> {
    let header = Header {
        kind: Kind::Eager,
        len: 1,
        context: 0,
        sequence: 0,
    };
    mailbox.send(to, header, &[5])
}

#[test]
fn a_lost_message_is_found_by_every_look_and_by_a_full_ring() {
    let transport = scripted::transport();
    let [mut sender, receiver] = pair(&transport);
    scripted::script(&transport).put_ends = Status::UNREACH;
    assert_eq!(send(&mut sender, 1), Ok(true));
    transport.progress();
    scripted::script(&transport).put_ends = Status::SUCCESS;
    assert!(receiver.poll(0).is_none());
    for _ in 0..2 {
        assert_eq!(sender.look(1), Some(Found::Gone(Status::UNREACH)));
        transport.progress();
    }
    // The ring has room for the other messages.
    for _ in 1..slots(&transport) {
        assert_eq!(send(&mut sender, 1), Ok(true));
    }
    assert_eq!(send(&mut sender, 1), Err(Status::UNREACH));
}

#[test]
fn a_look_finds_that_a_rank_was_not_told_what_was_taken() {
    let transport = scripted::transport();
    let [mut sender, mut receiver] = pair(&transport);
    for _ in 0..slots(&transport) / 2 {
        assert_eq!(send(&mut sender, 1), Ok(true));
    }
    transport.progress();
    assert_eq!(receiver.look(0), Some(Found::Nothing));
    transport.progress();
    scripted::script(&transport).put_ends = Status::UNREACH;
    while let Some(Ok(header)) = receiver.poll(0) {
        receiver.take(0, header, &mut [0]);
    }
    transport.progress();
    assert_eq!(receiver.look(0), Some(Found::Gone(Status::UNREACH)));
}

#[test]
fn a_rank_hears_of_a_message_that_was_lost_on_its_way_there() {
    let transport = scripted::transport();
    let [mut sender, mut receiver] = pair(&transport);
    assert_eq!(receiver.look(0), Some(Found::Nothing));
    transport.progress();
    scripted::script(&transport).put_ends = Status::UNREACH;
    assert_eq!(send(&mut sender, 1), Ok(true));
    transport.progress();
    scripted::script(&transport).put_ends = Status::SUCCESS;
    // The sender has nothing more to send, and only lets others read its memory. This look reads the sender's
    // memory.
    assert_eq!(receiver.look(0), Some(Found::Nothing));
    transport.progress();
    assert!(receiver.poll(0).is_none());
    for _ in 0..2 {
        assert_eq!(receiver.look(0), Some(Found::GaveUp(0)));
        transport.progress();
    }
}

#[test]
fn a_rank_tells_which_rank_it_has_lost_until_it_fails_itself() {
    let transport = scripted::transport();
    let [_, teller, mut other] = mailboxes::<3>(&transport);
    let mut look = || {
        let found = other.look(1);
        transport.progress();
        found
    };
    let mut found_after = |culprit| {
        teller.give_up(2, culprit);
        look();
        look()
    };
    assert_eq!(found_after(Some(0)), Some(Found::GaveUp(0)));
    assert_eq!(found_after(Some(2)), Some(Found::GaveUp(0)));
    assert_eq!(found_after(None), Some(Found::GaveUp(1)));
    assert_eq!(found_after(Some(0)), Some(Found::GaveUp(1)));
}
