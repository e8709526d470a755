//! Lets the installed program find the plugin in the `lib` folder beside the program's folder.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,$ORIGIN/../lib");
}
