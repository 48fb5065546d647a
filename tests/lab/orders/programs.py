"""Small programs whose orders are counted by hand, after the categories of the MPI Bugs Initiative.

Each runs on four ranks, of which it may use fewer. `Known` says in how many orders it is right, raises an
error and deadlocks, and how many different results it shows.
"""

from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class Known:
    right: int = 0
    error: int = 0
    deadlock: int = 0
    results: int = 1


def collect(n, then=""):
    """Rank 0 receives from anybody n times, ranks 1 to n send their number."""
    return f"""
    x, got = torch.zeros(1), []
    if rank == 0:
        for _ in range({n}):
            dist.recv(x)
            got.append(int(x))
        {then}
    elif rank <= {n}:
        dist.send(torch.ones(1) * rank, 0)
    """


PROGRAMS = {
    # Right in every order
    "no messages": ("print(rank)", Known(right=1)),
    "one message": (
        """
    x = torch.ones(1) * rank
    if rank == 1:
        dist.send(x, 0)
    elif rank == 0:
        dist.recv(x, 1)
        print(x)
    """,
        Known(right=1),
    ),
    "a ring whose first rank sends before it receives": (
        """
    x = torch.zeros(1)
    if rank == 0:
        dist.send(x, 1)
        dist.recv(x, 3)
    else:
        dist.recv(x, rank - 1)
        dist.send(x + 1, (rank + 1) % 4)
    print(x)
    """,
        Known(right=1),
    ),
    "a ring of isend and recv": (
        """
    x, y = torch.ones(1) * rank, torch.zeros(1)
    work = dist.isend(x, (rank + 1) % 4)
    dist.recv(y, (rank - 1) % 4)
    work.wait()
    print(y)
    """,
        Known(right=1),
    ),
    "every collective": (
        """
    x = torch.ones(4) * rank
    dist.all_reduce(x)
    dist.broadcast(x, src=2)
    dist.reduce(x, dst=1)
    parts = [torch.zeros(4) for _ in range(4)]
    dist.all_gather(parts, x)
    dist.gather(x, parts if rank == 3 else None, dst=3)
    dist.scatter(x, parts if rank == 3 else None, src=3)
    y = torch.zeros(1)
    dist.reduce_scatter_tensor(y, x)
    dist.all_to_all_single(x, x.clone())
    dist.barrier()
    print(x, y)
    """,
        Known(right=1),
    ),
    "objects": (
        """
    told = [None] * 4
    dist.all_gather_object(told, {"rank": rank})
    names = ["a", "b"] if rank == 0 else [None, None]
    dist.broadcast_object_list(names, src=0)
    print(told, names)
    """,
        Known(right=1),
    ),
    "a group of two": (
        """
    pair = dist.new_group([1, 3])
    x = torch.ones(1) * rank
    if rank in (1, 3):
        dist.all_reduce(x, group=pair)
    print(x)
    """,
        Known(right=1),
    ),
    "a sum of two from anybody": (collect(2, "print(sum(got))"), Known(right=2)),
    "a sum of three from anybody": (collect(3, "print(sum(got))"), Known(right=6)),
    "each receives from anybody twice": (
        """
    x, total = torch.zeros(1), 0
    if rank < 2:
        for _ in range(2):
            dist.recv(x)
            total += int(x)
        print(total)
    else:
        for to in range(2):
            dist.send(torch.ones(1) * rank, to)
    """,
        Known(right=4),
    ),
    "two messages of each of two keep their order": (
        """
    x, got = torch.zeros(1), {1: [], 2: []}
    if rank == 0:
        for _ in range(4):
            got[dist.recv(x)].append(int(x))
        print(got)
    elif rank < 3:
        for k in range(2):
            dist.send(torch.ones(1) * k, 0)
    """,
        Known(right=6),
    ),
    "tags keep messages apart": (
        """
    x = torch.zeros(1)
    if rank == 0:
        for tag in (2, 1):
            dist.recv(x, tag=tag)
            print(int(x))
    elif rank < 3:
        dist.send(torch.ones(1) * rank, 0, tag=rank)
    """,
        Known(right=1),
    ),
    "the second sender waits for an answer to the first": (
        """
    x = torch.zeros(1)
    if rank == 0:
        dist.recv(x)
        print(int(x))
        dist.send(x, 2)
        dist.recv(x)
        print(int(x))
    elif rank == 1:
        dist.send(x + 1, 0)
    elif rank == 2:
        dist.recv(x, 0)
        dist.send(x + 1, 0)
    """,
        Known(right=1),
    ),
    "a barrier keeps the second sender back": (
        """
    x = torch.zeros(1)
    if rank == 2:
        dist.barrier()
        dist.send(x + 2, 0)
    elif rank == 0:
        dist.recv(x)
        dist.barrier()
        dist.recv(x)
        print(int(x))
    else:
        if rank == 1:
            dist.send(x + 1, 0)
        dist.barrier()
    """,
        Known(right=1),
    ),
    "a server that answers whoever asked": (
        """
    x = torch.zeros(1)
    if rank == 0:
        for _ in range(2):
            dist.send(x + 7, dist.recv(x), tag=1)
            x.zero_()
    elif rank < 3:
        dist.send(x, 0)
        dist.recv(x, 0, tag=1)
        print(int(x))
    """,
        Known(right=2),
    ),
    "asynchronous all_reduces in one order": (
        """
    x, y = torch.ones(1), torch.ones(1) * 2
    works = [dist.all_reduce(t, async_op=True) for t in (x, y)]
    for work in works:
        work.wait()
    print(x, y)
    """,
        Known(right=1),
    ),
    "two irecvs from anybody, both waited for": (
        """
    x, y = torch.zeros(1), torch.zeros(1)
    if rank == 0:
        works = [dist.irecv(x), dist.irecv(y)]
        for work in works:
            work.wait()
        print(int(x + y))
    elif rank < 3:
        dist.send(torch.ones(1) * rank, 0)
    """,
        Known(right=2),
    ),
    # Races: what comes first shows
    "who is first of two": (collect(2, "print(got)"), Known(right=2, results=2)),
    "who is first of three": (collect(3, "print(got[0])"), Known(right=6, results=3)),
    "a difference does not commute": (collect(2, "print(got[0] - got[1])"), Known(right=2, results=2)),
    "a server that adds and multiplies": (
        """
    x = torch.zeros(2)
    if rank == 0:
        value = 1
        for _ in range(2):
            dist.recv(x)
            value = value + 3 if x[0] else value * 2
        print(value)
    elif rank < 3:
        dist.send(torch.tensor([rank - 1.0, 0]), 0)
    """,
        Known(right=2, results=2),
    ),
    "a tensor that is changed before its isend is waited for": (
        """
    x = torch.ones(1)
    if rank == 0:
        work = dist.isend(x, 1)
        x.zero_()
        work.wait()
    elif rank == 1:
        dist.recv(x, 0)
        print(int(x))
    """,
        Known(right=2, results=2),
    ),
    "a tensor that is read before its irecv is waited for": (
        """
    x = torch.zeros(1)
    if rank == 0:
        dist.send(x + 5, 1)
    elif rank == 1:
        work = dist.irecv(x, 0)
        print(int(x))
        work.wait()
    """,
        Known(right=2, results=2),
    ),
    "an all_reduce that is read before it is waited for": (
        """
    x = torch.ones(1)
    work = dist.all_reduce(x, async_op=True)
    y = int(x)
    work.wait()
    if rank == 0:
        print(y)
    """,
        Known(right=2, results=2),
    ),
    # Errors in some orders
    "an assertion that holds if rank 1 comes first": (collect(2, "assert got == [1, 2]"), Known(1, 1)),
    "an index by who came last": (collect(3, "[0, 1, 2][got[2]]"), Known(right=4, error=2)),
    "an error in every order": (collect(2, "1 / 0"), Known(error=2)),
    # Deadlocks
    "sends to each other": (
        """
    x = torch.zeros(1)
    if rank < 2:
        dist.send(x, 1 - rank)
        dist.recv(x, 1 - rank)
    """,
        Known(right=1, deadlock=1),
    ),
    "receives from each other": (
        """
    x = torch.zeros(1)
    if rank < 2:
        dist.recv(x, 1 - rank)
        dist.send(x, 1 - rank)
    """,
        Known(deadlock=1),
    ),
    "a ring in which all send first": (
        """
    x = torch.zeros(1)
    dist.send(x, (rank + 1) % 4)
    dist.recv(x, (rank - 1) % 4)
    """,
        Known(right=1, deadlock=1),
    ),
    "anybody takes what somebody was to have": (
        """
    x = torch.zeros(1)
    if rank == 0:
        dist.recv(x)
        dist.recv(x, 2)
    elif rank < 3:
        dist.send(x, 0)
    """,
        Known(right=1, deadlock=1),
    ),
    "the same with three senders": (
        """
    x = torch.zeros(1)
    if rank == 0:
        dist.recv(x)
        dist.recv(x)
        dist.recv(x, 3)
    else:
        dist.send(x, 0)
    """,
        Known(right=2, deadlock=4),
    ),
    "a rank that leaves the barrier out": (
        """
    if rank != 2:
        dist.barrier()
    """,
        Known(deadlock=1),
    ),
    "a receive too many": (collect(2, "dist.recv(x)"), Known(deadlock=2)),
    "a tag that nobody sends": (
        """
    x = torch.zeros(1)
    if rank == 0:
        dist.recv(x, 1, tag=2)
    elif rank == 1:
        dist.send(x, 0, tag=1)
    """,
        Known(deadlock=1),
    ),
    "a broadcast whose root goes on, and a send that waits": (
        """
    x = torch.zeros(1)
    if rank == 1:
        dist.send(x, 0)
    dist.broadcast(x, src=0)
    if rank == 0:
        dist.recv(x, 1)
    """,
        Known(right=1, deadlock=1),
    ),
    "two groups in opposite order": (
        """
    one, two = dist.new_group([0, 1]), dist.new_group([0, 1])
    x = torch.ones(1)
    if rank < 2:
        for group in (one, two) if rank else (two, one):
            dist.all_reduce(x, group=group)
    """,
        Known(deadlock=1),
    ),
    "an answer that depends on who came first": (
        """
    x = torch.zeros(1)
    if rank == 0:
        if dist.recv(x) == 2:
            dist.recv(x, 3)
        dist.recv(x)
    elif rank < 3:
        dist.send(x, 0)
    """,
        Known(right=1, deadlock=1),
    ),
    "a message that MPI has to buffer for another to come first": (
        """
    x = torch.zeros(1)
    if rank == 0:
        first = dist.recv(x)
        dist.recv(x)
        assert first == 1
    elif rank == 1:
        dist.send(x, 2)
        dist.send(x, 0)
    elif rank == 2:
        dist.send(x, 0)
        dist.recv(x, 1)
    """,
        Known(right=1, error=1, deadlock=0),
    ),
    # Calls that do not fit together
    "other collectives on other ranks": (
        """
    x = torch.ones(1)
    dist.barrier() if rank == 1 else dist.all_reduce(x)
    """,
        Known(error=1),
    ),
    "other roots": ("dist.broadcast(torch.ones(1), src=rank % 2)", Known(error=1)),
    "other sizes": ("dist.all_reduce(torch.ones(1 + rank % 2))", Known(error=1)),
    "other operations": (
        """
    op = dist.ReduceOp.MAX if rank == 2 else dist.ReduceOp.SUM
    dist.all_reduce(torch.ones(1), op)
    """,
        Known(error=1),
    ),
    "a message that is too long": (
        """
    if rank == 0:
        dist.send(torch.ones(3), 1)
    elif rank == 1:
        dist.recv(torch.ones(2), 0)
    """,
        Known(error=1),
    ),
}
PROGRAMS = {name: (dedent(source).strip() + "\n", known) for name, (source, known) in PROGRAMS.items()}
