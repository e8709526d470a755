//! Atomic operations and datatypes, with the codes that cross the boundary.

use std::fmt;

/// An unknown code from the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCode {
    /// The expected kind of code.
    pub what: &'static str,
    /// The code.
    pub code: u32,
}

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} {}", self.what, self.code)
    }
}

impl std::error::Error for UnknownCode {}

macro_rules! coded_enum {
    ($(#[$doc:meta])* $name:ident as $what:literal { $($(#[$vdoc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant = $code,)* }

        impl $name {
            /// Every value, in the order of the codes.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
        }

        impl TryFrom<u32> for $name {
            type Error = UnknownCode;
            #[inline]
            fn try_from(code: u32) -> Result<Self, UnknownCode> {
                match code {
                    $($code => Ok($name::$variant),)*
                    _ => Err(UnknownCode { what: $what, code }),
                }
            }
        }
    };
}

coded_enum! {
    /// Operations of `atomic_op` and `atomic_fop`, with the codes of `mca_btl_base_atomic_op_t`.
    BtlAtomicOp as "BTL atomic operation" {
        /// Sum.
        Add = 0x0001,
        /// Bitwise and.
        And = 0x0011,
        /// Bitwise or.
        Or = 0x0012,
        /// Bitwise exclusive or.
        Xor = 0x0014,
        /// Logical and.
        Land = 0x0015,
        /// Logical or.
        Lor = 0x0016,
        /// Logical exclusive or.
        Lxor = 0x0017,
        /// Replace.
        Swap = 0x001a,
        /// Minimum, signed.
        Min = 0x0020,
        /// Maximum, signed.
        Max = 0x0021,
    }
}

coded_enum! {
    /// Operations of the typed AMOs, with the codes of libfabric's `enum fi_op`.
    AtomicOp as "atomic operation" {
        /// Minimum.
        Min = 0,
        /// Maximum.
        Max = 1,
        /// Sum.
        Sum = 2,
        /// Product.
        Prod = 3,
        /// Logical or.
        Lor = 4,
        /// Logical and.
        Land = 5,
        /// Bitwise or.
        Bor = 6,
        /// Bitwise and.
        Band = 7,
        /// Logical exclusive or.
        Lxor = 8,
        /// Bitwise exclusive or.
        Bxor = 9,
        /// Fetch without change (MPI_NO_OP).
        Read = 10,
        /// Replace (MPI_REPLACE).
        Write = 11,
        /// Replace if equal to the compare value.
        Cswap = 12,
    }
}

coded_enum! {
    /// Element types of the typed AMOs, with the codes of libfabric's `enum fi_datatype`.
    Datatype as "datatype" {
        /// 8-bit signed.
        Int8 = 0,
        /// 8-bit unsigned.
        Uint8 = 1,
        /// 16-bit signed.
        Int16 = 2,
        /// 16-bit unsigned.
        Uint16 = 3,
        /// 32-bit signed.
        Int32 = 4,
        /// 32-bit unsigned.
        Uint32 = 5,
        /// 64-bit signed.
        Int64 = 6,
        /// 64-bit unsigned.
        Uint64 = 7,
        /// 32-bit IEEE 754.
        Float = 8,
        /// 64-bit IEEE 754.
        Double = 9,
    }
}

impl Datatype {
    /// Bytes of one element; also its alignment.
    pub const fn size(self) -> usize {
        match self {
            Datatype::Int8 | Datatype::Uint8 => 1,
            Datatype::Int16 | Datatype::Uint16 => 2,
            Datatype::Int32 | Datatype::Uint32 | Datatype::Float => 4,
            Datatype::Int64 | Datatype::Uint64 | Datatype::Double => 8,
        }
    }

    /// Whether the type is floating point.
    pub const fn is_float(self) -> bool {
        matches!(self, Datatype::Float | Datatype::Double)
    }
}

coded_enum! {
    /// The three kinds of AMO. A provider's support differs between these kinds.
    AtomicKind as "atomic kind" {
        /// Updates the target, returns nothing.
        Update = 0,
        /// Updates the target and returns the old value.
        Fetch = 1,
        /// Compares, updates and returns the old value.
        Compare = 2,
    }
}
