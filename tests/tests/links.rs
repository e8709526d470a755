//! Every link between the documents leads to an existing file, and to an existing heading of the
//! file.

use std::fs;
use std::path::{Path, PathBuf};

use integration_tests::repository::{files, root};

/// The anchor of a heading: lower case, hyphens for blanks, no other signs.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase().replace(' ', "-");
    let stays = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
    lower.chars().filter(stays).collect()
}

fn has_heading(page: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(page).unwrap();
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    headings.any(|line| anchor(line.trim_start_matches('#').trim()) == wanted)
}

/// The targets of the links `[text](place)` in a page.
fn places(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1);
    ends.filter_map(|rest| rest.split_once(')').map(|(place, _)| place))
        .filter(|place| !place.contains(char::is_whitespace) && !place.starts_with("http"))
}

#[test]
fn links_lead_somewhere() {
    let mut found = files("");
    found.retain(|path| path.ends_with(".md"));
    let found: Vec<PathBuf> = found.iter().map(|path| root().join(path)).collect();
    assert!(found.len() > 15, "{} pages", found.len());
    let (mut links, mut broken) = (0, Vec::new());
    for page in &found {
        let text = fs::read_to_string(page).unwrap();
        for place in places(&text) {
            links += 1;
            let (file, heading) = place.split_once('#').unwrap_or((place, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let leads = target.exists() && (heading.is_empty() || has_heading(&target, heading));
            if !leads {
                broken.push(format!("{}: {place}", page.display()));
            }
        }
    }
    assert!(links > 100, "{links} links");
    assert!(broken.is_empty(), "{broken:#?}");
}
