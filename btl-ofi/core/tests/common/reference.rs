//! The effect of an atomic on an element, computed plainly, for comparison.

use plugin_api::{AtomicOp, Datatype};

/// The value of one element after `op`; all values are in the low bytes.
pub(crate) fn after(datatype: Datatype, op: AtomicOp, old: u64, operand: u64, compare: u64) -> u64 {
    let mask = u64::MAX >> (64 - 8 * datatype.size());
    let (old, operand, compare) = (old & mask, operand & mask, compare & mask);
    match op {
        AtomicOp::Read => return old,
        AtomicOp::Write => return operand,
        AtomicOp::Cswap => return if old == compare { operand } else { old },
        AtomicOp::Band => return old & operand,
        AtomicOp::Bor => return old | operand,
        AtomicOp::Bxor => return old ^ operand,
        _ => {}
    }
    match datatype {
        Datatype::Float => {
            let v = |bits: u64| f32::from_bits(bits as u32);
            u64::from(float(op, v(old).into(), v(operand).into(), |v| v as f32).to_bits())
        }
        Datatype::Double => {
            let v = f64::from_bits;
            float(op, v(old), v(operand), |v| v).to_bits()
        }
        _ => {
            let signed = matches!(
                datatype,
                Datatype::Int8 | Datatype::Int16 | Datatype::Int32 | Datatype::Int64
            );
            let shift = 64 - 8 * datatype.size();
            let v = |bits: u64| match signed {
                true => i128::from(((bits << shift) as i64) >> shift),
                false => i128::from(bits),
            };
            integer(op, v(old), v(operand)) as u64 & mask
        }
    }
}

fn integer(op: AtomicOp, a: i128, b: i128) -> i128 {
    match op {
        AtomicOp::Sum => a + b,
        AtomicOp::Prod => a.wrapping_mul(b),
        AtomicOp::Min => a.min(b),
        AtomicOp::Max => a.max(b),
        AtomicOp::Land => i128::from(a != 0 && b != 0),
        AtomicOp::Lor => i128::from(a != 0 || b != 0),
        AtomicOp::Lxor => i128::from((a != 0) != (b != 0)),
        _ => a,
    }
}

fn float<T>(op: AtomicOp, a: f64, b: f64, to: impl Fn(f64) -> T) -> T {
    let truth = |t: bool| f64::from(u8::from(t));
    to(match op {
        AtomicOp::Sum => a + b,
        AtomicOp::Prod => a * b,
        AtomicOp::Min => a.min(b),
        AtomicOp::Max => a.max(b),
        AtomicOp::Land => truth(a != 0.0 && b != 0.0),
        AtomicOp::Lor => truth(a != 0.0 || b != 0.0),
        AtomicOp::Lxor => truth((a != 0.0) != (b != 0.0)),
        _ => a,
    })
}

/// Random numbers that are the same in every run with the same seed (a linear congruential
/// generator with the constants of Knuth's MMIX).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn word(&mut self) -> u64 {
        let mut next = || {
            self.0 = self
                .0
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            self.0 >> 32
        };
        next() << 32 | next()
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.word() >> 8) as usize % n
    }
}
