//! The only interface by which a test reports that it cannot run here, and the rule when this is a failure.
//!
//! `./dev test` installs the packages that tests use and sets `TESTS_REQUIRE_ALL`. A skip is a failure then, unless the test
//! lacks something that no package provides, such as a right or a feature of the kernel. [`Lacking`] names it, and this crate
//! checks that it is missing, so a test that skips for a wrong reason fails. Skips that remain are written to the file
//! `TESTS_SKIPPED`, whose lines `./dev test` shows at its end.

use std::ffi::c_void;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

/// The missing precondition of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// A package, which `./dev` installs.
    Package,
    /// Separate namespaces: root, and the right to make them.
    Namespaces,
    /// The right to become another user: root.
    OtherUsers,
    /// The numbers of page frames in `/proc/self/pagemap`, for which a process needs CAP_SYS_ADMIN.
    PageFrames,
    /// Huge pages that were set aside.
    HugePages,
    /// Huge pages that the kernel gives to memory that asks for them.
    TransparentHugePages,
    /// A kernel that copies between processes (`process_vm_readv`).
    ProcessCopies,
    /// A condition that the settings of this run exclude: more ranks, another device, a progress thread. Such a skip is
    /// never a failure, because other runs have the condition.
    InThisRun,
}

impl Lacking {
    /// Whether this machine has the precondition, as far as this crate can detect.
    #[must_use]
    pub fn is_here(self) -> bool {
        match self {
            Lacking::Package => true,
            Lacking::Namespaces => makes_namespaces(),
            // SAFETY: the call has no preconditions.
            Lacking::OtherUsers => unsafe { libc::geteuid() == 0 },
            Lacking::PageFrames => shows_page_frames(),
            Lacking::HugePages => {
                fs::read_to_string("/proc/sys/vm/nr_hugepages").is_ok_and(|n| n.trim() != "0")
            }
            Lacking::TransparentHugePages => gives_huge_pages(),
            Lacking::ProcessCopies => copies_between_processes(),
            Lacking::InThisRun => false,
        }
    }
}

/// Reports that the rest of a test is not run. Panics if the skip is a failure.
#[expect(clippy::panic, reason = "a test reports by panicking")]
pub fn skipped(lacking: Lacking, why: impl Display) {
    if let Err(failure) = skip(lacking, why) {
        panic!("{failure}");
    }
}

/// Reports that the rest of a test is not run, or returns the reason why the skip is a failure.
///
/// # Errors
/// With `TESTS_REQUIRE_ALL`, the machine has the precondition that the test lacks.
pub fn skip(lacking: Lacking, why: impl Display) -> Result<(), String> {
    let required = std::env::var_os("TESTS_REQUIRE_ALL").is_some();
    judge(required, lacking, lacking.is_here(), &why)?;
    eprintln!("skipped: {why}");
    if lacking != Lacking::InThisRun
        && let Some(path) = std::env::var_os("TESTS_SKIPPED")
    {
        // A single write appends the whole line, even if other processes write too.
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let line = format!("skipped: {why} ({lacking:?})\n");
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(|error| format!("TESTS_SKIPPED={}: {error}", path.display()))?;
    }
    Ok(())
}

fn judge(required: bool, lacking: Lacking, here: bool, why: &dyn Display) -> Result<(), String> {
    if required && here {
        return Err(format!(
            "TESTS_REQUIRE_ALL is set and {lacking:?} is here, but a test is skipped: {why}"
        ));
    }
    Ok(())
}

fn makes_namespaces() -> bool {
    let mut command = Command::new("unshare");
    command.args(["-nmiup", "--fork", "--mount-proc", "true"]);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the call has no preconditions.
    let is_root = unsafe { libc::geteuid() == 0 };
    is_root && quiet.status().is_ok_and(|status| status.success())
}

fn shows_page_frames() -> bool {
    let word = 1u64;
    // SAFETY: the argument is a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let mut entry = [0; 8];
    let read = fs::File::open("/proc/self/pagemap")
        .and_then(|file| file.read_exact_at(&mut entry, &raw const word as u64 / page * 8));
    // Bits 0 to 54 are the frame number.
    read.is_ok() && u64::from_ne_bytes(entry) << 9 != 0
}

/// Whether memory that requests huge pages gets one.
fn gives_huge_pages() -> bool {
    const HUGE: usize = 2 << 20;
    // SAFETY: only this function uses the mapping, which contains the aligned part.
    unsafe {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let base = libc::mmap(std::ptr::null_mut(), 4 * HUGE, access, kind, -1, 0);
        if base == libc::MAP_FAILED {
            return false;
        }
        let aligned = base.byte_add(base.align_offset(HUGE));
        libc::madvise(aligned, 2 * HUGE, libc::MADV_HUGEPAGE);
        aligned.cast::<u8>().write_bytes(1, 2 * HUGE);
        let found = mapping_says(aligned as usize, "AnonHugePages:");
        libc::munmap(base, 4 * HUGE);
        found.is_some_and(|size| size != "0 kB")
    }
}

/// The value of a field in `/proc/self/smaps` of the mapping that contains an address.
#[must_use]
pub fn mapping_says(address: usize, name: &str) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/smaps").ok()?;
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next()?.split_once('-');
        let range = range.and_then(|(start, end)| {
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some(number(start)?..number(end)?)
        });
        if let Some(range) = range {
            inside = range.contains(&address);
        } else if inside && let Some(said) = line.strip_prefix(name) {
            return Some(said.trim().to_owned());
        }
    }
    None
}

fn copies_between_processes() -> bool {
    let (from, mut to) = (7u64, 0u64);
    let local = libc::iovec {
        iov_base: (&raw mut to).cast::<c_void>(),
        iov_len: 8,
    };
    let remote = libc::iovec {
        iov_base: (&raw const from).cast_mut().cast::<c_void>(),
        iov_len: 8,
    };
    // SAFETY: the call reads one word of this process into another word.
    unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) == 8 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn a_skip_fails_if_everything_is_required_and_there() {
        let verdict = |required, here| judge(required, Lacking::Package, here, &"no gcc").is_ok();
        assert!(verdict(false, false) && verdict(false, true));
        assert!(verdict(true, false) && !verdict(true, true));
        assert!(Lacking::Package.is_here(), "never excused");
        assert!(!Lacking::InThisRun.is_here(), "never a failure");
    }

    /// Collects every source of the workspace except this one.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            if path.is_dir() && name != "target" && name != "skips" && !name.starts_with('.') {
                sources(&path, found);
            } else if name.ends_with(".rs") {
                found.push(path);
            }
        }
    }

    /// No test prints a skip without this crate.
    #[test]
    fn no_skip_is_said_elsewhere() {
        let mut found = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        sources(&root, &mut found);
        assert!(found.len() > 500, "{}", found.len());
        found.retain(|path| {
            let text = fs::read_to_string(path).unwrap().to_lowercase();
            text.contains("\"skipped: ") || text.contains("\"skipped {")
        });
        assert!(found.is_empty(), "{found:?}");
    }
}
