"""What wire.py makes of the sides of Open MPI: shell scripts take the place of every program.

`python3 -m unittest discover -s benches/openmpi` runs it.
"""

import json
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

import sides
import turns

# This mpirun prints a latency of 1 us for osc/pt2pt, and a latency of 4 us and a rate for other
# components.
MPIRUN = """#!/bin/sh
case "$*" in *"osc pt2pt"*) echo 'put_latency 8 1 1 us' ;; *) echo 'put_latency 8 1 4 us'; echo 'put_rate 8 1 2 Mop/s' ;; esac
"""


def run(path):
    """Exit code, rows by path, windows and name, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        program, written = Path(folder, "mpirun"), Path(folder, "out.json")
        program.write_text(MPIRUN, encoding="utf-8")
        program.chmod(0o755)
        ended = subprocess.run(
            [sys.executable, Path(__file__).with_name("wire.py"), "--mpirun", program, "--bin", folder, "--component", folder,
             "--system", folder, "--json", written, "--turns", "2", "--path", path],
            capture_output=True, text=True, check=False)
        rows = json.loads(written.read_text(encoding="utf-8"))["rows"]
        return ended.returncode, {(row["path"], row["windows"], row["name"]): row for row in rows}, ended.stdout + ended.stderr


class Competing(unittest.TestCase):
    def test_who_counts_what_was_only_sent_is_no_measure(self):
        names = ["ours, osc", "C btl/ofi", "osc/ucx, tcp", "MPICH, tcp"]

        def left(where, name):
            return [side for side in names if side not in sides.competing(names, where, name)]

        for name in ("put_latency", "put_rate_own", "put_flush_rate_shared"):
            self.assertEqual(left("net", name), ["C btl/ofi", "MPICH, tcp"])
            self.assertEqual(left("node", name), [])
        self.assertEqual(left("net", "put_bandwidth"), ["C btl/ofi"])
        for name in ("put_seen_latency", "get_latency", "send_latency", "window_create_free"):
            self.assertEqual(left("net", name), [])

    def test_who_starts_ranks_by_another_launcher_is_no_measure(self):
        for name in ("init", "init_to_first_put", "finalize"):
            self.assertEqual(sides.competing(["osc/pt2pt, btl/vader", "MPICH"], "node", name), ["osc/pt2pt, btl/vader"])

    def test_nothing_of_the_path_over_tcp_goes_by_shared_memory(self):
        options = types.SimpleNamespace(component="ours", system="theirs")
        for name, settings, _ in sides.tcp(options, "net"):
            btls = settings.get("btl", "")
            self.assertTrue(btls.startswith("^vader,") or "vader" not in btls, name)


class Judged(unittest.TestCase):
    def test_the_side_that_is_furthest_ahead_is_the_measure(self):
        code, rows, printed = run("node")
        row = rows["node", "create", "put_latency"]
        self.assertEqual((code, row["best_other"], row["ratio"], row["met"]), (0, "osc/pt2pt, btl/vader", 4.0, False))
        self.assertIn("**1**", printed)
        self.assertIsNone(rows["node", "create", "put_rate"]["osc/pt2pt, btl/vader"])

    def test_windows_of_mpi_are_beside_osc_sm(self):
        code, rows, _ = run("node")
        row = rows["node", "allocate", "put_latency"]
        self.assertEqual((code, row["best_other"], row["limit"], row["ratio"], row["met"]), (0, "osc/sm", 0.5, 1.0, False))

    def test_limits_between_nodes_are_by_name(self):
        code, rows, _ = run("wire")
        for path in ("tcp", "net"):
            self.assertEqual((code, rows[path, "create", "put_latency"]["limit"]), (0, 0.9))
            # osc/pt2pt alone is the measure of rates, and has none here.
            rate = rows[path, "create", "put_rate"]
            self.assertEqual((rate["limit"], rate["over"], rate["met"]), (1.5, {}, False))

    def test_one_turn_that_reaches_the_limit_is_enough(self):
        found = {"ours, osc": [{"x": (3.0, "us")}, {"x": (1.0, "us")}, {"x": (3.0, "us")}], "other": [{"x": (1.0, "us")}] * 3}
        for limit, met in ((1.0, True), (0.9, False)):
            row = {"unit": "us"}
            turns.judge(row, found, list(found), "x", limit)
            self.assertEqual((row["ratio"], row["met"]), (3.0, met))


if __name__ == "__main__":
    unittest.main()
