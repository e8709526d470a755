#!/usr/bin/env python3
"""Runs the test programs of the workspace, several at a time: test_programs.py ARGUMENTS (of `cargo test --no-run`).

`cargo test` runs one program after the other, and most of them wait for processes that they started. Documentation tests are
left to `cargo test --doc`. What hangs is ended by `step` of `dev`; the programs that still run are named then, with what
they said.
"""

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

# The longest programs begin first, because a long program that begins last would run alone.
LONG = """core/over_lab core/devices core/hosts core/node tests/lab_check tests/openmp tests/c_examples tests/device_ways
    tests/open_close core/carriers tests/process_failure""".split()
# The tests of this program wait for failing links and for timeouts of peers.
ARGUMENTS = {"core/hosts": ["--test-threads=8"]}

running = {}


def programs(arguments):
    """Builds the programs: name, folder of the package and file of each (The Cargo Book, "External tools")."""
    cargo = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    for line in subprocess.run(cargo, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            folder, target = os.path.dirname(message["manifest_path"]), message["target"]
            unit = "" if target["kind"] == ["test"] else " (unit tests)"
            yield f"{os.path.basename(folder)}/{target['name']}{unit}", folder, message["executable"]


def run(name, folder, file):
    """Runs a program to its end; returns its name, whether it passed, seconds, the number of tests that passed, its output."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        running[name] = output
        # A signal that kills this script kills the programs too.
        command = ["setpriv", "--pdeathsig", "KILL", file, *ARGUMENTS.get(name, [])]
        ended = subprocess.run(
            command, cwd=folder, env={**os.environ, "CARGO_MANIFEST_DIR": folder}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        del running[name]
        output.seek(0)
        said = output.read()
    passed = sum(map(int, re.findall(r"^test result: .*?(\d+) passed", said, re.M)))
    took = time.monotonic() - begun
    print(f"{'FAIL' if ended.returncode else 'ok  '} {took:7.1f} s {passed:5} {name}", flush=True)
    if ended.returncode:
        print(f"---- {name} ended with {ended.returncode} and said:\n{said}----", flush=True)
    return name, ended.returncode == 0, took, passed, said


def interrupted(*_):
    for name, output in list(running.items()):
        output.seek(0)
        print(f"---- {name} still ran, and said:\n{output.read()}----", flush=True)
    os._exit(1)


def main():
    signal.signal(signal.SIGTERM, interrupted)
    found = sorted(programs(sys.argv[1:]), key=lambda program: program[0] not in LONG)
    begun = time.monotonic()
    # More programs than processors, because most programs wait most of the time.
    with concurrent.futures.ThreadPoolExecutor(3 * os.cpu_count()) as pool:
        ended = list(pool.map(lambda program: run(*program), found))
    print("\n==== the slowest test programs, in seconds")
    for name, _, took, *_ in sorted(ended, key=lambda end: -end[2])[:8]:
        print(f"     {took:7.1f} {name}")
    print(f"\n{len(ended)} test programs, {sum(end[3] for end in ended)} tests passed, in {time.monotonic() - begun:.0f} s")
    failed = [end for end in ended if not end[1]]
    for name, _, _, _, said in failed:
        print(f"FAILED: {name}", *re.findall(r"^.*(?:\.\.\. FAILED|panicked at .*\n.*)$", said, re.M), sep="\n    ")
    return bool(failed) or not ended


if __name__ == "__main__":
    sys.exit(main())
