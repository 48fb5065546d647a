"""Small programs that run and are wrong: the finds-the-bug of lessons 01, 02 and 03."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch

LARGE = 20_000
"""Numbers in a tensor: too many for a message to have left when isend returns."""
LIMIT = 1.0
"""The norm to which a gradient is clipped."""


def _tensors(generator: torch.Generator, size: int) -> Arguments:
    return [(torch.randn(LARGE + size, generator=generator),) for _ in range(size)]


SHIFT_RIGHT = Exercise(
    task="Every rank passes its tensor to the right and returns what comes from the left, in a new tensor: "
    "the caller still needs `mine`. This program is right for small tensors, and for large ones sometimes "
    "wrong. **Find the bug and mend it.**",
    stub="""\
def shift_right(mine):
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    request = dist.isend(mine, dst=right)
    dist.recv(mine, src=left)
    request.wait()
    return mine
""",
    solution="""\
def shift_right(mine):
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    theirs = torch.empty_like(mine)
    request = dist.isend(mine, dst=right)
    dist.recv(theirs, src=left)
    request.wait()
    return theirs
""",
    why="Between isend and wait the tensor belongs to the library, which may still be reading it. Here recv "
    "writes into it at the same time, so the right neighbour may get a mixture. The receiver allocates.",
    hints=(
        "Which tensor is sent, and into which one is received? May that be, before wait()?",
        "A tensor of its own for what arrives: torch.empty_like(mine).",
    ),
    given=_tensors,
    judge=compare(
        lambda arguments: [arguments[rank - 1][0] for rank in range(len(arguments))],
        Mistake("That is the rank's own tensor.", lambda arguments: [mine for (mine,) in arguments]),
        Mistake(
            "That came from the right. Pass to the right, and receive from the left.",
            lambda arguments: [arguments[(rank + 1) % len(arguments)][0] for rank in range(len(arguments))],
        ),
    ),
    limits=(
        Limit("messages", len, "One message from each rank."),
        Limit("collectives", lambda arguments: 0, "Messages are enough."),
    ),
    sizes=(3, 4),
)


def _small(generator: torch.Generator, size: int) -> Arguments:
    return [(torch.randn(6, generator=generator, dtype=torch.float64),) for _ in range(size)]


def _sum(arguments: Arguments) -> torch.Tensor:
    return sum(x for (x,) in arguments)


def _sums_of_sums(arguments: Arguments) -> list[torch.Tensor]:
    """What ranks have that send on what they have summed so far."""

    def sent(source: int, to: int) -> torch.Tensor:
        earlier = (sent(other, source) for other in range(to) if other != source)
        return arguments[source][0] + sum(earlier)

    return [sent(rank, len(arguments)) for rank in range(len(arguments))]


SUM_BY_TURNS = Exercise(
    task="An all-reduce from messages: every rank exchanges tensors with every other one and returns the "
    "sum, without changing `x`. It is right in a world of two, and wrong in larger ones. "
    "**Find the bug and mend it.**",
    stub="""\
def sum_by_turns(x):
    total, theirs = x.clone(), torch.empty_like(x)
    for other in range(world_size):
        if other != rank:
            request = dist.isend(total, dst=other)
            dist.recv(theirs, src=other)
            request.wait()
            total += theirs
    return total
""",
    solution="""\
def sum_by_turns(x):
    total, theirs = x.clone(), torch.empty_like(x)
    for other in range(world_size):
        if other != rank:
            request = dist.isend(x, dst=other)
            dist.recv(theirs, src=other)
            request.wait()
            total += theirs
    return total
""",
    why="From the second exchange on `total` has other ranks' numbers in it, which their owners send as "
    "well: "
    "they count twice. Each rank has to send what is its own.",
    hints=(
        "Three ranks, one number each: 1, 10, 100. Go through the loop on paper. What does rank 0 send "
        "to rank 2?",
        "Whose numbers are in `total` at the second exchange?",
    ),
    given=_small,
    judge=compare(
        everywhere(_sum),
        Mistake(
            "Numbers count more than once: what a rank sends has those of others in it already.",
            _sums_of_sums,
        ),
        Mistake("That is the rank's own tensor.", lambda arguments: [x for (x,) in arguments]),
        Mistake("That is the mean: an all-reduce only adds.", everywhere(lambda a: _sum(a) / len(a))),
        Mistake("The rank's own tensor counts twice.", lambda a: [_sum(a) + x for (x,) in a]),
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "The collective is what you build here."),
        Limit("messages", lambda a: len(a) * (len(a) - 1), "Each rank sends to each other one, once."),
    ),
    uses=("all_reduce_naive",),
    sizes=(2, 3),
)


def _gradients(generator: torch.Generator, size: int) -> Arguments:
    """Some ranks' gradients are longer than the limit, some shorter; the mean is shorter in a world of 3."""
    longest, least, most = (2.0, 0.4, 0.8) if size == 3 else (6.0, 1.3, 6.0)
    lengths = torch.linspace(0.2, longest, size)
    while True:
        drawn = [torch.randn(8, generator=generator) for _ in range(size)]
        given = [(g / g.norm() * length, LIMIT) for g, length in zip(drawn, lengths, strict=True)]
        if least * LIMIT < _mean(given).norm() < most * LIMIT:
            return given


def _clipped(gradient: torch.Tensor, most: float = 1.0) -> torch.Tensor:
    return gradient * min(most, LIMIT / gradient.norm().item())


def _mean(
    arguments: Arguments, of: Callable[[torch.Tensor], torch.Tensor] = lambda gradient: gradient
) -> torch.Tensor:
    return sum(of(gradient) for gradient, _ in arguments) / len(arguments)


CLIPPED_MEAN = Exercise(
    task="**Clipping**: a gradient whose norm is above `limit` is scaled down to it. Return the clipped "
    "mean over equal shards, as one process with all the data would have it. This program gives another "
    "gradient. **Find the bug and mend it.**",
    stub="""\
def clipped_mean(gradient, limit):
    scale = min(1.0, limit / gradient.norm().item())
    mean = gradient * scale
    dist.all_reduce(mean)
    return mean / world_size
""",
    solution="""\
def clipped_mean(gradient, limit):
    mean = gradient.clone()
    dist.all_reduce(mean)
    mean /= world_size
    return mean * min(1.0, limit / mean.norm().item())
""",
    why="The mean distributes over the ranks because it is linear. Clipping is not: the norm of a mean "
    "is not the mean of the norms. So first the mean, then what one process does with it.",
    hints=(
        "One process with all the data has one gradient. When does it clip: before or after the mean "
        "over samples?",
        "First the all-reduce and the division, then the norm of what came out.",
    ),
    given=_gradients,
    judge=compare(
        everywhere(lambda a: _clipped(_mean(a))),
        Mistake(
            "Each rank has clipped its own gradient. Take the mean first: only that is the gradient of "
            "all the data.",
            everywhere(lambda a: _mean(a, _clipped)),
        ),
        Mistake("This is the mean without clipping.", everywhere(_mean)),
        Mistake(
            "The sum was clipped and then divided: divide first, then clip.",
            everywhere(lambda a: _clipped(len(a) * _mean(a)) / len(a)),
        ),
        Mistake(
            "A gradient that is short enough stays as it is: the factor is at most 1.",
            everywhere(lambda a: _clipped(_mean(a), most=float("inf"))),
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "One all-reduce is enough."),),
)
