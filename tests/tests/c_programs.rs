//! Programs in C through `btl_plugin.h` alone, and the Rust host over the plugin in C.

use std::process::Command;

use integration_tests::fixtures::{
    PROVIDERS, c_plugin, c_program, host_stub, ofi_plugin, valgrind,
};
use integration_tests::process::run;

/// Windows over the C plugin: the Rust host's whole self-check, on one rank and on two.
#[test]
fn rust_host_over_c_plugin() {
    for (variant, ranks, depth) in [("", "1", "64"), ("", "2", "0"), ("FUTURE", "2", "64")] {
        let outcome = run(Command::new(host_stub())
            .args(["check", "--np", ranks, "--plugin"])
            .arg(c_plugin(variant))
            .args(["--mca", "btl_cma_queue_depth", depth]));
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{said}");
        assert!(outcome.stdout.ends_with(" passed, 0 failed\n"), "{said}");
        assert!(outcome.stdout.contains("provider cma"), "{said}");
    }
}

/// The example of device memory, which only copies may access: under valgrind too, without an invalid access or a leak.
#[test]
fn c_program_with_a_device() {
    let program = |command: &mut Command, provider: &str| {
        command
            .arg(ofi_plugin())
            .arg(format!("btl_ofi_provider_include={provider}"));
        let outcome = run(command);
        let said = outcome.transcript();
        assert!(outcome.status.success(), "{provider}: {said}");
        assert!(outcome.stdout.contains("all as it should be"), "{said}");
        assert!(!said.contains("definitely lost"), "{said}");
    };
    for provider in PROVIDERS {
        program(&mut Command::new(c_program("device")), provider);
    }
    if let Some(valgrind) = valgrind() {
        let mut command = Command::new(&valgrind[0]);
        command.args(&valgrind[1..]).arg(c_program("device"));
        program(&mut command, "shm");
    }
}
