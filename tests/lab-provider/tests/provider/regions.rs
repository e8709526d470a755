//! Memory inside a registered region, under the settings that imitate a provider's cache of registrations.

use std::ptr;

use libfabric_sys as ffi;

use crate::bench::{Bench, close_region as close, in_process, quiet};

const MODE: (&str, &str) = ("LAB_MR_MODE", "VIRT_ADDR,ALLOCATED,PROV_KEY");

fn key(mr: *mut ffi::fid_mr) -> u64 {
    assert!(!mr.is_null());
    // SAFETY: the region is live.
    unsafe { (*mr).key }
}

/// Whether a write under a key reaches a word of the provider's own process.
fn reaches(b: &Bench, word: &u64, key: u64) -> bool {
    let source = 7u64;
    let at = ptr::from_ref(word).expose_provenance() as u64;
    assert_eq!(b.write(&source, at, key, ptr::null_mut()), 0);
    b.ends()
}

#[test]
fn memory_inside_a_region_has_its_key() {
    quiet(|| {
        let memory = [0u64; 8];
        for (cache, shared) in [("0", false), ("1", true)] {
            let b = Bench::open(&[MODE, ("LAB_CACHE", cache)]);
            let whole = b.register(&memory[..6], 0);
            let inside = b.register(&memory[2..4], 0);
            let beyond = b.register(&memory[4..], 0);
            assert_eq!(key(whole) == key(inside), shared);
            assert_ne!(key(whole), key(beyond));
            let of_inside = key(inside);
            close(whole);
            // The registration lives as long as one of its regions.
            assert!(reaches(&b, &memory[3], of_inside));
            if shared {
                assert!(reaches(&b, &memory[0], of_inside));
            }
            close(inside);
            close(beyond);
            b.close();
        }
    });
}

#[test]
fn a_domain_with_atomics_forgets_the_region_around_another() {
    let Some((text, _)) = in_process(|| {
        let memory = [0u64; 8];
        let b = Bench::open(&[MODE, ("LAB_CACHE", "2")]);
        let whole = b.register(&memory, 0);
        assert!(reaches(&b, &memory[0], key(whole)));
        assert!(b.register(&memory[2..4], 0).is_null());
        assert!(!reaches(&b, &memory[0], key(whole)));
        close(whole);
        b.close();
    }) else {
        return;
    };
    assert!(text.contains("names no region"), "{text}");
}
