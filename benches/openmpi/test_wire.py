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

# This mpirun prints a latency of 1 us for osc/pt2pt, and a latency of 4 us and a rate for other
# components.
MPIRUN = """#!/bin/sh
case "$*" in *"osc pt2pt"*) echo 'put_latency 8 1 1 us' ;; *) echo 'put_latency 8 1 4 us'; echo 'put_rate 8 1 2 Mop/s' ;; esac
"""


def run(path):
    """Exit code, rows by name, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        program, written = Path(folder, "mpirun"), Path(folder, "out.json")
        program.write_text(MPIRUN, encoding="utf-8")
        program.chmod(0o755)
        ended = subprocess.run(
            [sys.executable, Path(__file__).with_name("wire.py"), "--mpirun", program, "--bin", folder, "--component", folder,
             "--system", folder, "--json", written, "--turns", "2", "--path", path],
            capture_output=True, text=True, check=False)
        rows = json.loads(written.read_text(encoding="utf-8"))["rows"]
        return ended.returncode, {row["name"]: row for row in rows}, ended.stdout + ended.stderr


class Competing(unittest.TestCase):
    def test_who_counts_what_was_only_sent_is_no_measure(self):
        names = ["ours, net", "C btl/ofi, net", "osc/ucx, tcp", "MPICH, tcp"]

        def left(where, name):
            return [side for side in names if side not in sides.competing(names, where, name)]

        for name in ("put_latency", "put_rate_own", "put_flush_rate_shared"):
            self.assertEqual(left("tcp", name), ["C btl/ofi, net", "MPICH, tcp"])
            self.assertEqual(left("node", name), [])
        self.assertEqual(left("tcp", "put_bandwidth"), ["C btl/ofi, net"])
        for name in ("put_seen_latency", "get_latency", "send_latency", "window_create_free"):
            self.assertEqual(left("tcp", name), [])

    def test_nothing_of_the_path_over_tcp_goes_by_shared_memory(self):
        options = types.SimpleNamespace(component="ours", system="theirs")
        for name, settings, _ in sides.tcp(options):
            self.assertNotIn("vader", settings.get("btl", ""), name)


class Judged(unittest.TestCase):
    def test_the_side_that_is_furthest_ahead_is_the_measure(self):
        code, rows, printed = run("node")
        row = rows["put_latency"]
        self.assertEqual((code, row["best_other"], row["ratio"], row["met"]), (0, "osc/pt2pt, btl/vader", 4.0, False))
        self.assertIn("**1**", printed)
        self.assertIsNone(rows["put_rate"]["osc/pt2pt, btl/vader"])

    def test_limits_between_nodes_are_by_name(self):
        code, rows, _ = run("tcp")
        self.assertEqual((code, rows["put_latency"]["limit"], rows["put_rate"]["limit"]), (0, 0.8, 1.5))


if __name__ == "__main__":
    unittest.main()
