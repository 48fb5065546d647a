"""What runs on every rank: join the world, run the named cases in order, report each as a JSON line.

    mpiexec -n 4 python -m mpi.ranks PLAN.json

A case that fails on one rank may leave the others in a collective that never ends, so the first failure
ends the whole world; whoever launched it starts another for the cases that are left.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
import unittest
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from .table import MODULES, Case, load
from .world import World

FAILED, HUNG = 4, 5


@dataclass(frozen=True)
class Plan:
    """What one launch does; written by the tests, read by the ranks."""

    cases: list[str]
    backend: str
    seed: int
    port: int
    folder: str
    checked: bool
    size: int
    modules: tuple[str, ...] = MODULES
    carry_on: bool = False  # after a case that all ranks ended, if with a failure: it cleans up itself


class Reporter:
    """One rank's lines: `begin` before a case and its verdict after it."""

    def __init__(self, folder: Path, rank: int):
        self.file = (folder / f"rank{rank}.jsonl").open("a", buffering=1)
        self.stacks = (folder / f"rank{rank}.stacks").open("a", buffering=1)

    def line(self, **values) -> None:
        self.file.write(json.dumps(values) + "\n")


def launcher_rank() -> int:
    """The rank that this process has from its launcher."""
    for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    raise RuntimeError("no MPI launcher's variables in the environment: start with mpiexec")


def join(plan: Plan, rank: int) -> None:
    """Initialise the default group the way a script does: mpi needs no more than its name."""
    if plan.backend == "mpi":
        if not dist.is_mpi_available():  # torch's entry point is there once labkit is installed
            from labkit.mpi import register

            register()
        dist.init_process_group("mpi")
        return
    store = dist.TCPStore("127.0.0.1", plan.port + 1, plan.size, rank == 0)
    dist.init_process_group(plan.backend, store=store, rank=rank, world_size=plan.size)


def run_case(case: Case, w: World, reporter: Reporter) -> bool:
    """Run one case under its deadline; True when it passed."""
    reporter.line(case=case.name, begin=True)

    def hung() -> None:
        reporter.stacks.write(f"{case.name}: rank {w.rank} still ran after {case.deadline} s\n")
        faulthandler.dump_traceback(reporter.stacks, all_threads=True)
        reporter.line(case=case.name, verdict="hung")
        time.sleep(0.5)  # the other ranks write their own stacks before mpiexec ends them all
        os._exit(HUNG)

    timer = threading.Timer(case.deadline, hung)
    timer.daemon = True
    timer.start()
    began = time.monotonic()
    try:
        said = case.function(w)
    except unittest.SkipTest as skip:
        reporter.line(case=case.name, verdict="skipped", text=str(skip))
        return True
    except BaseException:
        reporter.line(case=case.name, verdict="failed", text=traceback.format_exc())
        return False
    finally:
        timer.cancel()
    reporter.line(case=case.name, verdict="passed", seconds=time.monotonic() - began, said=said)
    return True


def together(store: dist.TCPStore, name: str, size: int, seconds: float) -> None:
    """Wait until every rank is here, by a way that does not use the backend under test."""
    if store.add(f"{name}/count", 1) == size:
        store.set(f"{name}/all", "1")
    store.wait([f"{name}/all"], timedelta(seconds=seconds))


def counted() -> str:
    """How many collectives this rank has called on the default group, where the backend counts them."""
    return str(getattr(dist.group.WORLD, "sequence", "")) if dist.is_initialized() else ""


def main(path: str) -> None:
    plan = Plan(**json.loads(Path(path).read_text()))
    rank = launcher_rank()
    reporter = Reporter(Path(plan.folder), rank)
    torch.set_num_threads(1)
    # A launcher that was started in the background passes on an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    store = dist.TCPStore("127.0.0.1", plan.port, plan.size, rank == 0)
    table = load(plan.modules)
    together(store, "imported", plan.size, 120)
    join(plan, rank)
    for name in plan.cases:
        w = World(rank, plan.size, plan.seed, name, plan.backend, plan.checked, plan.folder)
        passed = run_case(table[name], w, reporter)
        if not passed and not plan.carry_on:
            time.sleep(1.0)  # others may be about to say what they saw
            os._exit(FAILED)
        store.set(f"{name}/{rank}", counted())
        try:
            together(store, name, plan.size, table[name].deadline + 5 if passed else 60)
        except RuntimeError:  # some rank is still in it, and will be
            os._exit(FAILED)
        counts = {store.get(f"{name}/{r}").decode() for r in range(plan.size)}
        if passed and len(counts) > 1:  # a case after this one would hang
            reporter.line(case=name, verdict="failed", text=f"ranks called {sorted(counts)} collectives")
            os._exit(FAILED)
    if dist.is_initialized():
        dist.destroy_process_group()
    together(store, "end", plan.size, 60)
    reporter.line(end=True)


if __name__ == "__main__":
    main(sys.argv[1])
