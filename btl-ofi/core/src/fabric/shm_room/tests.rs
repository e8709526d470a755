use super::*;

#[test]
fn other_addresses_are_refused() {
    for name in [
        "fi_shm://../etc/passwd\0",
        "fi_shm://\0",
        "fi_shm://..\0",
        "a/b",
        "a\0b",
    ] {
        let refused = open(name.as_bytes()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{name:?}");
    }
}

#[test]
fn trim_frees_zeros_and_keeps_data() {
    let name = format!("btl-ofi-room-{}", std::process::id());
    let path = format!("{FOLDER}/{name}");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.set_len(REGION).unwrap();
    // A header, a table behind a short hole, a name behind a long hole (staging buffers), then zeros.
    let name_at = 8 << 20;
    for at in [0, 256 << 10, name_at] {
        file.write_all_at(b"used", at).unwrap();
    }
    file.write_all_at(&vec![0; (REGION - name_at - 4) as usize], name_at + 4)
        .unwrap();
    let bytes = || file.metadata().unwrap().blocks() * 512;
    let before = bytes();
    trim(name.as_bytes()).unwrap();
    let trimmed = bytes();
    allocate(name.as_bytes()).unwrap();
    let whole = bytes();
    let mut seen = [0u8; 4];
    file.read_exact_at(&mut seen, name_at).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(before > 8 << 20, "{before}");
    assert_eq!(trimmed, (256 << 10) + PAGE + PAGE + MARGIN);
    assert_eq!(whole, name_at + PAGE + MARGIN);
    assert_eq!(&seen, b"used");
}
