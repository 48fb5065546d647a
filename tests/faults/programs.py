"""Small wrong programs in torch.distributed, by the categories of the MPI Bugs Initiative, and each mended.

Lines are counted in `wrong`. What `says` holds, regular expressions, is all in what the learner is told: the
cause, the ranks and the lines.
"""

from dataclasses import dataclass

ORDER, ROOT, OPERATOR, TYPE, SIZE = "call ordering", "root", "operator", "type", "shape and size"
TAG, GROUP, REQUEST, BUFFER, RACE = "tag and partner", "group", "request", "buffer hazard", "race"
THREADS = "two threads"
ARGUMENT, DEATH = "invalid argument", "process death"


@dataclass(frozen=True)
class Program:
    """One cell that is wrong, what is told of it, and the same cell as it should be."""

    name: str
    category: str
    wrong: str
    says: tuple[str, ...]
    right: str
    ranks: int = 2
    options: str = ""  # of %%px
    new_ranks: bool = False  # the next cell runs on new ones

    def __str__(self) -> str:
        return self.name


PROGRAMS = (
    Program(
        "each receives first", ORDER,
        "x = torch.ones(4)\ndist.recv(x, src=1 - rank)\ndist.send(x, dst=1 - rank)",
        (
            "deadlock: each waits for another",
            "rank 0 in recv from rank 1, line 3",
            "rank 1 in recv from rank 0, line 3",
        ),
        (
            "x = torch.ones(4)\nif rank == 0:\n    dist.recv(x, src=1)\n    dist.send(x, dst=1)\nelse:\n"
            "    dist.send(x, dst=0)\n    dist.recv(x, src=0)"
        ),
    ),
    Program(
        "each sends first", ORDER,
        "x, y = torch.ones(4), torch.zeros(4)\ndist.send(x, dst=1 - rank)\ndist.recv(y, src=1 - rank)",
        (
            "deadlock: each waits for another",
            "rank 0 in send to rank 1, line 3",
            "rank 1 in send to rank 0, line 3",
        ),
        (
            "x, y = torch.ones(4), torch.zeros(4)\nw = dist.isend(x, dst=1 - rank)\n"
            "dist.recv(y, src=1 - rank)\nw.wait()"
        ),
    ),
    Program(
        "a ring in which all send first", ORDER,
        (
            "x = torch.ones(4)\ndist.send(x, dst=(rank + 1) % world_size)\n"
            "dist.recv(x, src=(rank - 1) % world_size)"
        ),
        (
            "deadlock: each waits for another",
            "rank 0 in send to rank 1, line 3",
            "rank 2 in send to rank 0, line 3",
        ),
        (
            "x, y = torch.ones(4), torch.ones(4)\nw = dist.isend(x, dst=(rank + 1) % world_size)\n"
            "dist.recv(y, src=(rank - 1) % world_size)\nw.wait()"
        ),
        ranks=3,
    ),
    Program(
        "a receive that nobody serves", ORDER,
        "x = torch.ones(4)\nif rank == 1:\n    dist.recv(x, src=0)",
        ("deadlock: rank 0 finished the cell", "rank 1 in recv from rank 0, line 4"),
        "x = torch.ones(4)\nif rank == 1:\n    dist.recv(x, src=0)\nelse:\n    dist.send(x, dst=1)",
    ),
    Program(
        "a send that nobody receives", ORDER,
        "x = torch.ones(4)\nif rank == 0:\n    dist.send(x, dst=1)",
        ("deadlock: rank 1 finished the cell", "rank 0 in send to rank 1, line 4"),
        "x = torch.ones(4)\nif rank == 0:\n    dist.send(x, dst=1)\nelse:\n    dist.recv(x, src=0)",
    ),
    Program(
        "one message too many", ORDER,
        (
            "x = torch.ones(1)\nfor i in range(3 - rank):\n"
            "    dist.send(x, 1) if rank == 0 else dist.recv(x, 0)"
        ),
        ("deadlock: rank 1 finished the cell", "rank 0 in send to rank 1, line 4"),
        "x = torch.ones(1)\nfor i in range(3):\n    dist.send(x, 1) if rank == 0 else dist.recv(x, 0)",
    ),
    Program(
        "a collective without one rank", ORDER,
        "x = torch.ones(4)\nif rank != 1:\n    dist.all_reduce(x)",
        ("deadlock: rank 1 finished the cell", "ranks 0, 2 in all_reduce.*, line 4"),
        "x = torch.ones(4)\ndist.all_reduce(x)",
        ranks=3,
    ),
    Program(
        "a barrier in a branch", ORDER,
        "for step in range(3):\n    if rank == 0 or step < 2:\n        dist.barrier()",
        ("deadlock: rank 1 finished the cell", "rank 0 in barrier.*, line 4"),
        "for step in range(3):\n    dist.barrier()",
    ),
    Program(
        "other collectives", ORDER,
        "x = torch.ones(4)\nif rank == 0:\n    dist.all_reduce(x)\nelse:\n    dist.broadcast(x, src=0)",
        ("MismatchError", "rank 0: all_reduce.*line 4", "rank 1: broadcast.*line 6"),
        "x = torch.ones(4)\ndist.all_reduce(x)\ndist.broadcast(x, src=0)",
    ),
    Program(
        "two collectives in another order", ORDER,
        (
            "x, y = torch.ones(4), torch.ones(4)\nif rank == 0:\n    dist.all_reduce(x)\n"
            "    dist.barrier()\nelse:\n    dist.barrier()\n    dist.all_reduce(x)"
        ),
        ("MismatchError", "rank 0: all_reduce.*line 4", "rank 1: barrier.*line 7"),
        "x = torch.ones(4)\ndist.all_reduce(x)\ndist.barrier()",
    ),
    Program(
        "a message across a collective", ORDER,
        (
            "x = torch.ones(4)\nif rank == 0:\n    dist.barrier()\n    dist.send(x, dst=1)\nelse:\n"
            "    dist.recv(x, src=0)\n    dist.barrier()"
        ),
        (
            "deadlock: each waits for another",
            "rank 0 in barrier.*, line 4",
            "rank 1 in recv from rank 0, line 7",
        ),
        (
            "x = torch.ones(4)\nif rank == 0:\n    dist.send(x, dst=1)\nelse:\n    dist.recv(x, src=0)\n"
            "dist.barrier()"
        ),
    ),
    Program(
        "a rank that raises while others wait", ORDER,
        "x = torch.ones(4)\nif rank == 1:\n    x[9]\ndist.all_reduce(x)",
        ("rank 1 raised an error", "rank 0 in all_reduce.*, line 5", "rank 1: IndexError.*line 4"),
        "x = torch.ones(4)\ndist.all_reduce(x)",
    ),
    Program(
        "another root of a broadcast", ROOT,
        "x = torch.ones(4)\ndist.broadcast(x, src=rank)",
        ("MismatchError", "rank 0: broadcast.*root=0.*line 3", "rank 1: broadcast.*root=1.*line 3"),
        "x = torch.ones(4)\ndist.broadcast(x, src=0)",
    ),
    Program(
        "another root of a reduce", ROOT,
        "x = torch.ones(4)\nif rank == 0:\n    dist.reduce(x, dst=0)\nelse:\n    dist.reduce(x, dst=1)",
        ("MismatchError", "rank 0: reduce.*root=0.*line 4", "rank 1: reduce.*root=1.*line 6"),
        "x = torch.ones(4)\ndist.reduce(x, dst=0)",
    ),
    Program(
        "a root that there is not", ROOT,
        "x = torch.ones(4)\ndist.broadcast(x, src=2)",
        ("ranks 0-1: (LabError|ValueError).*src=2.*line 3",),
        "x = torch.ones(4)\ndist.broadcast(x, src=1)",
    ),
    Program(
        "a gather whose root has no list", ROOT,
        "x = torch.ones(4)\ndist.gather(x, dst=0)",
        ("rank 0: .*gather_list.*line 3", "rank 1 in gather.*line 3"),
        (
            "x = torch.ones(4)\nout = [torch.zeros(4) for _ in range(world_size)] if rank == 0 else None\n"
            "dist.gather(x, out, dst=0)"
        ),
    ),
    Program(
        "a gather in which all have a list", ROOT,
        "x, out = torch.ones(4), [torch.zeros(4), torch.zeros(4)]\ndist.gather(x, out, dst=0)",
        ("rank 1: .*gather_list.*line 3", "rank 0 in gather.*line 3"),
        (
            "x, out = torch.ones(4), [torch.zeros(4), torch.zeros(4)]\n"
            "dist.gather(x, out if rank == 0 else None, dst=0)"
        ),
    ),
    Program(
        "a scatter list on the wrong rank", ROOT,
        (
            "x, parts = torch.ones(4), [torch.ones(4), torch.ones(4)]\n"
            "dist.scatter(x, parts if rank == 0 else None, src=1)"
        ),
        ("ranks 0-1: ValueError.*scatter_list.*line 3|rank 0: ValueError.*scatter_list.*line 3",),
        (
            "x, parts = torch.ones(4), [torch.ones(4), torch.ones(4)]\n"
            "dist.scatter(x, parts if rank == 0 else None, src=0)"
        ),
    ),
    Program(
        "other operators", OPERATOR,
        "x = torch.ones(4)\ndist.all_reduce(x, op=dist.ReduceOp.SUM if rank else dist.ReduceOp.MAX)",
        ("MismatchError", "rank 0: all_reduce.*op=MAX.*line 3", "rank 1: all_reduce.*op=SUM.*line 3"),
        "x = torch.ones(4)\ndist.all_reduce(x, op=dist.ReduceOp.MAX)",
    ),
    Program(
        "other operators of a reduce_scatter", OPERATOR,
        (
            "x, out = [torch.ones(2), torch.ones(2)], torch.zeros(2)\nif rank == 0:\n"
            "    dist.reduce_scatter(out, x, op=dist.ReduceOp.AVG)\nelse:\n    dist.reduce_scatter(out, x)"
        ),
        (
            "MismatchError",
            "rank 0: reduce_scatter.*op=AVG.*line 4",
            "rank 1: reduce_scatter.*op=SUM.*line 6",
        ),
        "x, out = [torch.ones(2), torch.ones(2)], torch.zeros(2)\ndist.reduce_scatter(out, x)",
    ),
    Program(
        "an operator that the dtype does not have", OPERATOR,
        "x = torch.ones(4)\ndist.all_reduce(x, op=dist.ReduceOp.BXOR)",
        ("ranks 0-1: LabError: ReduceOp.BXOR of torch.float32.*line 3",),
        "x = torch.ones(4, dtype=torch.int64)\ndist.all_reduce(x, op=dist.ReduceOp.BXOR)",
    ),
    Program(
        "another dtype of one rank", TYPE,
        "x = torch.ones(4, dtype=torch.float64 if rank else torch.float32)\ndist.all_reduce(x)",
        ("MismatchError", r"rank 0: all_reduce\(float32.*line 3", r"rank 1: all_reduce\(float64.*line 3"),
        "x = torch.ones(4, dtype=torch.float64)\ndist.all_reduce(x)",
    ),
    Program(
        "a message into another dtype", TYPE,
        (
            "if rank == 0:\n    dist.send(torch.ones(4), dst=1)\nelse:\n"
            "    dist.recv(torch.zeros(4, dtype=torch.int32), src=0)"
        ),
        (r"rank 1: MismatchError: .*int32\[4\].*line 5", r"rank 0 sent send\(float32\[4\].*line 3"),
        (
            "if rank == 0:\n    dist.send(torch.ones(4), dst=1)\nelse:\n"
            "    dist.recv(torch.zeros(4), src=0)"
        ),
    ),
    Program(
        "outputs of another dtype", TYPE,
        "x, out = torch.ones(4), torch.zeros(4, dtype=torch.float64)\ndist.all_to_all_single(out, x)",
        ("ranks 0-1: ValueError: .*different dtypes.*line 3", "float32", "float64"),
        "x, out = torch.ones(4), torch.zeros(4)\ndist.all_to_all_single(out, x)",
    ),
    Program(
        "a list of two dtypes", TYPE,
        (
            "x = torch.ones(2)\nout = [torch.zeros(2), torch.zeros(2, dtype=torch.int64)]\n"
            "dist.all_gather(out, x)"
        ),
        ("ranks 0-1: .*line 4", "dtype|float32"),
        "x = torch.ones(2)\nout = [torch.zeros(2), torch.zeros(2)]\ndist.all_gather(out, x)",
    ),
    Program(
        "other shapes", SIZE,
        "x = torch.ones(2 + rank)\ndist.all_reduce(x)",
        (
            "MismatchError",
            r"rank 0: all_reduce\(float32\[2\].*line 3",
            r"rank 1: all_reduce\(float32\[3\].*line 3",
        ),
        "x = torch.ones(2)\ndist.all_reduce(x)",
    ),
    Program(
        "the last batch is smaller", SIZE,
        "batches = [8, 8, 8 - rank]\nfor n in batches:\n    x = torch.ones(n)\n    dist.all_reduce(x)",
        (
            "MismatchError",
            r"rank 0: all_reduce\(float32\[8\].*line 5",
            r"rank 1: all_reduce\(float32\[7\].*line 5",
        ),
        "for n in [8, 8, 8]:\n    x = torch.ones(n)\n    dist.all_reduce(x)",
    ),
    Program(
        "a message longer than its place", SIZE,
        (
            "if rank == 0:\n    dist.send(torch.ones(8), dst=1)\nelse:\n"
            "    dist.recv(torch.zeros(4), src=0)"
        ),
        ("rank 1: MismatchError: .*line 5", "the message has more bytes"),
        (
            "if rank == 0:\n    dist.send(torch.ones(8), dst=1)\nelse:\n"
            "    dist.recv(torch.zeros(8), src=0)"
        ),
    ),
    Program(
        "a message shorter than its place", SIZE,
        (
            "if rank == 0:\n    dist.send(torch.ones(4), dst=1)\nelse:\n"
            "    dist.recv(torch.zeros(8), src=0)"
        ),
        ("rank 1: MismatchError: .*line 5", r"rank 0 sent send\(float32\[4\].*line 3"),
        (
            "if rank == 0:\n    dist.send(torch.ones(4), dst=1)\nelse:\n"
            "    dist.recv(torch.zeros(4), src=0)"
        ),
    ),
    Program(
        "splits that do not add up", SIZE,
        "x, out = torch.ones(4), torch.zeros(4)\ndist.all_to_all_single(out, x, [2, 2], [2, 1])",
        ("ranks 0-1: .*all_to_all_single.*line 3", "[Ss]plit|add up"),
        "x, out = torch.ones(4), torch.zeros(4)\ndist.all_to_all_single(out, x, [2, 2], [2, 2])",
    ),
    Program(
        "splits that do not meet", SIZE,
        (
            "x, out = torch.ones(4), torch.zeros(4)\n"
            "dist.all_to_all_single(out, x, [2, 2], [1, 3] if rank else [2, 2])"
        ),
        ("MismatchError", "rank 1 gives 1 numbers to rank 0, which takes 2", "line 3"),
        "x, out = torch.ones(4), torch.zeros(4)\ndist.all_to_all_single(out, x, [2, 2], [2, 2])",
    ),
    Program(
        "a scatter list that is too short", SIZE,
        "x = torch.zeros(2)\ndist.scatter(x, [torch.ones(2)] if rank == 0 else None, src=0)",
        ("rank 0: LabError: scatter .*line 3", "rank 1 in scatter.*line 3"),
        (
            "x = torch.zeros(2)\n"
            "dist.scatter(x, [torch.ones(2), torch.ones(2)] if rank == 0 else None, src=0)"
        ),
    ),
    Program(
        "a gather list that is too long", SIZE,
        (
            "x = torch.ones(2)\nout = [torch.zeros(2)] * 3 if rank == 0 else None\n"
            "dist.gather(x, out, dst=0)"
        ),
        ("rank 0: LabError: gather .*line 4", "rank 1 in gather.*line 4"),
        (
            "x = torch.ones(2)\nout = [torch.zeros(2) for _ in range(2)] if rank == 0 else None\n"
            "dist.gather(x, out, dst=0)"
        ),
    ),
    Program(
        "an output that is too small", SIZE,
        "x = torch.ones(4)\ndist.all_gather_into_tensor(torch.zeros(4), x)",
        ("ranks 0-1: LabError: all_gather_into_tensor .*line 3", "output of 4"),
        (
            "import warnings\nwarnings.simplefilter('ignore', FutureWarning)\nx = torch.ones(4)\n"
            "dist.all_gather_into_tensor(torch.zeros(4 * world_size), x)"
        ),
    ),
    Program(
        "crossed tags", TAG,
        (
            "x = torch.ones(1)\nif rank == 0:\n    dist.send(x, dst=1, tag=1)\n"
            "    dist.send(x, dst=1, tag=2)\nelse:\n    dist.recv(x, src=0, tag=2)\n"
            "    dist.recv(x, src=0, tag=1)"
        ),
        (
            "deadlock: .*with another tag",
            "rank 0 in send to rank 1 with tag 1, line 4",
            "rank 1 in recv from rank 0 with tag 2, line 7",
        ),
        (
            "x = torch.ones(1)\nif rank == 0:\n    dist.send(x, dst=1, tag=1)\n"
            "    dist.send(x, dst=1, tag=2)\nelse:\n    dist.recv(x, src=0, tag=1)\n"
            "    dist.recv(x, src=0, tag=2)"
        ),
    ),
    Program(
        "a receive from the wrong rank", TAG,
        (
            "x = torch.ones(1)\nif rank == 0:\n    dist.send(x, dst=2)\nif rank == 2:\n"
            "    dist.recv(x, src=1)"
        ),
        (
            "deadlock: rank 1 finished the cell",
            "rank 0 in send to rank 2, line 4",
            "rank 2 in recv from rank 1, line 6",
        ),
        (
            "x = torch.ones(1)\nif rank == 0:\n    dist.send(x, dst=2)\nif rank == 2:\n"
            "    dist.recv(x, src=0)"
        ),
        ranks=3,
    ),
    Program(
        "a message to oneself", TAG,
        "x = torch.ones(1)\ndist.send(x, dst=rank)",
        (r"ranks 0-1: ValueError.*line 3|rank 0: ValueError.*line 3(.*\n)*.*rank 1: ValueError.*line 3",),
        (
            "x, y = torch.ones(1), torch.ones(1)\nw, r = dist.isend(x, dst=rank), dist.irecv(y, src=rank)\n"
            "w.wait(), r.wait()"
        ),
    ),
    Program(
        "a partner that there is not", TAG,
        "x = torch.ones(1)\ndist.send(x, dst=(rank + 1))",
        ("rank 1: .*line 3", "rank 0 in send to rank 1, line 3"),
        (
            "x = torch.ones(1)\nw = dist.isend(x, dst=(rank + 1) % world_size)\ny = torch.ones(1)\n"
            "dist.recv(y)\nw.wait()"
        ),
    ),
    Program(
        "two groups in another order", GROUP,
        (
            "a, b = dist.new_group(), dist.new_group()\nx = torch.ones(1)\n"
            "for g in (a, b) if rank == 0 else (b, a):\n    dist.all_reduce(x, group=g)"
        ),
        (
            "deadlock: the ranks are in collectives of different groups",
            "rank 0 in all_reduce.*group.*line 5",
            "rank 1 in all_reduce.*group.*line 5",
        ),
        (
            "a, b = dist.new_group(), dist.new_group()\nx = torch.ones(1)\nfor g in (a, b):\n"
            "    dist.all_reduce(x, group=g)"
        ),
    ),
    Program(
        "groups made in another order", GROUP,
        (
            "first, second = ([0, 1], [1, 2]) if rank < 2 else ([1, 2], [0, 1])\n"
            "a = dist.new_group(first)\nb = dist.new_group(second)"
        ),
        ("new_group", "line 3|line 4", "rank 2"),
        "a = dist.new_group([0, 1])\nb = dist.new_group([1, 2])",
        ranks=3,
    ),
    Program(
        "a new group of one rank's", GROUP,
        "if rank == 0:\n    g = dist.new_group()",
        ("deadlock: rank 1 finished the cell", "rank 0 in new_group.*line 3"),
        "g = dist.new_group()",
    ),
    Program(
        "a new group of its members'", GROUP,
        "if rank < 2:\n    g = dist.new_group([0, 1])\n    dist.barrier(group=g)",
        ("new_group", "rank 2", "line 3"),
        "g = dist.new_group([0, 1])\nif rank < 2:\n    dist.barrier(group=g)",
        ranks=3,
    ),
    Program(
        "a collective of a group and of the world", GROUP,
        (
            "g = dist.new_group([0, 1])\nx = torch.ones(1)\n"
            "dist.all_reduce(x, group=g if rank == 0 else None)"
        ),
        (
            "deadlock: the ranks are in collectives of different groups",
            "rank 0 in all_reduce.*line 4",
            "ranks 1-2 in all_reduce.*group '0', line 4",
        ),
        "g = dist.new_group([0, 1])\nx = torch.ones(1)\nif rank < 2:\n    dist.all_reduce(x, group=g)",
        ranks=3,
    ),
    Program(
        "a root outside of the group", GROUP,
        (
            "g = dist.new_group([0, 1])\nx = torch.ones(1)\nif rank < 2:\n"
            "    dist.broadcast(x, src=2, group=g)"
        ),
        (
            "rank 0: ValueError: Global rank 2 is not part of group.*line 5",
            "rank 1: ValueError: Global rank 2.*line 5",
        ),
        (
            "g = dist.new_group([0, 1])\nx = torch.ones(1)\nif rank < 2:\n"
            "    dist.broadcast(x, src=1, group=g)"
        ),
        ranks=3,
    ),
    Program(
        "an isend never waited for", REQUEST,
        "x = torch.ones(4)\nif rank == 0:\n    dist.isend(x, dst=1)\nelse:\n    dist.recv(x, src=0)",
        (r"rank 0: isend to rank 1 was never waited for \(line 4",),
        (
            "x = torch.ones(4)\nif rank == 0:\n    dist.isend(x, dst=1).wait()\nelse:\n"
            "    dist.recv(x, src=0)"
        ),
    ),
    Program(
        "an irecv never waited for", REQUEST,
        "x = torch.ones(4)\nif rank == 0:\n    dist.send(x, dst=1)\nelse:\n    w = dist.irecv(x, src=0)",
        (r"rank 1: irecv from rank 0 was never waited for \(line 6",),
        (
            "x = torch.ones(4)\nif rank == 0:\n    dist.send(x, dst=1)\nelse:\n"
            "    w = dist.irecv(x, src=0)\n    w.wait()"
        ),
    ),
    Program(
        "a collective never waited for", REQUEST,
        "x = torch.ones(4)\nw = dist.all_reduce(x, async_op=True)",
        (r"ranks 0-1: all_reduce was never waited for \(line 3",),
        "x = torch.ones(4)\nw = dist.all_reduce(x, async_op=True)\nw.wait()",
    ),
    Program(
        "one of many requests forgotten", REQUEST,
        (
            "x = [torch.ones(4) for _ in range(4)]\n"
            "w = [dist.isend(t, 1) if rank == 0 else dist.irecv(t, 0) for t in x]\nfor r in w[:3]:\n"
            "    r.wait()"
        ),
        (
            r"rank 0: isend to rank 1 was never waited for \(line 3",
            r"rank 1: irecv from rank 0 was never waited for \(line 3",
        ),
        (
            "x = [torch.ones(4) for _ in range(4)]\n"
            "w = [dist.isend(t, 1) if rank == 0 else dist.irecv(t, 0) for t in x]\nfor r in w:\n"
            "    r.wait()"
        ),
    ),
    Program(
        "an isend that nobody receives", REQUEST,
        "x = torch.ones(4)\nif rank == 0:\n    w = dist.isend(x, dst=1)",
        (r"rank 0: isend to rank 1 was never waited for; nobody received it \(line 4",),
        (
            "x = torch.ones(4)\nif rank == 0:\n    w = dist.isend(x, dst=1)\n    w.wait()\nelse:\n"
            "    dist.recv(x, src=0)"
        ),
    ),
    Program(
        "an irecv that nobody serves", REQUEST,
        "x = torch.ones(4)\nif rank == 1:\n    w = dist.irecv(x, src=0)",
        (r"rank 1: irecv from rank 0 was never waited for; nothing was sent \(line 4",),
        (
            "x = torch.ones(4)\nif rank == 1:\n    w = dist.irecv(x, src=0)\n    w.wait()\nelse:\n"
            "    dist.send(x, dst=1)"
        ),
    ),
    Program(
        "an asynchronous collective of some ranks", REQUEST,
        "x = torch.ones(4)\nif rank == 0:\n    w = dist.all_reduce(x, async_op=True)",
        (r"rank 0: all_reduce was never waited for; rank 1 never called it \(line 4",),
        "x = torch.ones(4)\nw = dist.all_reduce(x, async_op=True)\nw.wait()",
    ),
    Program(
        "asynchronous collectives in another order", REQUEST,
        (
            "x, y = torch.ones(4), torch.ones(2)\nfor t in (x, y) if rank == 0 else (y, x):\n"
            "    w = dist.all_reduce(t, async_op=True)\n    w.wait()"
        ),
        (
            "MismatchError",
            r"rank 0: all_reduce\(float32\[4\].*line 4",
            r"rank 1: all_reduce\(float32\[2\].*line 4",
        ),
        (
            "x, y = torch.ones(4), torch.ones(2)\nfor t in (x, y):\n"
            "    w = dist.all_reduce(t, async_op=True)\n    w.wait()"
        ),
    ),
    Program(
        "a tensor changed under an isend", BUFFER,
        (
            "x = torch.ones(4)\nif rank == 0:\n    w = dist.isend(x, dst=1)\n    x[2] = 7\n    w.wait()\n"
            "else:\n    dist.recv(x, src=0)"
        ),
        ("rank 0: HazardError: isend.*line 4", r"reads was changed before wait\(\).*line 6"),
        (
            "x = torch.ones(4)\nif rank == 0:\n    w = dist.isend(x, dst=1)\n    w.wait()\n    x[2] = 7\n"
            "else:\n    dist.recv(x, src=0)"
        ),
    ),
    Program(
        "a large tensor changed under an isend", BUFFER,
        (
            "x = torch.ones(10**6)\nif rank == 0:\n    w = dist.isend(x, dst=1)\n    x *= 2\n    w.wait()\n"
            "else:\n    dist.recv(x, src=0)"
        ),
        ("rank 0: HazardError: isend.*line 4", r"reads was changed before wait\(\).*line 6"),
        (
            "x = torch.ones(10**6)\nif rank == 0:\n    w = dist.isend(x, dst=1)\n    y = x * 2\n"
            "    w.wait()\nelse:\n    dist.recv(x, src=0)"
        ),
    ),
    Program(
        "one buffer for two messages", BUFFER,
        (
            "x = torch.ones(4)\nif rank == 0:\n    a = dist.isend(x, dst=1)\n    x.fill_(2)\n"
            "    b = dist.isend(x, dst=1)\n    a.wait()\n    b.wait()\nelse:\n    dist.recv(x, src=0)\n"
            "    dist.recv(x, src=0)"
        ),
        (
            "rank 0: HazardError: isend.*line 4",
            r"reads was changed before wait\(\).*line 7",
            "rank 1 in recv|deadlock|HazardError",
        ),
        (
            "x = torch.ones(4)\nif rank == 0:\n    a = dist.isend(x.clone(), dst=1)\n    x.fill_(2)\n"
            "    b = dist.isend(x, dst=1)\n    a.wait()\n    b.wait()\nelse:\n    dist.recv(x, src=0)\n"
            "    dist.recv(x, src=0)"
        ),
    ),
    Program(
        "a tensor read under an irecv", BUFFER,
        (
            "x = torch.zeros(4)\nif rank == 0:\n    dist.send(x + 5, dst=1)\nelse:\n"
            "    w = dist.irecv(x, src=0)\n    y = x.sum()\n    w.wait()"
        ),
        ("rank 1: HazardError: irecv.*line 6", r"writes is used before wait\(\).*line 7"),
        (
            "x = torch.zeros(4)\nif rank == 0:\n    dist.send(x + 5, dst=1)\nelse:\n"
            "    w = dist.irecv(x, src=0)\n    w.wait()\n    y = x.sum()"
        ),
    ),
    Program(
        "a tensor printed under an irecv", BUFFER,
        (
            "x = torch.zeros(4)\nif rank == 0:\n    dist.send(x + 5, dst=1)\nelse:\n"
            "    w = dist.irecv(x, src=0)\n    print(x)\n    w.wait()"
        ),
        ("rank 1: HazardError: irecv.*line 6", r"writes is used before wait\(\).*line 7"),
        (
            "x = torch.zeros(4)\nif rank == 0:\n    dist.send(x + 5, dst=1)\nelse:\n"
            "    w = dist.irecv(x, src=0)\n    n = x.numel() * x.element_size() + len(x.shape)\n"
            "    first = x[:2]\n    w.wait()\n    assert first.sum() == 10"
        ),
    ),
    Program(
        "an element written under an irecv", BUFFER,
        (
            "x = torch.zeros(4)\nif rank == 0:\n    dist.send(x + 5, dst=1)\nelse:\n"
            "    w = dist.irecv(x, src=0)\n    x[0] = 1\n    w.wait()"
        ),
        ("rank 1: HazardError: irecv.*line 6", r"writes is used before wait\(\).*line 7"),
        (
            "x = torch.zeros(4)\nif rank == 0:\n    dist.send(x + 5, dst=1)\nelse:\n"
            "    w = dist.irecv(x, src=0)\n    w.wait()\n    x[0] = 1"
        ),
    ),
    Program(
        "a sum used before it is there", BUFFER,
        "x = torch.ones(4)\nw = dist.all_reduce(x, async_op=True)\nx /= world_size\nw.wait()",
        ("ranks 0-1: HazardError: all_reduce.*line 3", r"writes is used before wait\(\).*line 4"),
        "x = torch.ones(4)\nw = dist.all_reduce(x, async_op=True)\nw.wait()\nx /= world_size",
    ),
    Program(
        "a sum of which nobody knows yet", BUFFER,
        (
            "x, y = torch.ones(4), torch.ones(4)\nw = dist.all_reduce(x, async_op=True)\n"
            "dist.all_reduce(x)\nw.wait()"
        ),
        ("ranks 0-1: HazardError: all_reduce.*line 3", r"writes is used before wait\(\).*line 4"),
        (
            "x, y = torch.ones(4), torch.ones(4)\nw = dist.all_reduce(x, async_op=True)\n"
            "dist.all_reduce(y)\nw.wait()"
        ),
    ),
    Program(
        "what is gathered, used too early", BUFFER,
        (
            "x, out = torch.ones(2), [torch.zeros(2), torch.zeros(2)]\n"
            "w = dist.all_gather(out, x, async_op=True)\ntotal = sum(out)\nw.wait()"
        ),
        (r"ranks 0-1: HazardError: all_gather\(.*line 3", r"writes is used before wait\(\).*line 4"),
        (
            "x, out = torch.ones(2), [torch.zeros(2), torch.zeros(2)]\n"
            "w = dist.all_gather(out, x, async_op=True)\ntotal = x.sum()\nw.wait()\ntotal += sum(out).sum()"
        ),
    ),
    Program(
        "what is broadcast, changed too early", BUFFER,
        (
            "x = torch.ones(4)\nw = dist.broadcast(x, src=0, async_op=True)\nif rank == 0:\n    x.add_(1)\n"
            "w.wait()"
        ),
        ("rank 0: HazardError: broadcast.*line 3", r"reads was changed before wait\(\).*line 6"),
        (
            "x = torch.ones(4)\nw = dist.broadcast(x, src=0, async_op=True)\nif rank == 0:\n    y = x + 1\n"
            "w.wait()"
        ),
    ),
    Program(
        "a sum into a copy", BUFFER,
        "x = torch.ones(4, 4)[:, 0]\ndist.all_reduce(x.contiguous())",
        ("ranks 0-1: nobody keeps what all_reduce wrote: x.contiguous\\(\\) is a copy.*line 3",),
        "x = torch.ones(4, 4)[:, 0]\ny = x.contiguous()\ndist.all_reduce(y)\ndist.all_reduce(y.contiguous())",
    ),
    Program(
        "a sum into what a mask selects", BUFFER,
        "x = torch.arange(4.)\nfor step in range(3):\n    dist.all_reduce(x[x > 1])",
        ("^ranks 0-1: nobody keeps what all_reduce wrote: x\\[x > 1\\] is a copy.*line 4: [^\n]*$",),
        "x = torch.arange(4.)\nfor step in range(3):\n    dist.all_reduce(x[2:])",
    ),
    Program(
        "a broadcast into another shape", BUFFER,
        "x = torch.ones(4, 3).t()\ndist.broadcast(x.reshape(-1), src=0)",
        ("^rank 1: nobody keeps what broadcast wrote: x.reshape\\(-1\\) is a copy.*line 3",),
        "x = torch.ones(4, 3)\ndist.broadcast(x.reshape(-1), src=0)\ndist.broadcast(x.t(), src=0)",
    ),
    Program(
        "a message into a converted copy", BUFFER,
        "x = torch.ones(4)\nif rank == 0:\n    dist.send(x.double(), 1)\nelse:\n    dist.recv(x.double(), 0)",
        ("^rank 1: nobody keeps what recv wrote: x.double\\(\\) is a copy.*line 6",),
        (
            "x = torch.ones(4)\nif rank == 0:\n    dist.send(x.double(), 1)\nelse:\n    x = x.double()\n"
            "    dist.recv(x, 0)"
        ),
    ),
    Program(
        "a gradient averaged in a function", BUFFER,
        (
            "net = torch.nn.Linear(2, 2)\nnet(torch.ones(1, 2)).sum().backward()\ndef average(p):\n"
            "    dist.all_reduce(p.grad / world_size)\nfor p in net.parameters():\n    average(p)"
        ),
        ("^ranks 0-1: nobody keeps what all_reduce wrote: p.grad / world_size is a copy.*line 5",),
        (
            "net = torch.nn.Linear(2, 2)\nnet(torch.ones(1, 2)).sum().backward()\n"
            "for p in net.parameters():\n    dist.all_reduce(p.grad)\n    dist.all_reduce(p.data.view(-1))\n"
            "    p.grad /= world_size\n"
            "dist.all_reduce(torch.zeros(1))"
        ),
    ),
    Program(
        "a checkpoint written beside a barrier", THREADS,
        (
            "import tempfile\nfrom torch.distributed import checkpoint\nname = [tempfile.mkdtemp()]\n"
            "dist.broadcast_object_list(name)\n"
            "saved = checkpoint.async_save({'x': torch.ones(3)}, checkpoint_id=name[0])\n"
            "while not saved.done():\n    dist.barrier()\nsaved.result()"
        ),
        (
            "ranks 0-1: MismatchError", r"barrier\(\) at In \[1\], line 8", "line 6, in a thread",
            "two threads.*new_group",
        ),
        (
            "import tempfile\nfrom torch.distributed import checkpoint\n"
            "name, own = [tempfile.mkdtemp()], dist.new_group()\ndist.broadcast_object_list(name)\n"
            "saved = checkpoint.async_save({'x': torch.ones(3)}, checkpoint_id=name[0], process_group=own)\n"
            "for step in range(50):\n    dist.barrier()\nsaved.result()"
        ),
    ),
    Program(
        "a thread that reduces beside a loop", THREADS,
        (
            "import threading\ndef reduce_all():\n    for step in range(200):\n"
            "        dist.all_reduce(torch.ones(3))\n"
            "thread = threading.Thread(target=reduce_all)\nthread.start()\nfor step in range(200):\n"
            "    dist.broadcast(torch.ones(1), src=0)\nthread.join()"
        ),
        (
            "ranks 0-1: MismatchError", "line 5, in a thread", r"broadcast.* at In \[1\], line 9",
            "two threads.*new_group",
        ),
        (
            "import threading\nown = dist.new_group()\ndef reduce_all():\n    for step in range(50):\n"
            "        dist.all_reduce(torch.ones(3), group=own)\n"
            "thread = threading.Thread(target=reduce_all)\nthread.start()\nfor step in range(50):\n"
            "    dist.broadcast(torch.ones(1), src=0)\nthread.join()"
        ),
    ),
    Program(
        "two workers of a pool", THREADS,
        (
            "import time; time.sleep(rank); from concurrent.futures import ThreadPoolExecutor\n"
            "def sums():\n    dist.all_reduce(torch.ones(3))\n"
            "def barriers():\n    dist.barrier()\nwith ThreadPoolExecutor(2) as pool:\n"
            "    done = [pool.submit(f) for f in [sums, barriers][::1 - 2 * rank] if not time.sleep(0.2)]\n"
            "for work in done:\n    work.result()"
        ),
        (
            "ranks 0-1: MismatchError", "all_reduce.*line 4, in a thread", "barrier.*line 6",
            "two threads.*new_group",
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor\na, b = dist.new_group(), dist.new_group()\n"
            "def sums():\n    dist.all_reduce(torch.ones(3), group=a)\n"
            "def barriers():\n    dist.barrier(group=b)\nwith ThreadPoolExecutor(2) as pool:\n"
            "    done = [pool.submit(f) for f in [sums, barriers][::1 - 2 * rank]]\n"
            "for work in done:\n    work.result()"
        ),
    ),
    Program(
        "a receive from any rank", RACE,
        (
            "x = torch.zeros(1)\nif rank == 0:\n    dist.recv(x)\n    first = x.item()\n    dist.recv(x)\n"
            "else:\n    dist.send(x + rank, dst=0)"
        ),
        (r"rank 0: a receive from any rank gets rank 1's or rank 2's message.*a race \(line 4",),
        (
            "x = torch.zeros(1)\nif rank == 0:\n    dist.recv(x, src=1)\n    first = x.item()\n"
            "    dist.recv(x, src=2)\nelse:\n    dist.send(x + rank, dst=0)"
        ),
        ranks=3, options="--races",
    ),
    Program(
        "any rank, then a given one", RACE,
        (
            "x = torch.zeros(1)\nif rank == 0:\n    dist.recv(x)\n    dist.recv(x, src=2)\nelse:\n"
            "    if rank == 2:\n        dist.recv(x, src=1, tag=1)\n    dist.send(x, dst=0)\n"
            "    if rank == 1:\n        dist.send(x, dst=2, tag=1)"
        ),
        (r"rank 0: a receive from any rank gets rank 1's or rank 2's message.*a race \(line 4",),
        (
            "x = torch.zeros(1)\nif rank == 1:\n    dist.send(x, dst=0)\nif rank == 0:\n    dist.recv(x)\n"
            "dist.barrier()\nif rank == 2:\n    dist.send(x, dst=0)\nif rank == 0:\n    dist.recv(x)"
        ),
        ranks=3, options="--races",
    ),
    Program(
        "a receive from any rank that was posted early", RACE,
        (
            "x, y = torch.zeros(1), torch.zeros(1)\nif rank == 0:\n    w = dist.irecv(x)\ndist.barrier()\n"
            "if rank == 0:\n    dist.recv(y)\n    w.wait()\nelse:\n    dist.send(x, dst=0)"
        ),
        (r"rank 0: a receive from any rank gets rank 1's or rank 2's message.*a race \(line 4",),
        (
            "x, y = torch.zeros(1), torch.zeros(1)\nif rank == 0:\n    w = dist.irecv(x, src=1)\n"
            "dist.barrier()\nif rank == 0:\n    dist.recv(y, src=2)\n    w.wait()\nelse:\n"
            "    dist.send(x, dst=0)"
        ),
        ranks=3, options="--races",
    ),
    Program(
        "a negative tag", ARGUMENT,
        (
            "x = torch.ones(1)\nif rank == 0:\n    dist.send(x, dst=1, tag=-5)\nelse:\n"
            "    dist.recv(x, src=0, tag=-5)"
        ),
        ("rank 0: .*tag.*line 4", "rank 1: .*tag.*line 6"),
        (
            "x = torch.ones(1)\nif rank == 0:\n    dist.send(x, dst=1, tag=5)\nelse:\n"
            "    dist.recv(x, src=0, tag=5)"
        ),
    ),
    Program(
        "a sparse tensor", ARGUMENT,
        "x = torch.eye(3).to_sparse()\ndist.broadcast(x, src=0)",
        ("ranks 0-1: LabError: broadcast of a sparse tensor.*line 3",),
        "x = torch.eye(3).to_sparse()\ndist.all_reduce(x)",
    ),
    Program(
        "a number in place of a tensor", ARGUMENT,
        "loss = 3.5\ndist.all_reduce(loss)",
        ("ranks 0-1: .*Error.*[Tt]ensor.*line 3",),
        "loss = torch.tensor(3.5)\ndist.all_reduce(loss)",
    ),
    Program(
        "a group of ranks that there are not", ARGUMENT,
        "g = dist.new_group([0, 7])",
        ("ranks 0-1: ValueError.*7.*line 2|ranks 0-1: ValueError.*line 2",),
        "g = dist.new_group([0, 1])",
    ),
    Program(
        "os._exit", DEATH,
        "import os\nif rank == 1:\n    os._exit(7)\ndist.barrier()",
        ("rank 1 .*died: exit code 7",),
        "dist.barrier()",
        new_ranks=True,
    ),
    Program(
        "a rank that kills itself", DEATH,
        "import os, signal\nif rank == 2:\n    os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()",
        ("rank 2 .*died: Killed",),
        "dist.barrier()",
        ranks=3, new_ranks=True,
    ),
    Program(
        "sys.exit", DEATH,
        "import sys\nif rank == 1:\n    sys.exit(3)\ndist.barrier()",
        ("rank 1 raised an error", "rank 0 in barrier.*line 5", "rank 1: SystemExit.*line 4"),
        "dist.barrier()",
    ),
)  # fmt: skip
