//! Typed MCA parameters with Open MPI's names, sources and precedence.
//!
//! A parameter is declared once, as data ([`Declaration`]), and a [`Registry`] resolves it. This crate knows no
//! transport and no host: it holds no parameter of its own and prints nothing by itself.
//!
//! # Where a value comes from
//!
//! The first of these that names the parameter wins:
//!
//! 1. the administrator's override file, `<sysconfdir>/openmpi-mca-params-override.conf`;
//! 2. an explicit [`Registry::set`] (a host's command line, say);
//! 3. the environment variable `OMPI_MCA_<name>`;
//! 4. `$HOME/.openmpi/mca-params.conf`;
//! 5. `<sysconfdir>/openmpi-mca-params.conf`;
//! 6. the declared default.
//!
//! `<sysconfdir>` is `/etc/openmpi`, or `OPAL_SYSCONFDIR` where that is set. `OMPI_MCA_mca_base_param_files` replaces
//! files 4 and 5 by a comma-separated list in which the leftmost file wins, and by nothing at all, the override file
//! included, when it says `none`. `OMPI_MCA_mca_param_files`, its deprecated synonym, does the same with a [`Warning`].
//! A file that does not exist is skipped; one that cannot be read or understood is an [`Error`].
//!
//! # Names
//!
//! At one rank a synonym beats the real name, and of several synonyms the last declared beats the others: Open MPI
//! registers a synonym after the variable it stands for, and whatever is registered last overwrites the value. Between
//! ranks this crate keeps to the list above. Open MPI does not: there a synonym found in a file overwrites a real name
//! found in the environment, a side effect of the order of registration that nobody relies on.
//!
//! Each name is also known by its long form, with the project before it (`opal_btl_ofi_mode`), which beats the short one.
//!
//! # Differences from Open MPI
//!
//! Open MPI reads `abc` as 0, `12 apples` as 12 and clamps what overflows; here they are errors. The words of booleans
//! are understood in any case. Aggregate parameter sets (`-am`, `--tune`) are the launcher's affair and not read here.
#![forbid(unsafe_code)]

mod builder;
mod declaration;
mod dump;
mod error;
mod file;
mod number;
mod registry;
mod resolved;
mod source;
mod unknown;
mod value;

pub use builder::Builder;
pub use declaration::{Allowed, Declaration, Level, Named, Scope};
pub use dump::{Dump, Entry, Filter, Parsable};
pub use error::{Error, InvalidValue, Warning};
pub use registry::Registry;
pub use resolved::Resolved;
pub use source::Source;
pub use unknown::Unknown;
pub use value::{Kind, Value};
