//! What `host-stub info` says of providers that are refused, and of a libfabric that is too old.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reports by panicking, in its helpers too"
)]

use std::process::Command;
use std::time::Duration;

use integration_tests::fixtures::{c_program, host_stub, ofi_plugin};
use integration_tests::lab::Lab;
use integration_tests::process::{Outcome, run};

const LIMIT: Duration = Duration::from_secs(60);

fn command(settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(host_stub());
    command.arg("info").arg("--plugin").arg(ofi_plugin());
    for (name, value) in settings {
        command.args(["--mca", name, value]);
    }
    command
}

/// Over the lab provider that requires local buffers to be registered.
fn local(settings: &[(&str, &str)]) -> Outcome {
    let lab = Lab::default();
    let named = [("btl_ofi_provider_include", "lab")];
    let mut command = command(&[&named, settings].concat());
    lab.serve(&mut command, [("MR_MODE", "LOCAL,VIRT_ADDR")]);
    let outcome = run(&mut command, LIMIT);
    assert_eq!(lab.lines("report"), [""; 0], "{}", outcome.transcript());
    outcome
}

#[test]
fn it_tells_what_kept_registrations_could_do() {
    let refused = local(&[]);
    let said = refused.transcript();
    assert!(!refused.status.success(), "{said}");
    let why = "it requires FI_MR_LOCAL: local buffers would have to be registered, which btl_ofi_mr_local=1 allows";
    assert!(refused.stdout.contains(why), "{said}");
    let line = "registered lab can be used with btl_ofi_mr_local=1; then buffers of larger puts and gets are registered";
    assert!(refused.stdout.contains(line), "{said}");
    let none = local(&[("host_registration_cache_entries", "0")]);
    let line = "anew by each operation: host_registration_cache_entries is 0";
    assert!(none.stdout.contains(line), "{}", none.transcript());

    let used = local(&[("btl_ofi_mr_local", "1"), ("btl_ofi_message_limit", "512")]);
    let said = used.transcript();
    assert!(used.status.success(), "{said}");
    assert!(used.stdout.contains("accepted, chosen"), "{said}");
    assert!(used.stdout.contains("put to 512 B, get to 512 B"), "{said}");
    let line = "registered buffers of larger puts and gets are registered, ";
    assert!(used.stdout.contains(line), "{said}");
}

/// The lists of providers and interfaces decide what is used, and the reason names the list.
#[test]
fn lists_exclude_providers_and_interfaces() {
    let said = |settings: &[(&str, &str)]| {
        let outcome = run(command(settings).env("FI_SOCKETS_IFACE", "lo"), LIMIT);
        outcome.transcript()
    };
    // By default sockets is not considered; with another list it is.
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
        let outcome = run(command(&[]).env("LD_LIBRARY_PATH", &place), LIMIT);
        std::fs::remove_dir_all(&place).unwrap();
        let said = outcome.transcript();
        assert!(!outcome.status.success(), "{said}");
        let why = format!("{version} is too old. Install 1.14 or newer");
        assert!(said.contains(&why), "{said}");
    }
}
