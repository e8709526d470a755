//! The kept bindings against the headers that are installed: the size and alignment of each structure, the offset and size
//! of each field and the value of each constant.
//!
//! The bindings contain their sizes as assertions, which the compiler of Rust checks. This test reads the numbers of
//! the assertions, has `cc` print its numbers for the same names, and compares the two lists. `CPPFLAGS` may name other
//! headers.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports by panicking"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;
use std::{env, fs};

const GENERATED: &str = include_str!("../src/headers/generated.rs");
const BY_HAND: &str = include_str!("../src/headers/grown.rs");

/// Names that 1.14 does not have, and the release that added them.
const SINCE: [(&str, u32, u32); 2] = [("FI_HMEM_NEURON", 1, 15), ("FI_HMEM_SYNAPSEAI", 1, 16)];

/// Types that C gives no name.
const NAMELESS: [(&str, &str); 1] = [(
    "fi_mr_attr_device",
    "__typeof__(((struct fi_mr_attr *)0)->device)",
)];

/// The values in the bindings.
#[derive(Default)]
struct Bindings {
    /// Structures, with whether they may be larger in the headers.
    structures: Vec<(String, Structure, bool)>,
    constants: BTreeMap<String, u64>,
    aliases: BTreeMap<String, String>,
}

#[derive(Default)]
struct Structure {
    size: u64,
    alignment: u64,
    /// Name and type.
    fields: Vec<(String, String)>,
    is_union: bool,
}

/// The text between `open` and the first `close` after it.
fn between<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let start = text.find(open)? + open.len();
    let length = text[start..].find(close)?;
    Some(&text[start..start + length])
}

/// The number in an assertion of bindgen's form, `["NAME"][WHAT - NUMBERusize]`, whose spaces are gone.
fn asserted(dense: &str, name: &str) -> u64 {
    let name: String = name.split_whitespace().collect();
    let expression = between(dense, &format!("[\"{name}\"]["), "usize]")
        .unwrap_or_else(|| panic!("the bindings assert nothing as \"{name}\""));
    let number = expression.rsplit('-').next().unwrap_or_default();
    number
        .parse()
        .unwrap_or_else(|_| panic!("\"{name}\" is asserted as {expression}"))
}

impl Bindings {
    fn read(&mut self, text: &str, may_grow: bool) {
        let dense: String = text.split_whitespace().collect();
        for line in text.lines() {
            let Some(item) = line.strip_prefix("pub ") else {
                continue;
            };
            if let Some((name, value)) = item.strip_prefix("const ").and_then(|i| i.split_once(':'))
            {
                let value = between(value, "= ", ";").unwrap_or_else(|| panic!("{line}"));
                let value = match value {
                    "u64::MAX" => u64::MAX,
                    number => number.parse().unwrap_or_else(|_| panic!("{line}")),
                };
                self.constants.insert(name.to_owned(), value);
            } else if let Some(alias) = item.strip_prefix("type ") {
                let (name, stands_for) =
                    alias.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
                let stands_for = stands_for.trim_end_matches(';');
                self.aliases.insert(name.to_owned(), stands_for.to_owned());
            } else if item.starts_with("struct ") || item.starts_with("union ") {
                let name = item.split_whitespace().nth(1).unwrap_or_default();
                let body = between(text, &format!("{item}\n"), "\n}").unwrap_or_default();
                let structure = Structure {
                    size: asserted(&dense, &format!("Size of {name}")),
                    alignment: asserted(&dense, &format!("Alignment of {name}")),
                    fields: body
                        .split("    pub ")
                        .filter_map(|declaration| declaration.split_once(':'))
                        .map(|(field, type_)| {
                            let type_ = type_.trim().trim_end_matches(',');
                            (field.to_owned(), type_.to_owned())
                        })
                        .collect(),
                    is_union: item.starts_with("union "),
                };
                assert!(!structure.fields.is_empty(), "{name} has no fields");
                self.structures.push((name.to_owned(), structure, may_grow));
            }
        }
    }

    /// The size of a type of the bindings.
    fn size_of(&self, type_: &str) -> u64 {
        if let Some(stands_for) = self.aliases.get(type_) {
            return self.size_of(stands_for);
        }
        if let Some((_, structure, _)) = self.structures.iter().find(|(name, ..)| name == type_) {
            return structure.size;
        }
        if let Some((element, count)) =
            between(type_, "[", "usize]").and_then(|a| a.split_once("; "))
        {
            let count: u64 = count.parse().unwrap_or_else(|_| panic!("{type_}"));
            return self.size_of(element) * count;
        }
        match type_ {
            "u8" => 1,
            "u32" | "c_int" | "c_uint" => 4,
            "u64" | "usize" => 8,
            pointer if pointer.starts_with('*') || pointer.starts_with("Option<") => 8,
            other => panic!("of what size is {other}?"),
        }
    }

    /// The alignment of a type of the bindings.
    fn alignment_of(&self, type_: &str) -> u64 {
        if let Some(stands_for) = self.aliases.get(type_) {
            return self.alignment_of(stands_for);
        }
        if let Some((_, structure, _)) = self.structures.iter().find(|(name, ..)| name == type_) {
            return structure.alignment;
        }
        match between(type_, "[", ";") {
            Some(element) => self.alignment_of(element),
            None => self.size_of(type_),
        }
    }

    /// Where C, and so Rust's `repr(C)`, places the fields. What they come to must be the size that the compiler of Rust was
    /// held to.
    fn offsets(&self, name: &str, structure: &Structure) -> Vec<u64> {
        let (mut offsets, mut end) = (Vec::new(), 0_u64);
        for (_, type_) in &structure.fields {
            let from = if structure.is_union { 0 } else { end };
            let offset = from.next_multiple_of(self.alignment_of(type_));
            end = end.max(offset + self.size_of(type_));
            offsets.push(offset);
        }
        let size = end.next_multiple_of(structure.alignment);
        assert_eq!(size, structure.size, "the fields of {name} come to");
        offsets
    }
}

/// The name of a structure in C.
fn in_c(name: &str) -> String {
    let nameless = NAMELESS.iter().find(|(rust, _)| *rust == name);
    nameless.map_or_else(|| format!("struct {name}"), |(_, c)| (*c).to_owned())
}

/// A program that prints the value of each name in the headers.
fn program(bindings: &Bindings) -> String {
    let mut c = String::from("#include <stddef.h>\n#include <stdio.h>\n#include \"wrapper.h\"\n");
    c.push_str(
        "#define SAY(name, value) printf(\"%s %llu\\n\", name, (unsigned long long)(value))\n",
    );
    c.push_str("int main(void) {\n");
    for (name, structure, _) in &bindings.structures {
        let type_ = in_c(name);
        writeln!(c, "SAY(\"{name}\", sizeof({type_}));").unwrap();
        writeln!(c, "SAY(\"{name}@\", _Alignof({type_}));").unwrap();
        for (field, ..) in &structure.fields {
            // A keyword of Rust.
            let member = field.trim_end_matches('_');
            writeln!(c, "SAY(\"{name}.{field}@\", offsetof({type_}, {member}));").unwrap();
            writeln!(
                c,
                "SAY(\"{name}.{field}\", sizeof((({type_} *)0)->{member}));"
            )
            .unwrap();
        }
    }
    for name in bindings.constants.keys() {
        let since = SINCE.iter().find(|(newer, ..)| newer == name);
        if let Some((_, major, minor)) = since {
            writeln!(
                c,
                "#if FI_MAJOR_VERSION > {major} || FI_MINOR_VERSION >= {minor}"
            )
            .unwrap();
        }
        writeln!(c, "SAY(\"{name}\", {name});").unwrap();
        if since.is_some() {
            c.push_str("#endif\n");
        }
    }
    c.push_str("return 0;\n}\n");
    c
}

/// Runs a command to its end and returns its output.
fn output(command: &mut Command, needed: &str) -> String {
    let done = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?} does not start ({e}): {needed}"));
    assert!(
        done.status.success(),
        "{command:?}: {}\n{}{needed}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The values in the installed headers, by name.
fn installed(bindings: &Bindings) -> BTreeMap<String, u64> {
    let dir = env!("CARGO_TARGET_TMPDIR");
    let source = format!("{dir}/layout.c");
    let binary = format!("{dir}/layout");
    fs::write(&source, program(bindings)).unwrap();
    let lib = pkg_config::Config::new()
        .atleast_version("1.14")
        .cargo_metadata(false)
        .env_metadata(false)
        .probe("libfabric")
        .unwrap_or_else(|e| {
            panic!(
                "this test needs libfabric's headers (Debian: libfabric-dev) and pkg-config: {e}"
            )
        });
    let more = env::var("CPPFLAGS").unwrap_or_default();
    output(
        Command::new("cc")
            .args(["-std=gnu11", "-w"])
            .args(more.split_whitespace())
            .args(
                lib.include_paths
                    .iter()
                    .map(|p| format!("-I{}", p.display())),
            )
            .args(["-I", env!("CARGO_MANIFEST_DIR"), "-o", &binary, &source]),
        "this test needs a C compiler and libfabric's headers (Debian: gcc libc6-dev libfabric-dev); \
         a name that they do not have belongs to another release than 1.14, see SINCE",
    );
    let said = output(
        &mut Command::new(&binary),
        "the program just compiled must run here",
    );
    said.lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

#[test]
fn bindings_agree_with_the_installed_headers() {
    let mut bindings = Bindings::default();
    bindings.read(GENERATED, false);
    bindings.read(BY_HAND, true);
    let installed = installed(&bindings);
    let mut compared = 0;
    let mut wrong = Vec::new();
    let mut compare = |what: String, ours: u64, may_grow: bool| match installed.get(&what) {
        Some(&theirs) if theirs == ours || may_grow && theirs > ours => compared += 1,
        Some(theirs) => wrong.push(format!("{what}: {ours}, in the headers {theirs}")),
        None if SINCE.iter().any(|(newer, ..)| *newer == what) => {}
        None => wrong.push(format!("{what}: {ours}, not in the headers")),
    };
    for (name, structure, may_grow) in &bindings.structures {
        compare(name.clone(), structure.size, *may_grow);
        compare(format!("{name}@"), structure.alignment, false);
        let offsets = bindings.offsets(name, structure);
        for ((field, type_), offset) in structure.fields.iter().zip(offsets) {
            compare(format!("{name}.{field}@"), offset, false);
            compare(format!("{name}.{field}"), bindings.size_of(type_), false);
        }
    }
    for (name, value) in &bindings.constants {
        compare(name.clone(), *value, false);
    }
    assert!(
        wrong.is_empty(),
        "the bindings (name@: alignment or offset, name: size or value) differ from the headers that are installed. A \
         structure that a release made larger belongs into src/headers/grown.rs.\n{}",
        wrong.join("\n")
    );
    println!("{compared} sizes, offsets and values agree");
    assert!(compared > 500, "only {compared} were found to compare");
}
