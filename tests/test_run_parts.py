"""The parts of the test suite: one that is ended from outside still says what ran and what did not."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
FOR_EVER = "import time; print('begun', flush=True); time.sleep(600)"
THREE = f"""
from tests import run_parts
from tests.run_parts import Part, in_turn
for_ever = Part("for ever", 9, ("-c", {FOR_EVER!r}))
run_parts.PARTS["three"] = (*in_turn(Part("short", 9, ("-c", "pass"))), ((for_ever,), (for_ever,)))
run_parts.PARTS["three"] += in_turn(Part("after it", 9, ("-c", "pass")))
raise SystemExit(run_parts.main("three"))
"""


def test_ended_from_outside_it_says_what_ran():
    parts = subprocess.Popen([sys.executable, "-c", THREE], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while len(running := psutil.Process(parts.pid).children()) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    parts.send_signal(signal.SIGTERM)
    said, _ = parts.communicate(timeout=60)
    assert parts.returncode == 1 and not any(process.is_running() for process in running)
    table = said[said.index("part  ") :]
    for part, verdict in ("short", "passed"), ("for ever", "ended from outside"), ("after it", "not run"):
        assert any(line.startswith(part) and verdict in line for line in table.splitlines()), table
