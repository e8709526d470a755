//! Tests of slots with real threads; `tests/pending_model.rs` runs the model checker.

use super::slots::*;

#[test]
fn slots_run_out_and_come_back() {
    let slots = Slots::new();
    let taken: Vec<usize> = std::iter::from_fn(|| slots.take()).collect();
    assert_eq!(taken.len(), SLOTS);
    slots.give_back(taken[7]);
    assert_eq!(slots.take(), Some(taken[7]));
    assert_eq!(slots.take(), None);
}

#[test]
fn a_slot_waits_until_it_is_finished() {
    let slots = Slots::new();
    let slot = slots.slot(3);
    slot.arm();
    assert_eq!(slot.status(), None);
    slot.finish(-12);
    assert_eq!(slot.status(), Some(-12));
}
