//! What collectives move and combine: the transport's types and operations, and those that only reductions have.

use std::fmt;

use plugin_api::Datatype;

use super::op::{Op, type_name};
use super::user_op::UserOp;

/// The type of a collective's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// A type of the transport, which windows have too.
    Basic(Datatype),
    /// A complex number of two floats.
    FloatComplex,
    /// A complex number of two doubles.
    DoubleComplex,
    /// C's `struct { float value; int index; }` (MPI_FLOAT_INT).
    FloatInt,
    /// C's `struct { double value; int index; }` (MPI_DOUBLE_INT).
    DoubleInt,
    /// C's `struct { long value; int index; }` (MPI_LONG_INT).
    LongInt,
    /// C's `struct { int value; int index; }` (MPI_2INT).
    TwoInt,
    /// C's `struct { short value; int index; }` (MPI_SHORT_INT).
    ShortInt,
    /// So many bytes, at least one, that only the program knows the meaning of.
    Bytes(u32),
}

impl ElementType {
    /// Those that have a name, besides the transport's.
    pub const NAMED: [ElementType; 7] = [
        ElementType::FloatComplex,
        ElementType::DoubleComplex,
        ElementType::FloatInt,
        ElementType::DoubleInt,
        ElementType::LongInt,
        ElementType::TwoInt,
        ElementType::ShortInt,
    ];

    /// Bytes of an element, padding included.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            ElementType::Basic(datatype) => datatype.size(),
            ElementType::FloatComplex
            | ElementType::FloatInt
            | ElementType::TwoInt
            | ElementType::ShortInt => 8,
            ElementType::DoubleComplex | ElementType::DoubleInt | ElementType::LongInt => 16,
            ElementType::Bytes(size) => size as usize,
        }
    }

    /// Whether an element is a value and an index.
    pub const fn is_pair(self) -> bool {
        matches!(
            self,
            ElementType::FloatInt
                | ElementType::DoubleInt
                | ElementType::LongInt
                | ElementType::TwoInt
                | ElementType::ShortInt
        )
    }
}

impl From<Datatype> for ElementType {
    fn from(datatype: Datatype) -> ElementType {
        ElementType::Basic(datatype)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElementType::Basic(datatype) => type_name(*datatype),
            ElementType::FloatComplex => "float complex",
            ElementType::DoubleComplex => "double complex",
            ElementType::FloatInt => "float and int",
            ElementType::DoubleInt => "double and int",
            ElementType::LongInt => "long and int",
            ElementType::TwoInt => "int and int",
            ElementType::ShortInt => "short and int",
            ElementType::Bytes(size) => return write!(f, "{size} bytes"),
        })
    }
}

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// An operation that accumulates have too.
    Basic(Op),
    /// The least value and its index; of equal values the least index (MPI_MINLOC).
    MinLoc,
    /// The greatest value and its index; of equal values the least index (MPI_MAXLOC).
    MaxLoc,
    /// A function of the program.
    User(UserOp),
}

impl ReduceOp {
    /// Whether a reduction of elements of this type can have the operation.
    pub fn is_defined_on(self, element: ElementType) -> bool {
        match (self, element) {
            (ReduceOp::Basic(Op::Replace | Op::NoOp), _) => false,
            (ReduceOp::Basic(op), ElementType::Basic(datatype)) => op.is_defined_on(datatype),
            (
                ReduceOp::Basic(Op::Sum | Op::Prod),
                ElementType::FloatComplex | ElementType::DoubleComplex,
            )
            | (ReduceOp::User(_), _) => true,
            (ReduceOp::MinLoc | ReduceOp::MaxLoc, element) => element.is_pair(),
            (ReduceOp::Basic(_), _) => false,
        }
    }

    /// Whether the operands may be combined in another order than that of the ranks.
    pub fn commutes(self) -> bool {
        match self {
            ReduceOp::User(op) => op.commutes(),
            _ => true,
        }
    }

    /// The number that tells it from others, the same at every rank; users' operations have two, by whether they
    /// commute.
    pub(crate) fn number(self) -> u64 {
        match self {
            ReduceOp::Basic(op) => op as u64 + 1,
            ReduceOp::MinLoc => 0x20,
            ReduceOp::MaxLoc => 0x21,
            ReduceOp::User(op) => 0x22 + u64::from(op.commutes()),
        }
    }

    /// What a number stands for.
    pub(crate) fn name_of(number: u64) -> &'static str {
        let basic = Op::ALL.iter().find(|op| **op as u64 + 1 == number);
        match (basic, number) {
            (Some(op), _) => op.name(),
            (_, 0x20) => "minloc",
            (_, 0x21) => "maxloc",
            (_, 0x22) => "a user's operation that does not commute",
            (_, 0x23) => "a user's operation that commutes",
            _ => "none",
        }
    }
}

impl From<Op> for ReduceOp {
    fn from(op: Op) -> ReduceOp {
        ReduceOp::Basic(op)
    }
}

impl From<UserOp> for ReduceOp {
    fn from(op: UserOp) -> ReduceOp {
        ReduceOp::User(op)
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::name_of(self.number()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> impl Iterator<Item = ElementType> {
        let basic = Datatype::ALL.iter().map(|datatype| (*datatype).into());
        let bytes = [1, 8, u32::MAX].map(ElementType::Bytes);
        basic.chain(ElementType::NAMED).chain(bytes)
    }

    #[test]
    fn pairs_have_locations_and_complex_numbers_sums() {
        for element in every() {
            assert_eq!(ReduceOp::MinLoc.is_defined_on(element), element.is_pair());
            let basic = matches!(element, ElementType::Basic(_));
            assert_eq!(ReduceOp::Basic(Op::Max).is_defined_on(element), basic);
            assert!(!ReduceOp::Basic(Op::Replace).is_defined_on(element));
        }
        assert!(ReduceOp::Basic(Op::Prod).is_defined_on(ElementType::DoubleComplex));
    }
}
