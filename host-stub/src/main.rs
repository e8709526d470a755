//! The `host-stub` program; everything is in [`host_stub::command`].

use std::process::ExitCode;

fn main() -> ExitCode {
    host_stub::command::main()
}
