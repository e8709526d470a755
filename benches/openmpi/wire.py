#!/usr/bin/env python3
"""Runs rma_bench between two ranks over TCP under each transport that Open MPI has for it, and under MPICH, turn by turn.

The ranks are on one machine, but reach each other as those of two hosts do: nothing goes by shared memory. Bare sockets
are measured beside them. Writes a JSON file and prints a Markdown table whose best values are bold. Only the standard
library is needed.
"""

import argparse
import os
import sys

import compare

# What ours has to reach against each of the others: (name, bytes or None for all) -> (ratio, "most" or "least").
TARGETS = {
    ("put_latency", 8): (0.8, "most"),
    ("get_latency", 8): (0.8, "most"),
    ("fetch_op_latency", 8): (0.8, "most"),
    ("accumulate_latency", 8): (0.8, "most"),
    ("put_rate", 8): (1.5, "least"),
    ("put_bandwidth", None): (1.0, "least"),
    ("get_bandwidth", None): (1.0, "least"),
    ("send_latency", None): (0.8, "most"),
    ("send_bandwidth", None): (1.1, "least"),
}


# A side that is no transport: two processes with a socket between them, which none over TCP can beat by much.
FLOOR = "floor: TCP sockets"


def sides(options):
    """The sides between two ranks of this machine: the name, the command line and the environment of each."""
    ours = {
        "mca_base_component_path": f"{options.component}:{options.system}",
        "osc": "rdma",
        "btl": "self,ofi",
        "btl_ofi_mode": "2",
        "btl_ofi_same_node": "off",
    }
    ucx = {"pml": "ucx", "osc": "ucx"}
    for name in ("pml_ucx_tls", "pml_ucx_devices", "opal_common_ucx_tls", "opal_common_ucx_devices"):
        ucx[name] = "any"
    by_mpirun = [
        ("ours, net", {**ours, "opal_common_ofi_provider_include": "net"}, ["FI_TCP_IFACE=lo"]),
        ("ours, tcp;ofi_rxm", {**ours, "opal_common_ofi_provider_include": "tcp;ofi_rxm"}, ["FI_TCP_IFACE=lo"]),
        ("C btl/ofi, net", {"osc": "rdma", "btl": "self,vader,ofi", "btl_vader_single_copy_mechanism": "none",
                            "opal_common_ofi_provider_include": "net"}, ["FI_TCP_IFACE=lo"]),
        ("osc/pt2pt, btl/tcp", {"osc": "pt2pt", "btl": "self,tcp", "btl_tcp_if_include": "lo"}, []),
        ("osc/ucx, tcp", ucx, ["UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"]),
    ]
    found = [(name, mpirun(options, settings, exported), None) for name, settings, exported in by_mpirun]
    if options.mpich:
        environment = dict(os.environ, FI_PROVIDER="tcp", FI_TCP_IFACE="lo", MPIR_CVAR_CH4_NETMOD="ofi", MPIR_CVAR_NOLOCAL="1")
        found.append(("MPICH, tcp", [options.mpich, "-n", "2", options.mpich_program, options.size], environment))
    return [*found, (FLOOR, [options.floor, options.size], None)]


def mpirun(options, settings, exported):
    line = [*options.mpirun.split(), "-n", "2", "--oversubscribe", "--bind-to", "none"]
    for name, value in settings.items():
        line += ["--mca", name, value]
    for variable in exported:
        line += ["-x", variable]
    return line + [options.program, options.size]


def judge(row, names):
    """The ratio of our better side to the best of the others, and whether the target is met. The C component is no
    measure: its flush returns when the data is sent, not when it has arrived. So does MPICH's of small puts
    (benches/mpich/visible.c)."""
    target = TARGETS.get((row["name"], row["bytes"])) or TARGETS.get((row["name"], None))
    own = [row[name] for name in names if name.startswith("ours") and row[name] is not None]
    unconfirmed = ("C ", "MPICH") if row["name"] in ("put_latency", "put_rate") else ("C ",)
    others = [row[name] for name in names if not name.startswith(("ours", FLOOR, *unconfirmed)) and row[name] is not None]
    if not own or not others:
        return
    low = row["unit"] in ("us", "s")
    row["ratio"] = min(own) / min(others) if low else max(own) / max(others)
    if target:
        row["target"] = f"at {target[1]} {target[0]}"
        row["met"] = row["ratio"] <= target[0] if target[1] == "most" else row["ratio"] >= target[0]


def table(rows, names):
    lines = ["| measurement | bytes | unit | " + " | ".join(names) + " | ours / best other | target | met |",
             "| --- | --: | --- |" + " --: |" * len(names) + " --: | --- | --- |"]
    for row in rows:
        values = [row[name] for name in names if row[name] is not None and name != FLOOR]
        best = (min if row["unit"] in ("us", "s") else max)(values)
        cells = [("**{}**" if row[name] == best else "{}").format(compare.number(row[name])) for name in names]
        met = {True: "yes", False: "no", None: ""}[row.get("met")]
        lines.append(f"| {row['name']} | {row['bytes']} | {row['unit']} | " + " | ".join(cells)
                     + f" | {compare.number(row.get('ratio'))} | {row.get('target', '')} | {met} |")
    return "\n".join(lines)


def measure(options, order):
    """Runs the sides turn by turn. The rows, the names of the sides that there are, and what failed of ours."""
    found = {name: [] for name, *_ in order}
    failed = []
    for turn in range(options.turns):
        for name, line, environment in reversed(order) if turn % 2 else order:
            values, ended = compare.run(line, options.limit, environment)
            found[name].append(values)
            print(f"turn {turn + 1} of {options.turns}, {name}: {'ended' if ended else 'FAILED'}", file=sys.stderr, flush=True)
            if not ended and name.startswith("ours"):
                failed.append(f"a run of {name} failed")
    # A side that never measured anything is not installed here, or does not work.
    names = [name for name, runs in found.items() if any(runs)]
    every = [run for runs in found.values() for run in runs]
    rows = []
    for key in dict.fromkeys(key for run in every for key in run):
        row = {"name": key[0], "bytes": key[1], "unit": next(run[key][1] for run in every if key in run)}
        for name in names:
            row[name] = compare.middle([run[key][0] if key in run else None for run in found[name]])
        judge(row, names)
        rows.append(row)
    return rows, names, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--program", required=True, help="the compiled rma_bench")
    parser.add_argument("--component", required=True, help="folder that holds our mca_btl_ofi.so")
    parser.add_argument("--system", required=True, help="folder of the system's components")
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds one run may take")
    parser.add_argument("--all", dest="size", action="store_const", const="all", default="quick",
                        help="every size, not 8 bytes and a few more")
    parser.add_argument("--mpich", help="MPICH's mpiexec")
    parser.add_argument("--mpich-program", help="rma_bench, compiled for MPICH")
    parser.add_argument("--floor", required=True, help="the compiled tcp_floor")
    options = parser.parse_args()
    order = sides(options)
    about = compare.machine([("openmpi", compare.first_line([options.mpirun, "--version"]).removeprefix("mpirun (Open MPI) ")),
                             ("libfabric", compare.first_line(["fi_info", "--version"]).removeprefix("fi_info: "))])
    rows, names, failed = measure(options, order)
    compare.write(options.json, about, rows)
    print(", ".join(f"{k} {v}" for k, v in about.items()) + f"; medians of {options.turns} turns\n")
    print(table(rows, names))
    for line in failed:
        print(f"wire: {line}", file=sys.stderr)
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
