//! The parameters of this component, and those of the transport. The component btl registers the transport's parameters, if it
//! is loaded and opened.

use std::borrow::Cow;
use std::ffi::CString;

use mca_params::{Allowed, Declaration, Kind, Level, Value};

use crate::identity;
use crate::osc::component;
use crate::osc::devices::{self, Cuda};
use crate::params::{OF_DEVICES, PREFIX, SHARED_PREFIX, check_allowed, unset, usual};
use crate::storage::{self, Name, Variable};

static PRIORITY: Declaration = Declaration::new("osc_ofi_rs_priority", Kind::Int, Value::Int(102))
    .help(
        "Priority of this component for windows. Below 0 it serves none. osc/rdma has 101 in Open MPI 4.1",
    )
    .level(Level::USER_DETAIL);

static VERBOSE: Declaration = Declaration::new("osc_ofi_rs_verbose", Kind::Int, Value::Int(0))
    .help(
        "1 says of each window who serves it and why, and of the transport which provider was chosen; higher values say more",
    )
    .level(Level::USER_DETAIL);

static PROGRESS_THREAD: Declaration =
    Declaration::new("osc_ofi_rs_progress_thread", Kind::Bool, Value::Bool(false))
        .help(
            "Starts a thread with the first window that serves operations of other processes while this one computes",
        )
        .level(Level::USER_DETAIL);

static CUDA: Declaration = Declaration::new(
    "osc_ofi_rs_cuda",
    Kind::String,
    Value::String(Cow::Borrowed("auto")),
)
.help(
    "auto: windows and buffers may be memory of CUDA devices once the process has loaded the driver, which is looked for with each \
     window. on: the driver is loaded with the first window. off: memory of devices is not looked for",
)
.level(Level::USER_DETAIL)
.allowed(Allowed::OneOf(Cow::Borrowed(&devices::WORDS)));

static DEVICE_LEVEL: Declaration =
    Declaration::new("osc_ofi_rs_device_level", Kind::Int, Value::Int(2))
        .help(
            "Highest level of device support: 1 memory of the host, 2 also memory of devices. At 1 windows and buffers of \
             device memory are refused",
        )
        .level(Level::TUNER_DETAIL)
        .allowed(Allowed::Range { min: 1, max: 2 });

/// The values of this component's own parameters.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) priority: i32,
    pub(crate) verbose: i32,
    pub(crate) progress_thread: bool,
    pub(crate) cuda: Cuda,
    pub(crate) device_level: i32,
}

/// Registers this component's own parameters and reads them. The error is the reason why a value cannot
/// be used.
pub(crate) fn register() -> Result<Own, String> {
    let version = CString::new(identity::description()).unwrap_or_default();
    storage::version_string(
        component::exported(),
        c"implementation",
        c"This component and the Open MPI that it was built for",
        version,
    );
    let value = |declared: &Declaration, own| {
        let variable = Variable::own(component::exported(), own, declared);
        let value = variable.and_then(|variable| variable.value(declared.kind));
        value.unwrap_or_else(|| declared.default.clone())
    };
    let int = |declared, own| value(declared, own).as_int().unwrap_or(0);
    let checked = |declared: &Declaration, own| {
        let value = check_allowed(declared, value(declared, own));
        value.map_err(|reason| format!("parameter {}: {reason}", declared.name))
    };
    let cuda = checked(&CUDA, c"cuda")?;
    let level = checked(&DEVICE_LEVEL, c"device_level")?;
    Ok(Own {
        priority: int(&PRIORITY, c"priority"),
        verbose: int(&VERBOSE, c"verbose"),
        progress_thread: value(&PROGRESS_THREAD, c"progress_thread") == Value::Bool(true),
        cuda: cuda.as_str().and_then(Cuda::parse).unwrap_or(Cuda::Auto),
        device_level: level.as_int().unwrap_or(2),
    })
}

/// The value of a parameter of the transport, which the component btl has registered, or this function registers. The error is
/// the reason why the user's value cannot be used.
pub(crate) fn of_transport(declared: &Declaration) -> Result<Value, String> {
    let own = declared.name.strip_prefix(PREFIX).unwrap_or(&declared.name);
    if OF_DEVICES.contains(&own) {
        // The transport gets bytes of devices through memory of the host.
        return Ok(match declared.kind {
            Kind::String => Value::str("off"),
            _ => declared.default.clone(),
        });
    }
    let nul = |_| format!("parameter {}: its name holds a NUL", declared.name);
    let named = CString::new(own).map_err(nul)?;
    let name = Name {
        framework: c"btl",
        component: identity::NAME,
        variable: &named,
    };
    let variable = match name.find() {
        Some(variable) => variable,
        None => register_for(&name, declared)?,
    };
    let value = match variable.is_default() {
        true => unset(declared),
        false => variable
            .value(declared.kind)
            .ok_or_else(|| format!("parameter {}: Open MPI has no value for it", declared.name))?,
    };
    check_allowed(declared, without_limit(declared, value))
        .map_err(|reason| format!("parameter {}: {reason}", declared.name))
}

/// Whether the user named providers. The value is known once a transport is open.
pub(crate) fn names_providers() -> bool {
    let name = Name {
        framework: c"opal_common",
        component: c"ofi",
        variable: c"provider_include",
    };
    let value = name
        .find()
        .and_then(|variable| variable.value(Kind::String));
    value.is_some_and(|value| value.as_str().is_some_and(|names| !names.is_empty()))
}

fn register_for(name: &Name<'_>, declared: &Declaration) -> Result<Variable, String> {
    let failed = || {
        format!(
            "parameter {}: Open MPI does not take its value; {}",
            declared.name,
            declared.allowed_text()
        )
    };
    let shared = declared
        .synonyms
        .iter()
        .find_map(|synonym| synonym.strip_prefix(SHARED_PREFIX))
        .and_then(|shared| CString::new(shared).ok());
    let Some(shared) = shared else {
        let variable = Variable::shared(name, declared).ok_or_else(failed)?;
        usual::give(variable, name.variable);
        return Ok(variable);
    };
    let common = Name {
        framework: c"opal_common",
        component: c"ofi",
        variable: &shared,
    };
    let variable = Variable::shared(&common, declared).ok_or_else(failed)?;
    variable.synonym(name);
    usual::give(variable, name.variable);
    Ok(variable)
}

/// Open MPI turns a limit of 0 into the largest number; for the transport 0 means that the user set no limit.
fn without_limit(declared: &Declaration, value: Value) -> Value {
    match value {
        Value::Unsigned(n) if declared.kind == Kind::SizeT && n == usize::MAX as u64 => {
            Value::Unsigned(0)
        }
        other => other,
    }
}
