//! The first fields of structures of C programs, and how the structures are read.
//!
//! A table begins with `magic` and `size`, and grows at its end only. A program that was compiled with an
//! older header has a shorter table, whose missing end is read as zero. A program with a newer header may
//! have a longer table, whose additional end must be zero. Arrays lie last in their table and have spare
//! room, which is zero until it gets a meaning.

use std::mem::MaybeUninit;

use crate::base::error::{Error, Result};

/// The first fields of every table.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    magic: u64,
    size: usize,
}

/// The maximum size of a table of a newer header; a larger number means that the size was never
/// set.
const MOST: usize = 1 << 16;

/// A table of C programs.
///
/// # Safety
/// `repr(C)`; begins with the fields of [`Header`], has no bytes between its fields, and all bytes zero
/// is a valid value.
pub(crate) unsafe trait Table: Copy {
    /// Its name in C.
    const NAME: &'static str;
    const MAGIC: u64;
    /// The minimum number of bytes.
    const LEAST: usize;
    /// The table grows in steps of this many bytes.
    const STEP: usize;
}

/// Refuses a header of another table.
fn check<T: Table>(call: &str, header: Header) -> Result {
    let (name, Header { magic, size }) = (T::NAME, header);
    let refuse = |text: String| Err(Error::argument(call, &text));
    if magic != T::MAGIC {
        return refuse(format!(
            "the magic number of the {name} is {magic:#x}, wanted {:#x}: set it, and its size, before \
             the call",
            T::MAGIC
        ));
    }
    if size < T::LEAST || size > MOST || !(size - T::LEAST).is_multiple_of(T::STEP) {
        return refuse(format!(
            "the size of the {name} is {size}: set it to sizeof({name}), {} by this host's host_stub.h",
            size_of::<T>()
        ));
    }
    Ok(())
}

/// Copies a program's table, in this host's version of the table.
///
/// # Safety
/// `table` is NULL, or points to a header and the number of bytes in it.
pub(crate) unsafe fn read<T: Table>(call: &str, table: *const T) -> Result<T> {
    if table.is_null() {
        let text = format!("the {} is NULL", T::NAME);
        return Err(Error::argument(call, &text));
    }
    // SAFETY: the caller guarantees a header.
    let header = unsafe { *table.cast::<Header>() };
    check::<T>(call, header)?;
    let known = header.size.min(size_of::<T>());
    // SAFETY: the caller guarantees the bytes that the header states.
    let bytes = unsafe { std::slice::from_raw_parts(table.cast::<u8>(), header.size) };
    if let Some(at) = bytes[known..].iter().position(|byte| *byte != 0) {
        let text = format!(
            "byte {} of the {} is set, and this host knows the first {known}: the program was compiled \
             for a newer host",
            known + at,
            T::NAME
        );
        return Err(Error::argument(call, &text));
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: both tables have the copied bytes; the other bytes are zero, which is a valid value.
    Ok(unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.as_mut_ptr().cast(), known);
        copy.assume_init()
    })
}

/// Fills a program's table, whose header is set, from `value`; bytes beyond `value` become zero. The
/// size stays unchanged.
///
/// # Safety
/// `table` is NULL, or points to a header and the number of writable bytes in it.
pub(crate) unsafe fn write<T: Table>(call: &str, table: *mut T, value: &T) -> Result {
    // SAFETY: the caller guarantees a header.
    let header = unsafe { table.cast::<Header>().as_ref() }.copied();
    let Some(header) = header else {
        let text = format!("the {} is NULL", T::NAME);
        return Err(Error::argument(call, &text));
    };
    check::<T>(call, header)?;
    let (known, place) = (header.size.min(size_of::<T>()), table.cast::<u8>());
    // SAFETY: the caller guarantees the bytes that the header states; `value` is the host's own and
    // lies elsewhere.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast(), place, known);
        place.add(known).write_bytes(0, header.size - known);
        table.cast::<Header>().write(header);
    }
    Ok(())
}

/// Refuses a table of the host whose header a program has changed; the program may only make the table
/// shorter.
pub(crate) fn still<T: Table>(call: &str, table: &T) -> Result {
    // SAFETY: each table begins with a header.
    let header = unsafe { *std::ptr::from_ref(table).cast::<Header>() };
    check::<T>(call, header)?;
    if header.size > size_of::<T>() {
        let text = format!(
            "{} bytes were written over the {}, of which the host gave {}: write no further than its size",
            header.size,
            T::NAME,
            size_of::<T>()
        );
        return Err(Error::argument(call, &text));
    }
    Ok(())
}

/// Declares a type as a table, and asserts its size and the offset of each field. The closure takes the type
/// apart without `..`, so a field that is missing from the list does not compile.
macro_rules! layout {
    ($type:ident: $size:literal bytes { $($field:ident at $offset:literal,)+ }) => {
        const _: () = {
            $(assert!(
                std::mem::offset_of!($type, $field) == $offset,
                concat!(stringify!($type), "::", stringify!($field), " has moved")
            );)+
            assert!(
                size_of::<$type>() == $size && align_of::<$type>() == 8,
                concat!(stringify!($type), " has another size")
            );
        };
        const _: fn(&$type) = |$type { $($field: _),+ }| ();
    };
    ($type:ident: $size:literal bytes { $($field:ident at $offset:literal,)+ }
     magic $magic:ident = $text:literal, least $least:literal, by $step:literal) => {
        $crate::base::tables::layout!($type: $size bytes { $($field at $offset,)+ });
        const _: () = assert!($magic == u64::from_le_bytes(*$text));
        const _: () = assert!($least <= $size && ($size - $least) % $step == 0);
        // SAFETY: the offsets and the size above leave no byte between fields; numbers, pointers and
        // functions that may be absent are values with all bytes zero.
        unsafe impl $crate::base::tables::Table for $type {
            const NAME: &'static str = stringify!($type);
            const MAGIC: u64 = $magic;
            const LEAST: usize = $least;
            const STEP: usize = $step;
        }
    };
}

layout!(Header: 16 bytes {
    magic at 0,
    size at 8,
});

pub(crate) use layout;
