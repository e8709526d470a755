"""What programs.py makes of runs that succeed, fail, or never end: a fake mpirun takes the place of every side's.

`python3 -m unittest discover -s benches/openmpi` runs it.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import turns

# Finds the side of the job by its settings, and then does the steps of the test for this side.
FAKE = """#!/bin/sh
case "$*" in
    *mca_base_component_path*"osc rdma"*) side=rdma ;;
    *mca_base_component_path*) side=ours ;;
    *"osc pt2pt"*) side=pt2pt ;;
    *"osc ucx"*) side=ucx ;;
    *"osc sm"*) side=sm ;;
    *) side=c ;;
esac
eval "does=\\$DOES_$side"
case "$does" in
    wrong) echo 'gups: the result is wrong in 3 places' >&2; exit 1 ;;
    endless) exec sleep 60 ;;
    *) echo "gups_accumulate 8 1 $does s"; echo "a word of mpirun's" ;;
esac
"""


def run(part="applications", limit="20", **does):
    """Exit code, targets by name, and what was printed, where each side does what is said."""
    with tempfile.TemporaryDirectory() as folder:
        fake, written = Path(folder, "mpirun"), Path(folder, "out.json")
        fake.write_text(FAKE, encoding="utf-8")
        fake.chmod(0o755)
        environment = {**os.environ, **{f"DOES_{side}": what for side, what in does.items()}}
        ended = subprocess.run(
            [sys.executable, Path(__file__).with_name("programs.py"), "--mpirun", fake, "--bin", folder, "--component", folder,
             "--system", folder, "--json", written, "--turns", "2", "--limit", limit, "--path", "tcp", part],
            capture_output=True, text=True, env=environment, check=False)
        targets = json.loads(written.read_text(encoding="utf-8"))["targets"]
        return ended.returncode, {target["name"]: target for target in targets}, ended.stdout + ended.stderr


class Programs(unittest.TestCase):
    def test_the_best_other_side_is_the_measure(self):
        code, targets, _ = run(ours="2", rdma="6", pt2pt="4", ucx="8", c="5")
        (name, target), = targets.items()
        self.assertEqual(code, 0)
        self.assertIn("osc/pt2pt", name)
        self.assertEqual((target["value"], target["met"], target["spread"]), (0.5, True, [0.5, 0.5]))

    def test_behind_one_side_is_not_met(self):
        code, targets, printed = run(ours="2", rdma="6", pt2pt="4", ucx="1", c="5")
        (name, target), = targets.items()
        self.assertEqual(code, 0)
        self.assertIn("osc/ucx", name)
        self.assertEqual((target["value"], target["met"]), (2.0, False))
        self.assertIn("**1**", printed)

    def test_osc_rdma_over_our_component_competes(self):
        code, targets, _ = run(ours="2", rdma="1", pt2pt="4", ucx="8", c="5")
        (name, target), = targets.items()
        self.assertEqual(code, 0)
        self.assertIn("over ours, ", name)
        self.assertEqual((target["value"], target["met"]), (2.0, False))

    def test_a_wrong_result_of_ours_fails(self):
        code, targets, printed = run(ours="wrong", rdma="6", pt2pt="4", ucx="1", c="5")
        (target,) = targets.values()
        self.assertEqual(code, 1)
        self.assertEqual((target["value"], target["met"]), (None, False))
        self.assertIn("wrong in 3 places", printed)

    def test_a_wrong_result_of_another_is_no_measure(self):
        code, targets, _ = run(ours="2", rdma="6", pt2pt="4", ucx="wrong", c="wrong")
        (name, target), = targets.items()
        self.assertEqual(code, 0)
        self.assertIn("osc/pt2pt", name)
        self.assertEqual(target["value"], 0.5)

    def test_a_run_of_ours_without_end_fails(self):
        code, targets, printed = run("threads", "0.5", ours="endless", rdma="6", pt2pt="4", ucx="1", c="5")
        self.assertEqual(code, 1)
        self.assertTrue(all(not target["met"] for target in targets.values()))
        self.assertIn("no end after 0.5 s", printed)


class Ratios(unittest.TestCase):
    def test_ratios_are_of_the_same_turn(self):
        key = ("send_latency", 8, 1)
        found = {"ours, a": [{key: (1.0, "s")}, {key: (6.0, "s")}], "ours, b": [{}, {key: (4.0, "s")}],
                 "other": [{key: (2.0, "s")}, {key: (4.0, "s")}], "failed once": [{}, {key: (1.0, "s")}]}
        over = turns.ratios(found, list(found), key, "s")
        self.assertEqual(over, {"other": (0.75, 0.5, 1.0), "failed once": (4.0, 4.0, 4.0)})


if __name__ == "__main__":
    unittest.main()
