//! The model's arithmetic: elements as wide integers or doubles, written separately from the
//! windows' arithmetic, so that a test can find differences.

use plugin_api::Datatype;

use super::random::Random;
use host_stub::win::Op;

/// An element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Integer(i128),
    Real(f64),
}

fn bits(datatype: Datatype) -> u32 {
    8 * datatype.size() as u32
}

fn is_signed(datatype: Datatype) -> bool {
    matches!(
        datatype,
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 | Datatype::Int64
    )
}

/// Reads an element from its bytes.
pub(super) fn decode(datatype: Datatype, bytes: &[u8]) -> Value {
    let mut word = [0u8; 8];
    let size = datatype.size().min(bytes.len());
    word[..size].copy_from_slice(&bytes[..size]);
    let raw = u64::from_le_bytes(word);
    match datatype {
        Datatype::Float => Value::Real(f64::from(f32::from_bits(raw as u32))),
        Datatype::Double => Value::Real(f64::from_bits(raw)),
        _ => Value::Integer(wrap(datatype, i128::from(raw))),
    }
}

/// The bytes of an element; bytes beyond its size are zero.
pub(super) fn encode(datatype: Datatype, value: Value) -> Vec<u8> {
    let raw = match (datatype, value) {
        (Datatype::Float, Value::Real(value)) => u64::from((value as f32).to_bits()),
        (Datatype::Float, Value::Integer(value)) => u64::from((value as f32).to_bits()),
        (Datatype::Double, Value::Real(value)) => value.to_bits(),
        (Datatype::Double, Value::Integer(value)) => (value as f64).to_bits(),
        (_, Value::Integer(value)) => value as u64,
        (_, Value::Real(value)) => value as i128 as u64,
    };
    raw.to_le_bytes()[..datatype.size()].to_vec()
}

/// Reduces an integer to the type's width.
fn wrap(datatype: Datatype, value: i128) -> i128 {
    let modulus = 1i128 << bits(datatype);
    let value = value.rem_euclid(modulus);
    if is_signed(datatype) && value >= modulus / 2 {
        value - modulus
    } else {
        value
    }
}

/// The target's value after `target op operand`.
pub(super) fn apply(datatype: Datatype, op: Op, target: Value, operand: Value) -> Value {
    match (target, operand) {
        (_, _) if op == Op::NoOp => target,
        (_, _) if op == Op::Replace => operand,
        (Value::Integer(a), Value::Integer(b)) => {
            let truth = |value: bool| i128::from(u8::from(value));
            Value::Integer(wrap(
                datatype,
                match op {
                    Op::Sum => a + b,
                    Op::Prod => wrap(datatype, a).wrapping_mul(b),
                    Op::Min => std::cmp::min(a, b),
                    Op::Max => std::cmp::max(a, b),
                    Op::Land => truth(a != 0) * truth(b != 0),
                    Op::Lor => truth(a != 0).max(truth(b != 0)),
                    Op::Lxor => (truth(a != 0) + truth(b != 0)) % 2,
                    Op::Band => !(!a | !b),
                    Op::Bor => !(!a & !b),
                    Op::Bxor => (a | b) & !(a & b),
                    Op::Replace => b,
                    Op::NoOp => a,
                },
            ))
        }
        (Value::Real(a), Value::Real(b)) => Value::Real(match op {
            Op::Sum => a + b,
            Op::Prod => a * b,
            Op::Min => a.min(b),
            Op::Max => a.max(b),
            _ => a,
        }),
        (a, _) => a,
    }
}

/// Operands for an operation. Sums and products of reals stay exact in the type, so their order
/// does not matter.
pub(super) fn operands(datatype: Datatype, op: Op, count: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * datatype.size());
    for _ in 0..count {
        let value = match op {
            Op::Prod if datatype.is_float() => random.between(1, 2),
            Op::Land | Op::Lor | Op::Lxor => random.between(0, 2),
            _ if datatype.is_float() => random.between(-64, 64),
            _ => random.next() as i64,
        };
        bytes.extend(encode(
            datatype,
            Value::Integer(wrap(Datatype::Int64, i128::from(value))),
        ));
    }
    bytes
}
