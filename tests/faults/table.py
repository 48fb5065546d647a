"""The faults that a lab must survive, as data: what happens, times what the ranks were doing."""

from dataclasses import dataclass

ACTIVITIES = {
    "computing": "while True:\n    sum(range(1000))",
    "in recv": "while rank == 0:\n    sum(range(1000))\ndist.recv(torch.zeros(1), src=0)",
    "in all_reduce": "for i in range(10**9):\n    dist.all_reduce(torch.ones(1000))",
    "waiting in all_reduce": "while rank == 0:\n    sum(range(1000))\ndist.all_reduce(torch.ones(1))",
    "in DDP backward": (
        "from torch.nn.parallel import DistributedDataParallel\n"
        "model = DistributedDataParallel(torch.nn.Linear(64, 64))\n"
        "while True:\n    model(torch.ones(8, 64)).sum().backward()"
    ),
    "printing 10 MB": "for i in range(10_000):\n    print('x' * 1000)\nwhile True:\n    sum(range(1000))",
    "in a sub-process": "import subprocess\nsubprocess.run(['sleep', '600'])",
    "asleep": "import time\ntime.sleep(600)",
}
"""Cells that never end by themselves, by what the ranks do in them."""
IDLE, ITSELF = "idle", "the cell itself"


@dataclass(frozen=True)
class Fault:
    """Something that happens to a lab of two ranks while rank 1 runs a cell (or nothing)."""

    name: str
    signal: str = ""  # sent to `victim`
    victim: str = "rank 1"
    says: str = ""  # what the verdict must say (a regular expression)
    seconds: float = 3.0  # until the verdict
    ranks_survive: bool = False

    def __str__(self) -> str:
        return self.name


FAULTS = (
    Fault("interrupt", says="interrupted", seconds=2.0, ranks_survive=True),
    Fault("kill -9 of a rank", "SIGKILL", says=r"rank 1 \(pid \d+ on .+\) died: .*[Kk]illed"),
    Fault("segfault", "SIGSEGV", says=r"rank 1 \(pid \d+ on .+\) died: .*Segmentation fault"),
    Fault("kill -9 of mpiexec", "SIGKILL", "mpiexec", says="mpiexec"),
    Fault("kill -9 of the controller", "SIGKILL", "the controller", says="the controller"),
)

LEAVES = {
    "os._exit": ("import os\nif rank == 1:\n    os._exit(7)\ndist.barrier()", "exit code 7"),
    "os.abort": ("import os\nif rank == 1:\n    os.abort()\ndist.barrier()", "Aborted"),
    "MPI's Abort": (
        "from mpi4py import MPI\nif rank == 1:\n    MPI.COMM_WORLD.Abort(3)\ndist.barrier()",
        r"MPI_Abort\b.*\b3\b",
    ),
}
"""Cells in which rank 1 ends its own process, and what the verdict must say of it."""

IDLE_FAULTS = tuple(fault for fault in FAULTS if fault.signal)

CELLS = {
    "a rank raises while the other waits": (
        "if rank == 1:\n    raise ValueError('bad')\ndist.all_reduce(torch.ones(1))",
        "rank 1 raised an error.*rank 0 in all_reduce.*ValueError: bad",
    ),
    "a rank leaves with sys.exit": ("import sys\nif rank == 1:\n    sys.exit(3)\ndist.barrier()", "rank 1"),
    "each receives first": ("dist.recv(torch.zeros(1), src=1 - rank)", "each waits for another"),
    "each sends first": ("dist.send(torch.zeros(1), dst=1 - rank)", "each waits for another"),
    "isend without a receive": ("dist.isend(torch.zeros(1), dst=1 - rank).wait()", "each waits for another"),
    "a receive that nobody serves": (
        "if rank == 0:\n    dist.recv(torch.zeros(1), src=1)",
        "rank 1 finished the cell.*rank 0 in recv from rank 1",
    ),
    "tags that do not meet": (
        "x = torch.zeros(1)\ndist.recv(x, src=0, tag=2) if rank else dist.send(x, dst=1, tag=1)",
        "each waits for another",
    ),
    "a collective that a rank never enters": (
        "if rank == 0:\n    dist.all_reduce(torch.ones(1))",
        "rank 1 finished the cell.*rank 0 in all_reduce",
    ),
    "a barrier too many": (
        "for i in range(2 - rank):\n    dist.barrier()",
        "rank 1 finished the cell.*rank 0 in barrier",
    ),
    "different collectives": (
        "x = torch.ones(1)\ndist.all_reduce(x) if rank else dist.broadcast(x, src=0)",
        "all_reduce.*broadcast|broadcast.*all_reduce",
    ),
    "different shapes": ("dist.all_reduce(torch.ones(1 + rank))", r"float32\[1\].*float32\[2\]|differ"),
    "different dtypes": (
        "dist.all_reduce(torch.ones(2, dtype=[torch.float32, torch.float64][rank]))",
        "float32.*float64",
    ),
    "input() on a rank": ("input('name? ')", "input"),
}
"""Cells that go wrong by themselves, and what the verdict must say."""

GLOO = (
    "interrupt, in recv",
    "a rank raises while the other waits",
    "each receives first",
)
"""What a rank that waits in gloo does not survive: it hears no interrupt, and spare ranks take its place."""


def rows() -> list[tuple[str, str]]:
    """Fault, and what the ranks were doing, of every row of the table."""
    return [
        *((str(fault), doing) for doing in ACTIVITIES for fault in FAULTS),
        *((str(fault), IDLE) for fault in IDLE_FAULTS),
        *((name, ITSELF) for name in (*CELLS, *LEAVES)),
        *((fault, f"{doing or ITSELF}, gloo") for fault, _, doing in (row.partition(", ") for row in GLOO)),
    ]
