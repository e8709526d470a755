//! Writes the manual pages and the completions of `host-stub` for packages: `pages FOLDER` fills `FOLDER/man1` and
//! `FOLDER/completions`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

/// The completions' shells, with the file names that each expects.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "host-stub"),
    (Shell::Zsh, "_host-stub"),
    (Shell::Fish, "host-stub.fish"),
];

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: pages FOLDER");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pages: {} cannot be filled: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let (manual, completions) = (folder.join("man1"), folder.join("completions"));
    fs::create_dir_all(&manual)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(without_hidden(host_stub_command::command()), &manual)?;
    for (shell, name) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(
            shell,
            &mut without_hidden(host_stub_command::command()),
            "host-stub",
            &mut text,
        );
        fs::write(completions.join(name), text)?;
    }
    Ok(())
}

/// The command without hidden subcommands, which clap would complete and give pages.
fn without_hidden(whole: Command) -> Command {
    let shown: Vec<_> = whole
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned()
        .collect();
    Command::new("host-stub")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .after_help(whole.get_after_help().cloned().unwrap_or_default())
        .subcommands(shown)
}
