//! The transport's parameters as variables of Open MPI. The transport declares the parameters; this module
//! registers them and reads their values.

use std::ffi::{CStr, CString};
use std::sync::Mutex;

use btl_ofi::{Error, Options};
use mca_params::{Declaration, Kind, Value};

use crate::bindings as ffi;
use crate::common_ofi;
use crate::identity;
use crate::params::{
    OF_DEVICES, PREFIX, SHARED_PREFIX, check_allowed, default_of, lists, unset, usual,
};
use crate::storage::{self, Name, Variable};

mod every_btl;
pub(crate) use every_btl::{HEADER, limit_sends};

/// Parameters that Open MPI registers for every BTL from the fields of a module, so that this module must not.
const OF_EVERY_BTL: [&str; 6] = [
    "exclusivity",
    "flags",
    "put_limit",
    "get_limit",
    "latency",
    "bandwidth",
];

/// The variables of the last registration, in the order of the declarations; `None` for parameters of every BTL and of devices.
static VARIABLES: Mutex<Vec<Option<Variable>>> = Mutex::new(Vec::new());

/// Registers every parameter that has a use here. The variable system resolves each value at once.
///
/// `template` is a module structure with all functions set: Open MPI removes flags whose functions are NULL.
pub(crate) fn register(template: ffi::mca_btl_base_module_t) -> Result<(), String> {
    // The structure's first field, its "version", is the base component.
    let component = template.btl_component.cast_const().cast();
    let host_shares = common_ofi::register(component);
    let mut variables = Vec::new();
    for declared in Options::declarations() {
        let declared = &Declaration {
            default: default_of(declared),
            ..declared.clone()
        };
        let own = declared.name.strip_prefix(PREFIX).unwrap_or(&declared.name);
        if OF_EVERY_BTL.contains(&own) || OF_DEVICES.contains(&own) {
            variables.push(None);
            continue;
        }
        // Open MPI has logged a number that does not fit the parameter's type, and does not register the
        // parameter.
        let failed = || {
            format!(
                "parameter {}: Open MPI does not take its value; {}",
                declared.name,
                declared.allowed_text()
            )
        };
        let own = CString::new(own).map_err(|_| failed())?;
        let shared = declared
            .synonyms
            .iter()
            .find_map(|s| s.strip_prefix(SHARED_PREFIX));
        let variable = match shared.and_then(|s| CString::new(s).ok()) {
            Some(shared) => with_shared_name(&shared, &own, declared, !host_shares),
            None => Variable::own(component, &own, declared),
        };
        let variable = variable.ok_or_else(failed)?;
        usual::give(variable, &own);
        variables.push(Some(variable));
    }
    if let Ok(mut kept) = VARIABLES.lock() {
        *kept = variables;
    }
    let version = CString::new(identity::description()).unwrap_or_default();
    storage::version_string(
        component,
        c"implementation",
        c"This component and the Open MPI that it was built for",
        version,
    );
    every_btl::register(template)
}

/// Registers the shared name as the variable and the component's own name as its synonym, as `common/ofi` does for each
/// of its users. Skips a name that is registered.
fn with_shared_name(
    shared: &CStr,
    own: &CStr,
    declared: &Declaration,
    make_synonym: bool,
) -> Option<Variable> {
    let variable = Variable::shared(
        &Name {
            framework: c"opal_common",
            component: c"ofi",
            variable: shared,
        },
        declared,
    )?;
    let own = Name {
        framework: c"btl",
        component: identity::NAME,
        variable: own,
    };
    (!make_synonym && own.exists() || variable.synonym(&own)).then_some(variable)
}

/// Reads all values, which Open MPI resolved from the command line, the environment and files.
pub(crate) fn resolve() -> Result<Options, Error> {
    let variables = VARIABLES
        .lock()
        .map(|kept| kept.clone())
        .unwrap_or_default();
    let mut at = 0;
    let options = Options::resolve(|declared| {
        let variable = variables.get(at).copied().flatten();
        at += 1;
        let value = match variable {
            // The stored default may be the default of another component, which registered a shared name
            // first.
            Some(variable) if variable.is_default() => unset(declared),
            Some(variable) => variable
                .value(declared.kind)
                .ok_or_else(|| String::from("Open MPI has no value for it"))?,
            None => every_btl::value(declared),
        };
        check_allowed(declared, value)
    })?;
    Ok(options.without_devices())
}

/// Whether the user's list of BTLs names this component, given on the command line, in the environment or in a file.
pub(crate) fn names_component() -> bool {
    let list = Variable::of_framework(c"btl").and_then(|list| list.value(Kind::String));
    let list = list.as_ref().and_then(Value::as_str).unwrap_or_default();
    lists(list, &identity::NAME.to_string_lossy())
}

/// Whether fault tolerance is on (ULFM in 5.0 and 6.0): jobs then outlive failed processes, but not windows.
pub(crate) fn tolerates_faults() -> bool {
    let name = Name {
        framework: c"mpi",
        component: c"ft",
        variable: c"enable",
    };
    // Open MPI without fault tolerance registers a constant, whose storage is gone.
    let enabled = name.find().filter(|enabled| enabled.is_settable_flag());
    enabled.and_then(|enabled| enabled.value(Kind::Bool)) == Some(Value::Bool(true))
}

/// Whether btl/tcp has a progress thread, in which pml/ob1 may send by any BTL.
pub(crate) fn tcp_has_thread() -> bool {
    let name = Name {
        framework: c"btl",
        component: c"tcp",
        variable: c"progress_thread",
    };
    let set = name.find().and_then(|thread| thread.value(Kind::Int));
    matches!(set, Some(Value::Int(n)) if n != 0)
}
