//! Parameters through the host: the plugin declares each one, the host resolves it, the plugin reads the value.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use mca_params::{Allowed, Declaration, Kind, Value};
use plugin_api::{HostVtable, ParamDecl, ParamKind, ParamValue, ParamValueBits, Status};
use transport::Options;

/// Declares every parameter with the host and reads its value.
pub(crate) fn resolve(host: &HostVtable) -> Result<Options, transport::Error> {
    Options::resolve(|declaration| {
        register(host, declaration)
            .map_err(|status| format!("the host's param_register returned {status}"))
    })
}

fn register(host: &HostVtable, d: &Declaration) -> Result<Value, Status> {
    let text = |s: &str| CString::new(s).map_err(|_| Status::BAD_PARAM);
    let name = text(&d.name)?;
    let help = text(&d.help)?;
    let synonyms = Strings::new(d.synonyms.iter().map(AsRef::as_ref))?;
    let allowed = match &d.allowed {
        Allowed::OneOf(words) => Some(Strings::new(words.iter().map(AsRef::as_ref))?),
        _ => None,
    };
    let (min, max) = match d.allowed {
        Allowed::Range { min, max } => (min, max),
        _ => (1, 0),
    };
    let kind = match d.kind {
        Kind::Int => ParamKind::Int,
        Kind::UnsignedInt => ParamKind::UnsignedInt,
        Kind::SizeT => ParamKind::SizeT,
        Kind::Bool => ParamKind::Bool,
        _ => ParamKind::String,
    };
    let default_text;
    let bits = match &d.default {
        Value::Int(i) => ParamValueBits { i: i64::from(*i) },
        Value::Unsigned(u) => ParamValueBits { u: *u },
        Value::Bool(b) => ParamValueBits { u: u64::from(*b) },
        Value::String(s) => {
            default_text = text(s)?;
            ParamValueBits {
                s: default_text.as_ptr(),
            }
        }
    };
    let value = |bits| ParamValue {
        kind: kind as u32,
        reserved: 0,
        bits,
    };
    let decl = ParamDecl {
        name: name.as_ptr(),
        help: help.as_ptr(),
        synonyms: synonyms.as_ptr(),
        allowed: allowed.as_ref().map_or(ptr::null(), Strings::as_ptr),
        default: value(bits),
        min,
        max,
        level: u32::from(d.level.number()),
        reserved: 0,
    };
    let mut answer = value(ParamValueBits { u: 0 });
    let Some(param_register) = host.param_register else {
        return Err(Status::TYPE_MISMATCH);
    };
    // SAFETY: `HostVtable::check` accepted the table; the declaration and everything it points to live through the
    // call.
    unsafe { param_register(host.context, &decl, &mut answer) }.ok()?;
    if answer.kind != kind as u32 {
        return Err(Status::TYPE_MISMATCH);
    }
    // SAFETY: the host wrote a value of this kind, and each arm reads the kind's own field. A string is NULL or
    // NUL-terminated by the ABI.
    unsafe {
        Ok(match kind {
            ParamKind::Int => {
                Value::Int(i32::try_from(answer.bits.i).map_err(|_| Status::VALUE_OUT_OF_BOUNDS)?)
            }
            ParamKind::UnsignedInt | ParamKind::SizeT => Value::Unsigned(answer.bits.u),
            ParamKind::Bool => Value::Bool(answer.bits.u != 0),
            ParamKind::String => Value::String(owned(answer.bits.s).into()),
        })
    }
}

/// A copy of a C string; empty for NULL.
///
/// # Safety
/// `s` is NULL or NUL-terminated.
unsafe fn owned(s: *const c_char) -> String {
    if s.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees NUL termination, and `s` is not NULL.
    unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned()
}

/// A NULL-terminated array of C strings.
struct Strings {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Strings {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Strings, Status> {
        let texts: Vec<CString> = texts
            .map(CString::new)
            .collect::<Result<_, _>>()
            .map_err(|_| Status::BAD_PARAM)?;
        let mut pointers: Vec<_> = texts.iter().map(|t| t.as_ptr()).collect();
        pointers.push(ptr::null());
        Ok(Strings {
            _texts: texts,
            pointers,
        })
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}
