//! Lets `libhost_stub.so` find the plugin in its own folder, for programs in any folder.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
}
