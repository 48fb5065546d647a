"""Lesson 06, All-reduce in a ring: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Lesson, Limit, Prediction, Values, questions
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.rings import ALL_GATHER_RING, ALL_REDUCE_RING


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    n = 12 * int(torch.randint(1, 50, (), generator=generator))  # 2, 3 or 4 ranks cut it into equal chunks
    return [(torch.randn(n, dtype=torch.float64, generator=generator),) for _ in range(size)]


def _sum(arguments: Arguments) -> torch.Tensor:
    return sum(x for (x,) in arguments)


def _own(rank: int, arguments: Arguments) -> torch.Tensor:
    """The rank's own numbers of its chunk."""
    return arguments[rank][0].chunk(len(arguments))[rank]


def _chunk(offset: int, scale: Callable[[int], float] = lambda size: 1) -> Values:
    """Per rank the summed chunk whose number is the rank's plus `offset`."""

    def chunks(arguments: Arguments) -> list[torch.Tensor]:
        size = len(arguments)
        parts = (_sum(arguments) * scale(size)).chunk(size)
        return [parts[(rank + offset) % size] for rank in range(size)]

    return chunks


REDUCE_SCATTER = Exercise(
    task="The first half alone. Return the sum of chunk number `rank` over all ranks. In the ring "
    "above, rank $r$ ends the first half with the sum of chunk $r + 1$. Budget: $R - 1$ steps, $(R - 1)/R$ "
    "of `x` sent per rank. Leave `x` as it is.",
    stub="""\
def reduce_scatter(x):  # its length can be divided by world_size
    ...  # your code, with isend and recv
""",
    solution="""\
def reduce_scatter(x):
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    chunks = x.clone().chunk(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[0])
        sending = dist.isend(chunks[(rank - step - 1) % world_size], right)
        dist.recv(received, left)
        sending.wait()
        chunks[(rank - step - 2) % world_size].add_(received)
    return chunks[rank]
""",
    why="Every rank begins one chunk earlier than in the lesson, so every sum ends one rank later. ZeRO and "
    "FSDP reduce gradients with this collective.",
    hints=(
        "Take the ring of the lesson, and stop after R - 1 steps. Which chunk is whole then?",
        "In step s rank r sends chunk (r - s - 1) mod R to the right. So from the left it gets chunk "
        "(r - s - 2) mod R, which it adds.",
    ),
    given=_tensors,
    uses=("all_reduce_ring",),
    judge=compare(
        _chunk(0),
        Mistake(
            "This is the sum of the chunk after the rank's own, as in the ring of the lesson. Let every rank "
            "begin one chunk earlier.",
            _chunk(1),
        ),
        Mistake("This is the sum of the whole tensor. Return chunk `rank` of it.", everywhere(_sum)),
        Mistake("This is the mean: reduce-scatter only adds.", _chunk(0, lambda size: 1 / size)),
        Mistake(
            "This is the rank's own chunk: no other rank's numbers are in it. Which chunk was added to?",
            lambda arguments: [_own(rank, arguments) for rank in range(len(arguments))],
        ),
        Mistake(
            "The rank's own chunk is in it twice.",
            lambda arguments: [x + _own(rank, arguments) for rank, x in enumerate(_chunk(0)(arguments))],
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "The collective is what you build here: use messages."),
        Limit(
            "bytes",
            lambda arguments: arguments[0][0].nbytes * (len(arguments) - 1) // len(arguments),
            "A chunk is a part in R, and a rank sends R - 1 of them. The second half of the ring sends more.",
        ),
        Limit(
            "steps",
            lambda arguments: len(arguments) - 1,
            "In a step all ranks send at the same time: isend to the right, recv from the left.",
        ),
    ),
)


LESSON = Lesson(
    number="06",
    title="All-reduce in a ring",
    predictions=(Prediction("ring_speed_up", "times as fast"),),
    exercises=(ALL_REDUCE_RING, ALL_GATHER_RING, REDUCE_SCATTER),
    questions=questions("06"),
)
