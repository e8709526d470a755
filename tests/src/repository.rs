//! The files of the repository.

use std::fs;
use std::path::Path;

/// The repository.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the crate lies in the repository")
}

/// The paths of all files below a folder, from the root on, without files that are hidden or built.
pub fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let own = path.strip_prefix(root()).expect("below the root");
            let name = own.file_name().and_then(|name| name.to_str());
            if own == Path::new("target") || name.is_none_or(|name| name.starts_with('.')) {
                continue;
            }
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(own.display().to_string()),
            }
        }
    }
    found
}
