"""What runs on every rank of one launch of `labkit bench trace`."""

import ast
import inspect
import json
import sys
import textwrap
from pathlib import Path

import torch
import torch.distributed as dist

import labkit.mpi
from labkit.bench.plan import TracePlan, calls
from labkit.bench.rank import measure
from labkit.bench.verbs import torch_call

HOOKED = (("group", "Group", "begin_collective"), ("work", "Work", "wait"), ("work", "Work", "finish"))


class Hooks:
    """Recording on, off, or its code not there; all ranks switch together."""

    def __init__(self):
        labkit.mpi.init()
        from mpi4py import MPI

        self.comm = MPI.COMM_WORLD.Dup()
        self.methods = []
        for module, name, method in HOOKED:
            cls = getattr(sys.modules[f"labkit.mpi.{module}"], name)
            self.methods.append((cls, method, getattr(cls, method), without(cls, method)))

    def switch(self, name: str) -> None:
        """Let a "without", "off" or "on" begin."""
        from labkit.mpi import record

        self.comm.Barrier()
        record.records = [] if name == "on" else None
        for cls, method, hooked, plain in self.methods:
            setattr(cls, method, plain if name == "without" else hooked)


class _Cut(ast.NodeTransformer):
    def visit_If(self, node):
        self.generic_visit(node)
        return None if "record" in ast.unparse(node.test) else node


def without(cls: type, method: str):
    """The method compiled from its own source, without what asks about recording."""
    function = getattr(cls, method)
    tree = _Cut().visit(ast.parse(textwrap.dedent(inspect.getsource(function))))
    found = {}
    exec(compile(tree, inspect.getsourcefile(function), "exec"), function.__globals__, found)
    return found[method]


def main(path: str, output: str) -> None:
    """Measure the plan in the file `path`; rank 0 writes the rows to the file `output`."""
    torch.set_num_threads(1)
    plan = TracePlan(**json.loads(Path(path).read_text()))
    hooks, rows = Hooks(), []
    from labkit.mpi.world import existing

    for checked in (False, True):
        for nbytes in plan.sizes:
            existing().checked = checked
            seconds = measure(
                hooks,
                ("without", "off", "on"),
                lambda name, nbytes=nbytes: torch_call("all_reduce", nbytes, dist.group.WORLD),
                calls(nbytes),
                plan.rounds,
            )
            rows.append({"mode": "checked" if checked else "", "bytes": nbytes, "seconds": seconds})
    if dist.get_rank() == 0:
        Path(output).write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
