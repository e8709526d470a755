//! Types and operations of reductions that windows do not have, computed here for the model.

use std::ffi::c_void;

use plugin_api::Datatype;

use super::super::random::Random;
use crate::case::{Outcome, ensure};
use host_stub::coll::{Collective, ElementType, ReduceOp, UserOp};
use host_stub::win::{Op, combine};

/// The types that collectives are tried with.
pub(super) fn types() -> Vec<ElementType> {
    let basic = Datatype::ALL.iter().map(|datatype| (*datatype).into());
    let sized = [3, 24].map(ElementType::Bytes);
    basic.chain(ElementType::NAMED).chain(sized).collect()
}

/// An operation as the tests name it: users' are made for each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestOp {
    Basic(Op),
    MinLoc,
    MaxLoc,
    /// Every bit exclusive or, by a function that commutes.
    Xor,
    /// Pairs of bytes as the functions `x -> a x + b`, one after the other, which does not commute.
    Compose,
}

/// The operations that a collective is tried with on a type; one for those that take none.
pub(super) fn operations(collective: Collective, element: ElementType) -> Vec<TestOp> {
    if !collective.reduces() {
        return vec![TestOp::Basic(Op::Sum)];
    }
    let basic = Op::ALL.iter().map(|op| TestOp::Basic(*op));
    let users = [TestOp::MinLoc, TestOp::MaxLoc, TestOp::Xor, TestOp::Compose];
    let all = basic.chain(users);
    all.filter(|op| op.is_defined_on(element)).collect()
}

impl TestOp {
    fn is_defined_on(self, element: ElementType) -> bool {
        match (self, element) {
            (TestOp::Basic(Op::Replace | Op::NoOp), _) => false,
            (TestOp::Basic(op), ElementType::Basic(datatype)) => op.is_defined_on(datatype),
            (TestOp::Basic(op), ElementType::FloatComplex | ElementType::DoubleComplex) => {
                matches!(op, Op::Sum | Op::Prod)
            }
            (TestOp::Basic(_), _) => false,
            (TestOp::MinLoc | TestOp::MaxLoc, element) => value_and_index(element).is_some(),
            (TestOp::Xor | TestOp::Compose, _) => true,
        }
    }

    /// The host's operation; a user's is made here, for [`done`](Self::done) to free.
    pub(super) fn made(self) -> ReduceOp {
        // SAFETY: the functions are this program's, and follow no data.
        unsafe {
            match self {
                TestOp::Basic(op) => op.into(),
                TestOp::MinLoc => ReduceOp::MinLoc,
                TestOp::MaxLoc => ReduceOp::MaxLoc,
                TestOp::Xor => UserOp::create(xor, std::ptr::null_mut(), true).into(),
                TestOp::Compose => UserOp::create(compose, std::ptr::null_mut(), false).into(),
            }
        }
    }

    /// Frees what [`made`](Self::made) made.
    pub(super) fn done(made: ReduceOp) -> Outcome {
        ensure(!matches!(made, ReduceOp::User(op) if !op.free()), || {
            "an operation was freed twice".to_owned()
        })
    }

    /// `left = left op right`, element by element.
    pub(super) fn apply(self, element: ElementType, left: &mut [u8], right: &[u8]) {
        let size = element.size();
        match (self, element) {
            (TestOp::Basic(op), ElementType::Basic(datatype)) => combine(datatype, op, left, right),
            (TestOp::Basic(op), _) => {
                for (left, right) in left.chunks_mut(size).zip(right.chunks(size)) {
                    complex(op, left, right);
                }
            }
            (TestOp::MinLoc | TestOp::MaxLoc, _) => {
                for (left, right) in left.chunks_mut(size).zip(right.chunks(size)) {
                    let (Some(mine), Some(other)) =
                        (located(element, left), located(element, right))
                    else {
                        continue;
                    };
                    let beats = match self {
                        TestOp::MinLoc => other.0 < mine.0,
                        _ => other.0 > mine.0,
                    };
                    if beats || (other.0 == mine.0 && other.1 < mine.1) {
                        left.copy_from_slice(right);
                    }
                }
            }
            (TestOp::Xor, _) => left.iter_mut().zip(right).for_each(|(l, r)| *l ^= r),
            (TestOp::Compose, _) => {
                for (left, right) in left.chunks_mut(size).zip(right.chunks(size)) {
                    for (f, g) in left.chunks_exact_mut(2).zip(right.chunks_exact(2)) {
                        let (a, b) = (f[0].wrapping_mul(g[0]), f[1].wrapping_mul(g[0]));
                        (f[0], f[1]) = (a, b.wrapping_add(g[1]));
                    }
                }
            }
        }
    }
}

/// Bytes of the value, and where the index begins.
fn value_and_index(element: ElementType) -> Option<(usize, usize)> {
    match element {
        ElementType::FloatInt | ElementType::TwoInt => Some((4, 4)),
        ElementType::DoubleInt | ElementType::LongInt => Some((8, 8)),
        ElementType::ShortInt => Some((2, 4)),
        _ => None,
    }
}

/// The value, which a double holds exactly here, and the index.
fn located(element: ElementType, bytes: &[u8]) -> Option<(f64, i32)> {
    let (_, at) = value_and_index(element)?;
    let index = i32::from_ne_bytes(bytes[at..at + 4].try_into().ok()?);
    let value = match element {
        ElementType::FloatInt => f64::from(f32::from_ne_bytes(bytes[..4].try_into().ok()?)),
        ElementType::DoubleInt => f64::from_ne_bytes(bytes[..8].try_into().ok()?),
        ElementType::LongInt => i64::from_ne_bytes(bytes[..8].try_into().ok()?) as f64,
        ElementType::TwoInt => f64::from(i32::from_ne_bytes(bytes[..4].try_into().ok()?)),
        _ => f64::from(i16::from_ne_bytes(bytes[..2].try_into().ok()?)),
    };
    Some((value, index))
}

fn complex(op: Op, left: &mut [u8], right: &[u8]) {
    let half = left.len() / 2;
    let number = |bytes: &[u8]| match <[u8; 8]>::try_from(bytes) {
        Ok(double) => f64::from_ne_bytes(double),
        Err(_) => f64::from(f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
    };
    let (a, b) = (number(&left[..half]), number(&left[half..]));
    let (c, d) = (number(&right[..half]), number(&right[half..]));
    let (real, imaginary) = match op {
        Op::Sum => (a + c, b + d),
        _ => (a * c - b * d, a * d + b * c),
    };
    for (part, value) in left.chunks_mut(half).zip([real, imaginary]) {
        match half {
            8 => part.copy_from_slice(&value.to_ne_bytes()),
            _ => part.copy_from_slice(&(value as f32).to_ne_bytes()),
        }
    }
}

/// What a rank gives, of types whose values are not any bytes: small whole numbers, whose sums and products are exact in every
/// order, and which are often equal.
pub(super) fn operand(element: ElementType, random: &mut Random, len: usize) -> Vec<u8> {
    let mut whole = |limit: i64| random.between(-limit, limit);
    let size = element.size();
    let elements = len / size;
    match element {
        ElementType::Basic(Datatype::Float) | ElementType::FloatComplex => (0..len / 4)
            .flat_map(|_| (whole(3) as f32).to_ne_bytes())
            .collect(),
        ElementType::Basic(Datatype::Double) | ElementType::DoubleComplex => (0..len / 8)
            .flat_map(|_| (whole(3) as f64).to_ne_bytes())
            .collect(),
        _ => match value_and_index(element) {
            None => random.bytes(len),
            Some((bytes, at)) => {
                let one = |_| {
                    let mut made = vec![0; size];
                    let value = whole(3);
                    match element {
                        ElementType::FloatInt => {
                            made[..4].copy_from_slice(&(value as f32).to_ne_bytes());
                        }
                        ElementType::DoubleInt => {
                            made[..8].copy_from_slice(&(value as f64).to_ne_bytes());
                        }
                        _ => made[..bytes].copy_from_slice(&value.to_ne_bytes()[..bytes]),
                    }
                    let index = whole(1 << 20) as i32;
                    made[at..at + 4].copy_from_slice(&index.to_ne_bytes());
                    made
                };
                (0..elements).flat_map(one).collect()
            }
        },
    }
}

/// Makes zeroes without a sign of a reduction's zeroes: which sign the zero of a complex product has depends on the order in
/// which its factors are multiplied.
pub(super) fn unsign_zeroes(element: ElementType, bytes: &mut [u8]) {
    let zero = match element {
        ElementType::FloatComplex => (-0.0f32).to_ne_bytes().to_vec(),
        ElementType::DoubleComplex => (-0.0f64).to_ne_bytes().to_vec(),
        _ => return,
    };
    for part in bytes.chunks_exact_mut(zero.len()) {
        if part == &zero[..] {
            part.fill(0);
        }
    }
}

unsafe extern "C" fn xor(
    left: *const c_void,
    right: *mut c_void,
    count: usize,
    size: usize,
    _: *mut c_void,
) {
    let (left, right) = (left.cast::<u8>(), right.cast::<u8>());
    for at in 0..count * size {
        // SAFETY: the host gives so many bytes of each.
        unsafe { *right.add(at) ^= *left.add(at) };
    }
}

unsafe extern "C" fn compose(
    left: *const c_void,
    right: *mut c_void,
    count: usize,
    size: usize,
    _: *mut c_void,
) {
    let (left, right) = (left.cast::<u8>(), right.cast::<u8>());
    for element in 0..count {
        for at in (0..size / 2).map(|pair| element * size + pair * 2) {
            // SAFETY: the host gives so many bytes of each.
            unsafe {
                let (a, b) = (*left.add(at), *left.add(at + 1));
                let (c, d) = (*right.add(at), *right.add(at + 1));
                *right.add(at) = a.wrapping_mul(c);
                *right.add(at + 1) = b.wrapping_mul(c).wrapping_add(d);
            }
        }
        if size % 2 == 1 {
            let last = element * size + size - 1;
            // SAFETY: as above. The left one, which is associative and does not commute.
            unsafe { *right.add(last) = *left.add(last) };
        }
    }
}
