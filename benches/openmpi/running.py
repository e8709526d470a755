"""Runs a program that prints measurements, and writes what was measured with what it depends on."""

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
from pathlib import Path

# Units of rma_bench's lines.
UNITS = ("us", "ms", "s", "MB/s", "Mop/s")


def run(command, limit, environment=None):
    """Measurements of one run as {(name, bytes, threads): (value, unit)}, and whether it ended well. Values that were
    measured before a failure count as well."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)
    wrong = None
    try:
        out, err = process.communicate(timeout=limit)
        if process.returncode != 0:
            wrong = f"exit {process.returncode}: {' '.join(command)}\n{err.strip()[-800:]}"
    except subprocess.TimeoutExpired:
        # A launcher ends its ranks if it gets a signal to end.
        process.terminate()
        try:
            out, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired as late:
            # The process's group is killed with it. Processes outside the group may keep the pipe
            # open, so this code does not wait for its end.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out = os.fsdecode(late.output or b"")
        wrong = f"no end after {limit} s: {' '.join(command)}"
    found = {}
    for line in out.splitlines():
        parts = line.split()
        # A launcher that ends its ranks prints its own lines.
        if len(parts) == 5 and parts[4] in UNITS:
            found[(parts[0], int(parts[1]), int(parts[2]))] = (float(parts[3]), parts[4])
    if wrong:
        last = " ".join(map(str, list(found)[-1])) if found else "nothing"
        print(f"running: {wrong}\nrunning: the last that it measured: {last}", file=sys.stderr)
    return found, not wrong


def middle(values):
    """The median of those that there are."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def number(value):
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


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
