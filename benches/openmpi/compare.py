#!/usr/bin/env python3
"""Runs rma_bench in pairs (A B, B A, ...) under two settings of mpirun and compares medians.

A is the system's C component, B ours; everything else is equal. Writes a JSON file and prints a Markdown table.
Only the standard library is needed.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import sides

# Measurements with a limit on ours over the C component's: name, bytes, provider -> (limit, "most" or "least").
TARGETS = {
    ("put_latency", 8, "shm"): (0.5, "most"),
    ("get_latency", 8, "shm"): (0.5, "most"),
    ("fetch_op_latency", 8, "shm"): (0.75, "most"),
    ("compare_swap_latency", 8, "shm"): (0.9, "most"),
    ("accumulate_latency", 8, "shm"): (0.6, "most"),
    ("put_rate", 8, "shm"): (2.5, "least"),
    ("put_latency", 8, "sockets"): (0.02, "most"),
    # Towards a target that computes for two seconds, which the C component waits for.
    ("passive_put_latency", 8, "shm"): (0.001, "most"),
    ("passive_get_latency", 8, "shm"): (0.001, "most"),
}
for _size in (65536, 262144, 1048576, 4194304):
    TARGETS[("put_bandwidth", _size, "shm")] = (1.0, "least")
    TARGETS[("get_bandwidth", _size, "shm")] = (1.0, "least")


# Units of rma_bench's lines.
UNITS = ("us", "ms", "s", "MB/s", "Mop/s")


def mpirun(options, provider, ours, program):
    """The command line of one run of a program with its arguments, over our component or the system's."""
    settings, exported = {**sides.OVER_BTL, **sides.provider(provider)}, []
    if ours:
        settings |= {**sides.path(options), "btl": sides.OVER_BTL["btl"] + "_rs"}
        if provider == "sockets":
            # Ours asks its users to export this, and theirs does not.
            exported = ["FI_SOCKETS_PE_WAITTIME=0"]
    return sides.mpirun(options, 2, settings, exported, program)


def run(command, limit, environment=None):
    """Measurements of one run as {(name, bytes, threads): (value, unit)}, and whether it ended well. What was measured
    until then counts as well."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)
    wrong = None
    try:
        out, err = process.communicate(timeout=limit)
        if process.returncode != 0:
            wrong = f"exit {process.returncode}: {' '.join(command)}\n{err.strip()[-800:]}"
    except subprocess.TimeoutExpired:
        # A launcher takes its ranks with it when it is asked to end.
        process.terminate()
        try:
            out, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired as late:
            # Its group goes with it. What is left elsewhere may hold the pipe, so that is not waited for.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out = os.fsdecode(late.output or b"")
        wrong = f"no end after {limit} s: {' '.join(command)}"
    found = {}
    for line in out.splitlines():
        parts = line.split()
        # A launcher that ends its ranks has words of its own.
        if len(parts) == 5 and parts[4] in UNITS:
            found[(parts[0], int(parts[1]), int(parts[2]))] = (float(parts[3]), parts[4])
    if wrong:
        last = " ".join(map(str, list(found)[-1])) if found else "nothing"
        print(f"compare: {wrong}\ncompare: the last that it measured: {last}", file=sys.stderr)
    return found, not wrong


def middle(values):
    """The median of those that there are."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def measure(what, count, limit, theirs, ours):
    """Rows of `count` pairs. `theirs` is a name with the command line and environment of a run, `ours` likewise.

    Who goes first changes from pair to pair. What a run did not measure leaves None in its place, so that the others stay
    paired.
    """
    runs, failed = {"theirs": [], "ours": []}, []
    for turn in range(count):
        order = [("theirs", theirs), ("ours", ours)]
        for side, (name, command, environment) in reversed(order) if turn % 2 else order:
            begin = time.monotonic()
            found, ended = run(command, limit, environment)
            runs[side].append(found)
            state = f"{time.monotonic() - begin:.1f} s" if ended else "FAILED"
            if side == "ours" and not ended:
                failed.append(f"{what}: a run of {name} failed")
            print(f"{what}: pair {turn + 1} of {count}, {name}: {state}", file=sys.stderr, flush=True)
    rows = []
    every = runs["ours"] + runs["theirs"]
    for key in dict.fromkeys(key for one in every for key in one):
        a = [one[key][0] if key in one else None for one in runs["theirs"]]
        b = [one[key][0] if key in one else None for one in runs["ours"]]
        row = {
            "name": key[0], "bytes": key[1], "threads": key[2], "unit": next(one[key][1] for one in every if key in one),
            "c": middle(a), "ours": middle(b), "c_runs": a, "ours_runs": b,
        }
        row["ratio"] = row["ours"] / row["c"] if row["ours"] is not None and row["c"] else None
        rows.append(row)
    # A side of which no run ended has no row of its own to say so.
    failed += [f"{what}: every run of {name} failed"
               for side, (name, *_) in (("theirs", theirs), ("ours", ours)) if not any(runs[side])]
    return rows, failed


def pairs(options, provider, program):
    """Rows of one provider and a program with its arguments, with what is to be reached."""
    rows, failed = measure(
        f"openmpi {provider} {' '.join([Path(program[0]).name, *program[1:]])}", options.pairs, options.limit,
        ("its own", mpirun(options, provider, False, program), None),
        ("ours", mpirun(options, provider, True, program), None))
    for row in rows:
        row["provider"] = provider
        target = TARGETS.get((row["name"], row["bytes"], provider)) if row["threads"] == 1 else None
        if row["name"] == "put_rate_threads" and row["threads"] == 2:
            target = (2.0, "least")
        if target:
            row["target"] = f"at {target[1]} {target[0]}"
            row["met"] = None if row["ratio"] is None else (
                row["ratio"] <= target[0] if target[1] == "most" else row["ratio"] >= target[0])
        if row["name"] == "finalize" and row["ours"] is not None and row["c"] is not None:
            row["target"], row["met"] = "0.9 s less", row["c"] - row["ours"] >= 0.9
    return rows, failed


def number(value):
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(rows, other="C component"):
    lines = [f"| provider | measurement | bytes | threads | {other} | ours | unit | ours / other | target | met |",
             "| --- | --- | --: | --: | --: | --: | --- | --: | --- | --- |"]
    for row in rows:
        met = {True: "yes", False: "no", None: ""}[row.get("met")]
        lines.append(f"| {row['provider']} | {row['name']} | {row['bytes']} | {row['threads']} | {number(row['c'])} "
                     f"| {number(row['ours'])} | {row['unit']} | {number(row['ratio'])} | {row.get('target', '')} | {met} |")
    return "\n".join(lines)


def first_line(command):
    """The first line that a command prints."""
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return "unknown"
    return out.splitlines()[0].strip() if out else "unknown"


def machine(versions):
    """What the numbers depend on, with the versions of what was compared."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {"processor": model, "cores": os.cpu_count(), "kernel": platform.release(), **dict(versions)}


def write(path, about, rows, targets=()):
    """Writes the file that the report reads; called after each block, so that what was measured stays if the rest fails.
    Targets are those of a part that judges itself."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = {"run": os.environ.get("BENCH_RUN", ""), "machine": about, "targets": list(targets), "rows": rows}
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--program", required=True, help="the compiled rma_bench")
    parser.add_argument("--passive", help="the compiled passive_target, whose target computes")
    parser.add_argument("--component", required=True, help="folder that holds our mca_btl_ofi_rs.so")
    parser.add_argument("--system", required=True, help="folder of the system's components")
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds one run may take")
    parser.add_argument("--providers", default="shm,sockets")
    parser.add_argument("--threads", default="2", help="numbers of threads for the threaded runs, with commas")
    options = parser.parse_args()
    about = machine([("openmpi", first_line([options.mpirun, "--version"]).removeprefix("mpirun (Open MPI) ")),
                     ("libfabric", first_line(["fi_info", "--version"]).removeprefix("fi_info: "))])
    rows, failed = [], []
    for provider in options.providers.split(","):
        # Full runs only where the C component is fast enough to end them.
        programs = [[options.program, "quick"]]
        if provider == "shm":
            programs = [[options.program, "all"]]
            programs += [[options.program, "threads", count] for count in filter(None, options.threads.split(","))]
            if options.passive:
                programs.append([options.passive, "--report"])
        for program in programs:
            found, wrong = pairs(options, provider, program)
            rows += found
            failed += wrong
            write(options.json, about, rows)
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.pairs} pairs\n")
    print(table(rows))
    for line in failed:
        print(f"compare: {line}", file=sys.stderr)
    return 1 if failed or not rows or any(row["ours"] is None for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
