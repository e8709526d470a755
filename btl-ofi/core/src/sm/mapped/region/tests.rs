use super::*;

/// A file in memory with two pages. The pages begin with 7 and 8.
fn file() -> File {
    use std::os::unix::fs::FileExt;
    let file = File::from(sys::memory_file(c"test-region").unwrap());
    file.write_all_at(&7u64.to_ne_bytes(), 0).unwrap();
    file.write_all_at(&8u64.to_ne_bytes(), 4096).unwrap();
    file.set_len(8192).unwrap();
    file
}

fn word(pages: &Pages) -> u64 {
    let at: *const u64 = std::ptr::with_exposed_provenance(pages.address());
    // SAFETY: the pointer is to a word of a mapping.
    unsafe { at.read_volatile() }
}

fn refusal(mapped: io::Result<Pages>) -> String {
    mapped.map(drop).unwrap_err().to_string()
}

#[test]
fn a_file_is_mapped_if_it_cannot_shrink() {
    let file = file();
    assert_eq!(refusal(map(&file, 0, (0, 8))), "its file may shrink");
    sys::add_seals(&file, libc::F_SEAL_GROW).unwrap();
    assert_eq!(refusal(map(&file, 0, (0, 8))), "its file may shrink");
    sys::add_seals(&file, libc::F_SEAL_SHRINK).unwrap();
    assert_eq!(word(&map(&file, 0, (4096, 8192)).unwrap()), 7);
    assert_eq!(word(&map(&file, 4096, (0, 4096)).unwrap()), 8);
    let inside = map(&file, 8, (8, 8)).unwrap();
    assert_eq!((inside.before, word(&inside)), (8, 0));
    for (offset, length) in [(0, 8193), (8192, 1), (u64::MAX, 1), (8, u64::MAX)] {
        let refused = refusal(map(&file, offset, (offset, length)));
        assert_eq!(refused, "its file is shorter than the region");
    }
    let skewed = refusal(map(&file, 8, (4096, 8)));
    assert_eq!(skewed, "its place in its file is not one of its address");
}

#[test]
fn files_of_other_kinds_may_shrink() {
    let path = std::env::temp_dir().join(format!("btl-ofi-test-region-{}", std::process::id()));
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let named = options.open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    named.set_len(8192).unwrap();
    assert_eq!(refusal(map(&named, 0, (0, 8))), "its file may shrink");
}
