//! Parameters that change a module's attributes. Each change is read through the vtable.

use std::sync::Mutex;

use integration_tests::fixtures::ofi_plugin;
use integration_tests::host::TestHost;
use integration_tests::session::Session;
use plugin_api::{Attributes, ModuleFlags};

static ALONE: Mutex<()> = Mutex::new(());

/// The attributes of a module over sockets, which has scalable endpoints, and the log.
fn module(settings: &[(&str, &str)]) -> (Attributes, Vec<String>) {
    // SAFETY: every test of this process sets the same value, before a provider is opened.
    unsafe { std::env::set_var("FI_SOCKETS_IFACE", "lo") };
    // The tests run one at a time, because hosts that use a plugin at the same time get each
    // other's log lines.
    let _alone = ALONE.lock().unwrap();
    let mut all = vec![("btl_ofi_provider_include", "sockets")];
    all.extend_from_slice(settings);
    let host = TestHost::new(&all);
    let session = Session::new(ofi_plugin(), &host);
    // SAFETY: the module and its attributes live, and the attributes are plain data.
    let attributes = unsafe { *(*session.module).attributes };
    drop(session);
    (attributes, host.take_log())
}

#[test]
fn estimates_are_the_users() {
    let (default, _) = module(&[]);
    let (set, _) = module(&[
        ("btl_ofi_latency", "7"),
        ("btl_ofi_bandwidth", "12345"),
        ("btl_ofi_exclusivity", "42"),
    ]);
    assert_eq!(default.latency, 1);
    assert_ne!(default.bandwidth, 12345);
    assert_eq!(default.exclusivity, 64 * 1024 - 50);
    assert_eq!(
        (set.latency, set.bandwidth, set.exclusivity),
        (7, 12345, 42)
    );
}

#[test]
fn limits_of_transfers_are_the_users() {
    let (default, _) = module(&[]);
    let (set, _) = module(&[("btl_ofi_put_limit", "4096"), ("btl_ofi_get_limit", "8192")]);
    assert!(default.put_limit > 8192 && default.get_limit > 8192);
    assert_eq!((set.put_limit, set.get_limit), (4096, 8192));
}

#[test]
fn flags_are_a_mask() {
    let (default, _) = module(&[]);
    let both = ModuleFlags::PUT | ModuleFlags::GET;
    let (masked, _) = module(&[("btl_ofi_flags", &both.bits().to_string())]);
    assert!(ModuleFlags::from_bits_retain(default.flags).contains(both | ModuleFlags::ATOMIC_OPS));
    assert_eq!(ModuleFlags::from_bits_retain(masked.flags), both);
}

#[test]
fn scalable_endpoints_are_switched_off() {
    let four = ("btl_ofi_num_contexts_per_module", "4");
    let (scalable, said) = module(&[four]);
    assert_eq!(scalable.contexts, 4);
    assert!(
        said.iter()
            .all(|line| !line.contains("contexts were asked for")),
        "{said:?}"
    );
    let (single, said) = module(&[four, ("btl_ofi_disable_sep", "true")]);
    assert_eq!(single.contexts, 1);
    let warning = said
        .iter()
        .find(|line| line.contains("contexts were asked for"));
    let warning = warning.unwrap();
    assert!(warning.contains("btl_ofi_disable_sep"), "{warning}");
    assert!(!warning.contains("no scalable endpoint"), "{warning}");
}
