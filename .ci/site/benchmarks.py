"""The page of benchmarks, made from what `python -m tests.bench --json` has written."""

import json
from pathlib import Path

from tests.bench.__main__ import tables

ABOVE = """# Benchmarks

labkit against its peers, as `make bench` measures it. All numbers are medians. Within a launch or a round
the contenders take turns, so that what else the machine does falls on all alike; a ratio is the median of the
ratios within each. Ratios carry over to another machine better than seconds do.

`plain` is ipyparallel as its documentation starts it, `gloo` is PyTorch's own backend for CPUs, `raw` is
blocking mpi4py, `mpi` is labkit's backend, and `checked` is that backend as a lab uses it, comparing every
call between ranks. In the row `ddp_step`, `raw` is the same step without communication; in the rows
`flat ring`, `mpi` is an all-reduce and `raw` a ring of messages over all ranks. Collectives are seconds per
call on the slowest rank.

What one process does for all ranks is what limits a cluster. The table of more and more ranks ends with lines
through what was measured of the controller and of the notebook, drawn on to 1,024 ranks."""
NONE = """No measurement is kept yet. On a quiet machine:

    python -m tests.bench --json tests/bench/bench.json"""


def page(folder: Path) -> str:
    """Markdown with the tables of the measurements in the folder, or how to make some."""
    found = [section(path) for path in sorted(folder.glob("*.json"))]
    return "\n\n".join([ABOVE, *(found or [NONE])]) + "\n"


def section(path: Path) -> str:
    measured = tables(json.loads(path.read_text()))
    return "\n\n".join(
        f"## {what[0].upper()}{what[1:]}\n\n```text\n{table}\n```" for what, table in measured.items()
    )
