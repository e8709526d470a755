#!/usr/bin/env python3
"""Runs rma_bench between two ranks under each transport that Open MPI has for windows, and under MPICH, turn by turn.

Over TCP the ranks are on one machine, but reach each other as those of two hosts do: nothing goes by shared memory. Within a
node each side takes the way that it chooses, for memory of the program and for memory of MPI. Writes a JSON file with targets and prints a Markdown table whose best values are
bold. Only the standard library is needed.
"""

import argparse
import sys
from dataclasses import dataclass

import running
import sides
import turns

@dataclass
class Limit:
    """What a ratio must reach, over the best of all sides or over the sides whose names begin so."""
    ratio: float
    over: str = ""


ONE = Limit(1.0)

# The limits of start and end.
START = {"window_create_free": Limit(1.05), "window_allocate_free": Limit(1.05), "finalize": Limit(1.05)}

# Limits within a node, by the way that windows are made.
NODE = {
    "create": {},
    "allocate": {
        "put_latency": Limit(0.5, "osc/sm"),
        "get_latency": Limit(0.5, "osc/sm"),
        "fetch_op_latency": Limit(0.8, "osc/sm"),
        "compare_swap_latency": Limit(0.8, "osc/sm"),
        "accumulate_latency": Limit(0.8, "osc/sm"),
    },
}

# Limits over TCP.
TCP = {
    "put_latency": Limit(0.9),
    "get_latency": Limit(0.9),
    "fetch_op_latency": Limit(0.9),
    "compare_swap_latency": Limit(0.9),
    "accumulate_latency": Limit(0.9),
    "put_rate": Limit(1.5, "osc/pt2pt"),
    "accumulate_rate": Limit(1.0, "osc/pt2pt"),
    "send_latency": Limit(0.8),
    "send_bandwidth": Limit(1.1),
}

# The parts of a path: the provider or the node, and the way that windows are made.
PARTS = {"node": (("node", "create"), ("node", "allocate")), "wire": (("tcp", "create"), ("net", "create")), "hosts": (("hosts", "create"),)}

# The largest size of bandwidths, by path. Windows that Open MPI allocates have no bandwidths here.
LARGEST = {"node": 64 << 20, "wire": 4 << 20, "hosts": 4 << 20}


def measure(options, path):
    """Runs the sides of a path turn by turn. The rows, the names of the sides that there are, and what failed of ours."""
    rows, shown, failed = [], [], []
    for where, windows in PARTS[path]:
        program = ["rma_bench", options.size if windows == "create" else "calls", str(LARGEST[path]), windows]
        order = sides.jobs(options, where, 2, program, windows)
        found, wrong = turns.take(order, options.turns, options.limit, f"{where}, {windows}: ")
        keys, names = turns.measured(found)
        limits = START | (NODE[windows] if where == "node" else TCP)
        for key, unit in keys.items():
            row = {"path": where, "windows": windows, "name": key[0], "bytes": key[1], "unit": unit}
            row |= {name: running.middle(turns.values(found, name, key)) for name in names}
            limit = limits.get(key[0], ONE)
            compete = [name for name in sides.competing(names, where, key[0]) if name == turns.WINDOWS or name.startswith(limit.over)]
            turns.judge(row, found, compete, key, limit.ratio)
            rows.append(row)
        shown += [name for name in names if name not in shown]
        failed += wrong
    return rows, shown, failed


def target(row):
    """A row as the report has targets."""
    allocated = ", MPI_Win_allocate" if row["windows"] == "allocate" else ""
    return turns.target(f"{row['path']} {row['name']} {row['bytes']} B{allocated}", row)


def table(rows, names):
    return turns.table(rows, names, ("path", "windows", "name", "bytes"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sides.arguments(parser)
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds one run may take")
    parser.add_argument("--all", dest="size", action="store_const", const="all", default="quick",
                        help="every size, not 8 bytes and a few more")
    parser.add_argument("--path", choices=("node", "wire"), default="wire")
    options = parser.parse_args()
    about = running.machine([("openmpi", running.first_line([options.mpirun, "--version"]).removeprefix("mpirun (Open MPI) ")),
                             ("libfabric", running.first_line(["fi_info", "--version"]).removeprefix("fi_info: "))])
    rows, names, failed = measure(options, options.path)
    running.write(options.json, about, rows, [target(row) for row in rows])
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.turns} turns\n")
    print(table(rows, names))
    for line in failed:
        print(f"wire: {line}", file=sys.stderr)
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
