//! Variables of Open MPI's variable system, and their storage.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};

use mca_params::{Declaration, Kind, Value};

use crate::bindings as ffi;

/// A variable by its index in the variable system.
#[derive(Clone, Copy)]
pub(crate) struct Variable(c_int);

/// The names of a variable: its framework, component and own name. The project is always `opal`.
pub(crate) struct Name<'a> {
    pub(crate) framework: &'a CStr,
    pub(crate) component: &'a CStr,
    pub(crate) variable: &'a CStr,
}

impl Name<'_> {
    /// The variable that is registered under this name.
    pub(crate) fn find(&self) -> Option<Variable> {
        // SAFETY: the strings are NUL-terminated, and the function only compares them.
        let index = unsafe {
            ffi::mca_base_var_find(
                c"opal".as_ptr(),
                self.framework.as_ptr(),
                self.component.as_ptr(),
                self.variable.as_ptr(),
            )
        };
        (index >= 0).then_some(Variable(index))
    }

    /// Whether a variable of this name is registered.
    pub(crate) fn exists(&self) -> bool {
        self.find().is_some()
    }
}

impl Variable {
    /// The variable of a framework that lists components.
    pub(crate) fn of_framework(framework: &CStr) -> Option<Variable> {
        let (project, none) = (c"opal".as_ptr(), null());
        // SAFETY: the strings are NUL-terminated, and the function only compares them; NULL stands for no further name.
        let index = unsafe { ffi::mca_base_var_find(project, framework.as_ptr(), none, none) };
        (index >= 0).then_some(Variable(index))
    }

    /// Registers the declaration under `name`, in the group of its framework and component. If another component has
    /// registered the name, returns that variable unchanged: a second registration would move its storage.
    pub(crate) fn shared(name: &Name<'_>, declared: &Declaration) -> Option<Variable> {
        if let Some(known) = name.find() {
            return Some(known);
        }
        let help = CString::new(declared.help.as_ref()).ok()?;
        let (kind, storage) = storage(declared)?;
        // SAFETY: the variable system copies the NUL-terminated strings; `storage` is never freed, as it requires.
        let index = unsafe {
            ffi::mca_base_var_register(
                c"opal".as_ptr(),
                name.framework.as_ptr(),
                name.component.as_ptr(),
                name.variable.as_ptr(),
                help.as_ptr(),
                kind,
                null_mut(),
                0,
                0,
                level(declared),
                ffi::MCA_BASE_VAR_SCOPE_READONLY,
                storage,
            )
        };
        (index >= 0).then_some(Variable(index))
    }

    /// Registers the declaration as `variable` of `component`; the host drops it when it closes the component.
    pub(crate) fn own(
        component: *const ffi::mca_base_component_t,
        variable: &CStr,
        declared: &Declaration,
    ) -> Option<Variable> {
        let help = CString::new(declared.help.as_ref()).ok()?;
        let (kind, storage) = storage(declared)?;
        // SAFETY: `component` is the exported structure; the variable system copies the strings; `storage` is never
        // freed.
        let index = unsafe {
            ffi::mca_base_component_var_register(
                component,
                variable.as_ptr(),
                help.as_ptr(),
                kind,
                null_mut(),
                0,
                0,
                level(declared),
                ffi::MCA_BASE_VAR_SCOPE_READONLY,
                storage,
            )
        };
        (index >= 0).then_some(Variable(index))
    }

    /// Gives the variable a further name.
    pub(crate) fn synonym(self, name: &Name<'_>) -> bool {
        // SAFETY: the variable system copies the NUL-terminated strings; the index belongs to a registered
        // variable.
        let index = unsafe {
            ffi::mca_base_var_register_synonym(
                self.0,
                c"opal".as_ptr(),
                name.framework.as_ptr(),
                name.component.as_ptr(),
                name.variable.as_ptr(),
                0,
            )
        };
        index >= 0
    }

    /// Whether this is a further name of `other`.
    pub(crate) fn is_synonym_of(self, other: Variable) -> bool {
        self.structure()
            .is_some_and(|found| found.mbv_synonym_for == other.0)
    }

    /// Whether no source set the variable.
    pub(crate) fn is_default(self) -> bool {
        let mut source = ffi::MCA_BASE_VAR_SOURCE_DEFAULT;
        // SAFETY: the function writes the value's source to `source`; NULL skips the other outputs.
        let rc =
            unsafe { ffi::mca_base_var_get_value(self.0, null_mut(), &raw mut source, null_mut()) };
        rc == 0 && source == ffi::MCA_BASE_VAR_SOURCE_DEFAULT
    }

    /// The type and the scope with which the variable was registered.
    fn registered(self) -> Option<(ffi::mca_base_var_type_t, ffi::mca_base_var_scope_t)> {
        let found = self.structure()?;
        Some((found.mbv_type, found.mbv_scope))
    }

    fn structure(&self) -> Option<&ffi::mca_base_var_t> {
        let mut at: *const ffi::mca_base_var_t = null();
        // SAFETY: the function writes the address of the variable, which lives until Open MPI ends, to `at`.
        let rc = unsafe { ffi::mca_base_var_get(self.0, &raw mut at) };
        // SAFETY: `at` is NULL or the address that the function wrote.
        unsafe { at.as_ref() }.filter(|_| rc == 0)
    }

    /// Whether the variable was registered with the type of `kind`. A variable of another component may
    /// have another type.
    pub(crate) fn has_type_of(self, kind: Kind) -> bool {
        let found = self.registered().map(|(registered, _)| registered);
        found.is_some() && found == kind_of(kind)
    }

    /// Whether the variable is a flag that may be set.
    pub(crate) fn is_settable_flag(self) -> bool {
        self.registered().is_some_and(|(kind, scope)| {
            kind == ffi::MCA_BASE_VAR_TYPE_BOOL && scope != ffi::MCA_BASE_VAR_SCOPE_CONSTANT
        })
    }

    /// The value, as the variable system resolved it from the command line, environment and files.
    pub(crate) fn value(self, kind: Kind) -> Option<Value> {
        let mut at: *const ffi::mca_base_var_storage_t = null();
        // SAFETY: the function writes the address of the variable's storage to `at`; NULL skips the other outputs.
        let rc = unsafe {
            ffi::mca_base_var_get_value(
                self.0,
                (&raw mut at).cast::<c_void>().cast(),
                null_mut(),
                null_mut(),
            )
        };
        if rc != 0 || at.is_null() {
            return None;
        }
        // SAFETY: the variable was registered with the type of `kind`, and each arm reads this type. The storage may be aligned for
        // it alone: an `int` of Open MPI does not have the alignment of the union.
        Some(unsafe {
            match kind {
                Kind::Int => Value::Int(*at.cast::<c_int>()),
                Kind::UnsignedInt => Value::Unsigned(u64::from(*at.cast::<c_uint>())),
                Kind::SizeT => Value::Unsigned(*at.cast::<usize>() as u64),
                Kind::Bool => Value::Bool(*at.cast::<bool>()),
                Kind::String => Value::String(text(*at.cast::<*const c_char>()).into()),
                _ => return None,
            }
        })
    }
}

/// A copy of a C string; empty for NULL.
///
/// # Safety
/// `at` is NULL or a NUL-terminated string.
unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees NUL termination, and `at` is not NULL.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

/// Registers a string that `ompi_info` prints and users cannot set.
pub(crate) fn version_string(
    component: *const ffi::mca_base_component_t,
    variable: &CStr,
    help: &CStr,
    text: CString,
) {
    // SAFETY: all-zero is a valid value of every field of the union.
    let storage = Box::leak(Box::new(unsafe { zeroed::<ffi::mca_base_var_storage_t>() }));
    // The variable system copies this string.
    storage.stringval = text.as_ptr().cast_mut();
    // SAFETY: `component` is the exported structure; the variable system copies the strings, and `text` lives through
    // the call; the storage is never freed.
    unsafe {
        ffi::mca_base_component_var_register(
            component,
            variable.as_ptr(),
            help.as_ptr(),
            ffi::MCA_BASE_VAR_TYPE_VERSION_STRING,
            null_mut(),
            0,
            ffi::MCA_BASE_VAR_FLAG_DEFAULT_ONLY,
            ffi::OPAL_INFO_LVL_4,
            ffi::MCA_BASE_VAR_SCOPE_CONSTANT,
            (&raw mut *storage).cast(),
        );
    }
}

/// The variable system's type of a kind of parameter.
fn kind_of(kind: Kind) -> Option<ffi::mca_base_var_type_t> {
    Some(match kind {
        Kind::Int => ffi::MCA_BASE_VAR_TYPE_INT,
        Kind::UnsignedInt => ffi::MCA_BASE_VAR_TYPE_UNSIGNED_INT,
        Kind::SizeT => ffi::MCA_BASE_VAR_TYPE_SIZE_T,
        Kind::Bool => ffi::MCA_BASE_VAR_TYPE_BOOL,
        Kind::String => ffi::MCA_BASE_VAR_TYPE_STRING,
        _ => return None,
    })
}

/// A variable's type and storage, which holds the default. The storage is leaked (a few bytes per parameter): the
/// variable system still uses it after the component is closed.
fn storage(declared: &Declaration) -> Option<(ffi::mca_base_var_type_t, *mut c_void)> {
    // SAFETY: all-zero is a valid value of every field of the union.
    let storage = Box::leak(Box::new(unsafe { zeroed::<ffi::mca_base_var_storage_t>() }));
    match (&declared.kind, &declared.default) {
        (Kind::Int, Value::Int(n)) => storage.intval = *n,
        (Kind::UnsignedInt, Value::Unsigned(n)) => storage.uintval = u32::try_from(*n).ok()?,
        (Kind::SizeT, Value::Unsigned(n)) => storage.sizetval = usize::try_from(*n).ok()?,
        (Kind::Bool, Value::Bool(b)) => storage.boolval = *b,
        (Kind::String, Value::String(s)) => {
            if !s.is_empty() {
                // The variable system stores its own copy here; this string is leaked with the storage.
                storage.stringval = CString::new(s.as_ref()).ok()?.into_raw();
            }
        }
        _ => return None,
    }
    Some((kind_of(declared.kind)?, (&raw mut *storage).cast()))
}

fn level(declared: &Declaration) -> ffi::mca_base_var_info_lvl_t {
    // The C enumeration starts at 0, levels start at 1.
    ffi::mca_base_var_info_lvl_t::from(declared.level.number()) - 1
}
