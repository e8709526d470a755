//! Typed MCA parameters with Open MPI's names, sources and precedence.
//!
//! A component declares a parameter once, as data ([`Declaration`]), and a [`Registry`] resolves it. This crate does
//! not depend on a transport or a host: it declares no parameters and prints nothing.
//!
//! # Sources of a value
//!
//! The first of these sources that sets the parameter wins:
//!
//! 1. the administrator's override file, `<sysconfdir>/openmpi-mca-params-override.conf`;
//! 2. an explicit [`Registry::set`], for example from a host's command line;
//! 3. the environment variable `OMPI_MCA_<name>`;
//! 4. `$HOME/.openmpi/mca-params.conf`;
//! 5. `<sysconfdir>/openmpi-mca-params.conf`;
//! 6. the declared default.
//!
//! `<sysconfdir>` is `OPAL_SYSCONFDIR`, or `/etc/openmpi` if that is not set. `OMPI_MCA_mca_base_param_files` replaces
//! files 4 and 5 by a comma-separated list, in which the leftmost file wins. The value `none` of this variable
//! disables all files, including the override file. `OMPI_MCA_mca_param_files`, its deprecated synonym, has the same
//! effect and adds a [`Warning`]. A file that does not exist is skipped; a file that cannot be read or parsed is an
//! [`Error`].
//!
//! # Names
//!
//! At the same rank a synonym has precedence over the real name, and a later synonym over an earlier one: Open MPI
//! registers a synonym after its variable, and the last registration overwrites the value. Between ranks this crate
//! follows the list above. Open MPI differs: a synonym in a file overwrites a real name in the environment, a side
//! effect of the order of registration on which no user relies.
//!
//! Each name also has a long form with the project as prefix (`opal_btl_ofi_mode`), which has precedence over the short
//! form.
//!
//! # Differences from Open MPI
//!
//! Open MPI reads `abc` as 0 and `12 apples` as 12, and clamps values that overflow; here these are errors. The words
//! of booleans are accepted in any case. Aggregate parameter sets (`-am`, `--tune`) are left to the launcher; this
//! crate does not read them.
#![forbid(unsafe_code)]

mod builder;
mod declaration;
mod dump;
mod error;
mod file;
mod number;
mod registry;
mod removed;
mod resolved;
mod source;
mod unknown;
mod value;

pub use builder::Builder;
pub use declaration::{Allowed, Declaration, Level, Named};
pub use dump::{Dump, Entry};
pub use error::{Error, InvalidValue, Warning};
pub use registry::Registry;
pub use removed::Removed;
pub use resolved::Resolved;
pub use source::Source;
pub use unknown::{Unknown, similar};
pub use value::{Kind, Value};
