#!/usr/bin/env python3
"""Runs rma_bench in pairs (A B, B A, ...): on MPICH's windows over ch4:ofi, and on ours through libhost_stub.

Both sides use the libfabric that the mpich wheel carries, and neither uses shared memory of its own beside it:
MPIR_CVAR_NOLOCAL there, the table of functions over the transport here. Writes a JSON file and prints a Markdown table.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "openmpi"))
import compare as pairs  # noqa: E402, the folder is known only now

# Not behind: latencies of ours over MPICH's.
JUDGED = ("put_latency", "put_seen_latency", "get_latency", "fetch_op_latency")
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
    # Over TCP nothing goes by shared memory, as between nodes.
    apart = [] if provider == "shm" else ["--mca", "btl_ofi_same_node", "off"]
    return [options.host, "launch", "-n", "2", "--provider", PROVIDERS[provider][1], "--mca", "host_win_table", "btl", *apart,
            "--", options.ours, options.program_argument], environment


def shared():
    """MPICH's files of shared memory."""
    return set(Path("/dev/shm").glob("mpich_shm_*"))


def sweep(before):
    """Removes what runs left that had to be ended: files that were not there before and that no process has mapped."""
    mapped = ""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            mapped += maps.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # It ended meanwhile, or is another user's, whose files this cannot remove.
    for path in shared() - before:
        if str(path) not in mapped:
            path.unlink(missing_ok=True)


def measure(options, provider):
    """Rows of one provider, with what is to be reached."""
    before = shared()
    rows, failed = pairs.measure(f"mpich {provider} {options.program_argument}", options.pairs, options.limit,
                                 ("MPICH", *mpich(options, provider)), ("ours", *ours(options, provider)))
    sweep(before)
    for row in rows:
        row["provider"] = provider
        if row["name"] in JUDGED and row["bytes"] == 8 and row["threads"] == 1:
            row["target"], row["met"] = "at most 1", None if row["ratio"] is None else row["ratio"] <= 1
    return rows, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("mpiexec", "theirs", "host", "ours", "libfabric", "json"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--version", default="", help="the wheel's version, for the report")
    parser.add_argument("--libfabric-version", default="", help="likewise of the wheel's libfabric")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120, help="seconds one run may take")
    parser.add_argument("--providers", default="shm,tcp")
    parser.add_argument("--program-argument", default="quick", help="what rma_bench measures: quick or all")
    options = parser.parse_args()
    about = pairs.machine([("mpich", options.version), ("mpich_libfabric", options.libfabric_version)])
    rows, failed = [], []
    for provider in options.providers.split(","):
        found, wrong = measure(options, provider)
        rows += found
        failed += wrong
        pairs.write(options.json, about, rows)
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.pairs} pairs\n")
    print(pairs.table(rows, "MPICH"))
    for line in failed:
        print(f"compare: {line}", file=sys.stderr)
    return 1 if failed or not rows or any(row["ours"] is None for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
