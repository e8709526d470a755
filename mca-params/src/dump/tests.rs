use std::borrow::Cow;

use super::*;
use crate::Registry;

fn registry() -> Registry {
    let mut registry = Registry::builder()
        .environment([("OMPI_MCA_btl_ofi_provider_include", "tcp:1")])
        .build()
        .expect("no files");
    let table = [
        Declaration::new("btl_ofi_disable_sep", Kind::Bool, Value::Bool(false))
            .help("Never use a scalable endpoint.")
            .level(Level::TUNER_DETAIL),
        Declaration::new(
            "opal_common_ofi_provider_include",
            Kind::String,
            Value::str(""),
        )
        .level(Level::USER_BASIC)
        .synonyms(const { &[Cow::Borrowed("btl_ofi_provider_include")] }),
        Declaration::new(
            "btl_ofi_atomic_flags",
            Kind::UnsignedInt,
            Value::Unsigned(3),
        ),
    ];
    for declaration in &table {
        registry.register(declaration).expect("valid");
    }
    registry
}

#[test]
fn families() {
    for (name, framework, component) in [
        ("btl", "btl", "base"),
        ("btl_verbose", "btl", "base"),
        ("btl_ofi_mode", "btl", "ofi"),
        ("btl_ofi_num_cq_read", "btl", "ofi"),
        ("opal_common_ofi_verbose", "opal_common", "ofi"),
        ("opal_commonplace_x", "opal", "commonplace"),
        ("", "", "base"),
    ] {
        assert_eq!(family(name), (framework.into(), component.into()), "{name}");
    }
}

#[test]
fn readable_text_is_that_of_ompi_info() {
    let text = registry().dump(Level::TUNER_DETAIL).to_string();
    let wanted = "             MCA btl ofi: ---------------------------------------------------
             MCA btl ofi: parameter \"btl_ofi_disable_sep\" (current value: \"false\", data source: default, \
                      level: 5 tuner/detail, type: bool)
                          Never use a scalable endpoint.
                          Valid values: 0: f|false|disabled|no|n, 1: t|true|enabled|yes|y
             MCA btl ofi: parameter \"btl_ofi_provider_include\" (current value: \"tcp:1\", data source: environment, \
                      level: 1 user/basic, type: string, synonym of: opal_common_ofi_provider_include)
";
    assert!(text.starts_with(wanted), "{text}");
    assert!(
        !text.contains("btl_ofi_atomic_flags"),
        "of a higher level: {text}"
    );
    let all = registry().dump(Level::DEV_ALL);
    assert_eq!(all.entries().len(), 4);
    assert_eq!(
        all.entries()[2].name,
        "btl_ofi_atomic_flags",
        "grouped by component"
    );
}

#[test]
fn entries_tell_where_a_value_came_from() {
    let dump = registry().dump(Level::DEV_ALL);
    let entry = &dump.entries()[3];
    assert_eq!(
        entry.via_synonym.as_deref(),
        Some("btl_ofi_provider_include")
    );
    assert_eq!(entry.synonyms, ["btl_ofi_provider_include"]);
    assert_eq!(
        (entry.value_text.as_str(), entry.default_text.as_str()),
        ("tcp:1", "")
    );
}
