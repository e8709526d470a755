//! Generates the bindings from the headers that pkg-config finds, and links libfabric.

#![allow(clippy::panic, reason = "a build script reports failure by panicking")]

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=wrapper.h");
    let lib = match pkg_config::Config::new()
        .atleast_version("1.14")
        .probe("libfabric")
    {
        Ok(lib) => lib,
        Err(e) => panic!(
            "libfabric's development files (1.14 or newer) were not found: {e}\n\
             Debian and Ubuntu: apt-get install libfabric-dev"
        ),
    };
    let out = PathBuf::from(
        env::var_os("OUT_DIR").unwrap_or_else(|| panic!("cargo did not set OUT_DIR")),
    );
    bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(
            lib.include_paths
                .iter()
                .map(|p| format!("-I{}", p.display())),
        )
        .allowlist_function("fi_(getinfo|freeinfo|dupinfo|fabric|version|strerror|tostr)")
        .allowlist_type("fi_.*|fid.*|fid_.*|FI_.*")
        .allowlist_var("FI_.*")
        .derive_default(true)
        .derive_debug(false)
        .layout_tests(true)
        .prepend_enum_name(false)
        .generate_comments(false)
        .wrap_unsafe_ops(true)
        .generate()
        .unwrap_or_else(|e| panic!("bindgen could not read libfabric's headers: {e}"))
        .write_to_file(out.join("bindings.rs"))
        .unwrap_or_else(|e| panic!("the bindings could not be written: {e}"));
}
