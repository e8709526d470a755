//! Compiles the C header together with assertions made from the Rust types: the value of every
//! constant, the size, alignment, offset and type of every field, the parameters of every function.
//!
//! `CC` and `CXX` name the compilers, `cc` and `c++` otherwise. A missing compiler fails the test.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod constants;
mod ctype;
mod layouts;

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/btl_plugin.h");

/// The beginning of the generated assertions, in C.
const C_PRELUDE: &str = "\
#include \"btl_plugin.h\"
#define CHECK(condition, what) _Static_assert(condition, what)
#define ALIGNOF(type) _Alignof(type)
#define SAME_TYPE(expression, type) _Generic((expression), type: 1, default: 0)
";

/// The same in C++. `typeid` would not do: the comparison has to be one of types, at compile time.
const CXX_PRELUDE: &str = "\
#include \"btl_plugin.h\"
#include <type_traits>
#define CHECK(condition, what) static_assert(condition, what)
#define ALIGNOF(type) alignof(type)
#define SAME_TYPE(expression, ...) \\
    std::is_same<std::decay<decltype(expression)>::type, std::decay<__VA_ARGS__>::type>::value
";

/// Compiles `source` as a file with `extension`; the compiler's messages when it refuses.
fn compile(name: &str, extension: &str, source: &str) -> Result<(), String> {
    let (variable, default, standard) = match extension {
        "c" => ("CC", "cc", "-std=c11"),
        _ => ("CXX", "c++", "-std=c++11"),
    };
    let compiler = env::var(variable).unwrap_or_else(|_| default.into());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{extension}"));
    fs::write(&file, source).unwrap();
    let output = Command::new(&compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg("-fsyntax-only")
        .arg("-I")
        .arg(Path::new(HEADER).parent().unwrap())
        .arg(&file)
        .output()
        .unwrap_or_else(|error| panic!("the compiler `{compiler}` does not start: {error}"));
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn constant_assertions() -> String {
    let mut out = String::new();
    for (name, value) in constants::all() {
        let value = match u32::try_from(value) {
            Ok(_) => format!("{value}"),
            Err(_) if value < 0 => format!("({value})"),
            Err(_) => format!("UINT64_C({value})"),
        };
        writeln!(out, "CHECK({name} == {value}, \"value of {name}\");").unwrap();
    }
    out
}

#[test]
fn c_agrees_with_rust() {
    let source = [C_PRELUDE, &constant_assertions(), &layouts::assertions()].concat();
    compile("agrees", "c", &source).unwrap_or_else(|messages| panic!("{messages}"));
}

#[test]
fn cxx_agrees_with_rust() {
    let source = [CXX_PRELUDE, &constant_assertions(), &layouts::assertions()].concat();
    compile("agrees", "cc", &source).unwrap_or_else(|messages| panic!("{messages}"));
}

/// The assertions above can fail: each kind refuses a wrong line.
#[test]
fn a_difference_does_not_compile() {
    for (name, line, message) in [
        (
            "value",
            "CHECK(BTL_UNREACH == -11, \"value of x\");",
            "value of x",
        ),
        (
            "offset",
            "CHECK(offsetof(btl_module_vtable, get) == 48, \"offset of x\");",
            "offset of x",
        ),
        (
            "type",
            "CHECK(SAME_TYPE(((btl_stats *)0)->posted, int64_t), \"type of x\");",
            "type of x",
        ),
        (
            "function",
            "CHECK(SAME_TYPE((btl_survey_fn)0, void (*)(void *, btl_provider *)), \"type of f\");",
            "type of f",
        ),
    ] {
        for (extension, prelude) in [("c", C_PRELUDE), ("cc", CXX_PRELUDE)] {
            let messages = compile(name, extension, &format!("{prelude}{line}\n")).unwrap_err();
            assert!(messages.contains(message), "{messages}");
        }
    }
}

/// Each macro of the header that stands for a value is one of those compared above.
#[test]
fn the_header_has_no_constant_of_its_own() {
    let compared: BTreeSet<String> = constants::all().into_iter().map(|(name, _)| name).collect();
    let helpers = [
        "BTL_PLUGIN_H",
        "BTL_ENTRY_SYMBOL",
        "BTL_TABLE_HEADER",
        "BTL_TABLE_HOLDS",
    ];
    let header = fs::read_to_string(HEADER).unwrap();
    let defined: BTreeSet<String> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .map(|rest| {
            rest.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .filter(|name| !helpers.contains(&name.as_str()))
        .collect();
    assert_eq!(defined, compared);
}

#[test]
fn the_entry_symbol_is_the_same() {
    let header = fs::read_to_string(HEADER).unwrap();
    let symbol = plugin_api::ENTRY_SYMBOL.to_str().unwrap();
    assert!(header.contains(&format!("#define BTL_ENTRY_SYMBOL \"{symbol}\"")));
    assert!(header.contains(&format!("btl_status {symbol}(const btl_host_vtable *host")));
}
