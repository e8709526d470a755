//! Types and operations of collectives, and the operands that they are tried with.

use plugin_api::Datatype;

use super::super::random::Random;
use host_stub::coll::Collective;
use host_stub::win::Op;

/// The operations that a collective is tried with on a type; one for those that take none.
pub(super) fn operations(collective: Collective, datatype: Datatype) -> Vec<Op> {
    if !collective.reduces() {
        return vec![Op::Sum];
    }
    let all = Op::ALL.iter().copied();
    all.filter(|op| !matches!(op, Op::Replace | Op::NoOp) && op.is_defined_on(datatype))
        .collect()
}

/// The operand that a rank gives. Of types whose values are not any bytes: small whole numbers, whose sums and products are
/// exact in every order.
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
