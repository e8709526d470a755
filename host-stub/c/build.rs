//! Lets `libhost_stub.so` find the plugin beside it, wherever the program is that uses it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
}
