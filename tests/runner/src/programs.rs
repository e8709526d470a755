//! The test programs that cargo builds.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

/// A test program.
pub(crate) struct Program {
    /// The package and the target of the program.
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    /// The folder of the program's package, in which cargo would run the program.
    pub(crate) folder: PathBuf,
}

impl Program {
    /// Whether the program waits more than it works.
    pub(crate) fn waits(&self) -> bool {
        crate::WAITING.contains(&self.name.as_str())
    }
}

/// The fields of cargo's messages that the runner reads; the format is in The Cargo Book, "External
/// tools".
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the test programs, with these arguments for `cargo test`.
pub(crate) fn build(arguments: &[String]) -> Result<Vec<Program>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "test",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo test --no-run ended with {}", output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines()
        .filter_map(|line| program(line).transpose())
        .collect()
}

/// The test program in one of cargo's messages, if the message contains one.
fn program(line: &str) -> Result<Option<Program>, String> {
    if !line.starts_with('{') {
        return Ok(None);
    }
    let message: Message =
        serde_json::from_str(line).map_err(|error| format!("cargo said {line}: {error}"))?;
    let (Some(file), Some(manifest), Some(target)) =
        (message.executable, message.manifest_path, message.target)
    else {
        return Ok(None);
    };
    let is_test = message.profile.is_some_and(|profile| profile.test);
    if message.reason != "compiler-artifact" || !is_test {
        return Ok(None);
    }
    let folder = manifest
        .parent()
        .ok_or_else(|| format!("{} has no folder", manifest.display()))?;
    let package = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = match target.kind.first().map(String::as_str) {
        Some("test") => format!("{package}/{}", target.name),
        _ => format!("{package}/{} (unit tests)", target.name),
    };
    Ok(Some(Program {
        name,
        file,
        folder: folder.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn only_test_programs_count() {
        let artifact = |reason: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"{reason}","manifest_path":"/w/core/Cargo.toml","target":{{"name":"x","kind":["test"]}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = |line: &str| program(line).unwrap().map(|program| program.name);
        let good = artifact("compiler-artifact", true, r#""/t/x-1""#);
        assert_eq!(found(&good).as_deref(), Some("core/x"));
        assert_eq!(
            found(&artifact("compiler-artifact", false, r#""/t/x""#)),
            None
        );
        assert_eq!(found(&artifact("compiler-artifact", true, "null")), None);
        assert_eq!(found(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(found("running 3 tests"), None);
        assert!(program("{ nonsense").is_err());
    }
}
