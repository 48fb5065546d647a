"""Histories of a lab, as data: the cells that a user runs, what befalls the lab meanwhile, and its end."""

from dataclasses import dataclass, replace
from random import Random

from . import mpi4py_programs as of_mpi4py
from .table import ACTIVITIES as OF_TWO
from .table import CELLS, LEAVES

RANK, INTERRUPT = "rank", "interrupt"
VICTIMS = (RANK, "controller", "mpiexec", "hydra_pmi_proxy", "keeper", "fork server", "witness")
SIGNALS = ("SIGKILL", "SIGKILL", "SIGKILL", "SIGTERM", "SIGSEGV", "SIGSTOP")
STOP, EXIT, KILL = "lab.stop()", "the notebook ends", "kill -9 of the notebook"


@dataclass(frozen=True)
class Strike:
    """What happens so many seconds into a cell: an interrupt of the notebook, or a signal to a process."""

    after: float
    victim: str = INTERRUPT
    signal: str = "SIGINT"
    which: int = 0  # of several of that kind


@dataclass(frozen=True)
class Step:
    """One cell of the notebook. `deadly`: it may cost the ranks, so that `lab.restart()` is the way on."""

    source: str
    strikes: tuple[Strike, ...] = ()
    deadly: bool = False


@dataclass(frozen=True)
class History:
    """A lab from `labkit.start` to its end; after each step the next right cell must be right."""

    ranks: int
    backend: str
    checked: bool
    spare: bool
    steps: tuple[Step, ...]
    end: str = STOP


ENDLESS = (
    *OF_TWO.values(),
    "while True:\n    dist.all_reduce(torch.ones(n))",
    "while True:\n    dist.barrier()",
    "while True:\n    dist.all_to_all(list(torch.empty(world_size, n)), list(torch.ones(world_size, n)))",
    "x = torch.zeros(world_size * n)\nwhile True:\n    dist.all_gather_into_tensor(x, torch.ones(n))",
    "while True:\n    dist.all_gather_object([None] * world_size, {'rank': rank, 'n': n})",
    "while True:\n    dist.broadcast_object_list([rank, n], src=world_size - 1)",
    "while True:\n    w = dist.all_reduce(torch.ones(n), async_op=True)\n    dist.barrier()\n    w.wait()",
    "x, y = torch.ones(n), torch.ones(n)\nright, left = (rank + 1) % world_size, (rank - 1) % world_size\n"
    "while True:\n    both = [dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]\n"
    "    for work in dist.batch_isend_irecv(both):\n        work.wait()",
    "while True:\n    pair = dist.new_group([0, world_size - 1])\n    if rank in (0, world_size - 1):\n"
    "        dist.all_reduce(torch.ones(n), group=pair)\n        dist.destroy_process_group(pair)",
    "while rank == 0:\n    pass\nlate = dist.new_group()\ndist.barrier(late)",
    "while True:\n    try:\n        dist.all_reduce(torch.ones(n))\n    except BaseException:\n        pass",
    "import re\nif rank:\n    re.match('(a+)+$', 'a' * 60 + 'b')\ndist.barrier()",
    f"{of_mpi4py.START}while True:\n    comm.allreduce(np.ones(n))\n    comm.Barrier()",
    f"{of_mpi4py.START}while True:\n"
    "    comm.Sendrecv_replace(np.ones(n), (me + 1) % comm.size, source=(me - 1) % comm.size)",
    "while rank == 0:\n    torch.rand(500, 500) @ torch.rand(500, 500)\ndist.recv(torch.zeros(n), src=0)",
)
"""Cells that never end by themselves."""

WRONG = (
    *(source for name, (source, _) in CELLS.items() if not name.startswith("different")),
    "if rank == 0:\n    w = dist.broadcast(torch.full((n,), 100.), src=0, async_op=True)",
    "w = dist.isend(torch.full((n,), 7.), dst=(rank + 1) % world_size)",
    "y = torch.zeros(n)\nw = dist.irecv(y, src=(rank + 1) % world_size)",
    "x = torch.ones(n)\nw = dist.isend(x, dst=0) if rank else dist.irecv(x, src=1)\ndist.recv(torch.ones(n))",
    "if rank == 0:\n    w = [dist.all_reduce(torch.ones(n), async_op=True) for _ in range(5)]\n    1 / 0",
    "w = dist.all_reduce(torch.ones(n), async_op=True)",
    "a = lambda: dist.all_reduce(torch.ones(n), async_op=True)\nb = lambda: dist.barrier(async_op=True)\n"
    "w = [a(), b()] if rank else [b(), a()]",
    "for i in range(500):\n    w = dist.isend(torch.ones(3), dst=(rank + 1) % world_size, tag=i)",
    "if rank == 0:\n    dist.new_group([0, world_size - 1])",
    "g = dist.new_group([0, world_size - 1])\nif rank == 0:\n    dist.all_reduce(torch.ones(n), group=g)",
    "a, b = dist.new_group(), dist.new_group()\ndist.all_reduce(torch.ones(n), group=a if rank else b)",
    "dist.destroy_process_group()",
    "if rank == 0:\n    dist.destroy_process_group()",
    "dist.destroy_process_group()\ndist.all_reduce(torch.ones(n))",
    "dist.send(torch.ones(n), dst=99)",
    "dist.recv(torch.zeros(n))",
    "dist.all_gather_object([None] * world_size, (lambda: 0) if rank else 0)",
    "raise KeyboardInterrupt",
    "import sys\nsys.exit(3)",
    "exit()",
    "1 +",
    "dist = None",
    "raise ValueError('x' * 100_000)",
)
"""Cells that go wrong, or leave something behind, and end in a verdict at most."""

DIFFERENT = (
    *(source for name, (source, _) in CELLS.items() if name.startswith("different")),
    "dist.all_reduce(torch.ones(n), op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)",
    "dist.broadcast(torch.ones(n), src=rank)",
    "dist.all_reduce(torch.ones(n + rank))",
    "dist.send(torch.ones(n + 1), dst=1) if rank == 0 else dist.recv(torch.ones(n), src=0)",
)
"""Cells whose ranks call what does not fit. Where nobody checks, gloo ends the process."""

DEADLY = (
    *(source for source, _ in LEAVES.values()),
    "import os\nos.kill(os.getppid(), 9)",
    "import os, signal\nif rank == 0:\n    os.kill(os.getpid(), signal.SIGSTOP)\ndist.barrier()",
    "import os\nif rank == 0:\n    w = dist.isend(torch.ones(n), dst=1)\n    os._exit(1)",
)
"""Cells that end ranks."""

RIGHT = (
    "x = torch.arange(float(n))\ndist.all_reduce(x)",
    "import time\ntime.sleep(0.5)\nx = torch.ones(n)\ndist.broadcast(x, src=0)",
    "import os\nif os.fork() == 0:\n    os._exit(0)\nos.wait()\ndist.barrier()",
    "print(rank, 'x' * n)",
    "half = dist.new_group([0])\nx = torch.ones(3)\ndist.barrier()",
    "torch.ones(3)",
)
"""Cells that are right, which a strike may hit, with any option."""

_OF_TWO_ALONE = ("while", "Isendrecv", "MPI.Win", "MPI.File", "Create_intercomm", "Bcast_init")
"""Programs with these may never end on other ranks: they poll, or wait in what is not watched (README.md)."""

OF_MPI4PY = (
    *(source for source, _ in of_mpi4py.WRONG.values()),
    *(source for source in of_mpi4py.RIGHT.values() if not any(word in source for word in _OF_TWO_ALONE)),
    "r = comm.Iallreduce(np.ones(n), np.ones(n), op=MPI.SUM if me else MPI.MAX)",
    "r = comm.Isend(np.ones(n), (me + 1) % comm.size)",
    "r = comm.Irecv(np.ones(n), (me + 1) % comm.size)",
    "if me == 0:\n    comm.bcast('mine')",
)
"""Cells for mpi4py on two ranks, wrong and right; on three they are wrong in other ways. Where nobody checks,
MPI may end the processes of calls that do not fit."""

KEPT = (
    "w = dist.all_reduce(torch.ones(n), async_op=True)",
    "x, y = torch.ones(n), torch.ones(n)\n"
    "w = [dist.isend(x, dst=(rank + 1) % world_size), dist.irecv(y, src=(rank - 1) % world_size)]",
)
"""Cells that leave to the next one what can end there."""

CALLS = (
    "lab.network('1Gbit/s', '100us')",
    "lab.network()",
    "lab.compare('x')",
    "lab.restart()",
    "lab.restart(RANKS)",
    "lab = labkit.start(RANKS, backend=BACKEND)",
    "lab.stop()\nlab = labkit.start(RANKS, backend=BACKEND)",
    "lab.recover()",
    "lab.interrupt()",
    "with lab.trace():\n    get_ipython().run_cell_magic('px', '', 'x = torch.ones(n); dist.all_reduce(x)')",
    "with lab.trace():\n    with lab.trace():\n        pass",
    "if lab.last.trace:\n    lab.last.trace.table(), lab.last.trace.plot()",
    "if lab.last.trace:\n    lab.last.trace.save('/nowhere/trace.json')",
    "labkit.check('swap')",
    "print(lab), lab.status(), lab._repr_html_(), lab.view()",
    "%pxresult",
    "import time\ntime.sleep(1.5)",
)
"""Cells of the notebook's own."""

OPTIONS = ("--trace", "--targets 0", "--deadline 0.3", "--noblock", "--no-stream", "--out answers")
SIZES = (1, 1000, 200_000, 1_500_000)


def history(seed: str, steps: int = 14) -> History:
    """The history of that seed."""
    random = Random(seed)
    ranks, backend = random.choice((2, 2, 3)), random.choice(("mpi", "mpi", "gloo"))
    checked = random.random() < 0.7
    chosen = tuple(_step(random, backend, checked) for _ in range(random.randint(1, steps)))
    end = random.choice((STOP, STOP, EXIT, KILL))
    return History(ranks, backend, checked, random.random() < 0.2, chosen, end)


def start(history: History) -> str:
    """The cell with which it begins."""
    return f"import labkit\nlab = labkit.start({history.ranks}, backend={history.backend!r})"


def _step(random: Random, backend: str, checked: bool) -> Step:
    kinds = {_endless: 8, _wrong: 7, _different: 2, _deadly: 1, _right: 4, _of_mpi4py: 4, _kept: 1, _call: 6}
    step = random.choices(list(kinds), list(kinds.values()))[0](random, backend, checked)
    strikes = tuple(_strike(random) for _ in range(random.choice((0, 0, 1, 1, 1, 2))))
    killed = any(strike.victim not in (INTERRUPT, "keeper") for strike in strikes)
    cut_short = bool(strikes) and not step.source.startswith("%%px")
    return replace(step, strikes=strikes, deadly=step.deadly or killed or cut_short)


def _strike(random: Random) -> Strike:
    after = round(random.choice((random.uniform(0, 0.05), random.uniform(0, 0.5), random.uniform(0, 3))), 4)
    if random.random() < 0.5:
        return Strike(after)
    return Strike(after, random.choice(VICTIMS), random.choice(SIGNALS), random.randrange(3))


def _cell(random: Random, source: str, *options: str) -> Step:
    return Step(" ".join(["%%px", *options]) + f"\nn = {random.choice(SIZES)}\n{source}")


def _endless(random: Random, backend: str, checked: bool) -> Step:
    also = random.choice(((), (), ("--trace",), ("--targets 1",)))
    return _cell(random, random.choice(ENDLESS), f"--deadline {random.uniform(0.1, 3):.2f}", *also)


def _wrong(random: Random, backend: str, checked: bool) -> Step:
    return _cell(random, random.choice(WRONG), *random.choice(((), (), (), (), ("--trace",), ("--noblock",))))


def _different(random: Random, backend: str, checked: bool) -> Step:
    return replace(_cell(random, random.choice(DIFFERENT)), deadly=backend == "gloo")


def _deadly(random: Random, backend: str, checked: bool) -> Step:
    return replace(_cell(random, random.choice(DEADLY)), deadly=True)


def _right(random: Random, backend: str, checked: bool) -> Step:
    return _cell(random, random.choice(RIGHT), *random.sample(OPTIONS, random.choice((0, 0, 1, 2))))


def _of_mpi4py(random: Random, backend: str, checked: bool) -> Step:
    source = of_mpi4py.START + random.choice(OF_MPI4PY)
    options = random.choice(((), (), (), ("--trace",), ("--noblock",), ("--targets 0",)))
    return replace(_cell(random, source, *options), deadly=not checked)


def _kept(random: Random, backend: str, checked: bool) -> Step:
    return _cell(random, random.choice(KEPT), "--keep-pending")


def _call(random: Random, backend: str, checked: bool) -> Step:
    source = random.choice(CALLS)
    return Step(source.replace("RANKS", str(random.choice((1, 2, 3)))).replace("BACKEND", repr(backend)))
