//! Random files and random values: an answer or an error, never a crash, and never a value that the declaration forbids.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking"
)]

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use mca_params::{Allowed, Declaration, Error, Kind, Level, Named, Registry, Value};
use proptest::prelude::*;

const NAMES: [&str; 7] = ["int", "uint", "size", "bool", "text", "word", "flags"];

fn table() -> Vec<Declaration> {
    const NAMED: &[Named] = &[
        Named::new(1, "one"),
        Named::new(2, "two"),
        Named::new(4, "four"),
    ];
    let words = vec![Cow::Borrowed("unspec"), Cow::Borrowed("auto")];
    vec![
        Declaration::new("int", Kind::Int, Value::Int(0))
            .allowed(Allowed::Range { min: -5, max: 5000 }),
        Declaration::new("uint", Kind::UnsignedInt, Value::Unsigned(1))
            .allowed(Allowed::Range { min: 1, max: 9 }),
        Declaration::new("size", Kind::SizeT, Value::Unsigned(0)),
        Declaration::new("bool", Kind::Bool, Value::Bool(false)),
        Declaration::new("text", Kind::String, Value::str("")),
        Declaration::new("word", Kind::String, Value::str("auto"))
            .allowed(Allowed::OneOf(Cow::Owned(words))),
        Declaration::new("flags", Kind::UnsignedInt, Value::Unsigned(0))
            .allowed(Allowed::Flags(Cow::Borrowed(NAMED))),
    ]
}

/// Bytes that have a meaning, so that random texts get past the first one.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(NAMES.to_vec()).prop_map(|name| name.as_bytes().to_vec()),
        prop::sample::select(vec![
            " ", "\n", "\t", "=", "=", " = ", "#", "//", "/*", "*/", "'", "\"", "-mca ", "--mca ",
            "-x ", "\r\n", ",", "-", "0x", "07", "k", "gb", "true", "two", "\u{b}", "\0", "~/",
            ":~/", "ä"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A registry over one file.
fn of_file(path: &Path) -> Result<Registry, Error> {
    let list = ("OMPI_MCA_mca_base_param_files", path);
    Registry::builder().environment([list]).build()
}

fn register(mut registry: Registry) -> Result<(), TestCaseError> {
    for declaration in &table() {
        match registry.register(declaration) {
            Ok(resolved) => {
                prop_assert!(resolved.value.fits(declaration.kind), "{resolved:?}");
                // The text of a dump gives the same value again, except for a
                // home folder with a `~` in it.
                let (value, text) = (resolved.value.clone(), resolved.value_text());
                if !text.contains("~/") {
                    let mut again = Registry::builder().build()?;
                    again.set(&declaration.name, &text)?;
                    prop_assert_eq!(&again.register(declaration)?.value, &value);
                }
            }
            Err(Error::InvalidValue(error)) => prop_assert_eq!(&error.name, &declaration.name),
            Err(error) => return Err(error.into()),
        }
    }
    prop_assert!(
        registry.dump(Level::DEV_ALL).to_string().len() > 50 || registry.iter().next().is_none()
    );
    registry
        .unknown("")
        .iter()
        .for_each(|unknown| drop(unknown.to_string()));
    Ok(())
}

/// The files of the corpus, whole and cut short: read, or refused with a line that is there.
#[test]
fn the_corpus_and_its_parts() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/params");
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("corpus-{}", std::process::id()));
    let mut files = 0;
    for file in fs::read_dir(corpus).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        files += 1;
        for end in (0..=bytes.len()).rev().step_by(1 + bytes.len() / 200) {
            fs::write(&path, &bytes[..end]).unwrap();
            match of_file(&path) {
                Ok(registry) => register(registry).unwrap(),
                Err(Error::Malformed { line, .. }) => {
                    let lines = bytes[..end].split(|byte| *byte == b'\n').count();
                    assert!((1..=lines).contains(&line));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    fs::remove_file(&path).unwrap();
    assert!(files >= 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_files(bytes in pieces()) {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("random-{}", std::process::id()));
        fs::write(&path, &bytes)?;
        let built = of_file(&path);
        fs::remove_file(&path)?;
        match built {
            Ok(registry) => register(registry)?,
            Err(Error::Malformed { line, .. }) => {
                let lines = bytes.split(|byte| *byte == b'\n').count();
                prop_assert!((1..=lines).contains(&line));
            }
            Err(error) => return Err(error.into()),
        }
    }

    #[test]
    fn random_values(values in prop::collection::vec((prop::sample::select(NAMES.to_vec()), pieces()), 0..6), home in pieces()) {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let variables = values.into_iter().map(|(name, value)| (format!("OMPI_MCA_{name}"), text(value)));
        register(Registry::builder().environment(variables).environment([("HOME", text(home))]).build()?)?;
    }

    #[test]
    fn every_number_can_be_written(number in any::<i32>(), size in any::<u64>()) {
        let mut registry = Registry::builder().build()?;
        registry.set("a", &number.to_string())?;
        registry.set("b", &format!("{size:#x}"))?;
        let a = registry.register(&Declaration::new("a", Kind::Int, Value::Int(0)))?.value.as_int();
        prop_assert_eq!(a, Some(number));
        let b = registry.register(&Declaration::new("b", Kind::SizeT, Value::Unsigned(0)))?.value.as_unsigned();
        prop_assert_eq!(b, Some(size));
    }
}
