"""Sum over all ranks."""

from __future__ import annotations

from labkit.exercises.describe import (
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    in_place,
    questions,
)
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.first_bugs import SUM_BY_TURNS


def _losses(generator: torch.Generator, size: int) -> Arguments:
    return [(5 * torch.rand(1, generator=generator),) for _ in range(size)]


def _sum(arguments: Arguments) -> torch.Tensor:
    return sum(x for (x,) in arguments)


MEAN_LOSS = Exercise(
    task="Each rank has measured a `loss`. Return the mean over all ranks, on every rank, and leave `loss` "
    "as it was.",
    stub="""\
def mean_loss(loss):  # a tensor with one element, different on each rank
    ...  # your code
""",
    solution="""\
def mean_loss(loss):
    total = loss.clone()
    dist.all_reduce(total)
    return total / world_size
""",
    why="Every rank calls all_reduce, so every rank has the sum, and each divides it by itself.",
    hints=(
        "A sum over all ranks and a division, both on every rank, with no branch.",
        "dist.all_reduce(x) works in place; world_size says by what to divide.",
    ),
    given=_losses,
    judge=compare(
        everywhere(lambda a: _sum(a) / len(a)),
        Mistake("That is the sum: divide it by the number of ranks.", everywhere(_sum)),
        Mistake(
            "That is the sum divided by 3. The next world may have another size: world_size knows it.",
            everywhere(lambda a: _sum(a) / 3),
        ),
        Mistake("The divisor is one too small.", everywhere(lambda a: _sum(a) / max(1, len(a) - 1))),
        Mistake("That is the rank's own loss: nothing came from the others.", lambda a: [x for (x,) in a]),
        Mistake("That is the rank's own loss, divided: the sum did not come here.",
                lambda a: [x / len(a) for (x,) in a]),
        Mistake("The rank's own loss counts twice.", lambda a: [(_sum(a) + x) / len(a) for (x,) in a]),
    ),
    limits=(
        Limit("collectives", lambda a: 1, "One collective is enough: which leaves the sum on every rank?"),
        Limit("messages", lambda a: 2 * (len(a) - 1), "By hand, go by way of rank 0; or use a collective."),
    ),
    uses=("all_reduce_naive", "all_reduce_reduce_broadcast"),
    sizes=(2, 3),
)  # fmt: skip


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    n = 12 * int(torch.randint(1, 50, (), generator=generator))  # can be cut into 2, 3 or 4 equal chunks
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


def _own_chunk_summed(arguments: Arguments) -> list[torch.Tensor]:
    """What reduce-scatter leaves where it works in place."""
    total, size = _sum(arguments), len(arguments)
    held = [x.clone() for (x,) in arguments]
    for rank, x in enumerate(held):
        x.chunk(size)[rank].copy_(total.chunk(size)[rank])
    return held


def _own_chunks_twice(arguments: Arguments) -> torch.Tensor:
    size = len(arguments)
    return _sum(arguments) + torch.cat([x.chunk(size)[root] for root, (x,) in enumerate(arguments)])


ALL_REDUCE_IN_CHUNKS = Exercise(
    task="Sum `x` over all ranks, in place, with `send` and `recv` alone, so that no rank sends more than "
    "$2(R-1)/R$ of it.",
    stub="""\
def all_reduce_in_chunks(x):  # its length can be divided by world_size
    chunks = x.chunk(world_size)  # a tuple of views: what is written into one is in x
    ...  # your code
""",
    solution="""\
def all_reduce_in_chunks(x):
    for root, chunk in enumerate(x.chunk(world_size)):
        reduce_to(root, chunk)
        broadcast_from(root, chunk)
""",
    why="Every rank is the root of one chunk. It sends R - 1 chunks to the other roots, and its own, summed, "
    "to R - 1 ranks: 2(R - 1) chunks of size 1/R. No all-reduce can do with less.",
    hints=(
        "Rank 0 sends so much because it is the root of all of x. Let every rank be the root of one chunk.",
        "reduce_to(root, chunk) and broadcast_from(root, chunk): every rank, every root, in the same order.",
        "With messages of your own: chunks is a tuple, so chunks[rank] += y fails. Take mine = chunks[rank]; "
        "then mine += y adds in x.",
    ),
    given=_tensors,
    judge=compare(
        everywhere(_sum),
        Mistake("x is what it was: write into it; the caller holds x and not what you return.",
                lambda a: [x for (x,) in a]),
        Mistake("Each rank has the sum of its own chunk alone, as after reduce_scatter: what is missing?",
                _own_chunk_summed),
        Mistake("That is the mean: all-reduce only adds.", everywhere(lambda a: _sum(a) / len(a))),
        Mistake("Each chunk has its root's own numbers in it twice.", everywhere(_own_chunks_twice)),
    ),
    limits=(
        Limit("collectives", lambda a: 0, "The collective is what you build here: use send and recv."),
        Limit("bytes", lambda a: 2 * (len(a) - 1) / len(a) * a[0][0].nbytes,
              "That rank is a bottleneck. Share its work: every rank is the root of one chunk."),
    ),
    answer=in_place,
    uses=("all_reduce_naive", "all_reduce_reduce_broadcast", "broadcast_from", "reduce_to"),
    sizes=(2, 3),
)  # fmt: skip

LESSON = Lesson(
    "02",
    "Sum over all ranks",
    predictions=(Prediction("messages", "messages"),),
    exercises=(SUM_BY_TURNS, MEAN_LOSS, ALL_REDUCE_IN_CHUNKS),
    questions=questions("02"),
)
