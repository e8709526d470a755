//! Finds Open MPI's devel headers, and the series they belong to.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the installation to build against, instead of the installation of `mpicc`: the folder that contains
/// `include/openmpi/opal_config.h` (Debian: `/usr/lib/<triplet>/openmpi`). The folder may lie in another
/// root.
pub(crate) const PREFIX: &str = "MCA_BTL_OFI_OMPI_PREFIX";
/// Names the wanted series (`4.1`, `5.0` or `6.0`); headers of another series are an error.
pub(crate) const SERIES: &str = "MCA_BTL_OFI_SERIES";

/// A series of Open MPI. All releases of a series have the same interfaces of BTL and OSC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Series {
    /// 4.1: BTL 3.1.0, OSC 3.0.0.
    V4_1,
    /// 5.0: BTL 3.3.0, OSC 3.0.0.
    V5_0,
    /// 6.0: BTL 3.3.0, OSC 4.0.0.
    V6_0,
}

impl Series {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Series::V4_1 => "4.1",
            Series::V5_0 => "5.0",
            Series::V6_0 => "6.0",
        }
    }

    fn of(major: u32, minor: u32) -> Option<Self> {
        match (major, minor) {
            (4, 1) => Some(Series::V4_1),
            (5, 0) => Some(Series::V5_0),
            (6, 0) => Some(Series::V6_0),
            _ => None,
        }
    }

    /// The library that has Open MPI's own functions, beside libopen-pal. libmpi of 6.0 has only MPI's
    /// functions.
    pub(crate) const fn library(self) -> &'static str {
        match self {
            Series::V4_1 | Series::V5_0 => "mpi",
            Series::V6_0 => "open_mpi",
        }
    }
}

/// An installation that can be built against.
pub(crate) struct Headers {
    pub(crate) series: Series,
    pub(crate) version: Version,
    pub(crate) include_dirs: Vec<PathBuf>,
    /// Folders of another root, searched after the compiler's own folders, because they also contain
    /// headers of a C library.
    pub(crate) late_dirs: Vec<PathBuf>,
    pub(crate) lib_dirs: Vec<PathBuf>,
}

pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) release: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.release)
    }
}

/// The value of a variable; `None` if it is empty.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether the user asked for the component, so that missing headers are an error.
pub(crate) fn asked_for() -> bool {
    [PREFIX, SERIES].iter().any(|name| variable(name).is_some())
}

/// Finds the headers and checks their series; the error names the missing part and the remedy.
pub(crate) fn find() -> Result<Headers, String> {
    let (mut include_dirs, lib_dirs) = match variable(PREFIX) {
        Some(prefix) => from_prefix(Path::new(&prefix)),
        None => from_mpicc()?,
    };
    let config = include_dirs
        .iter()
        .map(|dir| dir.join("opal_config.h"))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            format!(
                "Open MPI's devel headers (opal_config.h, opal/mca/btl/btl.h) are not in {}.\n\
                 Debian and Ubuntu: apt-get install libopenmpi-dev. Elsewhere Open MPI must be configured with \
                 --with-devel-headers; {PREFIX} names another installation.",
                list(&include_dirs)
            )
        })?;
    println!("cargo:rerun-if-changed={}", config.display());
    let version = version(&config)?;
    let series = Series::of(version.major, version.minor).ok_or_else(|| {
        format!(
            "the headers in {} are of Open MPI {version}; this component knows the series 4.1 (BTL 3.1.0), 5.0 \
             and 6.0 (BTL 3.3.0)",
            config.display()
        )
    })?;
    let mut late_dirs = beside(&mut include_dirs);
    // Installations lack a few headers that their other headers include.
    late_dirs.push(PathBuf::from("c/stand_in_ompi"));
    if series != Series::V4_1 {
        late_dirs.push(PathBuf::from("c/stand_in_50"));
    }
    if let Some(wanted) = variable(SERIES)
        && wanted != series.name()
    {
        return Err(format!(
            "{SERIES} asks for Open MPI {}, but the headers in {} are of {version}; \
                 name the other installation in {PREFIX}",
            wanted.display(),
            config.display()
        ));
    }
    Ok(Headers {
        series,
        version,
        include_dirs,
        late_dirs,
        lib_dirs,
    })
}

fn list(dirs: &[PathBuf]) -> String {
    let dirs: Vec<_> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    dirs.join(", ")
}

fn from_prefix(prefix: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let include = prefix.join("include");
    let parent = prefix.parent().map(Path::to_path_buf);
    (
        vec![include.clone(), include.join("openmpi")],
        [Some(prefix.join("lib")), parent]
            .into_iter()
            .flatten()
            .collect(),
    )
}

fn from_mpicc() -> Result<(Vec<PathBuf>, Vec<PathBuf>), String> {
    let ask = |what: &str| -> Result<Vec<PathBuf>, String> {
        let output = Command::new("mpicc").arg(what).output().map_err(|e| {
            format!(
                "mpicc could not be run ({e}).\nDebian and Ubuntu: apt-get install openmpi-bin libopenmpi-dev; \
                 or {PREFIX} names an installation."
            )
        })?;
        if !output.status.success() {
            return Err(format!(
                "`mpicc {what}` failed, so that mpicc is not Open MPI's; {PREFIX} names an installation"
            ));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.split_whitespace().map(PathBuf::from).collect())
    };
    Ok((ask("--showme:incdirs")?, ask("--showme:libdirs")?))
}

/// Adds the folders of PMIx in the root of the headers, and returns the include folders of this root. The headers
/// of 5.0 include headers of PMIx, hwloc and libevent, which distributions package separately.
fn beside(include_dirs: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let Some(first) = include_dirs.first().cloned() else {
        return Vec::new();
    };
    let mut late = Vec::new();
    for dir in first.ancestors() {
        for name in ["pmix2/include", "pmix2/include/pmix"] {
            include_dirs.push(dir.join(name));
        }
        if dir.ends_with("usr") && dir != Path::new("/usr") {
            late.push(dir.join("include"));
            late.push(
                dir.join("include")
                    .join(format!("{}-linux-gnu", env::consts::ARCH)),
            );
        }
    }
    include_dirs.retain(|dir| dir.is_dir());
    late.retain(|dir| dir.is_dir());
    late
}

fn version(config: &Path) -> Result<Version, String> {
    let text = fs::read_to_string(config)
        .map_err(|e| format!("{} cannot be read: {e}", config.display()))?;
    let number = |name: &str| -> Result<u32, String> {
        text.lines()
            .filter_map(|line| {
                line.strip_prefix("#define ")?
                    .strip_prefix(name)?
                    .trim()
                    .parse()
                    .ok()
            })
            .next()
            .ok_or_else(|| format!("{} does not define {name}", config.display()))
    };
    Ok(Version {
        major: number("OPAL_MAJOR_VERSION ")?,
        minor: number("OPAL_MINOR_VERSION ")?,
        release: number("OPAL_RELEASE_VERSION ")?,
    })
}
