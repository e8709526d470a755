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
        .scope(Scope::Local)
        .synonyms(const { &[Cow::Borrowed("btl_ofi_provider_include")] }),
        Declaration::new(
            "btl_ofi_atomic_flags",
            Kind::UnsignedInt,
            Value::Unsigned(3),
        )
        .allowed(Allowed::Fixed),
    ];
    registry.register_all(&table).expect("valid");
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
    let text = registry().dump(&Filter::new("btl", "ofi")).to_string();
    let wanted = "             MCA btl ofi: ---------------------------------------------------
             MCA btl ofi: parameter \"btl_ofi_disable_sep\" (current value: \"false\", data source: default, \
                      level: 5 tuner/detail, type: bool)
                          Never use a scalable endpoint.
                          Valid values: 0: f|false|disabled|no|n, 1: t|true|enabled|yes|y
             MCA btl ofi: parameter \"btl_ofi_provider_include\" (current value: \"tcp:1\", data source: environment, \
                      level: 1 user/basic, type: string, synonym of: opal_common_ofi_provider_include)
             MCA btl ofi: informational \"btl_ofi_atomic_flags\" (current value: \"3\", data source: default, \
                      level: 9 dev/all, type: unsigned_int)
";
    assert_eq!(text, wanted);
}

#[test]
fn parsable_text_is_that_of_ompi_info() {
    let dump = registry().dump(&Filter::new("opal_common", "all").up_to(Level::USER_ALL));
    let start = "mca:opal_common:ofi:param:opal_common_ofi_provider_include";
    let wanted: String = [
        "value:\"tcp:1\"",
        "source:environment",
        "status:writeable",
        "level:1",
        "deprecated:no",
        "type:string",
        "synonym:name:btl_ofi_provider_include",
    ]
    .iter()
    .map(|line| format!("{start}:{line}\n"))
    .collect();
    assert_eq!(dump.parsable().to_string(), wanted);
}

#[test]
fn filters() {
    let names = |filter: &Filter| {
        registry()
            .dump(filter)
            .entries()
            .iter()
            .map(|entry| entry.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&Filter::all()).len(), 4);
    assert_eq!(
        names(&Filter::new("btl", "all").up_to(Level::USER_BASIC)),
        ["btl_ofi_provider_include"]
    );
    assert_eq!(names(&Filter::new("btl", "tcp")), Vec::<String>::new());
    assert_eq!(
        names(&Filter::all())[2],
        "btl_ofi_atomic_flags",
        "grouped by component"
    );
}

#[test]
fn entries_tell_where_a_value_came_from() {
    let dump = registry().dump(&Filter::new("opal_common", "ofi"));
    let [entry] = dump.entries() else {
        panic!("one entry")
    };
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
