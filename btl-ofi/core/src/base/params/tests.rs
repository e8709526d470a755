use super::*;

fn with(overrides: &[(&str, Value)]) -> Result<Options, Error> {
    Options::resolve(|d| {
        let o = overrides.iter().find(|(n, _)| *n == d.name);
        Ok::<_, std::convert::Infallible>(o.map_or(d.default.clone(), |(_, v)| v.clone()))
    })
}

#[test]
fn defaults_resolve() {
    let o = with(&[]).unwrap();
    assert_eq!(o.contexts.num_cq_read, 64);
    assert_eq!((o.messages.receives, o.messages.limit), (10, 4096));
    assert!(
        o.admits("tcp;ofi_rxm").is_err(),
        "excluded by its beginning, as Open MPI does"
    );
    assert!(o.admits("verbs;ofi_rxm").is_ok());
}

#[test]
fn including_overrules_the_exclusion() {
    let o = with(&[("btl_ofi_provider_include", Value::str(" TCP , psm2"))]).unwrap();
    assert!(o.admits("tcp;ofi_rxm").is_ok());
    assert!(o.admits("shm").unwrap_err().contains("provider_include"));
}

#[test]
fn two_sided_modes_leave_one_node_to_others() {
    let of = |mode| with(&[("btl_ofi_mode", Value::Int(mode))]).unwrap();
    assert!(!of(0).two_sided() && of(1).two_sided() && of(2).two_sided());
    // The transport of shared memory has 65536, TCP has 100.
    assert_eq!(u64::from(of(0).offer.exclusivity), EXCLUSIVITY);
    assert_eq!(of(2).offer.exclusivity, 1024);
}

#[test]
fn lists_of_interfaces_are_refused_by_name() {
    let wrong = [
        ("btl_ofi_if_include", "10.0.0.0/33"),
        ("btl_ofi_if_include", "eth0,10.0.0/8"),
        ("btl_ofi_if_include", "fd00::/x"),
        ("btl_ofi_if_include", "10.0.0.1"),
        ("btl_ofi_if_exclude", "a name"),
        ("btl_ofi_if_exclude", "an-overlong-name"),
        ("btl_ofi_if_exclude", "/24"),
    ];
    for (name, value) in wrong {
        let e = with(&[(name, Value::str(value))]).unwrap_err().to_string();
        assert!(e.starts_with(&format!("parameter {name}: ")), "{e}");
        let entry = value.split(',').next_back().unwrap();
        assert!(e.contains(&format!("\"{entry}\"")), "{e}");
    }
    let both = [
        ("btl_ofi_if_include", Value::str("eth0")),
        ("btl_ofi_if_exclude", Value::str("eth1")),
    ];
    let e = with(&both).unwrap_err().to_string();
    assert!(
        e.contains("btl_ofi_if_include") && e.contains("btl_ofi_if_exclude"),
        "{e}"
    );
}
