//! The header of every table, and the check that both sides run on it.

use std::fmt;

/// Tables of another major are refused.
pub const ABI_MAJOR: u16 = 1;
/// Raised when a table grows at its end.
pub const ABI_MINOR: u16 = 5;

/// Magic words, one per kind of table. The words are readable in a memory dump.
pub mod magic {
    /// [`HostVtable`](crate::HostVtable).
    pub const HOST: u64 = u64::from_le_bytes(*b"BTLHOST1");
    /// [`ComponentVtable`](crate::ComponentVtable).
    pub const COMPONENT: u64 = u64::from_le_bytes(*b"BTLCOMP1");
    /// [`ModuleVtable`](crate::ModuleVtable).
    pub const MODULE: u64 = u64::from_le_bytes(*b"BTLMODL1");
    /// [`Attributes`](crate::Attributes).
    pub const ATTRIBUTES: u64 = u64::from_le_bytes(*b"BTLATTR1");
    /// [`Stats`](crate::Stats).
    pub const STATS: u64 = u64::from_le_bytes(*b"BTLSTAT1");
    /// [`OverrideOps`](crate::OverrideOps).
    pub const OVERRIDES: u64 = u64::from_le_bytes(*b"BTLOVRD1");
    /// [`HmemInfo`](crate::HmemInfo).
    pub const HMEM_INFO: u64 = u64::from_le_bytes(*b"BTLHMEM1");
}

/// The first field of every table.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableHeader {
    /// One of [`magic`].
    pub magic: u64,
    /// [`ABI_MAJOR`] of the side that made the table.
    pub abi_major: u16,
    /// [`ABI_MINOR`] of the side that made the table.
    pub abi_minor: u16,
    /// Bytes of the whole table, header included.
    pub size: u32,
}

impl TableHeader {
    /// The header of a table of type `T` made by this build.
    pub const fn of<T>(magic: u64) -> Self {
        TableHeader {
            magic,
            abi_major: ABI_MAJOR,
            abi_minor: ABI_MINOR,
            size: size_of::<T>() as u32,
        }
    }

    /// Refuses a table with another magic or major, or shorter than `min_size`, the table's size in the first release
    /// of this major.
    pub fn check(&self, table: &'static str, magic: u64, min_size: usize) -> Result<(), AbiError> {
        if self.magic != magic {
            return Err(AbiError::Magic {
                table,
                wanted: magic,
                found: self.magic,
            });
        }
        if self.abi_major != ABI_MAJOR {
            return Err(AbiError::Major {
                table,
                wanted: ABI_MAJOR,
                found: self.abi_major,
                found_minor: self.abi_minor,
            });
        }
        if (self.size as usize) < min_size {
            return Err(AbiError::Size {
                table,
                wanted: min_size,
                found: self.size as usize,
            });
        }
        Ok(())
    }

    /// Whether a field that ends at byte `end` lies inside the table.
    #[inline]
    pub const fn holds(&self, end: usize) -> bool {
        self.size as usize >= end
    }
}

/// The reason why a table cannot be used. The message names the table, the expected and the found value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the fields are what the variants' messages print"
)]
pub enum AbiError {
    /// The pointer to the table is NULL.
    NullTable { table: &'static str },
    /// The magic differs, so this is no such table.
    Magic {
        table: &'static str,
        wanted: u64,
        found: u64,
    },
    /// Another major version.
    Major {
        table: &'static str,
        wanted: u16,
        found: u16,
        found_minor: u16,
    },
    /// Shorter than the first release of this major.
    Size {
        table: &'static str,
        wanted: usize,
        found: usize,
    },
    /// A required entry is NULL.
    NullEntry {
        table: &'static str,
        entry: &'static str,
    },
}

impl fmt::Display for AbiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            AbiError::NullTable { table } => {
                write!(f, "{table} table: wanted a pointer, found NULL")
            }
            AbiError::Magic {
                table,
                wanted,
                found,
            } => write!(
                f,
                "{table} table: wanted magic \"{}\" ({wanted:#018x}), found \"{}\" ({found:#018x})",
                wanted.to_le_bytes().escape_ascii(),
                found.to_le_bytes().escape_ascii()
            ),
            AbiError::Major {
                table,
                wanted,
                found,
                found_minor,
            } => write!(
                f,
                "{table} table: wanted ABI {wanted}.x, found ABI {found}.{found_minor}"
            ),
            AbiError::Size {
                table,
                wanted,
                found,
            } => {
                write!(
                    f,
                    "{table} table: wanted at least {wanted} bytes, found {found}"
                )
            }
            AbiError::NullEntry { table, entry } => {
                write!(
                    f,
                    "{table} table: wanted a function in entry `{entry}`, found NULL"
                )
            }
        }
    }
}

impl std::error::Error for AbiError {}

/// Checks each named entry of a table for NULL.
macro_rules! require_entries {
    ($table:expr, $name:literal, $($entry:ident),+ $(,)?) => {
        $(if $table.$entry.is_none() {
            return Err($crate::AbiError::NullEntry { table: $name, entry: stringify!($entry) });
        })+
    };
}
pub(crate) use require_entries;
