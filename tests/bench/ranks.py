"""A lab of more and more ranks on one machine: what each rank more costs, and what a thousand would.

    $ python -m tests.bench ranks --ranks 4,8,16,32

Each round makes a lab of every size in turn, in a process of its own. Ranks that have no core to themselves
wait for one another, so `ready`, `cell` and `all_reduce` say more of the machine than of labkit. What one
process does for all ranks is what limits a cluster: the controller, to which ranks come when they start, and
the notebook, which watches them while a cell runs. Of their seconds of processor time the last lines give a
constant and a slope, by least squares. (Where looks would take the notebook more than an eighth of a core, it
looks less often: labkit.lab.cell.)
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median
from typing import TYPE_CHECKING

import psutil

from tests.bench.machine import circumstances, deliver, heading

if TYPE_CHECKING:  # each round imports them anew, in processes of its own
    from labkit.lab.lab import Lab

CELLS = 20
REDUCTIONS = 50
SLEEPS = 3.0
"""Seconds for which the notebook watches ranks that run a cell, and for which an idle lab is looked at."""
FAR = 1024
"""Ranks, to which the lines are drawn on."""

FIRST = "x = torch.ones(1); dist.all_reduce(x); assert x.item() == world_size"
REDUCE = f"""
import time
dist.barrier()
begin = time.perf_counter()
for _ in range({REDUCTIONS}):
    dist.all_reduce(x)
seconds = (time.perf_counter() - begin) / {REDUCTIONS}
"""
DEADLOCK = "dist.recv(x, src=(rank + 1) % world_size)"


@dataclass(frozen=True)
class Column:
    """What is measured, its unit, and how many of that unit are a second; `of_all`: one process does it for
    all ranks.
    """

    name: str
    unit: str
    per: float = 1e3
    of_all: bool = False

    @property
    def width(self) -> int:
        return max(len(self.name), 10) + 2

    def text(self, seconds: float) -> str:
        return f"{self.per * seconds:.2f} {self.unit}"


COLUMNS = (
    Column("ready", "s", 1),
    Column("cell", "ms"),
    Column("all_reduce", "ms"),
    Column("verdict", "s", 1),
    Column("controller to start", "ms", of_all=True),
    Column("controller idle", "ms/s", of_all=True),
    Column("notebook in a cell", "ms/s", of_all=True),
)


def lab_of(ranks: int) -> dict[str, float]:
    """One lab, from its start to its end; seconds, in some columns per second."""
    from IPython.core.interactiveshell import InteractiveShell

    import labkit
    from labkit.lab.outcome import CellError

    magics = InteractiveShell.instance().magics_manager.magics["cell"]
    begin = time.perf_counter()
    lab = labkit.start(ranks)
    magics["px"]("", FIRST)
    found = {"ready": time.perf_counter() - begin}
    controller, notebook = _controller(lab), psutil.Process()
    found["controller to start"] = _processor(controller)
    found["controller idle"] = _a_second_of(controller, lambda: time.sleep(SLEEPS))
    found["cell"] = median(_seconds(lambda: magics["px"]("", "pass")) for _ in range(CELLS))
    sleeping = f"import time; time.sleep({SLEEPS})"
    found["notebook in a cell"] = _a_second_of(notebook, lambda: magics["px"]("", sleeping))
    magics["px"]("", REDUCE)
    found["all_reduce"] = max(lab.client[:]["seconds"])
    begin = time.perf_counter()
    try:
        magics["px"]("", DEADLOCK)
    except CellError:
        found["verdict"] = time.perf_counter() - begin
    magics["px"]("", FIRST)
    lab.stop()
    return found


def _controller(lab: "Lab") -> psutil.Process:
    from labkit.launch import processes

    (controller,) = processes.of_lab(lab.folder.name, module="ipyparallel.controller")
    return controller


def _processor(process: psutil.Process) -> float:
    """Seconds of processor time that it has had."""
    times = process.cpu_times()
    return times.user + times.system


def _a_second_of(process: psutil.Process, act: Callable[[], object]) -> float:
    """Seconds of processor time that the process takes, in a second of the act."""
    before = _processor(process)
    took = _seconds(act)
    return (_processor(process) - before) / took


def _seconds(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def measure(ranks: int) -> dict[str, float]:
    """A lab of so many ranks, in a process of its own."""
    code = f"import json\nfrom {__name__} import lab_of\nprint(json.dumps(lab_of({ranks})))"
    environment = os.environ | {"LABKIT_SPARE": "0"}
    for name in ("LABKIT_HOSTS", "LABKIT_CHECK"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=600, env=environment
    )
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def line(rows: list[dict], what: str) -> tuple[float, float]:
    """Constant and slope, in seconds and seconds per rank, of what was measured at several sizes."""
    fitted = linear_regression([row["ranks"] for row in rows], [median(row["seconds"][what]) for row in rows])
    return fitted.intercept, fitted.slope


def table(document: dict) -> str:
    """Medians, and lines through them, of what a JSON file holds."""
    rows, lines = document["rows"], [f"{document['rounds']} rounds; {heading(document)}"]
    lines.append("ranks" + "".join(f"{column.name:>{column.width}}" for column in COLUMNS))
    for row in rows:
        texts = [f"{c.text(median(row['seconds'][c.name])):>{c.width}}" for c in COLUMNS]
        lines.append(f"{row['ranks']:5}" + "".join(texts))
    if len(rows) > 1:
        lines.append(f"{'':24}{'constant':>16}{'each rank':>16}{f'{FAR:,} ranks':>16}")
        for column in filter(lambda column: column.of_all, COLUMNS):
            constant, slope = line(rows, column.name)
            texts = [column.text(seconds) for seconds in (constant, slope, constant + slope * FAR)]
            lines.append(f"{column.name:24}{texts[0]:>16}{texts[1]:>16}{texts[2]:>16}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench ranks", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="4,8,16,32", help="sizes, separated by commas")
    parser.add_argument("--rounds", type=int, help="5, or 1 with --quick")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    before, rounds = circumstances(), options.rounds or (1 if options.quick else 5)
    sizes = [int(size) for size in options.ranks.split(",")]
    found = [{ranks: measure(ranks) for ranks in sizes} for _ in range(rounds)]
    names = [column.name for column in COLUMNS]
    rows = [
        {"ranks": ranks, "seconds": {what: [one[ranks][what] for one in found] for what in names}}
        for ranks in sizes
    ]
    measured = before | {"rounds": rounds, "rows": rows}
    deliver(measured, table(measured), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
