#!/usr/bin/env python3
"""Runs rma_bench in pairs (A B A B ...) under two settings of mpirun and compares medians.

A is the system's C component, B ours; everything else is equal. Writes a JSON file and prints a Markdown table.
Only the standard library is needed.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

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


def mpirun(options, provider, component, program):
    """The command line of one run of a program with its arguments; `component` is a folder to search first, or None
    for the system's component."""
    command = [options.mpirun, "-n", "2", "--oversubscribe"]
    settings = {
        "osc": "rdma",
        "btl": "self,vader,ofi",
        "btl_vader_single_copy_mechanism": "none",
        "opal_common_ofi_provider_include": provider,
    }
    if component:
        settings["mca_base_component_path"] = f"{component}:{options.system}"
    for name, value in settings.items():
        command += ["--mca", name, value]
    return command + program


def run(command, limit, environment=None):
    """Measurements of one run as {(name, bytes, threads): (value, unit)}; an empty dict when it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    except subprocess.TimeoutExpired:
        print(f"compare: no end after {limit} s: {' '.join(command)}", file=sys.stderr)
        return {}
    if done.returncode != 0:
        print(f"compare: exit {done.returncode}: {' '.join(command)}\n{done.stderr.strip()[-800:]}", file=sys.stderr)
        return {}
    found = {}
    for line in done.stdout.splitlines():
        parts = line.split()
        if len(parts) == 5:
            found[(parts[0], int(parts[1]), int(parts[2]))] = (float(parts[3]), parts[4])
    return found


def pairs(options, provider, program):
    """Rows of medians over the pairs of one provider and program with its arguments."""
    a_runs, b_runs = [], []
    for _ in range(options.pairs):
        a_runs.append(run(mpirun(options, provider, None, program), options.limit))
        b_runs.append(run(mpirun(options, provider, options.component, program), options.limit))
    rows = []
    keys = dict.fromkeys(key for one in b_runs + a_runs for key in one)
    for key in keys:
        a = [one[key][0] for one in a_runs if key in one]
        b = [one[key][0] for one in b_runs if key in one]
        unit = next(one[key][1] for one in a_runs + b_runs if key in one)
        row = {
            "provider": provider, "name": key[0], "bytes": key[1], "threads": key[2], "unit": unit,
            "c": statistics.median(a) if a else None, "ours": statistics.median(b) if b else None,
            "c_runs": a, "ours_runs": b,
        }
        row["ratio"] = row["ours"] / row["c"] if row["ours"] is not None and row["c"] else None
        target = TARGETS.get((key[0], key[1], provider)) if key[2] == 1 else None
        if key[0] == "put_rate_threads" and key[2] == 2:
            target = (2.0, "least")
        if target:
            row["target"] = f"at {target[1]} {target[0]}"
            row["met"] = None if row["ratio"] is None else (
                row["ratio"] <= target[0] if target[1] == "most" else row["ratio"] >= target[0])
        if key[0] == "finalize" and row["ours"] is not None and row["c"] is not None:
            row["target"], row["met"] = "0.9 s less", row["c"] - row["ours"] >= 0.9
        rows.append(row)
    return rows


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--program", required=True, help="the compiled rma_bench")
    parser.add_argument("--passive", help="the compiled passive_target, whose target computes")
    parser.add_argument("--component", required=True, help="folder that holds our mca_btl_ofi.so")
    parser.add_argument("--system", required=True, help="folder of the system's components")
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds one run may take")
    parser.add_argument("--providers", default="shm,sockets")
    parser.add_argument("--threads", default="2", help="numbers of threads for the threaded runs, with commas")
    options = parser.parse_args()
    rows = []
    for provider in options.providers.split(","):
        # Full runs only where the C component is fast enough to end them.
        rows += pairs(options, provider, [options.program, "all" if provider == "shm" else "quick"])
        if provider == "shm":
            for count in filter(None, options.threads.split(",")):
                rows += pairs(options, provider, [options.program, "threads", count])
            if options.passive:
                rows += pairs(options, provider, [options.passive, "--report"])
    about = machine([("openmpi", first_line([options.mpirun, "--version"])),
                     ("libfabric", first_line(["fi_info", "--version"]))])
    out = Path(options.json)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": about, "pairs": options.pairs, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.pairs} pairs\n")
    print(table(rows))
    failed = [row for row in rows if row["ours"] is None]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
