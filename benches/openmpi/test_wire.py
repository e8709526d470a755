"""What wire.py makes of GASNet-EX beside the sides of Open MPI: shell scripts take the place of every program.

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

PROGRAMS = {
    "mpirun": "echo 'put_latency 8 1 4 us'; echo 'put_rate 8 1 2 Mop/s'",
    "floor": "echo 'put_latency 8 1 0.5 us'",
    # They measure only under the settings of their conduits.
    "gasnet_smp": 'test "$GASNET_PSHM_NODES" = 2 && echo "put_latency 8 1 1 us"',
    "gasnet_udp": 'test "$1 $GASNET_SPAWNFN $GASNET_SUPERNODE_MAXSIZE" = "2 L 1" && echo "put_latency 8 1 5 us"',
    "broken/gasnet_smp": "echo 'put_latency 8 1 1 us'; echo 'gasnet_rma: no segment' >&2; exit 1",
}


def run(path, gasnet):
    """Exit code, rows by name, and what was printed, with GASNet's programs in a folder below the others', or without any."""
    with tempfile.TemporaryDirectory() as folder:
        for name, does in PROGRAMS.items():
            program = Path(folder, name)
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
            program.chmod(0o755)
        written = Path(folder, "out.json")
        line = [sys.executable, Path(__file__).with_name("wire.py"), "--mpirun", f"{folder}/mpirun", "--bin", folder,
                "--component", folder, "--system", folder, "--floor", f"{folder}/floor", "--json", written, "--turns", "2", "--path", path]
        if gasnet is not None:
            line += ["--gasnet", Path(folder, gasnet)]
        # Without the ucx_perftest that may be installed.
        ended = subprocess.run(line, capture_output=True, text=True, env={"PATH": folder}, check=False)
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


class Gasnet(unittest.TestCase):
    def test_it_is_a_side_within_a_node(self):
        code, rows, printed = run("node", "")
        row = rows["put_latency"]
        self.assertEqual(code, 0)
        self.assertEqual((row["GASNet-EX, smp"], row["best_other"]), (1.0, "GASNet-EX, smp"))
        self.assertEqual((row["ratio"], row["met"]), (4.0, False))
        self.assertIn("**1**", printed)
        self.assertIsNone(rows["put_rate"]["GASNet-EX, smp"])

    def test_it_is_a_side_between_nodes(self):
        code, rows, _ = run("tcp", "")
        row = rows["put_latency"]
        self.assertEqual(code, 0)
        self.assertEqual((row["GASNet-EX, udp"], row["over"]["GASNet-EX, udp"]), (5.0, [0.8, 0.8, 0.8]))

    def test_without_it_the_others_remain(self):
        code, rows, printed = run("node", None)
        self.assertEqual((code, rows["put_latency"]["ours, shm"]), (0, 4.0))
        self.assertNotIn("GASNet", printed)

    def test_its_failure_is_named_and_fails_nothing(self):
        code, rows, printed = run("node", "broken")
        self.assertEqual((code, rows["put_latency"]["GASNet-EX, smp"]), (0, 1.0))
        self.assertIn("GASNet-EX, smp: FAILED", printed)
        self.assertIn("no segment", printed)


if __name__ == "__main__":
    unittest.main()
