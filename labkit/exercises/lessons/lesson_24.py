"""Lesson 24, Run on real machines: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.cases import EachLikeSolution, each
from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    body,
    edit,
    questions,
)
from labkit.exercises.lazy_torch import torch
from labkit.rank.wording import ranks

HERE = "Every rank has the whole list: no message is needed."
NO_MESSAGES = (Limit("messages", lambda arguments: 0, HERE), Limit("collectives", lambda arguments: 0, HERE))


def _hosts(pattern: list[int], generator: torch.Generator) -> list[str]:
    """Hosts by number, "aba" as [0, 1, 0], with names whose order says nothing."""
    names = torch.randperm(26, generator=generator).tolist()
    return [f"node-{chr(97 + names[number])}" for number in pattern]


def _random(size: int, generator: torch.Generator) -> list[str]:
    return _hosts(torch.randint(3, (size,), generator=generator).tolist(), generator)


def _local(hosts: list[str], r: int) -> int:
    return hosts[:r].count(hosts[r])


OTHERS: tuple[Callable[[list[str], int, int], int], ...] = (
    lambda hosts, gpus, r: r % gpus,
    lambda hosts, gpus, r: _local(hosts, r),
    lambda hosts, gpus, r: (r - hosts.index(hosts[r])) % gpus,
    lambda hosts, gpus, r: _local(hosts, r) % 2,
    lambda hosts, gpus, r: min(_local(hosts, r), gpus - 1),
)
"""Formulas that are right in some cases; the last three in every case with two ranks."""


def _places(generator: torch.Generator, size: int) -> Arguments:
    """Cases: the hosts of the ranks, and one, two or three GPUs, among which each of OTHERS is wrong."""

    def wrong(other: Callable[[list[str], int, int], int]) -> bool:
        return any(other(h, gpus, r) != _local(h, r) % gpus for h, gpus in cases for r in range(size))

    while True:
        order = torch.randperm(12, generator=generator).tolist()
        cases = [(_random(size, generator), 1 + number % 3) for number in order]
        if all(map(wrong, OTHERS[: 2 if size == 2 else None])):
            return [(cases,)] * size


LOCAL = """\
def my_gpu(hosts, gpus):
    local_rank = hosts[:rank].count(hosts[rank])
    return local_rank % gpus
"""
MY_GPU = Exercise(
    task="`hosts` says on which host each rank is, in any order; each host has `gpus` GPUs, numbered from 0. "
    "This program works on one host. On several it gives two ranks of a host the same GPU while another is "
    "free. **Find the bug and mend it.** (If a host has more ranks than GPUs, they share in turn.) Send no "
    "message.",
    stub="""\
def my_gpu(hosts, gpus):  # such as ["a", "b", "a", "b"], 2
    return rank % gpus
""",
    solution=LOCAL,
    why="GPUs are numbered on each host, ranks over all of them. The local rank counts the ranks before this "
    "one that share its host, so it needs no order and no equal share.",
    hints=(
        "Ranks 0 and 2 are on host a, each host has two GPUs. Which ones do they take?",
        "How many ranks of a lower number are on your host? hosts[:rank] is a list, and lists can count.",
    ),
    given=_places,
    use=each,
    judge=EachLikeSolution(),
    limits=NO_MESSAGES,
    wrong=(
        body("return (rank + 0) % gpus", says="The rank counts over all hosts. Count the ranks on your own host."),
        edit("[:rank]", "[: rank + 1]", says="That counts this rank, too: local ranks begin at 0."),
        edit("local_rank % gpus", "local_rank",
             says="That is the local rank. A host with more ranks than GPUs has no GPU of that number."),
        edit("hosts[:rank].count(hosts[rank])", "rank - hosts.index(hosts[rank])",
             says="That is right only where the ranks of a host have numbers in a row. Count those on your host."),
        edit("hosts[:rank].count(hosts[rank])", "rank // len(set(hosts))",
             says="That is right only where the ranks are dealt to the hosts in turn. Count those on your host."),
        edit("[:rank].count(hosts[rank])", "[rank:].count(hosts[rank]) - 1",
             says="That counts the ranks after this one. Local ranks follow the order of the ranks."),
        edit("local_rank % gpus", "min(local_rank, gpus - 1)",
             says="All that are too many share the last GPU. They share in turn: the remainder by `gpus`."),
        edit("% gpus", "% 2", says="wrong"),
        edit("local_rank % gpus", "f'cuda:{local_rank % gpus}'", says="wrong"),
        edit("    return local_rank % gpus", "    local_rank %= gpus", says="Nothing came back"),
        body("return 0 if rank == 0 else -1", says="wrong"),
        body("hosts.sort()\nreturn hosts[:rank].count(hosts[rank]) % gpus",
             says="changed `hosts`, which its caller goes on using"),
        edit("    return", "    dist.broadcast(torch.zeros(1), 0)\n    return", says=HERE),
        edit("    return", "    if rank == 0:\n        dist.barrier()\n    return", says="deadlock: ", hangs=True),
    ),
)  # fmt: skip


PATTERNS = ([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [0, 1, 2, 1], [0, 0, 0, 0])
"""Hosts of four ranks. No one ring is the best for the first three, and the fourth has three hosts."""


def _dealt(generator: torch.Generator, size: int) -> Arguments:
    """The hosts of the ranks, several times, among four ranks so that no one ring is the best for all."""
    drawn = [_hosts(pattern[:size], generator) for pattern in PATTERNS] + [_random(size, generator)]
    order = torch.randperm(len(drawn), generator=generator).tolist()
    return [([(drawn[place],) for place in order],)] * size


def _crossing(ring: list[int], hosts: list[str]) -> int:
    return sum(hosts[a] != hosts[b] for a, b in zip(ring, ring[1:] + ring[:1], strict=True))


def _rings(answers: Answers) -> str:
    """What is wrong with the ranks' rings: of several best ones any will do, the same on every rank."""
    for case, (hosts,) in enumerate(answers.arguments[0][0]):
        rings = [found[case] for found in answers.found]
        rings = [ring.tolist() if torch.is_tensor(ring) else ring for ring in rings]
        for rank, ring in enumerate(rings):
            if not isinstance(ring, list) or sorted(map(str, ring)) != [str(r) for r in range(answers.size)]:
                return f"rank {rank} is wrong\n  got {ring!r}, which does not hold every rank once"
        if others := [rank for rank, ring in enumerate(rings) if ring != rings[0]]:
            return f"{ranks(others)} and rank 0 have other rings\n  there is one ring: all must agree on it"
        needed = len(set(hosts)) if len(set(hosts)) > 1 else 0
        if (crossing := _crossing(rings[0], hosts)) > needed:
            return f"{crossing} messages cross in the ring {rings[0]} on {hosts}, and {needed} would do"
    return ""


RING_ORDER = Exercise(
    task="Return all ranks in an order in which a ring crosses the network as rarely as can be. Each rank "
    "sends to the next one in your list, the last to the first. Return the same list on every rank, without "
    "a message.",
    stub="""\
def ring_order(hosts):  # the host of every rank
    ...  # your code: a list of all ranks, the same on every rank
""",
    solution="""\
def ring_order(hosts):
    return sorted(range(world_size), key=lambda r: hosts[r])
""",
    why="Sorted by host, the ranks of a host stand side by side. The ring leaves each host once.",
    hints=(
        "A ring must leave each host at least once. When does it leave a host twice?",
        "The ranks of a host must stand side by side in your list. In which order the hosts come is all the "
        "same.",
    ),
    given=_dealt,
    use=each,
    judge=_rings,
    limits=NO_MESSAGES,
    wrong=(
        body("return list(range(world_size))", says="messages cross in the ring"),
        body("return [0, 2, 1, 3] if world_size == 4 else list(range(world_size))", says="messages cross in the ring"),
        edit("hosts[r])", "hosts[r] != hosts[0])", says="messages cross in the ring"),
        edit("hosts[r])", "hosts.count(hosts[r]))", says="messages cross in the ring"),
        edit("hosts[r])", "hosts[r] != hosts[rank])", says=" have other rings"),
        body("return sorted(hosts)", says="does not hold every rank once"),
        body("return list(range(world_size - 1))", says="does not hold every rank once"),
        body("return [r for r in range(world_size) if hosts[r] == hosts[rank]]", says="does not hold every rank once"),
        edit("return sorted", "ring = sorted", "hosts[r])", "hosts[r])\n    return ring + ring[:1]",
             says="does not hold every rank once"),
        edit("return sorted", "ring = sorted", says="got None, which does not hold every rank once"),
        edit("return sorted", "ring = sorted", "hosts[r])", "hosts[r])\n    return ring[rank:] + ring[:rank]",
             says="have other rings"),
        edit("return", "if rank:\n        return list(range(world_size))\n    return", says="have other rings"),
        edit("return sorted", "ring = sorted", "hosts[r])",
             "hosts[r])\n    ring = torch.tensor(ring)\n    dist.broadcast(ring, 0)\n    return ring.tolist()", says=HERE),
        edit("return", "if rank == 0:\n        dist.barrier()\n    return", says="deadlock: ", hangs=True),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="24",
    title="Run on real machines",
    predictions=(Prediction("in_turn", "times as many"),),
    exercises=(MY_GPU, RING_ORDER),
    questions=questions("24"),
)
