//! Tests the Rust host's loader with every kind of file: which files it accepts, and its errors for
//! the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host_stub::loader::{Component, HostServices, LoadError, Plugin};
use host_stub::params::Params;
use integration_tests::fixtures::{c_plugin, c_program, ofi_plugin};
use plugin_api::{ABI_MAJOR, ABI_MINOR, ThreadLevel};

fn services() -> HostServices {
    HostServices {
        params: Arc::new(
            Params::from_system(&[("btl_ofi_provider_include".into(), "shm".into())]).unwrap(),
        ),
        published: Arc::default(),
    }
}

/// Opens a plugin up to a module; returns the error's message on failure.
fn open(path: &Path) -> Result<(u16, u16), String> {
    let text = |error: LoadError| error.to_string();
    // SAFETY: these tests built or wrote the files.
    let plugin = unsafe { Plugin::open(path, services()) }.map_err(text)?;
    let abi = plugin.abi();
    let component = Component::open(plugin).map_err(text)?;
    assert!(!component.survey().map_err(text)?.is_empty());
    // SAFETY: only this thread calls.
    let transports = unsafe { component.init(ThreadLevel::Single) }.map_err(text)?;
    assert!(!transports.is_empty());
    Ok(abi)
}

/// Asserts that the message names the file and contains each part.
fn refused(path: &Path, parts: &[&str]) {
    let message = match open(path) {
        Ok(abi) => panic!("{} was taken as ABI {abi:?}", path.display()),
        Err(message) => message,
    };
    println!("{message}");
    for part in [path.to_str().unwrap()].iter().chain(parts) {
        assert!(message.contains(part), "wanted `{part}` in: {message}");
    }
}

fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

#[test]
fn takes_plugins_of_its_major() {
    assert_eq!(open(&c_plugin("")), Ok((ABI_MAJOR, ABI_MINOR)));
    assert_eq!(open(ofi_plugin()), Ok((ABI_MAJOR, ABI_MINOR)));
}

#[test]
fn takes_a_newer_plugin_with_longer_tables() {
    assert_eq!(open(&c_plugin("FUTURE")), Ok((ABI_MAJOR, ABI_MINOR + 1)));
}

#[test]
fn refuses_what_is_not_a_plugin_of_its_abi() {
    refused(
        &c_plugin("BAD_MAGIC"),
        &[
            "component table",
            "wanted magic \"BTLCOMP1\"",
            "found \"EQPCOMP1\"",
        ],
    );
    refused(
        &c_plugin("BAD_MAJOR"),
        &["component table", "wanted ABI 1.x", "found ABI 2.3"],
    );
    refused(
        &c_plugin("BAD_SIZE"),
        &["component table", "wanted at least 80 bytes", "found 72"],
    );
    refused(
        &c_plugin("BAD_ENTRY"),
        &["component table", "`survey`", "found NULL"],
    );
    refused(
        &c_plugin("NO_SYMBOL"),
        &[
            "wanted the exported function `btl_plugin_entry_v1`",
            "found none",
        ],
    );
    refused(
        &c_plugin("NO_TABLE"),
        &["component table", "wanted a pointer", "found NULL"],
    );
    refused(
        &c_plugin("REFUSES_HOST"),
        &[
            &format!("accept a host of ABI {ABI_MAJOR}.{ABI_MINOR}"),
            "found TYPE_MISMATCH",
        ],
    );
}

#[test]
fn refuses_modules_that_break_the_abi() {
    refused(
        &c_plugin("BAD_MODULE_MAJOR"),
        &["module table", "wanted ABI 1.x", "found ABI 2.3"],
    );
    refused(
        &c_plugin("BAD_MODULE_ENTRY"),
        &["module table", "`flush`", "found NULL"],
    );
    refused(
        &c_plugin("BAD_ATTRIBUTES_SIZE"),
        &["attributes table", "wanted at least 120 bytes", "found 112"],
    );
    refused(
        &c_plugin("BAD_HANDLE_SIZE"),
        &["handle_size", "steps of 8", "found 36"],
    );
}

#[test]
fn refuses_files_that_are_no_shared_objects() {
    let missing = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nowhere/libbtl_ofi.so");
    refused(&missing, &["found no such file", "HOST_STUB_PLUGIN"]);
    // The dynamic loader searches for a name without a slash.
    refused(Path::new("libno-such-plugin.so"), &[]);
    refused(
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        &["found a directory"],
    );
    refused(&file("empty.so", b""), &["found an empty file"]);
    refused(
        &file("text.so", b"INPUT(libbtl_ofi.so)\n"),
        &[
            "wanted an ELF shared object",
            "found a file that starts with \"INPUT(li\"",
        ],
    );
    let whole = fs::read(c_plugin("")).unwrap();
    refused(&file("truncated.so", &whole[..100]), &["found"]);
    // A program with usual links is an ELF shared object by its type; it has no entry, or the
    // dynamic loader refuses it.
    refused(&c_program("one_override"), &["found"]);
    refused(
        &file("object.o", &{
            let mut relocatable = whole.clone();
            relocatable[16] = 1;
            relocatable
        }),
        &["an ELF object file that is not linked"],
    );
}

#[test]
fn a_shared_object_that_is_no_plugin_has_no_entry() {
    // The C library is a shared object that certainly exists, since this process uses it.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.ends_with("/libc.so.6"))
        .unwrap();
    refused(
        Path::new(libc),
        &[
            "wanted the exported function `btl_plugin_entry_v1`",
            "found none",
        ],
    );
}
