#!/usr/bin/env python3
"""Runs what `./dev hosts bench` compares on two hosts, turn by turn, and prints a table of each kind.

Windows over TCP: rma_bench, and the programs of `./dev bench applications`, between two ranks under each transport that
Open MPI has. Two ranks on each host: host-stub's put, get and fetch-op to the other rank of its host and to one of the other
host, beside jobs that have this one route only. First put: beside raw libfabric's connect and put. Only the standard library is needed.
"""

import argparse
import json
import os
import subprocess
import sys

import programs
import running
import sides
import wire

def start(options, hosts, program, *more):
    """The command line of a program that is not Open MPI's, with a rank on each of the hosts. Ranks 0 and 1, which measure, have a
    processor each; the others give way to them, as if they had processors of their own."""
    line = options.mpirun.split()
    for rank, host in enumerate(hosts):
        line += [":"] if rank else []
        line += ["-n", "1", "--host", f"{host}:1", "--oversubscribe", "--bind-to", "none", *more, "-x", "FI_TCP_IFACE=eth0",
                 "-x", f"OMPI_MCA_btl_ofi_if_include={sides.NETWORK}"]
        line += ["taskset", "-c", str(rank % (os.cpu_count() or 1))] + (["nice", "-n", "19"] if rank > 1 else []) + program
    return line


def latency(command, limit):
    """The median latency of 8 bytes in microseconds, and whether the run ended well."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=True)
        rows = json.loads(ended.stdout)["rows"]
        return next(row["latency_us"]["median"] for row in rows if row["size"] == 8)
    except (OSError, ValueError, KeyError, StopIteration, subprocess.SubprocessError) as error:
        print(f"hosts: {' '.join(command)}: {error} {getattr(error, 'stderr', '') or ''}", file=sys.stderr)
        return None


def rows_of(found, failed, targets):
    """Rows of pairs: `found` has for (measurement, route) a list of (of both routes, of the one route alone)."""
    rows = []
    for (name, route), pairs in found.items():
        ours, alone = (running.middle([pair[i] for pair in pairs]) for i in (0, 1))
        if ours is None or alone is None:
            failed.append(f"{name}, {route}: not measured")
        ratio = ours / alone if ours and alone else None
        limit = targets.get((name, route))
        rows.append({"name": name, "route": route, "ours": ours, "beside": alone, "ratio": ratio, "limit": limit,
                     "met": None if ratio is None or limit is None else ratio <= limit})
    return rows


def routes(options, failed):
    """Two ranks on each host, beside one host's four, and beside ranks that reach all others by the provider."""
    near, far, off = ("h1", "h1", "h2", "h2"), ("h1", "h2", "h1", "h2"), ("-x", "OMPI_MCA_btl_ofi_same_node=off")
    found = {}
    for turn in range(options.turns):
        for name in ("put", "get", "fop"):
            bench = [options.host, "bench", name, "--provider", options.provider, "--table", "auto", "--max-size", "8",
                     "--seconds", "2", "--json"]
            pairs = {
                "same host": (start(options, near, bench), start(options, ("h1",) * 4, bench)),
                "other host": (start(options, far, bench), start(options, far, bench, *off)),
            }
            for route, commands in pairs.items():
                order = (1, 0) if turn % 2 else (0, 1)
                values = {i: latency(commands[i], options.limit) for i in order}
                found.setdefault((name, route), []).append((values[0], values[1]))
        print(f"turn {turn + 1} of {options.turns}, two ranks on each host", file=sys.stderr, flush=True)
    return rows_of(found, failed, {("put", "same host"): 1.1, ("put", "other host"): 1.05})


def first_puts(options, failed):
    """The first put between two hosts, beside raw libfabric's connect and put, in the same processes."""
    pairs = []
    for turn in range(4 * options.turns):
        command = start(options, ("h1", "h2"), [
            options.overhead, "--provider", options.provider, "--first", ("raw", "transport")[turn % 2]])
        found, _ = running.run(command, options.limit)
        one = [found.get((name, 8, 1), (None,))[0] for name in ("first_put", "first_put_raw")]
        pairs.append(tuple(one))
    return rows_of({("first put", "other host"): pairs}, failed, {("first put", "other host"): 1.2})


def table(rows):
    lines = ["| 8 bytes | to a rank of | ours, us | beside, us | ours / beside | target | met |",
             "| --- | --- | --: | --: | --: | --- | --- |"]
    for row in rows:
        cells = [running.number(row["ours"]), running.number(row["beside"])]
        if row["ratio"] is not None:
            at = 0 if row["ratio"] <= 1 else 1
            cells[at] = f"**{cells[at]}**"
        met = {True: "yes", False: "no", None: ""}[row["met"]]
        limit = f"at most {row['limit']}" if row["limit"] else ""
        lines.append(f"| {row['name']} | {row['route']} | {' | '.join(cells)} | {running.number(row['ratio'])} | {limit} | {met} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sides.arguments(parser)
    parser.add_argument("--host", required=True, help="host-stub")
    parser.add_argument("--overhead", required=True, help="the program that makes raw calls")
    parser.add_argument("--provider", default="tcp;ofi_rxm", help="of host-stub and of the raw calls")
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", choices=("windows", "routes", "applications"), help="one of the tables")
    parser.add_argument("--limit", type=float, default=120, help="seconds one run may take")
    parser.set_defaults(size="quick")
    options = parser.parse_args()
    about = running.machine([("openmpi", running.first_line(["mpirun", "--version"]).removeprefix("mpirun (Open MPI) ")),
                             ("libfabric", running.first_line(["fi_info", "--version"]).removeprefix("fi_info: "))])
    own, rows, names, solved, failed = [], [], [], [], []
    if options.only in (None, "routes"):
        own = first_puts(options, failed) + routes(options, failed)
    options.mpirun += " --host h1:1,h2:1"
    if options.only in (None, "windows"):
        rows, names, wrong = wire.measure(options, "hosts")
        failed += wrong
    if options.only in (None, "applications"):
        solved, wrong = programs.measure(options, programs.between_hosts())
        failed += wrong
    running.write(options.json, about, own + rows + solved)
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.turns} turns\n")
    if rows:
        print(wire.table(rows, names))
    if solved:
        programs.tables("applications", solved)
    if own:
        print(f"\nhost-stub over {options.provider}. The first put is beside raw libfabric's connect and put; the others, of two ranks"
              "\non each of two hosts, beside four ranks on one host, and beside ranks that reach all others by the provider.\n")
        print(table(own))
    for line in failed:
        print(f"hosts: {line}", file=sys.stderr)
    return 1 if failed or not own + rows + solved else 0


if __name__ == "__main__":
    sys.exit(main())
