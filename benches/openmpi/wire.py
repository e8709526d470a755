#!/usr/bin/env python3
"""Runs rma_bench between two ranks under each transport that Open MPI has for windows, and under MPICH, turn by turn.

Over TCP the ranks are on one machine, but reach each other as those of two hosts do: nothing goes by shared memory. Within a
node each side takes the way that it chooses. Writes a JSON file with targets and prints a Markdown table whose best values are
bold. Only the standard library is needed.
"""

import argparse
import sys

import running
import sides
import turns

# Our targets against each of the others over TCP, by name and bytes (None for all). Within a node the target is 1
# for all.
TARGETS = {
    ("put_latency", 8): 0.8,
    ("get_latency", 8): 0.8,
    ("fetch_op_latency", 8): 0.8,
    ("accumulate_latency", 8): 0.8,
    ("put_rate", 8): 1.5,
    ("put_bandwidth", None): 1.0,
    ("get_bandwidth", None): 1.0,
    ("send_latency", None): 0.8,
    ("send_bandwidth", None): 1.1,
}

# The largest size of bandwidths, by path.
LARGEST = {"node": 64 << 20, "tcp": 4 << 20}


def measure(options, where, order):
    """Runs the sides of a path turn by turn. The rows, the names of the sides that there are, and what failed of ours."""
    found, failed = turns.take(order, options.turns, options.limit)
    keys, names = turns.measured(found)
    rows = []
    for key, unit in keys.items():
        row = {"name": key[0], "bytes": key[1], "unit": unit}
        row |= {name: running.middle(turns.values(found, name, key)) for name in names}
        limit = 1.0 if where == "node" else TARGETS.get(key[:2]) or TARGETS.get((key[0], None))
        turns.judge(row, found, sides.competing(names, where, key[0]), key, limit)
        rows.append(row)
    return rows, names, failed


def table(rows, names):
    return turns.table(rows, names, ("name", "bytes"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sides.arguments(parser)
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds one run may take")
    parser.add_argument("--all", dest="size", action="store_const", const="all", default="quick",
                        help="every size, not 8 bytes and a few more")
    parser.add_argument("--path", choices=LARGEST, default="tcp")
    options = parser.parse_args()
    order = sides.jobs(options, options.path, 2, ["rma_bench", options.size, str(LARGEST[options.path])])
    about = running.machine([("openmpi", running.first_line([options.mpirun, "--version"]).removeprefix("mpirun (Open MPI) ")),
                             ("libfabric", running.first_line(["fi_info", "--version"]).removeprefix("fi_info: "))])
    rows, names, failed = measure(options, options.path, order)
    targets = [turns.target(f"{options.path} {row['name']} {row['bytes']} B", row) for row in rows if "limit" in row]
    running.write(options.json, about, rows, targets)
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.turns} turns\n")
    print(table(rows, names))
    for line in failed:
        print(f"wire: {line}", file=sys.stderr)
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
