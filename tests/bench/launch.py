"""Start the ranks of one measurement and collect what rank 0 wrote.

On this machine mpiexec starts them, with the settings that raw MPI has anywhere; on hosts, `labkit run` does.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from labkit import LabError
from labkit.launch import find_mpi
from tests.bench.plan import Plan, TracePlan

LAUNCH_SECONDS = 900
ROOT = Path(__file__).parents[2]


def launch(
    plan: Plan | TracePlan,
    ranks: int,
    module: str = "tests.bench.worker",
    hosts: str | None = None,
) -> list[dict]:
    """One set of ranks measures the plan in `module`: here, or on `hosts` such as "a:2,b:2".

    Hosts and this machine have the folder of labkit in common.
    """
    mpi = find_mpi()
    inherited = {name: value for name, value in os.environ.items() if name != "LABKIT_CHECK"}
    start = [mpi.mpiexec, "-n", ranks, sys.executable]
    if hosts:
        start = [sys.executable, "-m", "labkit.commands", "run", "-n", ranks, "--hosts", hosts]
    with tempfile.TemporaryDirectory(prefix="labkit-bench-", dir=ROOT if hosts else None) as name:
        given, found = Path(name) / "plan.json", Path(name) / "found.json"
        given.write_text(json.dumps(asdict(plan)))
        command = [*start, "-m", module, given, found]
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
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
            where = f"the hosts {hosts}" if hosts else f"{ranks} ranks"
            raise LabError(f"a measurement on {where}", output[-2000:], "see what the ranks say above")
        return json.loads(found.read_text())
