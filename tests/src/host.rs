//! A host whose answers the test determines.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Mutex;

use plugin_api::{
    HostVtable, ParamDecl, ParamKind, ParamValue, ParamValueBits, Status, TableHeader, magic,
};

/// A host table and its state. The host must outlive the components that got its table.
pub struct TestHost {
    table: HostVtable,
    // The state is boxed, because the table's context points to it.
    state: Box<State>,
}

struct State {
    settings: HashMap<String, CString>,
    published: Mutex<HashMap<String, Vec<u8>>>,
    peers: Mutex<HashMap<u64, Result<Vec<u8>, Status>>>,
    log: Mutex<Vec<String>>,
}

impl TestHost {
    /// A host that answers each named parameter with a value. The names are those of the declaration
    /// or of a synonym, the values are in the user's format.
    pub fn new(settings: &[(&str, &str)]) -> Self {
        let state = Box::new(State {
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), CString::new(*value).unwrap()))
                .collect(),
            published: Mutex::default(),
            peers: Mutex::default(),
            log: Mutex::default(),
        });
        let table = HostVtable {
            header: TableHeader::of::<HostVtable>(magic::HOST),
            context: (&raw const *state).cast_mut().cast(),
            param_register: Some(param_register),
            modex_put: Some(modex_put),
            modex_get: Some(modex_get),
            log: Some(log),
        };
        TestHost { table, state }
    }

    /// A host whose user requested one provider of `libbtl_ofi.so`.
    pub fn with_provider(provider: &str) -> Self {
        Self::new(&[("btl_ofi_provider_include", provider)])
    }

    /// The table to pass to a plugin.
    pub fn table(&self) -> *const HostVtable {
        &self.table
    }

    /// The values that the plugin published, by key.
    pub fn published(&self) -> HashMap<String, Vec<u8>> {
        self.state.published.lock().unwrap().clone()
    }

    /// Makes `modex_get` return these bytes for a process, whatever the key. For other processes,
    /// `modex_get` returns this process's values.
    pub fn set_peer(&self, proc: u64, bytes: Vec<u8>) {
        self.state.peers.lock().unwrap().insert(proc, Ok(bytes));
    }

    /// Makes `modex_get` fail for a process.
    pub fn fail_for_peer(&self, proc: u64, status: Status) {
        self.state.peers.lock().unwrap().insert(proc, Err(status));
    }

    /// Takes the lines that were logged since the last call.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.log.lock().unwrap())
    }
}

/// The state behind a table's context.
///
/// # Safety
/// `context` is that of a living [`TestHost`].
unsafe fn state<'a>(context: *mut c_void) -> &'a State {
    // SAFETY: the caller guarantees that the host lives; State is used only through shared
    // references.
    unsafe { &*context.cast::<State>() }
}

unsafe extern "C" fn param_register(
    context: *mut c_void,
    decl: *const ParamDecl,
    value: *mut ParamValue,
) -> Status {
    // SAFETY: the plugin passes back the context, and a declaration that is valid for the call.
    let (state, decl) = unsafe { (state(context), &*decl) };
    let mut names = vec![decl.name];
    let mut synonym = decl.synonyms;
    // SAFETY: the array of synonyms is NULL or ends with NULL.
    while !synonym.is_null() && unsafe { !(*synonym).is_null() } {
        // SAFETY: the element is not the last, so the next one exists.
        unsafe {
            names.push(*synonym);
            synonym = synonym.add(1);
        }
    }
    let setting = names.into_iter().find_map(|name| {
        // SAFETY: names are NUL-terminated.
        let name = unsafe { CStr::from_ptr(name) }.to_str().ok()?;
        state.settings.get(name)
    });
    let bits = match setting {
        None => decl.default.bits,
        Some(text) => match parse(decl.default.kind, text) {
            Some(bits) => bits,
            None => return Status::BAD_PARAM,
        },
    };
    // SAFETY: `value` is writable for the call.
    unsafe {
        value.write(ParamValue {
            kind: decl.default.kind,
            reserved: 0,
            bits,
        });
    }
    Status::SUCCESS
}

/// The value of a user's text; the string does not move while the host lives.
fn parse(kind: u32, text: &CString) -> Option<ParamValueBits> {
    let word = text.to_str().ok()?;
    Some(match ParamKind::try_from(kind).ok()? {
        ParamKind::String => ParamValueBits { s: text.as_ptr() },
        ParamKind::Int => ParamValueBits {
            i: word.parse().ok()?,
        },
        ParamKind::Bool => ParamValueBits {
            u: u64::from(word.parse::<bool>().ok()?),
        },
        ParamKind::UnsignedInt | ParamKind::SizeT => ParamValueBits {
            u: word.parse().ok()?,
        },
    })
}

unsafe extern "C" fn modex_put(
    context: *mut c_void,
    key: *const c_char,
    data: *const c_void,
    size: usize,
) -> Status {
    // SAFETY: the context belongs to this host; the key is NUL-terminated, and `data` is readable
    // for `size` bytes.
    let (state, key, data) = unsafe {
        (
            state(context),
            CStr::from_ptr(key),
            std::slice::from_raw_parts(data.cast::<u8>(), size),
        )
    };
    state
        .published
        .lock()
        .unwrap()
        .insert(key.to_string_lossy().into_owned(), data.to_vec());
    Status::SUCCESS
}

unsafe extern "C" fn modex_get(
    context: *mut c_void,
    proc: u64,
    key: *const c_char,
    data: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> Status {
    // SAFETY: the context belongs to this host; the key is NUL-terminated.
    let (state, key) = unsafe { (state(context), CStr::from_ptr(key)) };
    let found = match state.peers.lock().unwrap().get(&proc) {
        Some(Err(status)) => return *status,
        Some(Ok(bytes)) => Some(bytes.clone()),
        None => {
            let published = state.published.lock().unwrap();
            published.get(key.to_string_lossy().as_ref()).cloned()
        }
    };
    let Some(found) = found else {
        return Status::NOT_FOUND;
    };
    // SAFETY: `data` is writable for `capacity` bytes, `size` for a number.
    unsafe {
        std::ptr::copy_nonoverlapping(found.as_ptr(), data.cast(), found.len().min(capacity));
        size.write(found.len());
    }
    Status::SUCCESS
}

unsafe extern "C" fn log(context: *mut c_void, _level: u32, line: *const c_char, size: usize) {
    // SAFETY: the context belongs to this host; `line` is readable for `size` bytes.
    let (state, line) = unsafe {
        (
            state(context),
            std::slice::from_raw_parts(line.cast::<u8>(), size),
        )
    };
    let mut log = state.log.lock().unwrap();
    log.push(String::from_utf8_lossy(line).into_owned());
}
