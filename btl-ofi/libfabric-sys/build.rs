//! Links the libfabric that pkg-config finds. The bindings are kept in `src/headers/generated.rs`: no header is read here.

#![allow(clippy::panic, reason = "a build script reports failure by panicking")]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(e) = pkg_config::Config::new()
        .atleast_version("1.14")
        .probe("libfabric")
    {
        panic!(
            "libfabric's development files (1.14 or newer) were not found: {e}\n\
             Debian and Ubuntu: apt-get install libfabric-dev pkg-config"
        );
    }
}
