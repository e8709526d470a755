//! Tests the output of `host-stub info` for refused providers, and for a libfabric that is too old.

use std::process::Command;

use integration_tests::fixtures::{c_plugin, c_program, host_stub, ofi_plugin};
use integration_tests::lab::Lab;
use integration_tests::process::run;

fn command(settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(host_stub());
    command.arg("info").arg("--plugin").arg(ofi_plugin());
    for (name, value) in settings {
        command.args(["--mca", name, value]);
    }
    command
}

/// The refusal of a provider that requires registered local buffers names the requirement, and the parameter that
/// admitted the provider.
#[test]
fn registered_local_buffers_are_refused() {
    let said = |settings: &[(&str, &str)]| {
        let lab = Lab::default();
        let named = [("btl_ofi_provider_include", "lab")];
        let mut command = command(&[&named, settings].concat());
        lab.serve(&mut command, [("MR_MODE", "LOCAL,VIRT_ADDR")]);
        let outcome = run(&mut command);
        assert!(!outcome.status.success(), "{}", outcome.transcript());
        outcome.transcript()
    };
    let refused = said(&[]);
    let why = "it requires FI_MR_LOCAL: local buffers would have to be registered";
    assert!(refused.contains(why), "{refused}");
    let removed = said(&[("btl_ofi_mr_local", "1")]);
    let why = "btl_ofi_mr_local: Removed: ";
    assert!(removed.contains(why), "{removed}");
}

/// A plugin with this requirement is refused too.
#[test]
fn a_plugin_that_wants_local_buffers_registered_is_refused() {
    let mut command = Command::new(host_stub());
    command.arg("info").arg("--plugin");
    let outcome = run(command.arg(c_plugin("WANTS_REGISTRATION")));
    let said = outcome.transcript();
    assert!(!outcome.status.success(), "{said}");
    let why = "the plugin wants local buffers of more than 0 bytes registered";
    assert!(said.contains(why), "{said}");
}

/// The lists of providers and interfaces decide which are used, and the reason names the list.
#[test]
fn lists_exclude_providers_and_interfaces() {
    let said = |settings: &[(&str, &str)]| {
        let outcome = run(command(settings).env("FI_SOCKETS_IFACE", "lo"));
        outcome.transcript()
    };
    // By default, sockets is excluded; with another list, it is considered.
    let default = said(&[]);
    assert!(
        default.contains("refused: in btl_ofi_provider_exclude (shm,sockets"),
        "{default}"
    );
    let others = said(&[("btl_ofi_provider_exclude", "shm,tcp,udp")]);
    assert!(!others.contains("sockets,"), "{others}");
    let sockets = others
        .lines()
        .find(|line| line.trim_start().starts_with("sockets "));
    assert!(
        sockets.is_some_and(|line| line.contains("accepted")),
        "{others}"
    );

    let mistyped = said(&[("btl_ofi_provider_include", "sokets")]);
    assert!(mistyped.contains("did you mean sockets?"), "{mistyped}");
    let absent = said(&[("btl_ofi_provider_include", "efa")]);
    assert!(!absent.contains("did you mean"), "{absent}");

    let named = ("btl_ofi_provider_include", "sockets");
    let used = said(&[named]);
    assert!(used.contains("module     sockets"), "{used}");
    let without = said(&[named, ("btl_ofi_if_exclude", "lo")]);
    assert!(
        without.contains("refused: ") && without.contains("btl_ofi_if_exclude"),
        "{without}"
    );
    assert!(!without.contains("module     sockets"), "{without}");
}

#[test]
fn a_libfabric_that_is_too_old_is_refused() {
    for version in ["1.4", "1.13"] {
        let place =
            std::env::temp_dir().join(format!("btl-ofi-old-{}-{version}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let library = c_program(&format!("libfabric-{version}.so"));
        std::fs::copy(library, place.join("libfabric.so.1")).unwrap();
        let outcome = run(command(&[]).env("LD_LIBRARY_PATH", &place));
        std::fs::remove_dir_all(&place).unwrap();
        let said = outcome.transcript();
        assert!(!outcome.status.success(), "{said}");
        let why = format!("{version} is too old. Install 1.14 or newer");
        assert!(said.contains(&why), "{said}");
    }
}
