"""Run on real machines."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    Values,
    questions,
)
from labkit.exercises.judge import Comparison, Mistake
from labkit.exercises.lazy_torch import torch
from labkit.rank.wording import ranks

NO_MESSAGES = (
    Limit("messages", lambda a: 0, "Every rank has the whole list: no message is needed."),
    Limit("collectives", lambda a: 0, "Every rank has the whole list: no message is needed."),
)


GPUS = 2
"""Of each host."""


def _places(generator: torch.Generator, size: int) -> Arguments:
    """The host of every rank, in no order, so that the rank's remainder is another number somewhere.

    From four ranks on some share a GPU.
    """
    while True:
        numbers = torch.randint(2, (size,), generator=generator).tolist()
        hosts = ["node-" + "ab"[number] for number in numbers]
        local = [hosts[:r].count(hosts[r]) for r in range(size)]
        shared = max(local) >= GPUS or size < 4
        if shared and any(place % GPUS != r % GPUS for r, place in enumerate(local)):
            return [(hosts, GPUS)] * size


def _dealt(generator: torch.Generator, size: int) -> Arguments:
    """The host of every rank, so that from four ranks on the ring in their order crosses too often."""
    while True:
        hosts = ["node-" + "abc"[n] for n in torch.randint(3, (size,), generator=generator).tolist()]
        if size < 4 or _crossing(list(range(size)), hosts) > len(set(hosts)) > 1:
            return [(hosts,)] * size


def _each(formula: Callable[[list[str], int], int]) -> Values:
    return lambda arguments: [formula(hosts, r) for r, (hosts, _) in enumerate(arguments)]


class _OnHosts(Comparison):
    """Names the hosts with what is wrong: no number can be understood without them."""

    def __call__(self, answers: Answers) -> str:
        hosts, gpus = answers.arguments[0]
        return super().__call__(answers).replace("\n", f"\n  hosts are {hosts}, gpus {gpus}\n", 1)


MY_GPU = Exercise(
    task="`hosts` says on which host each rank is, in any order; each host has `gpus` GPUs, numbered from 0. "
    "This program works on one host. On several it gives two ranks of a host the same GPU while another is "
    "free. **Find the bug and mend it.** (If a host has more ranks than GPUs, they share in turn.)",
    stub="""\
def my_gpu(hosts, gpus):  # such as ["a", "b", "a", "b"], 2
    return rank % gpus
""",
    solution="""\
def my_gpu(hosts, gpus):
    local_rank = hosts[:rank].count(hosts[rank])
    return local_rank % gpus
""",
    why="GPUs are numbered on each host, ranks over all of them. The local rank counts the ranks before this "
    "one that share its host, so it needs no order and no equal share.",
    hints=(
        "Ranks 0 and 2 are on host a, each host has two GPUs. Which ones do they take?",
        "How many ranks of a lower number are on your host? hosts[:rank] is a list, and lists can count.",
    ),
    given=_places,
    judge=_OnHosts(
        _each(lambda hosts, r: hosts[:r].count(hosts[r]) % GPUS),
        (
            Mistake(
                "The rank counts over all hosts. Count the ranks on your own host.",
                _each(lambda hosts, r: r % GPUS),
            ),
            Mistake(
                "That counts this rank, too: local ranks begin at 0.",
                _each(lambda hosts, r: hosts[: r + 1].count(hosts[r]) % GPUS),
            ),
            Mistake(
                "That is the local rank. A host with more ranks than GPUs has no GPU of that number.",
                _each(lambda hosts, r: hosts[:r].count(hosts[r])),
            ),
        ),
        tolerance=1e-4,
    ),
    limits=NO_MESSAGES,
)


def _crossing(ring: list[int], hosts: list[str]) -> int:
    return sum(hosts[a] != hosts[b] for a, b in zip(ring, ring[1:] + ring[:1], strict=True))


def _rings(answers: Answers) -> str:
    hosts, first = answers.arguments[0][0], answers.found[0]
    for rank, ring in enumerate(answers.found):
        if not isinstance(ring, list) or sorted(map(str, ring)) != [str(r) for r in range(answers.size)]:
            return f"rank {rank} is wrong\n  got {ring!r}, which does not hold every rank once"
    others = [rank for rank, ring in enumerate(answers.found) if ring != first]
    if others:
        return f"{ranks(others)} and rank 0 have other rings\n  there is one ring: all must agree on it"
    needed = len(set(hosts)) if len(set(hosts)) > 1 else 0
    if (crossing := _crossing(first, hosts)) > needed:
        return f"{crossing} messages cross in the ring {first} on {hosts}, and {needed} would do"
    return ""


RING_ORDER = Exercise(
    task="Return all ranks in an order in which a ring crosses the network as rarely as can be. Each rank "
    "sends to the next one in your list, the last to the first.",
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
    judge=_rings,
    limits=NO_MESSAGES,
)

LESSON = Lesson(
    "24",
    "Run on real machines",
    predictions=(Prediction("in_turn", "times as many"),),
    exercises=(MY_GPU, RING_ORDER),
    questions=questions("24"),
)
