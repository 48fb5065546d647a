"""What runs on every rank of one launch of `python -m tests.bench trace`."""

import json
import sys
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

import labkit.mpi
from tests.bench.calls import Call, torch_call
from tests.bench.plan import TracePlan, calls
from tests.bench.recording import STATES
from tests.bench.worker import measure

BATCH = 5  # times as many calls as elsewhere, so that Python's garbage collector meets the records


class Groups:
    """One group that records, on or off, and two that have no code for it; all ranks switch together."""

    def __init__(self) -> None:
        labkit.mpi.init()
        from mpi4py import MPI

        from tests.bench import unrecorded

        self.comm = MPI.COMM_WORLD.Dup()
        self.hooked = dist.group.WORLD
        self.plain = {"without": dist.new_group(), "history": dist.new_group()}
        # Classes of their own: if another's changed, Python would forget how it runs that one fast.
        self.plain["without"].__class__ = unrecorded.Group
        self.plain["history"].__class__ = unrecorded.RememberingGroup

    def switch(self, name: str) -> None:
        """Let one of STATES begin."""
        from labkit.mpi.record import record

        self.comm.Barrier()
        record.records = [] if name == "on" else None

    def call(self, nbytes: int, name: str) -> Call:
        return torch_call("all_reduce", nbytes, self.plain.get(name, self.hooked))


def main(path: str, output: str) -> None:
    """Measure the plan in the file `path`; rank 0 writes the rows to the file `output`."""
    torch.set_num_threads(1)
    plan = TracePlan(**json.loads(Path(path).read_text()))
    groups, rows = Groups(), []
    from labkit.mpi.world import existing

    for checked in (False, True):
        for nbytes in plan.sizes:
            existing().checked = checked
            seconds = measure(
                groups,
                STATES,
                partial(groups.call, nbytes),
                BATCH * calls(nbytes),
                plan.rounds,
            )
            rows.append({"mode": "checked" if checked else "", "bytes": nbytes, "seconds": seconds})
    if dist.get_rank() == 0:
        Path(output).write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
