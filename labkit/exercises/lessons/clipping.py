"""The norm of a gradient of which each rank has a part: an exercise of lesson 18."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

PARTS, SIZE, SHORT = 3, 4, 3
"""In a world of three ranks the gradient is short enough."""


def _given(generator: torch.Generator, size: int) -> Arguments:
    """The ranks' parts are of different lengths."""
    parts = [
        [(1 + rank) * torch.randn(SIZE, generator=generator, dtype=torch.float64) for _ in range(PARTS)]
        for rank in range(size)
    ]
    norm = torch.cat([p for mine in parts for p in mine]).norm().item()
    shortest = min(torch.cat(mine).norm().item() for mine in parts)
    most = 2 * norm if size == SHORT else 0.5 * shortest
    return [(mine, most) for mine in parts]


def _norms(arguments: Arguments) -> torch.Tensor:
    return torch.stack([torch.cat(list(mine)).norm() for mine, _ in arguments])


def _by(norm_of: Callable[[torch.Tensor, int], torch.Tensor], always: bool = False) -> Values:
    """The parts after clipping by what a rank takes for the norm, given those of all ranks' parts."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        norms, found = _norms(arguments), []
        for rank, (mine, most) in enumerate(arguments):
            factor = most / norm_of(norms, rank)
            found.append(torch.cat(list(mine)) * (factor if always else factor.clamp(max=1)))
        return found

    return values


CLIP_PARTS = Exercise(
    task="Training clips long gradients: if the norm of the whole gradient is above `most`, all of it is "
    "multiplied by `most / norm`. Here `parts` are this rank's parts of all gradients. Clip them in place, "
    "with one collective of one number.",
    stub="""\
def clip_parts(parts, most):
    ...  # your code
""",
    solution="""\
def clip_parts(parts, most):
    square = sum(part.square().sum() for part in parts)
    dist.all_reduce(square)
    factor = min(1.0, most / square.sqrt().item())
    for part in parts:
        part *= factor
""",
    why="The square of a norm is a sum over all elements, so over ranks: add the squares, then take the "
    "root. Clipped by norms of their own, ranks would turn the gradient into another direction. That "
    "is the kind of code that must be thought of anew when gradients are in parts.",
    hints=(
        "Which of norm and square of the norm can be added up?",
        "All-reduce the sum of squares; the factor is min(1, most / root); multiply each part in place.",
    ),
    given=_given,
    answer=lambda arguments, result: torch.cat(list(arguments[0])),
    judge=compare(
        _by(lambda norms, rank: norms.norm()),
        Mistake("Each rank clipped by the norm of its own parts.", _by(lambda norms, rank: norms[rank])),
        Mistake("Norms were added. Add their squares, and take the root then.", _by(lambda n, rank: n.sum())),
        Mistake("The root is missing: this clips by the square.", _by(lambda n, rank: n.norm() ** 2)),
        Mistake(
            "A gradient that was short enough was made longer: the factor is at most 1.",
            _by(lambda norms, rank: norms.norm(), always=True),
        ),
        Mistake(
            "The parts are as they were: change them in place.", lambda a: [torch.cat(list(p)) for p, _ in a]
        ),
        tolerance=1e-9,
    ),
    limits=(
        Limit("collectives", lambda arguments: 1, "One sum over the ranks is enough."),
        Limit("handed", lambda arguments: 8, "One number is enough: the sum of the squares."),
    ),
    changes=("parts",),
)
