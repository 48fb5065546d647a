"""The page of benchmarks, made from what `labkit bench collectives --json` has written."""

import json
from pathlib import Path

from labkit.bench.report import Row, table

ABOVE = """# Benchmarks

Seconds per call, medians over several launches; within a launch the contenders take turns, so that what
else the machine does falls on all alike. `gloo` is PyTorch's own backend for CPUs, `raw` is blocking
mpi4py, `mpi` is labkit's backend, and `checked` is that backend as a lab uses it, comparing every call
between ranks."""
NONE = """No measurement is kept yet. On a quiet machine:

    python -m labkit bench collectives --ranks 4 --json tests/benchmarks/collectives_4.json"""


def page(folder: Path) -> str:
    """Markdown with a table per file of measurements in the folder, or how to make one."""
    found = [section(path) for path in sorted(folder.glob("collectives*.json"))]
    return "\n\n".join([ABOVE, *(found or [NONE])]) + "\n"


def section(path: Path) -> str:
    kept = json.loads(path.read_text())
    rows = [Row(row["verb"], row["bytes"], row["seconds"]) for row in kept["rows"]]
    return f"## {kept['ranks']} ranks\n\n```text\n{table(rows)}\n```"
