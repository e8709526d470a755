//! A plugin's shared object, found, opened and checked.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use plugin_api::{ComponentVtable, ENTRY_SYMBOL, EntryFn, Status};

use super::services::Services;
use super::{HostServices, LoadError};
use osc_engine::transport::text;

/// A loaded plugin whose component table has been checked. The drop unloads the plugin; all objects
/// that were made from it keep it loaded.
pub struct Plugin {
    // The order of these fields is the order of their drop: the library may still call the host's
    // services while it is unloaded.
    _library: Library,
    table: ComponentVtable,
    services: Box<Services>,
    path: PathBuf,
    name: String,
    version: String,
}

// SAFETY: the table consists of functions of a loaded library, and Services is Send and Sync.
unsafe impl Send for Plugin {}
// SAFETY: the table consists of functions of a loaded library; Component calls them under the
// contract's rules.
unsafe impl Sync for Plugin {}

impl Plugin {
    /// Opens the shared object at `path`, finds its entry, passes `services` to it and checks the
    /// returned table. The dynamic loader searches for a bare name.
    ///
    /// ```compile_fail,E0133
    /// use host_stub::loader::{HostServices, Plugin};
    ///
    /// fn whatever_it_does(path: &std::path::Path, services: HostServices) {
    ///     let _ = Plugin::open(path, services);
    /// }
    /// ```
    ///
    /// # Safety
    /// The code in the file does no harm and respects the contract of [`plugin_api`]: the code runs in
    /// this process from here on, and is trusted like this program. `open` refuses an invalid table, but
    /// cannot check the functions in it.
    pub unsafe fn open(path: &Path, services: HostServices) -> Result<Arc<Plugin>, LoadError> {
        inspect(path)?;
        let library = open_library(path)?;
        let services = Services::new(services);
        let mut out: *const ComponentVtable = std::ptr::null();
        let entry = {
            // SAFETY: the symbol's name contains the ABI's major version. In a plugin, which the caller
            // guarantees the file to be, this symbol is an EntryFn.
            let symbol = unsafe { library.get::<EntryFn>(ENTRY_SYMBOL.to_bytes_with_nul()) };
            match symbol {
                Ok(symbol) => *symbol,
                Err(_) => {
                    return Err(LoadError::NoEntry {
                        path: path.to_owned(),
                        symbol: ENTRY_SYMBOL.to_string_lossy().into_owned(),
                    });
                }
            }
        };
        // SAFETY: the host table is boxed and lives as long as the Plugin; `out` is writable.
        let status = unsafe { entry(services.table(), &mut out) };
        if status != Status::SUCCESS {
            return Err(LoadError::Refused {
                path: path.to_owned(),
                status,
            });
        }
        // SAFETY: an entry that returned success wrote NULL or a table that starts with a header.
        let table = *unsafe { ComponentVtable::check(out) }.map_err(|source| LoadError::Abi {
            path: path.to_owned(),
            source,
        })?;
        // SAFETY: under the contract, both are NULL, or NUL-terminated and static in the plugin.
        let (name, version) = unsafe { (text(table.name), text(table.version)) };
        tracing::info!(plugin = %path.display(), name, version, "loaded");
        Ok(Arc::new(Plugin {
            _library: library,
            table,
            services,
            path: path.to_owned(),
            name,
            version,
        }))
    }

    /// A plugin whose table is in this program.
    #[cfg(test)]
    pub(super) fn without_file(table: ComponentVtable, services: HostServices) -> Arc<Plugin> {
        Arc::new(Plugin {
            _library: Library::this(),
            table,
            services: Services::new(services),
            path: PathBuf::new(),
            name: String::new(),
            version: String::new(),
        })
    }

    /// The path of the file that the caller passed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The component's name, e.g. `ofi`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The component's version and its build configuration, as text.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The ABI of the plugin: major, minor.
    pub fn abi(&self) -> (u16, u16) {
        (self.table.header.abi_major, self.table.header.abi_minor)
    }

    /// Makes the component declare its parameters with the host, which resolves them. The call
    /// needs no open component, and may be repeated.
    pub fn register_params(&self) -> Result<(), LoadError> {
        let Some(register) = self.table.register_params else {
            return Err(self.null_entry("register_params"));
        };
        // SAFETY: the host table outlives the component.
        self.expect_ok("register_params", unsafe {
            register(self.services.table())
        })
    }

    pub(super) fn table(&self) -> &ComponentVtable {
        &self.table
    }

    pub(super) fn services(&self) -> &Services {
        &self.services
    }

    pub(super) fn expect_ok(
        &self,
        operation: &'static str,
        status: Status,
    ) -> Result<(), LoadError> {
        if status.is_ok() {
            return Ok(());
        }
        Err(LoadError::Component {
            path: self.path.clone(),
            operation,
            status,
        })
    }

    pub(super) fn contract(&self, detail: String) -> LoadError {
        LoadError::Contract {
            path: self.path.clone(),
            detail,
        }
    }

    /// The error for a NULL entry. `ComponentVtable::check` has already refused such a table, so
    /// only the types require this path.
    #[cold]
    pub(super) fn null_entry(&self, entry: &'static str) -> LoadError {
        LoadError::Abi {
            path: self.path.clone(),
            source: plugin_api::AbiError::NullEntry {
                table: "component",
                entry,
            },
        }
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({}, {})", self.path.display(), self.version)
    }
}

/// Whether the path is a bare name, which the dynamic loader searches for.
fn is_bare_name(path: &Path) -> bool {
    !path.as_os_str().as_bytes().contains(&b'/')
}

/// Checks the file before the dynamic loader opens it, because the loader's messages do not
/// describe the file.
fn inspect(path: &Path) -> Result<(), LoadError> {
    if is_bare_name(path) {
        return Ok(());
    }
    let unreadable = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound => LoadError::Missing {
            path: path.to_owned(),
        },
        _ => LoadError::Unreadable {
            path: path.to_owned(),
            source,
        },
    };
    let not_object = |found: String| LoadError::NotSharedObject {
        path: path.to_owned(),
        found,
    };
    let kind = std::fs::metadata(path).map_err(unreadable)?;
    if kind.is_dir() {
        return Err(not_object("a directory".to_owned()));
    }
    if !kind.is_file() {
        return Err(not_object("something that is no regular file".to_owned()));
    }
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(18).read_to_end(&mut start))
        .map_err(unreadable)?;
    match start.as_slice() {
        [] => Err(not_object("an empty file".to_owned())),
        // Bytes 16 and 17 hold e_type, where 3 is a shared object. The machine is little- or
        // big-endian, and in both cases the value fits one of the two bytes.
        [0x7f, b'E', b'L', b'F', .., low, high] if start.len() == 18 => {
            match u16::from(*low) | u16::from(*high) {
                3 => Ok(()),
                1 => Err(not_object(
                    "an ELF object file that is not linked".to_owned(),
                )),
                2 => Err(not_object("an ELF executable".to_owned())),
                other => Err(not_object(format!("an ELF file of type {other}"))),
            }
        }
        _ => Err(not_object(format!(
            "a file that starts with \"{}\"",
            start[..start.len().min(8)].escape_ascii()
        ))),
    }
}

fn open_library(path: &Path) -> Result<Library, LoadError> {
    if CString::new(path.as_os_str().as_bytes()).is_err() {
        return Err(LoadError::Open {
            path: path.to_owned(),
            found: "a name with a NUL byte".to_owned(),
        });
    }
    // RTLD_NOW refuses a plugin with a missing symbol here, not at the symbol's first use.
    // RTLD_LOCAL keeps the plugin's symbols private. SAFETY: loading runs the object's initialisers;
    // the user asked for this by naming the file.
    unsafe { Library::open(Some::<&OsStr>(path.as_os_str()), RTLD_NOW | RTLD_LOCAL) }.map_err(
        |error| LoadError::Open {
            path: path.to_owned(),
            found: error.to_string(),
        },
    )
}
