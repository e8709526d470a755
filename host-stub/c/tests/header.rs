//! Checks that `include/host_stub.h` is the output of cbindgen for the functions.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking"
)]

use std::path::Path;

#[test]
fn the_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_crate(root)
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let mut numbers = version.split('.');
    let mut lines = vec![format!("#define HOST_VERSION \"{version}\"\n")];
    for part in ["MAJOR", "MINOR", "PATCH"] {
        let number = numbers.next().unwrap();
        lines.push(format!("#define HOST_VERSION_{part} {number}\n"));
    }
    for line in lines {
        assert!(made.contains(&line), "the header lacks {line}");
    }
    let path = root.join("include/host_stub.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "include/host_stub.h is not what the functions say; UPDATE_HEADER=1 writes it"
    );
}
