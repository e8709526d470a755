//! Real files and an injected environment: which source wins, and how each failure reads.
#![allow(clippy::expect_used, reason = "a test's helpers fail by panicking")]

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use mca_params::{Allowed, Builder, Declaration, Error, Kind, Level, Registry, Source, Value};

static PARAMETERS: [Declaration; 4] = [
    Declaration::new("btl_ofi_mode", Kind::Int, Value::Int(0))
        .help("Mode of operation.")
        .level(Level::TUNER_DETAIL)
        .allowed(Allowed::Range { min: 0, max: 2 }),
    Declaration::new("btl_ofi_rd_num", Kind::Int, Value::Int(10))
        .allowed(Allowed::Range { min: 1, max: 4096 }),
    Declaration::new("btl_ofi_progress_mode", Kind::String, Value::str("unspec")).allowed(
        Allowed::OneOf(Cow::Borrowed(&[
            Cow::Borrowed("unspec"),
            Cow::Borrowed("auto"),
            Cow::Borrowed("manual"),
        ])),
    ),
    Declaration::new(
        "opal_common_ofi_provider_include",
        Kind::String,
        Value::str(""),
    )
    .synonyms(&[Cow::Borrowed("btl_ofi_provider_include")]),
];

/// A folder of its own for each test: `etc` and `home` in it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(path.join("home/.openmpi")).expect("create");
        fs::create_dir_all(path.join("etc")).expect("create");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), bytes).expect("write");
        self
    }

    fn user(&self, text: &str) -> &Self {
        self.write("home/.openmpi/mca-params.conf", text)
    }

    fn system(&self, text: &str) -> &Self {
        self.write("etc/openmpi-mca-params.conf", text)
    }

    fn builder(&self) -> Builder {
        Registry::builder()
            .environment([
                ("HOME", self.path("home")),
                ("OPAL_SYSCONFDIR", self.path("etc")),
            ])
            .standard_files()
    }

    fn registry(&self) -> Registry {
        self.builder().build().expect("readable files")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} stays behind: {error}", self.0.display());
        }
    }
}

fn mode(mut registry: Registry) -> (i32, Source) {
    let resolved = registry.register(&PARAMETERS[0]).expect("valid");
    (
        resolved.value.as_int().expect("an int"),
        resolved.source.clone(),
    )
}

#[test]
fn each_source_beats_the_ones_below_it() {
    let folder = Folder::new("precedence");
    assert_eq!(mode(folder.registry()), (0, Source::Default));

    folder.system("# the system's\nbtl_ofi_mode = 1\n");
    let path = folder.path("etc/openmpi-mca-params.conf");
    assert_eq!(mode(folder.registry()), (1, Source::File { path, line: 2 }));

    folder.user("btl_ofi_mode = 0\nbtl_ofi_mode = 2\n");
    let path = folder.path("home/.openmpi/mca-params.conf");
    assert_eq!(mode(folder.registry()), (2, Source::File { path, line: 2 }));

    let variable = "OMPI_MCA_btl_ofi_mode".to_owned();
    let with_environment = || {
        folder
            .builder()
            .environment([(&variable, "0x1")])
            .build()
            .expect("readable files")
    };
    assert_eq!(
        mode(with_environment()),
        (
            1,
            Source::Environment {
                variable: variable.clone()
            }
        )
    );

    let mut registry = with_environment();
    registry.set("btl_ofi_mode", "0").expect("a name");
    assert_eq!(mode(registry), (0, Source::Set));

    folder.write("etc/openmpi-mca-params-override.conf", "btl_ofi_mode = 2");
    let mut registry = with_environment();
    registry.set("btl_ofi_mode", "0").expect("a name");
    let path = folder.path("etc/openmpi-mca-params-override.conf");
    let resolved = registry.register(&PARAMETERS[0]).expect("valid");
    assert_eq!(
        (&resolved.value, &resolved.source),
        (&Value::Int(2), &Source::File { path, line: 1 })
    );
    let [warning] = registry.warnings() else {
        panic!("{:?}", registry.warnings())
    };
    assert!(
        warning
            .to_string()
            .ends_with("an explicit setting is ignored"),
        "{warning}"
    );
}

#[test]
fn a_file_list_replaces_the_standard_files() {
    let folder = Folder::new("list");
    folder
        .user("btl_ofi_mode = 1\n")
        .write("a", "btl_ofi_mode = 2")
        .write("b", "btl_ofi_mode = 0\nbtl_ofi_rd_num = 3");
    let list = format!(
        "{},{},{}",
        folder.path("a").display(),
        folder.path("gone").display(),
        folder.path("b").display()
    );
    let registry = || {
        folder
            .builder()
            .environment([("OMPI_MCA_mca_base_param_files", &list)])
            .build()
            .expect("readable")
    };
    assert_eq!(
        mode(registry()),
        (
            2,
            Source::File {
                path: folder.path("a"),
                line: 1
            }
        )
    );
    let mut registry = registry();
    for declaration in &PARAMETERS {
        registry.register(declaration).expect("valid");
    }
    assert_eq!(registry.value("btl_ofi_rd_num"), Some(&Value::Int(3)));

    let none = folder
        .builder()
        .environment([("OMPI_MCA_mca_base_param_files", "none")])
        .build()
        .expect("no files");
    assert_eq!(mode(none), (0, Source::Default));
}

#[test]
fn rank_beats_synonym_and_synonym_beats_name() {
    let folder = Folder::new("synonyms");
    folder.user("btl_ofi_provider_include = file\nopal_common_ofi_provider_include = ~/real\n");
    let include = |mut registry: Registry| {
        registry
            .register(&PARAMETERS[3])
            .map(|resolved| (resolved.value.clone(), resolved.via_synonym.clone()))
    };
    let synonym = Some("btl_ofi_provider_include".to_owned());
    assert_eq!(
        include(folder.registry()).expect("valid"),
        (Value::str("file"), synonym)
    );
    let registry = folder
        .builder()
        .environment([("OMPI_MCA_opal_common_ofi_provider_include", "env")])
        .build();
    assert_eq!(
        include(registry.expect("readable")).expect("valid"),
        (Value::str("env"), None)
    );
}

#[test]
fn a_bad_value_names_parameter_value_place_and_what_is_allowed() {
    let folder = Folder::new("bad-value");
    folder.user("\nbtl_ofi_progress_mode = sometimes\n");
    let error = folder
        .registry()
        .register(&PARAMETERS[2])
        .map(drop)
        .expect_err("invalid");
    let place = folder.path("home/.openmpi/mca-params.conf");
    assert_eq!(
        error.to_string(),
        format!(
            "parameter btl_ofi_progress_mode: the value `sometimes` from {}:2 is not among the allowed ones; \
             allowed: unspec, auto, manual",
            place.display()
        )
    );
    let Error::InvalidValue(details) = error else {
        panic!("{error:?}")
    };
    assert_eq!(
        details.from,
        Source::File {
            path: place,
            line: 2
        }
    );
}

#[test]
fn a_malformed_file_is_named_with_its_line() {
    let folder = Folder::new("malformed");
    folder.system("btl = self\nbtl_ofi_mode 2\n");
    let error = folder.builder().build().expect_err("malformed");
    assert_eq!(
        error.to_string(),
        format!(
            "{}:2: expected `=` after `btl_ofi_mode`: `btl_ofi_mode 2`",
            folder.path("etc/openmpi-mca-params.conf").display()
        )
    );
}

#[test]
fn an_unreadable_file_is_named() {
    let folder = Folder::new("unreadable");
    // Not even root can read a folder as a file.
    fs::create_dir(folder.path("home/.openmpi/mca-params.conf")).expect("create");
    let error = folder.builder().build().expect_err("unreadable");
    assert!(
        matches!(&error, Error::Unreadable { path, .. } if path.ends_with("mca-params.conf")),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with("cannot read parameter file /"),
        "{error}"
    );
    let large = Folder::new("large");
    large.system(&"#".repeat((4 << 20) + 1));
    assert!(
        large
            .builder()
            .build()
            .expect_err("too large")
            .to_string()
            .contains("4 MiB")
    );
}

#[test]
#[cfg(unix)]
fn an_environment_that_is_not_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let bytes = OsStr::from_bytes(b"1\xff");
    let mut registry = Registry::builder()
        .environment([(OsStr::new("OMPI_MCA_btl_ofi_mode"), bytes), (bytes, bytes)])
        .build()
        .expect("no files");
    let error = registry
        .register(&PARAMETERS[0])
        .map(drop)
        .expect_err("not UTF-8")
        .to_string();
    assert!(
        error.contains("OMPI_MCA_btl_ofi_mode is not UTF-8; allowed: 0 to 2"),
        "{error}"
    );
}

#[test]
fn a_dump_shows_file_and_line() {
    let folder = Folder::new("dump");
    folder.user("-mca btl_ofi_mode 2 -mca btl_ofi_mdoe 1\n");
    let mut registry = folder.registry();
    for declaration in &PARAMETERS {
        registry.register(declaration).expect("valid");
    }
    let place = folder.path("home/.openmpi/mca-params.conf");
    let line = format!(
        "             MCA btl ofi: parameter \"btl_ofi_mode\" (current value: \"2\", data source: file ({}:1), \
         level: 5 tuner/detail, type: int)\n                          Mode of operation.\n",
        place.display()
    );
    let text = registry.dump(Level::DEV_ALL).to_string();
    assert!(text.contains(&line), "{text}");
    let unknown = registry.unknown("btl_ofi_");
    assert_eq!(unknown.len(), 1);
    assert_eq!(unknown[0].similar.as_deref(), Some("btl_ofi_mode"));
    assert_eq!(
        unknown[0].source,
        Source::File {
            path: place,
            line: 1
        }
    );
}

#[test]
fn this_process_has_an_environment() {
    // The test only checks that the call ends: the settings depend on the machine.
    match Registry::from_system() {
        Ok(registry) => assert!(registry.iter().next().is_none()),
        Err(error) => eprintln!("this machine's own parameter files: {error}"),
    }
}
