//! A job's private directory.

use std::fs::{DirBuilder, remove_dir_all};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::LaunchError;

/// What names of directories and shared-memory files of jobs start with.
pub(super) const PREFIX: &str = "host-stub-";

/// Longest path of a Unix socket, bytes, without the terminator.
const SOCKET_PATH: usize = 107;

/// A directory that only this user may enter; removed with all in it when dropped.
pub(super) struct Directory {
    path: PathBuf,
    job: String,
    made: SystemTime,
}

impl Directory {
    /// Makes one below `$XDG_RUNTIME_DIR`, else in the directory for temporary files, else in
    /// `/tmp`.
    pub(super) fn create() -> Result<Self, LaunchError> {
        let made = SystemTime::now();
        let nanoseconds = made
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos());
        // The thread's address space differs between threads that launch in the same nanosecond.
        let local = 0_u8;
        let salt = nanoseconds as u64 ^ (&raw const local as u64).rotate_left(40);
        let job = format!("{}-{salt:x}", std::process::id());
        let mut tried = Vec::new();
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        let places = [
            std::env::var_os("XDG_RUNTIME_DIR")
                .filter(|place| !place.is_empty())
                .map(PathBuf::from),
            Some(std::env::temp_dir()),
            Some(PathBuf::from("/tmp")),
        ];
        for place in places.into_iter().flatten() {
            if tried.contains(&place) {
                continue;
            }
            match Self::create_in(&place, &job) {
                Ok(path) => return Ok(Directory { path, job, made }),
                Err(error) => last = error,
            }
            tried.push(place);
        }
        let tried: Vec<String> = tried.iter().map(|p| p.display().to_string()).collect();
        Err(LaunchError::Directory {
            tried: tried.join(", "),
            source: last,
        })
    }

    fn create_in(place: &Path, job: &str) -> io::Result<PathBuf> {
        let path = place.join(format!("{PREFIX}{job}"));
        if socket(&path).as_os_str().as_bytes().len() > SOCKET_PATH {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path is too long for a Unix socket",
            ));
        }
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn job(&self) -> &str {
        &self.job
    }

    /// When it was made: before the job's first process.
    pub(super) fn made(&self) -> SystemTime {
        self.made
    }

    pub(super) fn socket(&self) -> PathBuf {
        socket(&self.path)
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("socket")
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}
