//! The `host-stub` program; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    host_stub_command::main()
}
