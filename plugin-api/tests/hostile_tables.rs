//! Tables made of anything: used if and only if their header is right and their required entries are
//! there, and never read beyond the bytes that they declare, after which an inaccessible page lies.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking"
)]

use plugin_api::{
    ABI_MAJOR, AbiError, Attributes, ComponentVtable, HostVtable, ModuleVtable, TableHeader, magic,
};
use proptest::prelude::*;

const PAGE: usize = 4096;

/// A page, and another behind it that faults when touched.
struct Guarded(*mut u8);

impl Guarded {
    fn new() -> Guarded {
        // SAFETY: the mapping is new; the call makes its second page inaccessible.
        unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base.add(PAGE), PAGE, libc::PROT_NONE), 0);
            Guarded(base.cast())
        }
    }

    /// The bytes, ending where the page does; the last whole word at the latest.
    fn place(&self, bytes: &[u8]) -> *const u8 {
        let length = bytes.len().min(PAGE).next_multiple_of(8);
        // SAFETY: they fit the first page.
        unsafe {
            let at = self.0.add(PAGE - length);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len().min(length));
            at
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE) };
    }
}

const KINDS: [u64; 4] = [
    magic::HOST,
    magic::COMPONENT,
    magic::MODULE,
    magic::ATTRIBUTES,
];

/// Checks a table as one of a kind.
unsafe fn check(kind: u64, table: *const u8) -> Result<(), AbiError> {
    // SAFETY: the caller vouches for a header, and the bytes it declares.
    unsafe {
        match kind {
            magic::HOST => HostVtable::check(table.cast()).map(drop),
            magic::COMPONENT => ComponentVtable::check(table.cast()).map(drop),
            magic::MODULE => ModuleVtable::check(table.cast()).map(drop),
            _ => Attributes::check(table.cast()).map(drop),
        }
    }
}

fn least(kind: u64) -> usize {
    match kind {
        magic::HOST => HostVtable::MIN_SIZE,
        magic::COMPONENT => ComponentVtable::MIN_SIZE,
        magic::MODULE => ModuleVtable::MIN_SIZE,
        _ => Attributes::MIN_SIZE,
    }
}

/// Numbers near those that are right.
fn near(right: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => Just(right),
        1 => any::<u64>(),
        1 => (0..64u32).prop_map(move |bit| right ^ (1 << bit)),
        1 => Just(0),
        1 => Just(u64::MAX),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn headers_of_anything(
        kind in prop::sample::select(KINDS.to_vec()),
        word in prop_oneof![4 => Just(0usize), 1 => 0..KINDS.len()],
        magic_of in near(0),
        major in near(u64::from(ABI_MAJOR)),
        minor in any::<u16>(),
        off in prop_oneof![4 => Just(0i64), 1 => -64..64i64, 1 => any::<i32>().prop_map(i64::from)],
        holes in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        fill in any::<u8>(),
    ) {
        let table_magic = if word == 0 { kind ^ magic_of } else { KINDS[word] };
        let size = (least(kind) as i64 + off) as u32;
        let header = TableHeader { magic: table_magic, abi_major: major as u16, abi_minor: minor, size };
        // As many bytes as are declared, and a header at least: a table with fewer breaks the contract.
        let mut bytes = vec![fill; (size as usize).clamp(size_of::<TableHeader>(), PAGE)];
        // SAFETY: a header is plain bytes without padding.
        let head: [u8; 16] = unsafe { std::mem::transmute(header) };
        bytes[..16].copy_from_slice(&head);
        let words = (bytes.len() - 16) / 8;
        for hole in holes {
            if words > 0 {
                let at = 16 + 8 * hole.index(words);
                bytes[at..at + 8].fill(0);
            }
        }
        let guarded = Guarded::new();
        // SAFETY: the table has a header and the bytes that it declares, or a page of them, which is
        // more than any table of this release has.
        let found = unsafe { check(kind, guarded.place(&bytes)) };
        let right = table_magic == kind && major as u16 == ABI_MAJOR && size as usize >= least(kind);
        match found {
            Ok(()) => prop_assert!(right),
            Err(AbiError::NullEntry { .. }) => prop_assert!(right),
            Err(AbiError::Magic { .. }) => prop_assert_ne!(table_magic, kind),
            Err(AbiError::Major { .. }) => prop_assert_ne!(major as u16, ABI_MAJOR),
            Err(AbiError::Size { .. }) => prop_assert!((size as usize) < least(kind)),
            Err(other) => prop_assert!(false, "{other}"),
        }
        if let Err(error) = found {
            prop_assert!(error.to_string().contains("wanted"));
        }
    }
}

#[test]
fn no_table_at_all() {
    for kind in KINDS {
        // SAFETY: NULL is allowed.
        let found = unsafe { check(kind, std::ptr::null()) };
        assert!(
            matches!(found, Err(AbiError::NullTable { .. })),
            "{found:?}"
        );
    }
}
