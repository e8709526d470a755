//! Tests of registering, setting and resolving without files. Tests with files are the integration tests.

use std::borrow::Cow;

use super::*;
use crate::declaration::Allowed;
use crate::value::Kind;

fn mode() -> Declaration {
    Declaration::new("btl_ofi_mode", Kind::Int, Value::Int(0))
        .allowed(Allowed::Range { min: 0, max: 2 })
}

fn include() -> Declaration {
    Declaration::new(
        "opal_common_ofi_provider_include",
        Kind::String,
        Value::str(""),
    )
    .synonyms(
        const {
            &[
                Cow::Borrowed("btl_ofi_provider_include"),
                Cow::Borrowed("mtl_ofi_provider_include"),
            ]
        },
    )
}

fn with(variables: &[(&str, &str)]) -> Registry {
    Registry::builder()
        .environment(variables.iter().copied())
        .build()
        .expect("no files")
}

#[test]
fn default_environment_set() {
    assert_eq!(
        with(&[]).register(&mode()).expect("default").source,
        Source::Default
    );
    let mut registry = with(&[("OMPI_MCA_btl_ofi_mode", "1")]);
    registry.set("btl_ofi_mode", "2").expect("a name");
    let resolved = registry.register(&mode()).expect("valid");
    assert_eq!(
        (&resolved.value, &resolved.source),
        (&Value::Int(2), &Source::Set)
    );
}

#[test]
fn synonyms_beat_the_name_at_one_rank_and_not_between_ranks() {
    let mut registry = with(&[
        ("OMPI_MCA_opal_common_ofi_provider_include", "real"),
        ("OMPI_MCA_btl_ofi_provider_include", "first"),
        ("OMPI_MCA_mtl_ofi_provider_include", "second"),
    ]);
    let resolved = registry.register(&include()).expect("valid");
    assert_eq!(resolved.value, Value::str("second"));
    assert_eq!(
        resolved.via_synonym.as_deref(),
        Some("mtl_ofi_provider_include")
    );
    let mut registry = with(&[("OMPI_MCA_btl_ofi_provider_include", "syn")]);
    registry
        .set("opal_common_ofi_provider_include", "real")
        .expect("a name");
    assert_eq!(
        registry.register(&include()).expect("valid").via_synonym,
        None
    );
    assert_eq!(
        registry.value("btl_ofi_provider_include"),
        Some(&Value::str("real"))
    );
}

#[test]
fn long_names_beat_short_ones() {
    let mut registry = with(&[
        ("OMPI_MCA_btl_ofi_mode", "1"),
        ("OMPI_MCA_opal_btl_ofi_mode", "2"),
    ]);
    let resolved = registry.register(&mode()).expect("valid");
    assert_eq!(
        (&resolved.value, &resolved.via_synonym),
        (&Value::Int(2), &None)
    );
}

#[test]
fn registering_twice() {
    let mut registry = with(&[]);
    registry.register(&mode()).expect("new");
    registry.register(&mode()).expect("equal");
    assert_eq!(registry.iter().count(), 1);
    let error = registry
        .register(&mode().help("other"))
        .expect_err("conflict");
    assert_eq!(
        error.to_string(),
        "parameter btl_ofi_mode is declared twice: the two differ"
    );
    registry.register(&include()).expect("new");
    let thief = Declaration::new("btl_ofi_provider_include", Kind::Int, Value::Int(0));
    assert!(
        registry
            .register(&thief)
            .expect_err("taken")
            .to_string()
            .contains("belongs to opal_common")
    );
}

#[test]
fn an_invalid_value_leaves_nothing_registered() {
    let mut registry = with(&[("OMPI_MCA_btl_ofi_mode", "3")]);
    assert_eq!(
        registry.register(&mode()).expect_err("above").to_string(),
        "parameter btl_ofi_mode: the value `3` from environment variable OMPI_MCA_btl_ofi_mode is above 2; \
         allowed: 0 to 2"
    );
    assert_eq!(registry.resolved("btl_ofi_mode"), None);
    registry.set("btl_ofi_mode", "1").expect("a name");
    registry
        .register(&mode())
        .expect("the shadowed value is not looked at");
}

#[test]
fn names_and_registered_parameters_are_looked_at() {
    let mut registry = with(&[]);
    registry.register(&include()).expect("new");
    for name in [
        "opal_common_ofi_provider_include",
        "btl_ofi_provider_include",
    ] {
        let late = registry.set(name, "tcp");
        assert!(matches!(late, Err(Error::NotSettable { .. })), "{name}");
    }
    assert!(matches!(registry.set("a b", "1"), Err(Error::Name { .. })));
}

#[test]
fn may_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Registry>();
}

#[test]
fn a_setting_of_a_removed_parameter_is_refused_with_what_to_use() {
    static REMOVED: [Removed; 2] = [
        Removed::new("btl_ofi_rails", "set btl_ofi_mode"),
        Removed::new("btl_ofi_cache", "the provider's cache is used"),
    ];
    let refusal = |registry: &Registry| registry.refuse(&REMOVED).map_err(|e| e.to_string());
    let mut registry = with(&[
        ("OMPI_MCA_btl_ofi_mode", "1"),
        ("OMPI_MCA_btl_ofi_rails_too", "1"),
    ]);
    assert_eq!(refusal(&registry), Ok(()));
    registry.set("btl_ofi_cache", "").expect("a name");
    assert_eq!(
        refusal(&registry),
        Err(
            "parameter btl_ofi_cache, set by an explicit setting, was removed: the provider's cache is used"
                .into()
        )
    );
    assert_eq!(
        refusal(&with(&[("OMPI_MCA_opal_btl_ofi_rails", "0")])),
        Err(
            "parameter opal_btl_ofi_rails, set by environment variable OMPI_MCA_opal_btl_ofi_rails, was removed: \
             set btl_ofi_mode"
                .into()
        )
    );
}
