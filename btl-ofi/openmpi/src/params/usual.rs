//! The names `btl_ofi_*` of the parameters of the component `ofi_rs`. Users set these names; the C component, if it is loaded
//! too, registers some of them.

use std::ffi::{CStr, CString};

use mca_params::{Declaration, Kind, Value};

use super::PREFIX;
use crate::storage::{Name, Variable};

/// The prefix of `btl_ofi_*` in the environment; mpirun passes the parameters of its `--mca`
/// options there.
const ENVIRONMENT: &str = "OMPI_MCA_";

/// Parameters of type string that the C component registers. If the C component registers a parameter over a synonym of
/// ours, the synonym points into its library, and Open MPI reads it at its end, when the library is unloaded.
const STRINGS_OF_C: [&CStr; 1] = [c"progress_mode"];

fn name(own: &CStr) -> Name<'_> {
    Name {
        framework: c"btl",
        component: c"ofi",
        variable: own,
    }
}

/// Gives a variable its usual name, unless the C component registered this name or must not find it registered. A variable that
/// was dropped with the component btl, and is registered again, gets only now the value that the user gave by this name.
pub(crate) fn give(variable: Variable, own: &CStr) {
    let is_free = name(own)
        .find()
        .is_none_or(|found| found.is_synonym_of(variable));
    if is_free && !STRINGS_OF_C.contains(&own) {
        variable.synonym(&name(own));
    }
}

/// The value that the user gave by a usual name which is no synonym of ours: from the C component's variable, or from the
/// environment.
pub(crate) fn value(declared: &Declaration) -> Option<Value> {
    let own = CString::new(declared.name.strip_prefix(PREFIX)?).ok()?;
    if declared.kind == Kind::String && !name(&own).exists() {
        return std::env::var(format!("{ENVIRONMENT}{}", declared.name))
            .ok()
            .map(|text| Value::String(text.into()));
    }
    set_beside(&own, declared.kind)
}

/// The value that the user gave the C component's variable of this name and kind.
pub(crate) fn set_beside(own: &CStr, kind: Kind) -> Option<Value> {
    let variable = name(own).find()?;
    if variable.is_default() || !variable.has_type_of(kind) {
        return None;
    }
    variable.value(kind)
}
