//! Types and operations of collectives, and the operands of their tests.

use plugin_api::Datatype;

use super::super::random::Random;
use host_stub::coll::Collective;
use host_stub::win::Op;

/// The operations for the tests of a collective on a type; one operation for collectives that take
/// none.
pub(super) fn operations(collective: Collective, datatype: Datatype) -> Vec<Op> {
    if !collective.reduces() {
        return vec![Op::Sum];
    }
    let all = Op::ALL.iter().copied();
    all.filter(|op| !matches!(op, Op::Replace | Op::NoOp) && op.is_defined_on(datatype))
        .collect()
}

/// The operand that a rank gives. For types that do not allow any bytes, the values are small whole numbers, whose sums and
/// products are exact in every order.
pub(super) fn operand(datatype: Datatype, random: &mut Random, len: usize) -> Vec<u8> {
    let mut whole = || random.between(-3, 3);
    match datatype {
        Datatype::Float => (0..len / 4)
            .flat_map(|_| (whole() as f32).to_ne_bytes())
            .collect(),
        Datatype::Double => (0..len / 8)
            .flat_map(|_| (whole() as f64).to_ne_bytes())
            .collect(),
        _ => random.bytes(len),
    }
}
