//! Tests of the ring, with threads as device and proxy.

use super::*;

#[test]
fn commands_come_out_in_order_and_whole() {
    let ring = Ring::new(4);
    std::thread::scope(|scope| {
        for producer in 0..3u64 {
            let ring = &ring;
            scope.spawn(move || {
                for i in 0..200u64 {
                    let command = Command {
                        kind: CommandKind::Put as u32,
                        untracked: false,
                        window: 3,
                        target: producer as u32,
                        datatype: 7,
                        op: 2,
                        displacement: i,
                        local: 1 << 63,
                        count: i + 1,
                        operand: i * producer,
                        compare: 9,
                    };
                    let ticket = ring.submit(&command);
                    assert_eq!(ring.wait(ticket).result, i + 100 * producer);
                }
            });
        }
        let mut next = [0u64; 3];
        for ticket in 0..600 {
            let command = loop {
                match ring.next(ticket) {
                    Next::Command(command) => break command,
                    Next::Nothing => std::thread::yield_now(),
                    Next::Garbage(found) => panic!("a slot holds {found}"),
                }
            };
            let producer = u64::from(command.target);
            let i = &mut next[producer as usize];
            assert_eq!((command.displacement, command.count), (*i, *i + 1));
            assert_eq!(
                (command.operand, command.op, command.datatype),
                (*i * producer, 2, 7)
            );
            ring.answer(
                ticket,
                Completion {
                    status: 0,
                    result: *i + 100 * producer,
                },
                false,
            );
            *i += 1;
        }
    });
}

/// The test submits twice as many untracked commands as the ring has slots; the answers free the
/// slots.
#[test]
fn nobody_waits_for_untracked_commands() {
    let ring = Ring::new(2);
    let command = Command {
        untracked: true,
        ..Command::default()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| [(); 4].map(|()| ring.submit(&command)));
        for ticket in 0..4 {
            while !matches!(ring.next(ticket), Next::Command(found) if found == command) {
                std::thread::yield_now();
            }
            let status = -(ticket as i32 % 2);
            ring.answer(ticket, Completion { status, result: 0 }, true);
        }
    });
    assert_eq!(ring.counts(), (2, 2));
}

#[test]
fn a_closed_ring_lets_everybody_go() {
    let ring = Ring::new(1);
    let answered = ring.submit(&Command::default());
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| ring.wait(ring.submit(&Command::default())));
        ring.answer(
            answered,
            Completion {
                status: 0,
                result: 5,
            },
            false,
        );
        ring.close();
        waits.join()
    });
    assert_eq!(waits.ok(), Some(Completion::CANCELED));
    assert_eq!(ring.wait(answered).result, 5);
}

#[test]
fn what_no_producer_writes_is_seen() {
    let ring = Ring::new(4);
    assert!(matches!(ring.next(0), Next::Nothing));
    ring.slot(0).published.store(77, Ordering::Relaxed);
    assert!(matches!(ring.next(0), Next::Garbage(77)));
    ring.slot(1).published.store(6, Ordering::Relaxed);
    assert!(matches!(ring.next(5), Next::Command(_)));
    assert!(matches!(ring.next(9), Next::Nothing));
    assert!(matches!(ring.next(1), Next::Garbage(6)));
}
