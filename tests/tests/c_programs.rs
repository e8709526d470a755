//! The Rust host over the plugin in C.

use std::process::Command;

use integration_tests::fixtures::{c_plugin, host_stub};
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
