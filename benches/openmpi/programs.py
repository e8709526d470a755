#!/usr/bin/env python3
"""Runs the programs of one part of the suite under each transport that Open MPI has for windows and under MPICH, turn by turn.

applications: random updates, a halo exchange, a hash table; time to solution of right results. threads: rates of threads with
a window each or one for all. startup: MPI_Init to the first put, windows, MPI_Finalize, over numbers of ranks.

Writes a JSON file with the part's targets, which the report reads, and prints a Markdown table for each path, whose best values
are bold. A failed or wrong run of ours fails the part. Only the standard library is needed.
"""

import argparse
import os
import sys
from dataclasses import dataclass

import running
import sides
import turns


@dataclass
class Job:
    """A program with its arguments, and where it runs."""
    where: str  # the path: node, tcp, net or hosts
    ranks: int
    program: list
    windows: str = "create"  # or allocate


# The sizes of the applications: larger where an operation takes less time, so that each run takes some hundredths of a
# second.
WITHIN = [["gups", "65536", "20000"], ["halo", "256", "1000"], ["hash_table", "10000"]]
BETWEEN = [["gups", "65536", "2000"], ["halo", "256", "500"], ["hash_table", "1000"]]


def applications():
    within = [Job("node", 2, [name, windows, *rest], windows) for windows in ("create", "allocate") for name, *rest in WITHIN]
    # Within a node Open MPI shares memory that it allocates, on every path, so such a window measures no path
    # between nodes.
    return within + [Job(where, 2, [name, "create", *rest]) for where in ("tcp", "net") for name, *rest in BETWEEN]


def between_hosts():
    """The applications on two hosts."""
    return [Job("hosts", 2, [name, windows, *rest], windows) for windows in ("create", "allocate") for name, *rest in BETWEEN]


def threads():
    return [Job(where, 2, ["rma_mt", "1,2,4"]) for where in ("node", "tcp", "net")]


def startup():
    return [Job("node", ranks, ["startup"]) for ranks in (2, 4, 8, 16)] + [Job("tcp", ranks, ["startup"]) for ranks in (2, 8)]


PARTS = {"applications": applications, "threads": threads, "startup": startup}


def limit_of(name):
    """What our ratio must reach: we must not be behind any side. Start and end may take 1.05 of the best."""
    return 1.05 if name.startswith(("init", "window", "finalize")) else 1.0


def rows_of(job, found):
    """Rows of one job, judged."""
    keys, names = turns.measured(found)
    rows = []
    for key, unit in keys.items():
        name, size, count = key
        row = {"path": job.where, "windows": job.windows, "ranks": job.ranks, "name": name, "bytes": size, "threads": count, "unit": unit,
               "turns": {side: turns.values(found, side, key) for side in names}}
        row |= {side: running.middle(values) for side, values in row["turns"].items()}
        turns.judge(row, found, sides.competing(names, job.where, name), key, limit_of(name))
        rows.append(row)
    return rows


def measure(options, jobs, keep=lambda rows: None):
    """Runs jobs one after the other, each under all sides in turns. The rows, which `keep` gets after each job, and what
    failed of ours."""
    rows, failed = [], []
    for job in jobs:
        order = sides.jobs(options, job.where, job.ranks, job.program, job.windows)
        found, wrong = turns.take(order, options.turns, options.limit, f"{' '.join(job.program)}, {job.ranks} ranks, {job.where}: ")
        rows += rows_of(job, found)
        failed += wrong
        keep(rows)
    return rows, failed


def target(row):
    """A row as the report has targets."""
    where = f"{row['path']}, {row['ranks']} ranks" + (f", {row['threads']} thread(s)" if "_rate_" in row["name"] else "")
    made = "" if row["name"].startswith(("window", "init", "finalize")) else f", MPI_Win_{row['windows']}"
    return turns.target(f"{row['name']}, {where}{made}", row)


def tables(part, rows):
    """A table for each path and way to make windows."""
    leading = {"applications": ["name"], "threads": ["name", "threads"], "startup": ["name", "ranks"]}[part]
    for where, windows in dict.fromkeys((row["path"], row["windows"]) for row in rows):
        kept = [row for row in rows if (row["path"], row["windows"]) == (where, windows)]
        shown = list(dict.fromkeys(name for row in kept for name in row["turns"]))
        print(f"\n{part}, {where}, MPI_Win_{windows}\n" if part == "applications" else f"\n{part}, {where}\n")
        print(turns.table(kept, shown, leading))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sides.arguments(parser)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--limit", type=float, default=30, help="seconds one run may take")
    parser.add_argument("--path", choices=("node", "tcp", "net"), help="this path alone")
    options = parser.parse_args()
    about = running.machine([("openmpi", running.first_line([options.mpirun, "--version"]).removeprefix("mpirun (Open MPI) ")),
                             ("libfabric", running.first_line(["fi_info", "--version"]).removeprefix("fi_info: "))])
    jobs = [job for job in PARTS[options.part]() if options.path in (None, job.where)]
    # The rows measured so far are kept if the rest fails.
    rows, failed = measure(options, jobs, lambda rows: running.write(options.json, about, rows, [target(row) for row in rows]))
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.turns} turns, load {os.getloadavg()[0]:.1f}")
    tables(options.part, rows)
    for line in failed:
        print(f"programs: {line}", file=sys.stderr)
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
