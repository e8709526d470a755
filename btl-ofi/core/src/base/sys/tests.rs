//! Tests of the gate itself: its calls, its script, and that no module goes around it.

use std::fs::{self, File};
use std::path::Path;

use super::script::Script;
use super::*;

fn error(call: &'static str, code: i32) -> CallError {
    CallError { call, code }
}

#[test]
fn interruptions_are_no_errors() {
    let file = memory_file(c"test").unwrap();
    let script = Script::new().fails("fallocate", libc::EINTR);
    let script = script.fails("fallocate", libc::EINTR).passes("fallocate");
    allocate(&file, 0, 4096).unwrap();
    drop(script);
    let _script = Script::new()
        .fails("fallocate", libc::EINTR)
        .fails("fallocate", libc::ENOSPC);
    let full = error("fallocate", libc::ENOSPC);
    assert_eq!(allocate(&file, 0, 8192), Err(full));
    assert_eq!(File::from(file).metadata().unwrap().len(), 4096);
}

#[test]
fn files_in_memory_have_seals() {
    let file = File::from(memory_file(c"test").unwrap());
    assert_eq!(seals(&file), Ok(0));
    add_seals(&file, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL).unwrap();
    assert_eq!(seals(&file), Ok(libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL));
    let more = add_seals(&file, libc::F_SEAL_GROW);
    assert_eq!(more, Err(error("fcntl", libc::EPERM)));
}

#[test]
fn mappings_share_their_file() {
    let file = memory_file(c"test").unwrap();
    allocate(&file, 0, 8192).unwrap();
    let (first, second) = (
        map_shared(&file, 4096, 4096).unwrap().cast::<u64>(),
        map_shared(&file, 0, 8192).unwrap().cast::<u64>(),
    );
    // SAFETY: the mappings have 4096 and 8192 bytes, and are not used after their removal.
    unsafe {
        first.write_volatile(7);
        assert_eq!(second.add(512).read_volatile(), 7);
        unmap(first.cast(), 4096).unwrap();
        unmap(second.cast(), 8192).unwrap();
    }
    let misplaced = map_shared(&file, 1, 4096);
    assert_eq!(misplaced, Err(error("mmap", libc::EINVAL)));
}

#[test]
fn a_copy_of_nothing_is_a_fault() {
    let fault = memory::nothing_copied("process_vm_readv", 0);
    assert_eq!(fault, error("process_vm_readv", libc::EFAULT));
}

#[test]
fn processes_and_limits() {
    assert_eq!(find_process(std::process::id()), Ok(()));
    assert_eq!(
        find_process(i32::MAX as u32),
        Err(error("kill", libc::ESRCH))
    );
    let own = threads("self").unwrap();
    assert!(own.contains(&Some(std::process::id())), "{own:?}");
    assert_eq!(threads("none"), Err(error("getdents", libc::ENOENT)));
    assert!(file_size_limit().unwrap() > 0);
}

#[test]
fn a_script_answers_in_order_and_only_what_it_names() {
    let _script = Script::new()
        .fails("kill", libc::EPERM)
        .passes("kill")
        .answers("kill", ())
        .answers("/proc/self/none", b"text".to_vec());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| find_process(std::process::id()));
        assert_eq!(other.join().unwrap(), Ok(()), "another thread");
    });
    let nobody = i32::MAX as u32;
    assert_eq!(find_process(nobody), Err(error("kill", libc::EPERM)));
    assert_eq!(find_process(nobody), Err(error("kill", libc::ESRCH)));
    assert_eq!(find_process(nobody), Ok(()));
    assert_eq!(find_process(nobody), Err(error("kill", libc::ESRCH)));
    assert!(read("/proc/self/stat").is_ok());
    assert_eq!(read("/proc/self/none").unwrap(), b"text");
}

#[test]
#[should_panic(expected = "calls that were not made: [\"prctl\"]")]
fn an_answer_that_is_left_fails_the_test() {
    let script = Script::new().fails("prctl", libc::EPERM);
    drop(script);
}

/// Files of this crate that call libc's functions outside the gate; the module documentation gives the reasons.
const AROUND: [&str; 1] = ["fabric/fids.rs"];

/// The files of this crate, by their names below `src`, and their code without tests.
pub(crate) fn sources() -> Vec<(String, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut found) = (vec![top.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&top).unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if !name.ends_with("tests.rs") && !name.ends_with("_hostile.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                found.push((name.to_owned(), code.to_owned()));
            }
        }
    }
    found
}

#[test]
fn no_module_goes_around_the_gate() {
    let mut found = Vec::new();
    for (name, code) in sources() {
        if !name.starts_with("base/sys/") && !AROUND.contains(&name.as_str()) {
            let lines = code.lines().filter(|line| calls_libc(line));
            found.extend(lines.map(|line| format!("{name}: {}", line.trim())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(calls_libc("unsafe { libc::kill(1, 0) }") && !calls_libc("libc::EPERM | libc::pid_t"));
}

/// Whether a line calls a function of libc.
fn calls_libc(line: &str) -> bool {
    line.split("libc::").skip(1).any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        end.is_some_and(|end| {
            rest[..end].starts_with(char::is_lowercase) && rest[end..].starts_with('(')
        })
    })
}
