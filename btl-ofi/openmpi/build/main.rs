//! Finds Open MPI's devel headers, checks their series, generates the bindings and compiles the few lines of C.
//!
//! Without headers, or without libclang to read them with, the crate builds to an empty library with a warning, so that a
//! build of the whole workspace works on a machine without Open MPI. A build that asks for the component by naming a prefix or a
//! series gets an error.

#![allow(clippy::panic, reason = "a build script reports failure by panicking")]

mod headers;

use std::env;
use std::panic;
use std::path::PathBuf;

use headers::{Headers, Series};

fn main() {
    println!("cargo:rerun-if-changed=wrapper.h");
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rerun-if-env-changed={}", headers::PREFIX);
    println!("cargo:rerun-if-env-changed={}", headers::SERIES);
    // The folders in which mpicc is looked for.
    println!("cargo:rerun-if-env-changed=PATH");
    println!("cargo:rustc-check-cfg=cfg(openmpi)");
    println!("cargo:rustc-check-cfg=cfg(series, values(\"4.1\", \"5.0\", \"6.0\"))");

    let found = headers::find().and_then(|headers| can_bind().map(|()| headers));
    let headers = match found {
        Ok(found) => found,
        Err(reason) if headers::asked_for() => panic!("\n\n{reason}\n"),
        Err(reason) => {
            println!(
                "cargo:warning=mca_btl_ofi_rs.so is built empty: {}",
                one_line(&reason)
            );
            return;
        }
    };
    println!("cargo:rustc-cfg=openmpi");
    println!("cargo:rustc-cfg=series=\"{}\"", headers.series.name());
    println!("cargo:rustc-env=MCA_BTL_OFI_HEADERS={}", headers.version);
    bind(&headers);
    compile(&headers);
    link(&headers);
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").unwrap_or_else(|| panic!("cargo did not set OUT_DIR")))
}

/// Checks that bindgen can load libclang, because bindgen panics without it.
fn can_bind() -> Result<(), String> {
    for name in ["LIBCLANG_PATH", "LLVM_CONFIG_PATH", "LD_LIBRARY_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let report = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let loaded = panic::catch_unwind(bindgen::clang_version);
    panic::set_hook(report);
    loaded.map(drop).map_err(|reason| {
        let reason = reason.downcast_ref::<String>();
        format!(
            "libclang, which reads Open MPI's headers for the component's bindings, cannot be loaded ({}).\n\
             Debian and Ubuntu: apt-get install libclang-dev. LIBCLANG_PATH names the folder of another.",
            reason.map_or("no reason is given", String::as_str)
        )
    })
}

fn bind(headers: &Headers) {
    with_osc(bindgen::Builder::default().header("wrapper.h"))
        .clang_args(headers.include_dirs.iter().map(|dir| format!("-I{}", dir.display())))
        .clang_args(headers.late_dirs.iter().map(|dir| format!("-idirafter{}", dir.display())))
        .allowlist_type("mca_btl_base_(module_t|component_3_0_0_t|atomic_op_t)")
        .allowlist_type("mca_btl_base_(registration_handle|endpoint)_t")
        .allowlist_type("mca_btl_base_(rdma_completion_fn|descriptor|segment)_t|opal_convertor_t")
        .allowlist_type("mca_rcache_base_(module|registration|resources)_t")
        .allowlist_type("mca_base_var_.*|opal_proc_t|opal_process_name_t|opal_bitmap_t")
        .allowlist_function("mca_base_component_(var|pvar)_register|mca_base_var_(register|find|register_synonym|get|get_value)")
        .allowlist_function("mca_btl_base_param_(register|verify)")
        .allowlist_function("mca_rcache_base_module_(create|destroy)")
        .allowlist_function("opal_bitmap_set_bit|opal_output|opal_proc_local_get")
        .allowlist_var("MCA_BTL_.*|MCA_BASE_VERSION_.*|MCA_RCACHE_.*|OPAL_(MAJOR|MINOR|RELEASE)_VERSION|BTL_VERSION")
        .allowlist_var("MCA_BASE_PVAR_(CLASS|FLAG)_.*|MCA_BASE_VAR_BIND_.*")
        .allowlist_var("OPAL_INFO_LVL_.*|opal_version_string")
        .derive_default(false)
        .derive_debug(false)
        .layout_tests(true)
        .prepend_enum_name(false)
        .generate_comments(false)
        .wrap_unsafe_ops(true)
        .generate()
        .unwrap_or_else(|e| panic!("bindgen could not read Open MPI's headers: {e}"))
        .write_to_file(out_dir().join("openmpi.rs"))
        .unwrap_or_else(|e| panic!("the bindings could not be written: {e}"));
}

/// The further types that the component osc needs. Types that the component only passes to other
/// functions have no fields.
fn with_osc(builder: bindgen::Builder) -> bindgen::Builder {
    builder
        .allowlist_type("ompi_osc_base_(component|module)_t|ompi_op_type")
        .allowlist_function("mca_osc_ofi_host_.*")
        .allowlist_var("OMPI_(SUCCESS|ERROR|ERR_.*)|OMPI_WIN_(NO_LOCKS|SAME_DISP|SAME_SIZE)|OMPI_(MAJOR|MINOR|RELEASE)_VERSION")
        .allowlist_var("OPAL_DATATYPE_[A-Z]+[0-9]*|OPAL_DATATYPE_(UNSIGNED_LONG|END_LOOP)")
        .allowlist_var("MPI_(WIN_FLAVOR|MODE|LOCK)_.*|MPI_WIN_UNIFIED|MPI_PROC_NULL|MPI_SUCCESS|MPI_ERR_.*|MPI_INFO_MAX_VAL")
        .opaque_type("ompi_(win|communicator|datatype|op|request|group)_t|opal_info_t")
}

fn compile(headers: &Headers) {
    let of_series = match headers.series {
        Series::V4_1 => ["c/host_41.c", "c/osc_41.c"],
        Series::V5_0 | Series::V6_0 => ["c/host_50.c", "c/osc_50.c"],
    };
    let mut build = cc::Build::new();
    for dir in &headers.late_dirs {
        build.flag(format!("-idirafter{}", dir.display()));
    }
    build
        .files(of_series)
        .file("c/host.c")
        .file("c/osc.c")
        .include("c")
        .includes(&headers.include_dirs)
        .warnings(true)
        // The macros of Open MPI's headers are not clean under -Wextra.
        .flag_if_supported("-Wno-unused-parameter")
        .flag_if_supported("-Wno-address")
        .flag_if_supported("-Wno-unused-function")
        .compile("mca_btl_ofi_host");
}

fn link(headers: &Headers) {
    // Open MPI's own components also name libopen-pal: if the host was loaded into a local scope (as Python
    // loads mpi4py), the loader finds it only by this. The loader also refuses a component of another series
    // here, because the library's number differs.
    for dir in &headers.lib_dirs {
        println!("cargo:rustc-link-search=native={}", dir.display());
    }
    println!("cargo:rustc-cdylib-link-arg=-lopen-pal");
    println!("cargo:rustc-cdylib-link-arg=-l{}", headers.series.library());
    // Rust's thread-local destructors and Open MPI's variable system keep pointers into the library.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,mca_btl_ofi_rs.so");
}
