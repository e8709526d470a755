use super::*;

/// Two pages of a file, mapped by this process, that begin with a number.
fn window(file: &File, number: u64) -> (NonNull<c_void>, Object) {
    sys::allocate(file, 0, 8192).unwrap();
    let at = sys::map_shared(file, 0, 8192).unwrap();
    // SAFETY: the first word of the mapping.
    unsafe { at.cast::<u64>().write_volatile(number) };
    let object = maps::shared_object("self", at.as_ptr() as u64, 8192).unwrap();
    (at, object)
}

fn first(pages: Pages) -> u64 {
    let at: *const u64 = std::ptr::with_exposed_provenance(pages.address());
    // SAFETY: a mapping of two pages at least.
    unsafe { at.read_volatile() }
}

#[test]
fn by_name_by_descriptor_and_by_an_own_mapping() {
    let pid = std::process::id();
    let path = std::env::temp_dir().join(format!("btl-ofi-test-region-{pid}"));
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let named = options.open(&path).unwrap();
    let (_, object) = window(&named, 7);
    let by_name = open_by_name(pid, &object).unwrap().unwrap();
    assert_eq!(first(map(&by_name, &object, 8192).unwrap()), 7);
    fs::remove_file(&path).unwrap();
    let unlinked = maps::shared_object("self", window(&named, 8).0.as_ptr() as u64, 8).unwrap();
    assert!(open_by_name(pid, &unlinked).is_none(), "{}", unlinked.name);
    drop(by_name);
    let by_descriptor = open_by_descriptor(pid, &unlinked).unwrap().unwrap();
    assert_eq!(first(map(&by_descriptor, &unlinked, 8192).unwrap()), 8);
    drop((by_descriptor, named));
    assert!(
        open_by_descriptor(pid, &unlinked).is_none(),
        "the last one is closed"
    );
    assert_eq!(first(map_own(&unlinked, 8192).unwrap().unwrap()), 8);
    let other = sys::memory_file(c"test-region").unwrap().into();
    let (at, object) = window(&other, 9);
    // SAFETY: mapped above, and not used again.
    unsafe { sys::unmap(at, 8192) }.unwrap();
    assert!(map_own(&object, 8192).is_none());
}

#[test]
fn another_file_under_the_name_is_not_opened() {
    let pid = std::process::id();
    let path = std::env::temp_dir().join(format!("btl-ofi-test-other-{pid}"));
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let (_, object) = window(&options.open(&path).unwrap(), 7);
    fs::remove_file(&path).unwrap();
    let _other = options.open(&path).unwrap();
    assert!(open_by_name(pid, &object).is_none());
    fs::remove_file(&path).unwrap();
}
