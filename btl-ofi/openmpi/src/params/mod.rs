//! The part of the transport's parameters `btl_ofi_*` that both components read alike: their names and defaults, and the check
//! of a value.

use mca_params::{Allowed, Declaration, Value};

use crate::series;

pub(crate) mod usual;

/// The prefix of each parameter; the rest is its name within the component.
pub(crate) const PREFIX: &str = "btl_ofi_";
/// The prefix of parameters that all components over libfabric share (Open MPI's `common/ofi`).
pub(crate) const SHARED_PREFIX: &str = "opal_common_ofi_";

/// Providers that a job uses only if it names them: the transport's default list without `tcp`, which ranks after all fabrics.
const EXCLUDED: &str = "shm,sockets,udp,rstream,usnic,net";

/// Parameters of device memory, which have no use in this component and are not registered.
pub(crate) const OF_DEVICES: [&str; 2] = ["hmem", "hmem_thread"];

/// A parameter's default under this series of Open MPI.
pub(crate) fn default_of(declared: &Declaration) -> Value {
    match declared.name.as_ref() {
        "btl_ofi_mode" => Value::Int(series::MODE),
        "btl_ofi_provider_exclude" => Value::String(EXCLUDED.into()),
        _ => declared.default.clone(),
    }
}

/// The value of a parameter that no source set under the components' own name: what was set under the usual name, or the default.
pub(crate) fn unset(declared: &Declaration) -> Value {
    usual::value(declared).unwrap_or_else(|| default_of(declared))
}

/// Whether a list of components includes a name; a list that begins with `^` excludes.
pub(crate) fn lists(list: &str, name: &str) -> bool {
    !list.trim_start().starts_with('^') && list.split(',').any(|entry| entry.trim() == name)
}

/// Whether a component of this name may be loaded under a list of components: an empty list admits all.
pub(crate) fn admits(list: &str, name: &str) -> bool {
    match list.trim().strip_prefix('^') {
        Some(excluded) => !lists(excluded, name),
        None => list.trim().is_empty() || lists(list, name),
    }
}

/// Refuses a value that the declaration does not allow, and spells a word as the declaration does. Open MPI checks enumerations
/// but not ranges, and reads text that is not a number as 0. The error says what is allowed.
pub(crate) fn check_allowed(declared: &Declaration, value: Value) -> Result<Value, String> {
    if let (Allowed::OneOf(words), Some(text)) = (&declared.allowed, value.as_str())
        && let Some(word) = words.iter().find(|word| word.eq_ignore_ascii_case(text))
    {
        return Ok(Value::String(word.clone()));
    }
    let number = match &value {
        Value::Int(n) => Some(i128::from(*n)),
        Value::Unsigned(n) => Some(i128::from(*n)),
        _ => None,
    };
    let inside = match (&declared.allowed, number) {
        (Allowed::Range { min, max }, Some(n)) => {
            (i128::from(*min)..=i128::from(*max)).contains(&n)
        }
        (Allowed::OneOf(_), None) => false,
        _ => true,
    };
    if inside {
        return Ok(value);
    }
    Err(format!(
        "`{value}` is not allowed; {}",
        declared.allowed_text()
    ))
}

#[cfg(test)]
mod tests {
    use btl_ofi::Options;

    use super::*;

    /// The value that the transport gets, or the reason against it.
    fn checked(name: &str, value: Value) -> Result<Value, String> {
        let mut declared = Options::declarations();
        let declared = declared.find(|d| d.name == name).expect("a parameter");
        check_allowed(declared, value)
    }

    #[test]
    fn words_are_spelled_as_declared() {
        for (name, given, expected) in [
            ("btl_ofi_same_node", "Auto", "auto"),
            ("btl_ofi_progress_mode", "MANUAL", "manual"),
            ("btl_ofi_hmem", "on", "on"),
            ("btl_ofi_rails", "AUTO", "auto"),
        ] {
            assert_eq!(checked(name, Value::str(given)), Ok(Value::str(expected)));
        }
        let refused = checked("btl_ofi_same_node", Value::str("never"));
        let refused = refused.expect_err("no such word");
        assert!(refused.contains("`never` is not allowed; "), "{refused}");
        assert!(refused.contains("auto, off"), "{refused}");
    }

    #[test]
    fn numbers_stay_within_their_range() {
        let range = "btl_ofi_num_cq_read";
        assert_eq!(checked(range, Value::Int(64)), Ok(Value::Int(64)));
        for outside in [0, 65, -1] {
            assert!(checked(range, Value::Int(outside)).is_err(), "{outside}");
        }
        let any = Value::Unsigned(u64::MAX);
        assert_eq!(checked("btl_ofi_put_limit", any.clone()), Ok(any));
    }

    #[test]
    fn a_list_names_components_or_excludes_them() {
        assert!(lists("self, ofi_rs", "ofi_rs") && lists("ofi", "ofi"));
        assert!(!lists("self,ofi_rs", "ofi") && !lists("", "ofi"));
        assert!(!lists("^tcp,ofi", "ofi") && !lists(" ^ofi", "ofi"));
    }

    #[test]
    fn a_list_admits_what_it_names_or_does_not_exclude() {
        for list in ["", " ", "cm", "ob1, cm", "^ob1", " ^ob1,ucx"] {
            assert!(admits(list, "cm"), "{list}");
        }
        for list in ["ob1", "ob1,ucx", "^cm", " ^ob1, cm"] {
            assert!(!admits(list, "cm"), "{list}");
        }
    }
}
