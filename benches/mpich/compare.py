#!/usr/bin/env python3
"""Runs rma_bench in pairs (A B A B ...): on MPICH's windows over ch4:ofi, and on ours through libhost_stub.

Both sides use the libfabric that the mpich wheel carries, and neither uses shared memory of its own beside it:
MPIR_CVAR_NOLOCAL there, the table of functions over the transport here. Writes a JSON file and prints a Markdown table.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "openmpi"))
import compare as pairs  # noqa: E402, the folder is known only now

# Not behind: latencies of ours over MPICH's.
JUDGED = ("put_latency", "get_latency", "fetch_op_latency")
# How each side names the provider.
PROVIDERS = {"shm": ("shm", "shm"), "tcp": ("tcp", "tcp;ofi_rxm")}


def mpich(options, provider):
    """The command line and environment of a run of MPICH's."""
    environment = dict(os.environ, FI_PROVIDER=PROVIDERS[provider][0], MPIR_CVAR_CH4_NETMOD="ofi",
                       MPIR_CVAR_NOLOCAL="1", FI_TCP_IFACE="lo")
    return [options.mpiexec, "-n", "2", options.theirs, options.program_argument], environment


def ours(options, provider):
    """The same of ours."""
    libraries = f"{options.libfabric}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    environment = dict(os.environ, LD_LIBRARY_PATH=libraries, FI_TCP_IFACE="lo")
    return [options.host, "launch", "-n", "2", "--provider", PROVIDERS[provider][1], "--mca", "host_win_table", "btl",
            "--", options.ours, options.program_argument], environment


def measure(options, provider):
    theirs_runs, ours_runs = [], []
    for _ in range(options.pairs):
        for runs, side in ((theirs_runs, mpich), (ours_runs, ours)):
            command, environment = side(options, provider)
            runs.append(pairs.run(command, options.limit, environment))
    rows = []
    for key in dict.fromkeys(key for one in ours_runs + theirs_runs for key in one):
        a = [one[key][0] for one in theirs_runs if key in one]
        b = [one[key][0] for one in ours_runs if key in one]
        unit = next(one[key][1] for one in ours_runs + theirs_runs if key in one)
        row = {"provider": provider, "name": key[0], "bytes": key[1], "threads": key[2], "unit": unit,
               "c": statistics.median(a) if a else None, "ours": statistics.median(b) if b else None,
               "c_runs": a, "ours_runs": b}
        row["ratio"] = row["ours"] / row["c"] if row["ours"] is not None and row["c"] else None
        if key[0] in JUDGED and key[1] == 8 and key[2] == 1:
            row["target"], row["met"] = "at most 1", None if row["ratio"] is None else row["ratio"] <= 1
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("mpiexec", "theirs", "host", "ours", "libfabric", "json"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--version", default="", help="the wheel's version, for the report")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120, help="seconds one run may take")
    parser.add_argument("--providers", default="shm,tcp")
    parser.add_argument("--program-argument", default="quick", help="what rma_bench measures: quick or all")
    options = parser.parse_args()
    rows = []
    for provider in options.providers.split(","):
        rows += measure(options, provider)
    about = pairs.machine([("mpich", options.version)])
    Path(options.json).write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.pairs} pairs\n")
    print(pairs.table(rows, "MPICH"))
    return 1 if any(row["ours"] is None for row in rows) or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
