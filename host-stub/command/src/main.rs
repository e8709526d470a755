//! The `host-stub` program; the library has all code.

use std::process::ExitCode;

fn main() -> ExitCode {
    host_stub_command::main()
}
