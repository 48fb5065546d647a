"""Seconds until ranks are ready, and of an empty cell, against plain ipyparallel in the same run.

    $ python -m tests.bench ready --ranks 4

*Ready* ends when a first cell has summed a tensor over all ranks with torch. Each round starts
both in turn, in fresh processes. A ratio is the median over the rounds of labkit over plain.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.bench.machine import circumstances, deliver, heading

if TYPE_CHECKING:  # each round imports them anew, in processes of its own
    from IPython.core.interactiveshell import InteractiveShell

    from labkit.lab.lab import Lab

FIRST_CELL = "x = torch.ones(1); dist.all_reduce(x); assert x.item() == dist.get_world_size()"
PLAIN_GROUP = """
import torch, torch.distributed as dist
from mpi4py import MPI
world = MPI.COMM_WORLD
store = dist.TCPStore("127.0.0.1", 0, world.size, True, wait_for_workers=False) if world.rank == 0 else None
port = world.bcast(store.port if store else None)
store = store or dist.TCPStore("127.0.0.1", port, world.size, False)
dist.init_process_group("gloo", store=store, rank=world.rank, world_size=world.size)
"""
CELLS = 30
SPARE_DEADLINE = 120.0


def plain(ranks: int) -> dict[str, float]:
    """A cluster as ipyparallel's documentation starts one."""
    begin = time.perf_counter()
    import ipyparallel as ipp
    from ipyparallel.client.magics import ParallelMagics

    with ipp.Cluster(engines="mpi", n=ranks, log_level=40) as client:
        client.wait_for_engines(ranks, timeout=120, interactive=False)
        client[:].execute(PLAIN_GROUP + FIRST_CELL, block=True)
        cold = time.perf_counter() - begin
        view = client[:]
        view.block = True
        magics = ParallelMagics(_shell(), view)
        cell = _cell_seconds(lambda: magics.cell_px("--no-stream --progress-after -1", "pass"))
    return {"cold": cold, "cell": cell}


def labkit(ranks: int) -> dict[str, float]:
    """The same with labkit: cold, started again (the running lab is adopted), restarted."""
    begin = time.perf_counter()
    shell = _shell()
    import labkit

    lab = labkit.start(ranks)
    magics = shell.magics_manager.magics["cell"]
    magics["px"]("", FIRST_CELL)
    found = {"cold": time.perf_counter() - begin, "cell": _cell_seconds(lambda: magics["px"]("", "pass"))}
    acts = {"adopted": lambda: labkit.start(ranks), "restart": lab.restart, "spare": lab.restart}
    for name, act in acts.items():
        if name != "spare":
            lab.spare.discard()
        elif not _has_spare(lab):
            continue
        begin = time.perf_counter()
        act()
        magics["px"]("", FIRST_CELL)
        found[name] = time.perf_counter() - begin
    lab.stop()
    return found


def _has_spare(lab: "Lab") -> bool:
    """Wait for spare ranks; False if none come: there may be too few cores, or too little memory."""
    deadline = time.monotonic() + SPARE_DEADLINE
    while not lab.spare.is_ready() and time.monotonic() < deadline:
        time.sleep(0.1)
    return lab.spare.is_ready()


def _shell() -> "InteractiveShell":
    from IPython.core.interactiveshell import InteractiveShell

    return InteractiveShell.instance()


def _cell_seconds(cell: Callable[[], object]) -> float:
    times = []
    for _ in range(CELLS):
        begin = time.perf_counter()
        cell()
        times.append(time.perf_counter() - begin)
    return median(times)


def measure(ranks: int) -> dict[str, dict[str, float]]:
    """One round: both, each in a process of its own."""
    found = {}
    path = f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"  # plain ipyparallel looks for mpiexec there
    for name in ("plain", "labkit"):
        code = f"import json\nfrom {__name__} import {name}\nprint(json.dumps({name}({ranks})))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
            env=os.environ | {"PATH": path, "LABKIT_SPARE": "1"},
        )
        done.check_returncode()
        found[name] = json.loads(done.stdout.splitlines()[-1])
    return found


ROWS = (  # what is compared, of labkit, with what of plain ipyparallel
    ("cold start to first result", "cold", "cold"),
    ("restart, spare ranks ready", "spare", "cold"),
    ("restart, no spare ranks", "restart", "cold"),
    ("adopting the running lab", "adopted", "cold"),
    ("an empty cell", "cell", "cell"),
)


def table(document: dict) -> str:
    """Seconds and ratios of what a JSON file holds."""
    lines = [f"{document['ranks']} ranks, {document['rounds']} rounds; {heading(document)}"]
    lines.append(f"{'':28}{'labkit':>10}{'plain':>10}{'ratio':>8}")
    for row in document["rows"]:
        ours, theirs = median(row["labkit"]), median(row["plain"])
        lines.append(f"{row['title']:28}{ours:8.3f} s{theirs:8.3f} s{row['ratio']:8.2f}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench ready", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, help="5, or 1 with --quick")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    before, rows = circumstances(), []
    rounds = [measure(options.ranks) for _ in range(options.rounds or (1 if options.quick else 5))]
    for title, ours, theirs in ROWS:
        if not all(ours in r["labkit"] for r in rounds):
            continue
        mine, plain_ = [r["labkit"][ours] for r in rounds], [r["plain"][theirs] for r in rounds]
        ratio = median(m / p for m, p in zip(mine, plain_, strict=True))
        rows.append({"title": title, "labkit": mine, "plain": plain_, "ratio": ratio})
    measured = before | {"ranks": options.ranks, "rounds": len(rounds), "rows": rows}
    deliver(measured, table(measured), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
