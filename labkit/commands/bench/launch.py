"""Start the ranks of one measurement and collect what rank 0 wrote."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from labkit import LabError
from labkit.commands.bench.plan import Plan, TracePlan
from labkit.launch import find_mpi

LAUNCH_SECONDS = 900


def launch(plan: Plan | TracePlan, ranks: int, module: str = "labkit.commands.bench.worker") -> list[dict]:
    """One set of ranks, started by the mpiexec of this environment, measures the plan in `module`."""
    mpi = find_mpi()
    inherited = {name: value for name, value in os.environ.items() if name != "LABKIT_CHECK"}
    with tempfile.TemporaryDirectory(prefix="labkit-bench-") as name:
        given, found = Path(name) / "plan.json", Path(name) / "found.json"
        given.write_text(json.dumps(asdict(plan)))
        command = [mpi.mpiexec, "-n", ranks, sys.executable, "-m", module, given, found]
        process = subprocess.Popen(
            [str(part) for part in command],
            env=inherited | mpi.environment() | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        try:
            output, _ = process.communicate(timeout=LAUNCH_SECONDS)
        except BaseException:
            process.terminate()
            process.wait(10)
            raise
        if not found.exists():
            raise LabError(f"a measurement on {ranks} ranks", output[-2000:], "see what the ranks say above")
        return json.loads(found.read_text())
