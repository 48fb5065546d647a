"""Start the ranks of one measurement and collect what rank 0 wrote."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from labkit.bench.plan import Plan
from labkit.errors import LabError

LAUNCH_SECONDS = 900


def environment() -> dict[str, str]:
    """One thread per rank, and what Open MPI wants to hear before it runs more ranks than cores."""
    quirks = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    base = {name: value for name, value in os.environ.items() if name != "LABKIT_CHECK"}
    return base | quirks | {"OMP_NUM_THREADS": "1"}


def launch(plan: Plan, ranks: int) -> list[dict]:
    """One set of ranks, started by the mpiexec of this environment, measures the plan."""
    mpiexec = Path(sys.prefix) / "bin" / "mpiexec"
    if not mpiexec.exists():
        raise LabError(f"{ranks} ranks", f"no mpiexec in {sys.prefix}", "pip install 'labkit[mpich]'")
    with tempfile.TemporaryDirectory(prefix="labkit-bench-") as name:
        given, found = Path(name) / "plan.json", Path(name) / "found.json"
        given.write_text(json.dumps(asdict(plan)))
        command = [mpiexec, "-n", ranks, sys.executable, "-m", "labkit.bench.rank", given, found]
        process = subprocess.Popen(
            [str(part) for part in command],
            env=environment(),
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
