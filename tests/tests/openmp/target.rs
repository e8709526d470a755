//! Functions of omp_target over windows.

use super::*;

/// Compiles and runs `omp/target.c` with the host's `omp_target.c`; returns the compiler's output if
/// the build fails.
fn target(compiler: Compiler, name: &str, options: &[&str]) -> Result<Outcome, String> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", compiler.name));
    let mut command = Command::new(compiler.name);
    command
        .arg("-std=gnu11")
        .args(WARNINGS)
        .args(options)
        .arg(root().join("tests/omp/target.c"))
        .arg(root().join("host-stub/c/omp_target.c"))
        // LLVM has these functions in a separate library.
        .args((compiler.name == "clang").then_some("-lomptarget"))
        .arg("-o")
        .arg(&out);
    built(&mut command)?;
    Ok(run(&mut Command::new(&out)))
}

/// The functions of omp_target for C programs run with the compiler's runtime, and with a runtime that
/// has devices.
#[test]
fn omp_target_functions() {
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let old = ["-DOMP_TARGET_NO_MAPPED_PTR"];
        // The test declares omp_get_mapped_ptr for headers that lack it.
        let declared = "void *omp_get_mapped_ptr(const void *, int);\n";
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("omp_get_mapped_ptr.h");
        std::fs::write(&place, declared).unwrap();
        let header = place.to_str().unwrap();
        let new = target(compiler, "target-new", &[]);
        if let Err(why) = &new {
            assert!(why.contains("omp_get_mapped_ptr"), "{why}");
            println!("{}: no omp_get_mapped_ptr in its OpenMP", compiler.name);
        }
        let outcomes = [
            new.ok(),
            Some(target(compiler, "target-old", &old).unwrap()),
            Some(
                target(
                    compiler,
                    "target-stand-in",
                    &["-DSTAND_IN", "-include", header],
                )
                .unwrap(),
            ),
        ];
        for outcome in outcomes.into_iter().flatten() {
            is_right(&outcome, "devices, right");
        }
    }
}

/// The host finds variables that OpenMP mapped, by the numbers of the host's devices.
#[test]
fn variables_that_openmp_mapped_are_found() {
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let program = program(compiler, "mapped");
        for provider in ["shm", "tcp;ofi_rxm"] {
            let options = [
                "--provider",
                provider,
                "--mca",
                "host_pretended_devices",
                "2",
            ];
            let outcome = launch(2, ofi_plugin(), &options, (&program, &[]), &[]);
            is_right(&outcome, "mapped: right");
        }
    }
}

/// If the lists of devices differ in number or order, the host reports this in one line, and finds variables by
/// the memory to which they are mapped. The host has two devices.
#[test]
fn lists_of_devices_are_compared() {
    const SAID: &str = "OpenMP has ";
    const RENUMBERED: &str = "OpenMP's device 0 is device 1 of the host";
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let program = program(compiler, "numbers");
        for (theirs, own, wanted) in [
            ("2", "0", None),
            (
                "1",
                "0",
                Some("OpenMP does not know the host's from number 1 on"),
            ),
            (
                "3",
                "0",
                Some("the host does not know OpenMP's from number 2 on"),
            ),
            ("2", "1", Some(RENUMBERED)),
        ] {
            let options = ["--provider", "shm", "--mca", "host_pretended_devices", "2"];
            let program = (&*program, &[theirs, own][..]);
            let outcome = launch(1, ofi_plugin(), &options, program, &[]);
            is_right(&outcome, "numbers: right");
            let said = outcome.transcript();
            let lines = |text: &str| outcome.stderr.matches(text).count();
            let all = lines(SAID) + lines(RENUMBERED);
            assert_eq!(all, usize::from(wanted.is_some()), "{said}");
            assert_eq!(wanted.map_or(0, lines), all, "{said}");
        }
    }
}
