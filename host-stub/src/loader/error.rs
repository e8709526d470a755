//! The errors between the host and a plugin.

use std::path::PathBuf;

use plugin_api::{ABI_MAJOR, ABI_MINOR, AbiError, Status};

/// The reason why a plugin file cannot be used. Each message names the file, the expectation and
/// the finding.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file does not exist.
    #[error(
        "plugin {}: wanted a shared object, found no such file (--plugin or HOST_STUB_PLUGIN names another)",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("plugin {}: wanted a readable file, found: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a shared object.
    #[error("plugin {}: wanted an ELF shared object, found {found}", path.display())]
    NotSharedObject {
        /// The file.
        path: PathBuf,
        /// The kind of the file.
        found: String,
    },
    /// The dynamic loader refused the file.
    #[error("plugin {}: wanted a shared object that loads here, found: {found}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The loader's message.
        found: String,
    },
    /// A shared object without the entry function.
    #[error(
        "plugin {}: wanted the exported function `{symbol}`, found none: not a plugin of ABI {}.x",
        path.display(),
        ABI_MAJOR
    )]
    NoEntry {
        /// The file.
        path: PathBuf,
        /// The symbol.
        symbol: String,
    },
    /// The plugin's entry refused this host.
    #[error(
        "plugin {}: wanted its entry to accept a host of ABI {}.{}, found {status}",
        path.display(),
        ABI_MAJOR,
        ABI_MINOR
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// The entry's return value.
        status: Status,
    },
    /// The plugin's table cannot be used.
    #[error("plugin {}: {source}", path.display())]
    Abi {
        /// The file.
        path: PathBuf,
        /// The expectation and the finding.
        source: AbiError,
    },
    /// The plugin violated the contract in another respect.
    #[error("plugin {}: {detail}", path.display())]
    Contract {
        /// The file.
        path: PathBuf,
        /// The expectation and the finding.
        detail: String,
    },
    /// A function of the component failed.
    #[error("plugin {}: {operation} returned {status}{}", path.display(), hint(*.status))]
    Component {
        /// The file.
        path: PathBuf,
        /// The entry of the component's table.
        operation: &'static str,
        /// The function's return value.
        status: Status,
    },
}

impl LoadError {
    /// Whether the plugin works but found no usable provider.
    pub fn is_no_provider(&self) -> bool {
        matches!(
            self,
            LoadError::Component { operation: "init", status, .. }
                if *status == Status::NOT_AVAILABLE || *status == Status::NOT_FOUND
        )
    }

    /// Whether a parameter of the user is the cause.
    pub fn is_parameter(&self) -> bool {
        matches!(
            self,
            LoadError::Component { operation: "register_params" | "open", status, .. }
                if *status == Status::BAD_PARAM
        )
    }
}

fn hint(status: Status) -> &'static str {
    match status {
        Status::NOT_AVAILABLE => {
            ": no provider can be used (`host-stub info` lists each with the reason). Name one by --provider or \
             OMPI_MCA_btl_ofi_provider_include: shm for one machine, 'tcp;ofi_rxm' for Ethernet"
        }
        Status::BAD_PARAM => ": a parameter has a value that cannot be used (see the line above)",
        _ => "",
    }
}
