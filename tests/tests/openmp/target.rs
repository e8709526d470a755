//! Functions of omp_target over windows.

use super::*;

/// Compiles and runs `omp/target.c` with the host's `omp_target.c`; the compiler's complaint if it does
/// not build.
fn target(compiler: Compiler, name: &str, options: &[&str]) -> Result<Outcome, String> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", compiler.name));
    let output = Command::new(compiler.name)
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-fopenmp",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        .args(options)
        .arg(root().join("tests/omp/target.c"))
        .arg(root().join("host-stub/c/omp_target.c"))
        // LLVM has these functions in a library of their own.
        .args((compiler.name == "clang").then_some("-lomptarget"))
        .arg("-o")
        .arg(&out)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(run(&mut Command::new(&out), LIMIT))
}

/// Where OpenMP has memory, for C programs: over the compiler's runtime, and over one that has devices.
#[test]
fn omp_target_functions() {
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let old = ["-DOMP_TARGET_NO_MAPPED_PTR"];
        // A declaration of its own for headers that have none of omp_get_mapped_ptr.
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
            let said = outcome.transcript();
            assert!(outcome.status.success(), "{}: {said}", compiler.name);
            assert!(outcome.stdout.contains("devices, right"), "{said}");
        }
    }
}

/// Variables that OpenMP mapped are found by themselves, by the numbers of the host's devices.
#[test]
fn variables_that_openmp_mapped_are_found() {
    for compiler in COMPILERS {
        if !is_there(compiler) {
            continue;
        }
        let program = program(compiler, "mapped");
        for provider in ["shm", "tcp;ofi_rxm"] {
            let outcome = run(
                Command::new(host_stub())
                    .args(["launch", "-n", "2", "--provider", provider])
                    .args(["--mca", "host_pretended_devices", "2", "--plugin"])
                    .arg(ofi_plugin())
                    .arg("--")
                    .arg(&program),
                LIMIT,
            );
            let said = outcome.transcript();
            let which = format!("{} over {provider}", compiler.name);
            assert!(outcome.status.success(), "{which}: {said}");
            assert!(outcome.stdout.contains("mapped: right"), "{which}: {said}");
        }
    }
}

/// Where the lists of devices differ, in number or in order, the host says so in one line, and finds variables by
/// the memory that they are mapped to. Two devices of the host.
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
            let outcome = run(
                Command::new(host_stub())
                    .args(["launch", "-n", "1", "--provider", "shm"])
                    .args(["--mca", "host_pretended_devices", "2", "--plugin"])
                    .arg(ofi_plugin())
                    .arg("--")
                    .arg(&program)
                    .args([theirs, own]),
                LIMIT,
            );
            let said = outcome.transcript();
            assert!(outcome.status.success(), "{theirs}, {own}: {said}");
            assert!(outcome.stdout.contains("numbers: right"), "{said}");
            let lines = |text: &str| outcome.stderr.matches(text).count();
            let all = lines(SAID) + lines(RENUMBERED);
            assert_eq!(all, usize::from(wanted.is_some()), "{said}");
            assert_eq!(wanted.map_or(0, lines), all, "{said}");
        }
    }
}
