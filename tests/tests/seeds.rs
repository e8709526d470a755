//! Every place and test that docs/seeds.md names exists.

use std::collections::HashMap;
use std::fs;

use integration_tests::repository::{self, root};

/// The names that the page writes in place of folders.
const CRATES: [(&str, &str); 9] = [
    ("host_stub", "host-stub/src/"),
    ("osc_engine", "host-stub/osc/src/"),
    ("osc_devices", "host-stub/devices/src/"),
    ("host_stub_c", "host-stub/c/src/"),
    ("host_stub_command", "host-stub/command/src/"),
    ("btl_ofi", "btl-ofi/core/src/"),
    ("btl_ofi_vtable", "btl-ofi/plugin/src/"),
    ("mca_btl_ofi", "btl-ofi/openmpi/src/"),
    ("plugin_api", "plugin-api/src/"),
];
const TEXTS: [&str; 6] = ["rs", "c", "h", "md", "sh", "cpp"];

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The files of the repository and their contents, by their paths.
struct Files(HashMap<String, String>);

impl Files {
    fn read() -> Files {
        let is_text = |path: &String| {
            path == "dev" || TEXTS.iter().any(|end| path.ends_with(&format!(".{end}")))
        };
        let read = |path: String| {
            let text = fs::read(root().join(&path)).unwrap();
            (path, String::from_utf8_lossy(&text).into_owned())
        };
        let files = repository::files("").into_iter().filter(is_text);
        let files = Files(files.map(read).collect());
        assert!(files.0.len() > 500, "{} files", files.0.len());
        files
    }

    fn has_path(&self, name: &str) -> bool {
        let end = format!("/{name}");
        let within = format!("{name}/");
        let mut paths = self.0.keys();
        paths.any(|path| path == name || path.ends_with(&end) || path.starts_with(&within))
    }

    /// Whether a file in the folder, other than this page and this test, contains the word.
    fn has_word(&self, folder: &str, word: &str) -> bool {
        let sources = self.0.iter().filter(|(path, _)| {
            path.starts_with(folder) && !path.ends_with(".md") && !path.ends_with("tests/seeds.rs")
        });
        let mut sources = sources.map(|(_, text)| text);
        sources.any(|text| {
            text.match_indices(word).any(|(at, _)| {
                let before = text[..at].chars().next_back();
                let after = text[at + word.len()..].chars().next();
                !before.is_some_and(is_word) && !after.is_some_and(is_word)
            })
        })
    }

    /// Whether every part of a Rust path occurs in the crate with which the path begins, or
    /// anywhere.
    fn has_rust(&self, path: &str) -> bool {
        let mut parts = path.split("::").peekable();
        let first = *parts.peek().unwrap();
        let found = CRATES.iter().find(|(name, _)| *name == first);
        let folder = found.map_or("", |(_, folder)| folder);
        if found.is_some() {
            parts.next();
        }
        parts.all(|part| {
            let module = ["", ".rs", "/mod.rs"].map(|end| format!("{part}{end}"));
            self.has_word(folder, part) || module.iter().any(|file| self.has_path(file))
        })
    }

    /// Whether the place or test in a quotation exists; `None` for text that names neither a test
    /// nor a case.
    fn has(&self, quoted: &str) -> Option<bool> {
        let is_name = |text: &str| !text.is_empty() && text.chars().all(is_word);
        let (stem, end) = quoted.rsplit_once('.').unwrap_or((quoted, ""));
        if ["rs", "c", "h", "md"].contains(&end) && !stem.contains(' ') {
            return Some(self.has_path(quoted));
        }
        if quoted.contains("::") && quoted.split("::").all(is_name) {
            return Some(self.has_rust(quoted));
        }
        if let Some((suite, test)) = quoted.split_once('/')
            && is_name(suite)
            && test.chars().all(|c| is_word(c) || c == '-' || c == '/')
        {
            let checks = |name| {
                let mut texts = self.0.iter();
                texts
                    .any(|(path, text)| path.starts_with("host-stub/check/") && text.contains(name))
            };
            return Some(self.has_path(quoted) || checks(quoted) || checks(test));
        }
        let is_snake =
            is_name(quoted) && quoted.contains('_') && !quoted.contains(char::is_uppercase);
        is_snake.then(|| self.has_word("", quoted))
    }
}

#[test]
fn places_and_tests_are_there() {
    let files = Files::read();
    let page = &files.0["docs/seeds.md"];
    let (mut looked, mut missing) = (0, Vec::new());
    for row in page.lines().filter(|line| line.starts_with("| 00")) {
        let number = row.split('|').nth(1).unwrap().trim();
        // Every second piece is a quotation.
        for quoted in row.split('`').skip(1).step_by(2) {
            if let Some(found) = files.has(quoted) {
                looked += 1;
                if !found {
                    missing.push(format!("{number}: {quoted}"));
                }
            }
        }
    }
    assert!(looked > 300, "{looked} names");
    assert!(missing.is_empty(), "not there: {}", missing.join(", "));
}

/// Cases of the self-check name the rows that name them. The test reads the list as text: quoted pairs of a name and its
/// rows.
#[test]
fn cases_of_the_check_name_their_rows() {
    let files = Files::read();
    let list = &files.0["host-stub/check/src/rows.rs"];
    let list = list.split_once("ROWS:").unwrap().1;
    let list = list.split_once("];").unwrap().0;
    let (mut named, mut case) = (Vec::new(), "");
    for quoted in list.split('"').skip(1).step_by(2) {
        match quoted.contains('/') {
            true => case = quoted,
            false => named.push((quoted, case.trim_end_matches('/'))),
        }
    }
    let is_case = |quoted: &str| named.iter().any(|(_, case)| *case == quoted);
    let mut found = Vec::new();
    for row in files.0["docs/seeds.md"]
        .lines()
        .filter(|line| line.starts_with("| 00"))
    {
        let number = row.split('|').nth(1).unwrap().trim();
        let tests = row.rsplit('|').nth(1).unwrap();
        for quoted in tests.split('`').skip(1).step_by(2) {
            let checks = files.0.iter().any(|(path, text)| {
                path.starts_with("host-stub/check/") && text.contains(&format!("\"{quoted}\""))
            });
            if is_case(quoted) || quoted.contains('/') && checks {
                found.push((number, quoted));
            }
        }
    }
    for pair in &found {
        assert!(
            named.contains(pair),
            "the self-check does not name {pair:?}"
        );
    }
    for pair in &named {
        assert!(found.contains(pair), "the page does not name {pair:?}");
    }
}

#[test]
fn what_is_gone_is_noticed() {
    let files = Files::read();
    for there in ["c_examples.rs", "host_stub::crt::cond::Cond"] {
        assert_eq!(files.has(there), Some(true), "{there}");
    }
    for gone in [
        "no_such_file.rs",
        "host_stub::crt::NoSuchName",
        "device/no-such-case",
        "a_name_of_this_test_alone",
    ] {
        assert_eq!(files.has(gone), Some(false), "{gone}");
    }
    assert_eq!(files.has("./dev test"), None);
}
