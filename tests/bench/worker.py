"""What runs on every rank of one launch: each row by each contender in turn, several rounds of it.

The contenders share the processes and take turns within a round, in another order each round, so what else
the machine does falls on all of them alike. Rank 0 writes the seconds per call as JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as dist

from tests.bench.calls import Call, raw_call, ring_call, torch_call
from tests.bench.ddp import step_of
from tests.bench.plan import CONTENDERS, FLAT_RING, Plan, calls

if TYPE_CHECKING:  # importing it would start MPI
    from mpi4py import MPI


class Sides(Protocol):
    """Contenders that take turns: all ranks meet on `comm`, and `switch` lets one of them begin."""

    comm: "MPI.Intracomm"

    def switch(self, name: str) -> None: ...


class Contenders:
    """The ways to communicate, alive side by side: two groups, one raw communicator."""

    def __init__(self) -> None:
        import labkit.mpi

        labkit.mpi.register()
        dist.init_process_group("mpi")
        from mpi4py import MPI

        self.comm = MPI.COMM_WORLD.Dup()
        self.gloo = dist.new_group(backend="gloo")
        self.mpi = dist.new_group()

    def group(self, name: str) -> dist.ProcessGroup:
        return self.gloo if name == "gloo" else self.mpi

    def switch(self, name: str) -> None:
        """Checked mode belongs to the process; every rank switches it at the same point."""
        from labkit.mpi.world import existing

        self.comm.Barrier()
        existing().checked = name == "checked"

    def call(self, name: str, verb: str, nbytes: int) -> Call:
        if name == "raw":
            return raw_call(verb, nbytes, self.comm)
        if name == "ring":
            return ring_call(nbytes, self.mpi)
        return torch_call("all_reduce" if verb == FLAT_RING else verb, nbytes, self.group(name))


def batch_seconds(call: Call, count: int, comm: "MPI.Comm") -> float:
    """Seconds per call on the slowest rank, over `count` calls one after another."""
    comm.Barrier()
    began = time.perf_counter()
    for i in range(count):
        call(i)
    mine = torch.tensor([(time.perf_counter() - began) / count], dtype=torch.float64).numpy()
    from mpi4py import MPI

    comm.Allreduce(MPI.IN_PLACE, mine, MPI.MAX)
    return float(mine[0])


def turns(names: tuple[str, ...], round_: int) -> tuple[str, ...]:
    """The order of one round: rotated, so that nobody always follows the same neighbour."""
    cut = round_ % len(names)
    return names[cut:] + names[:cut]


def measure(
    there: Sides, names: tuple[str, ...], make: Callable[[str], Call], count: int, rounds: int
) -> dict[str, float]:
    """Median over the rounds of each contender's seconds per call; a first batch warms each up."""
    made = {name: make(name) for name in names}
    found = {name: [] for name in names}
    for round_ in range(-1, rounds):
        for name in turns(names, round_):
            there.switch(name)
            seconds = batch_seconds(made[name], count if round_ >= 0 else min(count, 3), there.comm)
            if round_ >= 0:
                found[name].append(seconds)
    there.switch("mpi")
    return {name: median(values) for name, values in found.items()}


def main(path: str, output: str) -> None:
    torch.set_num_threads(1)
    given = json.loads(Path(path).read_text())
    plan = Plan([tuple(row) for row in given["rows"]], given["rounds"], given["ddp_steps"])
    there = Contenders()
    rows = []
    for verb, nbytes in plan.rows:

        def make(name: str, verb: str = verb, nbytes: int = nbytes) -> Call:
            return there.call(name, verb, nbytes)

        names = ("gloo", "ring", "mpi", "checked") if verb == FLAT_RING else CONTENDERS
        seconds = measure(there, names, make, calls(nbytes), plan.rounds)
        rows.append({"verb": verb, "bytes": nbytes, "seconds": seconds})
    names = ("gloo", "alone", "mpi", "checked")
    seconds = measure(
        there,
        names,
        lambda name: step_of(None if name == "alone" else there.group(name)),
        plan.ddp_steps,
        plan.rounds,
    )
    rows.append({"verb": "ddp_step", "bytes": None, "seconds": seconds})
    if dist.get_rank() == 0:
        Path(output).write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
